"""The compile worker: a small process that holds NVRTC and forks a child for every job.

Started as `python -m kforecast.bench.languages.cuda.worker FD NVRTC BUILTINS` with a socket to its client. It runs
one job at a time and has one thread, so forking is safe; the child inherits the loaded and warmed compiler, so a job
costs what NVRTC costs. A job's text is untrusted, hence the child's own process group, limits, folder and deadline,
and hence the worker never looks into what a child answered: it hands the bytes on.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...fence import SYSTEM_READABLE, program_places
from ...landlock import fence_this_process
from ...processes import die_with_parent
from .nvrtc import Nvrtc, NvrtcError
from .protocol import decode, encode, read_frame, write_all

Job = dict[str, Any]
Blobs = dict[str, bytes]

JOB_BYTES = 64 << 20
ANSWER_BYTES = 160 << 20
_LOG_BYTES = 1 << 20
_OUTPUT_TAIL = 4096
_ADDRESS_BYTES = 6 << 30
_FILE_BYTES = 256 << 20
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
FORK_AHEAD = "fork-ahead"
_WARM_UP = 'extern "C" __global__ void warm(float* x) { x[0] = 1.0f; }'


def confine(job: dict[str, Any]) -> None:
    """Give up what a compiler does not need, in the child before it sees untrusted text: resource limits, and a fence
    around the current folder, the system's files and the compilers' own. Whatever the kernel lacks stays open.

    A job that is `alone` starts no program either; `file_bytes` is the most it may write into one file.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    file_bytes = job.get("file_bytes", _FILE_BYTES)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_BYTES, _ADDRESS_BYTES))
    programs = [sys.argv[2], *(argv[0] for argv in job.get("commands", []))]
    words = [*job.get("options", []), *(word for argv in job.get("commands", []) for word in argv)]
    folders = [word[2:] for word in words if word.startswith("-I/")]  # the user's and the toolchain's, never a kernel's
    readable = [*SYSTEM_READABLE, *program_places(programs), *folders]
    fence_this_process(readable, [str(Path.cwd())], alone=job.get("alone", False))


def main() -> None:
    """Serve jobs until the client closes its end."""
    control = int(sys.argv[1])
    nvrtc = Nvrtc(sys.argv[2], sys.argv[3])
    fork_ahead = FORK_AHEAD in sys.argv[4:]

    def warm_up() -> None:
        nvrtc.compile(_WARM_UP, name="warm.cu", options=["--gpu-architecture=sm_90"], headers={}, entries=[])

    if not fork_ahead:
        warm_up()
    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads != 1 and not fork_ahead:
        # NVRTC 13.0 on a machine with many cores keeps a thread after its first compile, and forking beside a thread
        # is not safe. Start over without the warm-up: then each job's child is forked ahead and warms up by itself.
        os.execv(sys.executable, [sys.executable, "-m", __spec__.name, *sys.argv[1:], FORK_AHEAD])
    if threads != 1:
        raise RuntimeError(f"{threads} threads in the compile worker: forking would not be safe")
    first = {"options": [word for word in sys.argv[4:] if word.startswith("-I")]}
    serve(control, lambda job, blobs: _compile(nvrtc, job, blobs), warm_up if fork_ahead else None, first)


@dataclass
class _Child:
    """A forked child: it reads its job from `orders` and writes its answer to `reader`'s other end. fence: what it was
    confined for ahead of its job, None for one that confines itself when the job has come.
    """

    pid: int
    orders: int
    reader: int
    folder: Path
    fence: Job | None

    def end(self) -> int:
        """Kill it and all that it started, remove its folder; its exit code (negative: a signal)."""
        for descriptor in (self.orders, self.reader):
            os.close(descriptor)
        try:
            return _end(self.pid)
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)


def serve(
    control: int,
    compile_job: Callable[[Job, Blobs], tuple[Job, Blobs]],
    warm_up: Callable[[], None] | None = None,
    first: Job | None = None,
) -> None:
    """Do jobs until the client closes its end; those of kind `command` here, the others by `compile_job`, in a child.

    Only in a process of one thread, which forks for every job. With `warm_up` the next job's child is forked when one
    is done, and warms up while nobody waits, behind the fence that the job before needed; the first one's behind that
    of a job like `first`.
    """
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    write_all(control, encode({"ready": True}))
    spare: _Child | None = None
    if warm_up is not None and first is not None:
        spare = _fork(compile_job, control, _fence_of(first), warm_up)
    try:
        while (frame := read_frame(control, JOB_BYTES)) is not None:
            job, blobs = decode(frame)
            fence = _fence_of(job)
            if spare is not None and (job["kind"] == "command" or spare.fence != fence):
                spare.end()
                spare = None
            child, spare = spare or _fork(compile_job, control, None, None), None
            header, answer = _run(child, control, job, blobs)
            if header["ended"] == "abandoned":
                break
            write_all(control, encode(header, {"answer": answer}))
            if warm_up is not None and job["kind"] != "command":
                spare = _fork(compile_job, control, fence, warm_up)
    finally:
        if spare is not None:
            spare.end()


def _fence_of(job: Job) -> Job:
    """What of a job decides how it is confined."""
    folders = [word for word in job.get("options", []) if word.startswith("-I/")]
    return {"options": folders, **{key: job[key] for key in ("commands", "alone", "file_bytes") if key in job}}


def _fork(
    compile_job: Callable[[Job, Blobs], tuple[Job, Blobs]],
    control: int,
    fence: Job | None,
    warm_up: Callable[[], None] | None,
) -> _Child:
    folder = Path(tempfile.mkdtemp(prefix="kforecast-compile-"))
    reader, writer = os.pipe()
    orders, order = os.pipe()
    pid = os.fork()
    if pid == 0:
        for descriptor in (reader, order, control):
            os.close(descriptor)
        _child(compile_job, orders, writer, folder, fence, warm_up)
    for descriptor in (writer, orders):
        os.close(descriptor)
    # The child does the same: whoever comes second is refused, and the child may be gone already.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.setpgid(pid, pid)
    return _Child(pid, order, reader, folder, fence)


