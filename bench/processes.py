"""Running a program that may misbehave: limits, an output cap, a deadline that kills the whole group and waits for
the reap.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..store.errors import DeviceError
from .fence import Fence

# dash and bash both take one limit per call; sizes are in KiB (-v) and 512-byte blocks (-f).
_LIMITED = 'ulimit -c 0; ulimit -t "$1"; ulimit -v "$2"; ulimit -f "$3"; shift 3; exec "$@"'


@dataclass(frozen=True)
class Limits:
    """Ceilings of one process: CPU seconds, address space and largest file in bytes."""

    cpu_s: int = 120
    address_bytes: int = 8 << 30
    file_bytes: int = 256 << 20


@dataclass(frozen=True)
class Outcome:
    """How the program ended: `returncode` negative for a signal; `output` is stdout and stderr together, capped."""

    returncode: int
    output: str
    timed_out: bool
    seconds: float


def clean_environment(home: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """An environment from an allow-list: what a compiler or kernel needs, nothing that the caller's shell carries."""
    path = os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin")
    return {
        # Threads that land on one core spin against each other for a scheduler tick: bind them apart.
        "OMP_PROC_BIND": "true",
        "OMP_PLACES": "cores",
        "PATH": path,
        "LANG": "C.UTF-8",
        "HOME": str(home),
        "TMPDIR": str(home),
        "TERM": "dumb",
        **(extra or {}),
    }


def die_with_parent() -> None:
    """Ask the kernel to kill this process when the thread that started it ends, however it ends."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None, use_errno=True).prctl(pr_set_pdeathsig, signal.SIGKILL, 0, 0, 0)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL the process group that `process` leads, then wait until the leader is reaped."""
    with contextlib.suppress(ProcessLookupError):  # gone already: what was wanted
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def run_limited(
    argv: Sequence[str],
    *,
    cwd: Path,
    deadline_s: float,
    limits: Limits | None = None,
    environment: Mapping[str, str] | None = None,
    output_bytes: int = 256 << 10,
    fence: Fence | None = None,
) -> Outcome:
    """Run `argv` in `cwd` in its own process group; kill the group at `deadline_s`.

    Output goes to an unlinked file under the file-size limit, so a flood costs neither memory nor a reader thread; the
    first `output_bytes` of it are returned. `fence`: what keeps the program from the rest of the machine, see
    `bench.fence`. Raises DeviceError when the program cannot be started at all.
    """
    limits = limits or Limits()
    command = [
        "/bin/sh",
        "-c",
        _LIMITED,
        "sh",
        str(limits.cpu_s),
        str(limits.address_bytes >> 10),
        str(limits.file_bytes >> 9),
        *(fence.prefix if fence else ()),
        *argv,
    ]
    started = time.monotonic()
    with tempfile.TemporaryFile(dir=cwd) as sink:
        try:
            process = subprocess.Popen(
                command,
                cwd=cwd,
                env=dict(environment) if environment is not None else clean_environment(cwd),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise DeviceError(
                f"cannot start {argv[0]} ({error.strerror})",
                value=argv[0],
                next_step="Check that it is installed and executable; `kforecast doctor` shows what was found.",
            ) from error
        timed_out = False
        try:
            process.wait(timeout=deadline_s)
        except subprocess.TimeoutExpired:
            timed_out = True
        finally:
            kill_group(process)
        sink.seek(0)
        output = sink.read(output_bytes).decode(errors="replace")
        if sink.read(1):
            output += "\n[output cut here]"
    return Outcome(process.returncode, output, timed_out, time.monotonic() - started)
