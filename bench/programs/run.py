"""Running a program apart: a home of its own, no network, its output capped, nothing of it left when it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ...store.errors import DeviceError
from ...store.paths import cache_dir
from ..fence import SYSTEM_READABLE, existing, program_places
from ..languages.c import build_trusted
from ..processes import clean_environment

Ended = Literal["exit", "signal", "deadline", "stopped"]
FILE_BYTES = 64 << 20
OUTPUT_BYTES = 64 << 10
_REAP_S = 30.0
_READABLE = ("/sys", "/proc", "/etc/nvidia", "/run/nvidia-persistenced")
_DEVICES = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-caps")
# The driver writes the names of its threads below /proc.
_WRITABLE = ("/proc", "/dev/shm")
_KEPT = ("LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_MODULE_LOADING")


@dataclass(frozen=True)
class Ran:
    """How a program ended. code: its exit code or the signal's number. output: stdout and stderr, capped.

    activity: what the injected library wrote. isolation: in words, what held the program.
    """

    ended: Ended
    code: int
    seconds: float
    output: str
    cut: bool
    activity: bytes
    isolation: str


def run_program(
    program: Path,
    *,
    arguments: Sequence[str] = (),
    deadline_s: float,
    library: Path | None = None,
    readable: Sequence[Path] = (),
    environment: Mapping[str, str] | None = None,
) -> Ran:
    """Run a compiled program to its end or its deadline.

    library: put into CUDA_INJECTION64_PATH. readable: further places that it may read. Raises DeviceError where it
    cannot be started, or something of it outlives SIGKILL.
    """
    supervisor = build_trusted("supervised.c", cache_dir())
    with tempfile.TemporaryDirectory(prefix="kforecast-program-") as text:
        home = Path(text)
        records = home / "activity"
        records.touch()
        inside = home / "home"
        inside.mkdir()
        extra = {name: os.environ[name] for name in _KEPT if name in os.environ} | dict(environment or {})
        if library is not None:
            extra |= {"CUDA_INJECTION64_PATH": str(library), "KFORECAST_ACTIVITY": str(records)}
        places: list[str | Path] = [*SYSTEM_READABLE, *_READABLE, *program_places([str(program)]), program, *readable]
        places += [library.parent] if library is not None else []
        writable: list[str | Path] = [
            inside,
            records,
            *_WRITABLE,
            *_DEVICES,
            *sorted(Path("/dev").glob("nvidia[0-9]*")),
        ]
        report, told = os.pipe()
        head = [str(supervisor), str(told), str(round(1e3 * deadline_s)), str(FILE_BYTES)]
        fences = [":".join(existing(places)), ":".join(existing(writable))]
        with tempfile.TemporaryFile(dir=home) as sink:
            try:
                process = subprocess.Popen(
                    [*head, *fences, str(program), *arguments],
                    cwd=inside,
                    env=clean_environment(inside, extra),
                    stdin=subprocess.DEVNULL,
                    stdout=sink,
                    stderr=subprocess.STDOUT,
                    pass_fds=(told,),
                    start_new_session=True,
                )
            finally:
                os.close(told)
            try:
                said = _until_end(process, report, deadline_s)
            finally:
                os.close(report)
            sink.seek(0)
            output = sink.read(OUTPUT_BYTES)
            cut = bool(sink.read(1))
        return _ran(said, output, cut, records.read_bytes()[:FILE_BYTES])


def _until_end(process: subprocess.Popen[bytes], report: int, deadline_s: float) -> str:
    """What the supervisor reports. Stopped where the caller is: then the program ends too."""
    until = time.monotonic() + deadline_s + _REAP_S
    try:
        process.wait(timeout=until - time.monotonic())
    except subprocess.TimeoutExpired as error:
        raise DeviceError(
            "a program outlived SIGKILL: the GPU or its driver is stuck",
            value=f"pid {process.pid}",
            next_step="See the system log for Xid errors; the driver or the machine needs a restart.",
        ) from error
    except BaseException:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=_REAP_S)
        raise
    said = b""
    while chunk := os.read(report, 4096):
        said += chunk
    return said.decode(errors="replace")


def _ran(said: str, output: bytes, cut: bool, activity: bytes) -> Ran:
    lines = said.splitlines()
    words = lines[-1].split() if len(lines) == 2 else []
    if len(words) != 3 or words[0] not in ("exit", "signal", "deadline", "stopped"):
        raise DeviceError(
            "the program's supervisor did not report how it ended",
            value=said[-200:] or output[-200:].decode(errors="replace"),
            next_step="Try again; if it stays, `kforecast doctor` shows what isolation this machine has.",
        )
    return Ran(
        ended=words[0],  # type: ignore[arg-type]  # one of the four
        code=int(words[1]),
        seconds=float(words[2]) / 1e3,
        output=output.decode(errors="replace"),
        cut=cut,
        activity=activity,
        isolation=lines[0],
    )