def _run(child: _Child, control: int, job: Job, blobs: Blobs) -> tuple[Job, bytes]:
    """Hand the child its job, take its answer, and see that nothing of it is left."""
    started = time.monotonic()
    tail = b""
    try:
        with contextlib.suppress(BrokenPipeError):  # it died before its job: no answer comes, its exit code is told
            write_all(child.orders, encode(job, blobs))
        answer, ended = _collect(child.reader, control, started + float(job["deadline_s"]))
        output = child.folder / "output"
        tail = output.read_bytes()[-_OUTPUT_TAIL:] if output.is_file() else b""
    finally:
        code = child.end()
    header = {"ended": ended, "code": code, "seconds": time.monotonic() - started}
    return {**header, "output": tail.decode(errors="replace")}, answer


def _collect(reader: int, control: int, deadline: float) -> tuple[bytes, str]:
    """The child's bytes up to its end, the deadline or the cap; and which of the three it was."""
    answer = bytearray()
    poller = select.poll()
    poller.register(reader, select.POLLIN)
    poller.register(control, select.POLLHUP)
    while True:
        wait = deadline - time.monotonic()
        if wait <= 0:
            return b"", "deadline"
        for fd, _ in poller.poll(math.ceil(wait * 1000)):
            if fd == control:
                return b"", "abandoned"
            chunk = os.read(reader, 1 << 20)
            if not chunk:
                return bytes(answer), "exit"
            answer += chunk
            if len(answer) > ANSWER_BYTES:
                return b"", "overflow"


def _end(child: int) -> int:
    """Kill what is left of the child and of all it started, reap them, and return its exit code (negative: a signal).

    What the child started and left becomes ours when the child is gone (subreaper), daemons with a session of their
    own too.
    """
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    ours = Path(f"/proc/self/task/{os.getpid()}/children")
    while ours.exists() and (strays := ours.read_text().split()):
        for stray in strays:
            os.kill(int(stray), signal.SIGKILL)
            os.waitpid(int(stray), 0)
    return code


def _child(
    compile_job: Callable[[Job, Blobs], tuple[Job, Blobs]],
    orders: int,
    writer: int,
    folder: Path,
    fence: Job | None,
    warm_up: Callable[[], None] | None,
) -> None:
    """The whole life of a child; never returns."""
    code = 1
    try:
        os.setpgid(0, 0)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        os.chdir(folder)
        output = os.open("output", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.environ.update(TMPDIR=str(folder), HOME=str(folder))
        if fence is not None:
            confine(fence)  # before the warm-up: a thread that the compiler starts is behind the fence too
        if warm_up is not None:
            warm_up()
        frame = read_frame(orders, JOB_BYTES)
        if frame is None:
            os._exit(0)
        job, blobs = decode(frame)
        used = resource.getrusage(resource.RUSAGE_SELF)
        cpu = math.ceil(used.ru_utime + used.ru_stime + float(job["deadline_s"])) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu))
        if fence is None:
            confine(job)
        _place(job, blobs)
        header, files = _command(job) if job["kind"] == "command" else compile_job(job, blobs)
        write_all(writer, encode(header, files))
        code = 0
    finally:
        # Printing may fail as well, where the output is full: a child never returns into its parent's code.
        try:
            if code:
                traceback.print_exc()
                sys.stderr.flush()
        finally:
            os._exit(code)


def _compile(nvrtc: Nvrtc, job: dict[str, Any], blobs: dict[str, bytes]) -> tuple[dict[str, Any], dict[str, bytes]]:
    try:
        program = nvrtc.compile(
            blobs["source"].decode(),
            name=job["name"],
            options=job["options"],
            headers={name: blobs[f"header {name}"].decode() for name in job["headers"]},
            entries=job["entries"],
        )
    except NvrtcError as error:
        return {"ok": False, "log": str(error)[:_LOG_BYTES], "symbols": {}}, {}
    header = {"ok": program.ok, "log": program.log[:_LOG_BYTES], "symbols": program.symbols}
    return header, {"cubin": program.cubin, "ptx": program.ptx}


def _place(job: dict[str, Any], blobs: dict[str, bytes]) -> None:
    """Write the job's files below the current folder, and go to the one that it works in."""
    for name, blob in blobs.items():
        kind, _, text = name.partition(" ")
        if kind != "file":
            continue
        path = Path(text)
        if path.is_absolute() or ".." in path.parts:
            raise ValueError(f"a file outside the job's folder: {text}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(blob)
    Path(job["folder"]).mkdir(parents=True, exist_ok=True)
    os.chdir(job["folder"])


def _command(job: dict[str, Any]) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Run programs one after another in the job's folder, up to the first that fails; the outputs are files by name."""
    log = ""
    code = 0
    for argv in job["commands"]:
        with Path("log").open("w+b") as sink:
            # A killed worker takes this process along, and this one the program. With one thread, preexec_fn is safe.
            code = subprocess.run(
                argv, stdout=sink, stderr=subprocess.STDOUT, check=False, preexec_fn=die_with_parent
            ).returncode
            sink.seek(0)
            log += sink.read(job.get("log_bytes", _LOG_BYTES)).decode(errors="replace")
        if code != 0:
            break
    found = {name: Path(name).read_bytes() for name in job["outputs"] if code == 0 and Path(name).is_file()}
    return {"ok": code == 0, "log": log, "symbols": {}}, found


if __name__ == "__main__":
    main()
