"""The client's side of compile workers: start them, hand them jobs, replace one that died."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import math
import os
import posixpath
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ....store.errors import DeviceError
from ...disk import KERNEL_BYTES, check_disk
from .protocol import PREFIX, FrameError, body_length, decode, encode
from .toolchain import INSTALL, Toolchain, find_toolchain
from .worker import ANSWER_BYTES, FORK_AHEAD

_START_S = 60.0
_GRACE_S = 15.0
_CLOSE_S = 5.0


@dataclass(frozen=True)
class Outcome:
    """How a job went. `failure` says, in words for a user, why the compiler gave no answer at all; None: it answered.

    ok, log, symbols and files are the compiler's own; seconds is wall time inside the worker.
    """

    ok: bool
    log: str
    symbols: dict[str, str]
    files: dict[str, bytes]
    seconds: float
    failure: str | None = None


class WorkerPool:
    """Up to `workers` processes (default: one a core) that run `module` with these arguments behind the descriptor of
    their socket, started when first needed; see `worker.serve`. Threads may share it. install: how to mend them.
    """

    def __init__(self, module: str, arguments: Sequence[str], *, install: str, workers: int | None = None) -> None:
        self._command = (module, tuple(arguments), install)
        count = workers or len(os.sched_getaffinity(0))
        self._slots: queue.PriorityQueue[tuple[float, int, _Worker | None]] = queue.PriorityQueue()
        self._turns = itertools.count()
        for _ in range(count):
            self._put(None)
        self._count = count
        self._closed = False

    def _put(self, worker: _Worker | None) -> None:
        """Of those that live, who was idle for longest comes first: the child for its next job has warmed up by then.
        No other is started before these.
        """
        since = math.inf if worker is None else time.monotonic()
        self._slots.put((since, next(self._turns), worker))

    def _get(self, *, block: bool = True) -> _Worker | None:
        return self._slots.get(block)[2]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def warm(self) -> None:
        """Start every worker now, so that the first jobs do not wait for it. Idle pools only."""
        workers = [self._get() for _ in range(self._count)]
        try:
            for index, worker in enumerate(workers):
                workers[index] = worker or _Worker(*self._command)
        finally:
            for worker in workers:
                self._put(worker)

    def run(
        self,
        commands: Sequence[Sequence[str]],
        *,
        files: Mapping[str, bytes],
        outputs: Sequence[str] = (),
        log_bytes: int = 1 << 20,
        deadline_s: float,
    ) -> Outcome:
        """Programs run one after another in a folder that holds `files`; those of `outputs` that exist come back."""
        job = {
            "kind": "command",
            "commands": [list(argv) for argv in commands],
            "outputs": list(outputs),
            "log_bytes": log_bytes,
            "deadline_s": deadline_s,
        }
        return self.do(job, placed(job, files))

    def close(self) -> None:
        """End every idle worker. A worker that is busy ends when its job does."""
        self._closed = True
        with contextlib.suppress(queue.Empty):
            while True:
                worker = self._get(block=False)
                if worker is not None:
                    worker.close()

    def do(self, job: dict[str, Any], blobs: dict[str, bytes]) -> Outcome:
        """One job of a kind that the workers know. Raises DeviceError where the machinery fails or the disk is full."""
        if self._closed:
            raise DeviceError("the compile pool is closed", next_step="Make a new CompilePool.")
        worker = self._get()
        try:
            # A worker that died between jobs (out of memory, a person's kill) is replaced once; dying on this job is
            # an error.
            if worker is not None and not worker.alive():
                worker.close()
                worker = None
            worker = worker or _Worker(*self._command)
            outcome = worker.do(job, blobs)
            if not outcome.ok:
                check_disk(Path(tempfile.gettempdir()), KERNEL_BYTES)
            return outcome
        finally:
            if worker is not None and (self._closed or not worker.alive()):
                worker.close()
                worker = None
            self._put(worker)


class CompilePool(WorkerPool):
    """A pool of workers that hold NVRTC.

    fork_ahead: make each job's child before the job, instead of warming NVRTC up once for all of them. Workers do it
    by themselves where NVRTC, warmed up, keeps a thread, as 13.0 does on machines with many cores; None: at once where
    there are more than two.
    """

    def __init__(
        self, toolchain: Toolchain | None = None, *, workers: int | None = None, fork_ahead: bool | None = None
    ) -> None:
        self.toolchain = toolchain or find_toolchain()
        if fork_ahead is None:
            fork_ahead = len(os.sched_getaffinity(0)) > 2
        arguments = [str(self.toolchain.nvrtc), str(self.toolchain.builtins)]
        arguments += [f"-I{folder}" for folder in self.toolchain.include_dirs]
        arguments += [FORK_AHEAD] if fork_ahead else []
        super().__init__(f"{__package__}.worker", arguments, install=INSTALL, workers=workers)

    def compile(
        self,
        source: str,
        *,
        name: str,
        options: Sequence[str],
        headers: Mapping[str, str],
        entries: Sequence[str],
        deadline_s: float,
        files: Mapping[str, str] | None = None,
    ) -> Outcome:
        """One NVRTC compilation; the outcome's files are `cubin` and `ptx`.

        headers: found under their spelled name wherever they are included; files: found beside the source, and each
        other, as on disk. Raises DeviceError where the machinery fails.
        """
        job = {
            "kind": "nvrtc",
            "name": name,
            "options": list(options),
            "headers": list(headers),
            "entries": list(entries),
            "deadline_s": deadline_s,
        }
        blobs = {"source": source.encode(), **{f"header {key}": text.encode() for key, text in headers.items()}}
        return self.do(job, blobs | placed(job, {key: text.encode() for key, text in (files or {}).items()}))


class _Worker:
    """One compile process and the socket to it."""

    def __init__(self, module: str, arguments: Sequence[str], install: str) -> None:
        self._install = install
        ours, theirs = socket.socketpair()
        # No descriptor but the socket, no variable but these: nothing of the user's reaches a compiler.
        environment = {
            "PATH": os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin"),
            "LANG": "C.UTF-8",
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
            **{name: os.environ[name] for name in ("TMPDIR", "PYTHONPATH", "VIRTUAL_ENV") if name in os.environ},
        }
        self._socket = ours
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 closed in close()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", module, str(theirs.fileno()), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
            cwd="/",
            env=environment,
        )
        theirs.close()
        self._read(time.monotonic() + _START_S)

    def alive(self) -> bool:
        return self._process.poll() is None

    def do(self, job: dict[str, Any], blobs: dict[str, bytes]) -> Outcome:
        deadline = time.monotonic() + float(job["deadline_s"]) + _GRACE_S
        try:
            self._socket.settimeout(_GRACE_S)
            self._socket.sendall(encode(job, blobs))
        except OSError as error:
            raise self._broken(str(error)) from error
        header, parts = self._read(deadline)
        return _outcome(header, parts["answer"], float(job["deadline_s"]))

    def close(self) -> None:
        """End the process. It is given time to see the socket close, since it then kills its child's whole group."""
        self._socket.close()
        try:
            self._process.wait(timeout=_CLOSE_S)
        except subprocess.TimeoutExpired:
            self._kill()
        self._errors.close()

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _read(self, deadline: float) -> tuple[dict[str, Any], dict[str, bytes]]:
        try:
            length = body_length(self._take(PREFIX, deadline), ANSWER_BYTES + (1 << 20))
            return decode(self._take(length, deadline))
        except (OSError, FrameError) as error:
            raise self._broken(str(error) or type(error).__name__) from error

    def _take(self, count: int, deadline: float) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
            chunk = self._socket.recv(min(count - len(parts), 1 << 20))
            if not chunk:
                raise FrameError("it ended")
            parts += chunk
        return bytes(parts)

    def _broken(self, why: str) -> DeviceError:
        """End the process, give back all that it held, and tell what it last said."""
        self._kill()
        self._socket.close()
        with self._errors:
            self._errors.seek(0)
            lines = self._errors.read(1 << 16).decode(errors="replace").strip().splitlines()
        return DeviceError(
            f"the compile worker failed ({why})",
            value=lines[-1] if lines else f"exit code {self._process.returncode}",
            next_step=f"Try again; if it stays, reinstall the compiler. {self._install}.",
        )


