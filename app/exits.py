"""What the command line ends with: one table, printed under every command's help."""

from __future__ import annotations

EXIT_CODES = {
    0: "ok",
    1: "a kernel's verdict is not ok",
    2: "bad input",
    3: "the store",
    4: "the device or its machinery",
    5: "unsupported",
    70: "a fault in kforecast",
    130: "interrupted",
}

EPILOG = "Exit codes: " + "; ".join(f"{code} {text}" for code, text in EXIT_CODES.items()) + "."
