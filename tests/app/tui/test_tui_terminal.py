"""The command in a terminal of its own: it draws, it quits, it gives the terminal back."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time

from grown import Grown

DEADLINE_S = 60.0


def read_until(terminal: int, what: re.Pattern[bytes]) -> bytes:
    """Everything that is written up to what is waited for."""
    seen = b""
    end = time.monotonic() + DEADLINE_S
    while what.search(seen) is None:
        assert time.monotonic() < end, f"waited in vain for {what.pattern!r} in {seen[-2000:]!r}"
        if select.select([terminal], [], [], 0.2)[0]:
            try:
                seen += os.read(terminal, 65536)
            except OSError:  # the other side is gone
                break
    return seen


def test_it_draws_the_store_quits_and_gives_the_terminal_back(grown: Grown) -> None:
    grown.child(log2=0.5)
    environment = {**os.environ, "KFORECAST_DB": str(grown.path), "TERM": "xterm-256color", "NO_COLOR": "1"}
    command = [sys.executable, "-m", "kforecast", "tui", grown.search_id[:12]]
    terminal, inner = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(
        command, stdin=inner, stdout=inner, stderr=inner, env=environment, start_new_session=True
    )
    os.close(inner)
    try:
        drawn = read_until(terminal, re.compile(rb"idea 1"))
        assert b"\x1b[?1049h" in drawn and b"1.41" in drawn
        os.write(terminal, b"q")
        rest = read_until(terminal, re.compile(rb"(?!)"))  # to the end: the cursor may come back last
        assert b"\x1b[?1049l" in rest and b"\x1b[?25h" in rest
        assert process.wait(DEADLINE_S) == 0
    finally:
        process.kill()
        process.wait()
        os.close(terminal)