def placed(job: dict[str, Any], files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files as blobs, and in the job the folder to work in: as deep as the names with `../` need."""
    depth = max((name.split("/").count("..") for name in files), default=0)
    job["folder"] = "/".join(["d"] * depth) or "."
    return {f"file {posixpath.normpath(posixpath.join(job['folder'], name))}": text for name, text in files.items()}


def _outcome(header: dict[str, Any], answer: bytes, deadline_s: float) -> Outcome:
    seconds, output = float(header["seconds"]), str(header["output"])
    failure = None
    if header["ended"] == "deadline":
        failure = f"the compiler was still running after {deadline_s:g} s and was stopped"
    elif header["ended"] == "overflow":
        failure = f"the compiler's output passed {ANSWER_BYTES >> 20} MiB and was stopped"
    else:
        try:
            if len(answer) < PREFIX or body_length(answer[:PREFIX], len(answer)) != len(answer) - PREFIX:
                raise FrameError("no whole answer")
            said, files = decode(answer[PREFIX:])
            symbols = {str(key): str(value) for key, value in dict(said["symbols"]).items()}
            return Outcome(bool(said["ok"]), str(said["log"]), symbols, files, seconds)
        except (FrameError, KeyError, TypeError, ValueError):
            code = int(header["code"])
            how = f"was killed by {_signal_name(-code)}" if code < 0 else f"failed with exit code {code}"
            failure = f"the compiler {how}"
    tail = output.strip().splitlines()
    return Outcome(False, output, {}, {}, seconds, failure + (f": {tail[-1]}" if tail else ""))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


_shared: dict[tuple[int, str], CompilePool] = {}
_shared_lock = threading.Lock()


def shared_pool(toolchain: Toolchain | None = None) -> CompilePool:
    """This process's own pool for a toolchain, made on first use and closed at exit."""
    toolchain = toolchain or find_toolchain()
    key = (os.getpid(), str(toolchain.nvrtc))
    with _shared_lock:
        if key not in _shared:
            pool = CompilePool(toolchain)
            atexit.register(pool.close)
            _shared[key] = pool
        return _shared[key]
