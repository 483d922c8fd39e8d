"""What a compiler printed, in the user's file name, without what only we asked for."""

from __future__ import annotations

import re
from collections.abc import Iterable

from .resources import without_ptxas_info

PROGRAM_NAME = "kforecast-kernel.cu"
"""What compilers are told the file is called: equal sources share a cache entry whatever their files are called."""

_TEXT_LIMIT = 4000
_MAP_ERROR = re.compile(r"^__nv_name_map\((\d+)\): error: (.*)\n", re.MULTILINE)
_MAP_NAME = re.compile(r"#pragma nv_mangled_name (.*)")
_MAP_BLOCK = re.compile(r"^__nv_name_map\(\d+\): error: .*\n(?:[ \t]+.*\n)*\n?", re.MULTILINE)
_MISSING = re.compile(r'(?:cannot|could not) open source file "([^"]+)"|fatal error: (\S+): No such file')
_REMARK = re.compile(r"^Remark: The warnings can be suppressed.*\n\n?", re.MULTILINE)


def file_name(kernel_name: str) -> str:
    """A kernel's name as the file name that messages carry."""
    name = re.sub(r"[^\w.+-]", "_", kernel_name.replace("\\", "/").rsplit("/", 1)[-1]) or "kernel"
    return name if "." in name else f"{name}.cu"


def in_users_name(text: str, file: str) -> str:
    """A compiler's text with our program name replaced by the user's file."""
    return text.replace(PROGRAM_NAME, file)


def error_text(log: str, *, kernels: Iterable[str]) -> str:
    """The error of a failed compilation, for people and agents: at most 4,000 characters.

    Errors of the program come first and alone. Where only launch entries did not resolve, each is named with the
    reason and with the kernels that the file has.
    """
    log = _REMARK.sub("", without_ptxas_info(log))
    rest = _MAP_BLOCK.sub("", log).strip()
    if "error" in re.sub(r"\d+ errors? detected in the compilation.*", "", rest):
        text = rest
    else:
        reasons: dict[str, str] = {}
        for block in _MAP_BLOCK.findall(log):
            name, reason = _MAP_NAME.search(block), _MAP_ERROR.search(block)
            if name and reason:
                reasons.setdefault(name.group(1).strip(), reason.group(2).strip())
        found = ", ".join(sorted(set(kernels))) or "none"
        lines = [f'{PROGRAM_NAME}: error: launch entry "{name}": {reason}' for name, reason in reasons.items()]
        text = "\n".join([*lines, f"kernels found: {found}"]) if lines else log
    return clipped(text)


def warnings_text(log: str) -> str:
    """The warnings in the log of a compilation that went well, at most 4,000 characters."""
    return clipped(_REMARK.sub("", without_ptxas_info(log)).strip())


def clipped(text: str) -> str:
    """The text, or its first 4,000 characters and a note that it goes on."""
    return text if len(text) <= _TEXT_LIMIT else text[:_TEXT_LIMIT] + "\n[cut here]"


def missing_header(log: str) -> str | None:
    """The header that the compiler could not open, if that is what stopped it."""
    match = _MISSING.search(log)
    return (match.group(1) or match.group(2)) if match else None
