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
_COLD = "cold"
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
    if _COLD not in sys.argv[4:]:
        nvrtc.compile(_WARM_UP, name="warm.cu", options=["--gpu-architecture=sm_90"], headers={}, entries=[])
    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads != 1 and _COLD not in sys.argv[4:]:
        # NVRTC 13.0 on a machine with many cores keeps a thread after its first compile, and forking beside a thread
        # is not safe. Start over without the warm-up: then every job pays for NVRTC's start, some tens of milliseconds.
        os.execv(sys.executable, [sys.executable, "-m", __spec__.name, *sys.argv[1:], _COLD])
    if threads != 1:
        raise RuntimeError(f"{threads} threads in the compile worker: forking would not be safe")
    serve(control, lambda job, blobs: _compile(nvrtc, job, blobs))


def serve(control: int, compile_job: Callable[[Job, Blobs], tuple[Job, Blobs]]) -> None:
    """Do jobs until the client closes its end; those of kind `command` here, the others by `compile_job`, in a child.

    Only in a process of one thread, which forks for every job.
    """
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    write_all(control, encode({"ready": True}))
    while (frame := read_frame(control, JOB_BYTES)) is not None:
        job, blobs = decode(frame)
        header, answer = _run(compile_job, control, job, blobs)
        if header["ended"] == "abandoned":
            break
        write_all(control, encode(header, {"answer": answer}))


def _run(
    compile_job: Callable[[Job, Blobs], tuple[Job, Blobs]], control: int, job: Job, blobs: Blobs
) -> tuple[Job, bytes]:
    """Fork the job's child, take its answer, and see that nothing of it is left."""
    folder = Path(tempfile.mkdtemp(prefix="kforecast-compile-"))
    started = time.monotonic()
    try:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            os.close(control)
            _child(compile_job, job, blobs, writer, folder)
        os.close(writer)
        # The child does the same: whoever comes second is refused, and the child may be gone already.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.setpgid(child, child)
        try:
            answer, ended = _collect(reader, control, started + float(job["deadline_s"]))
        finally:
            os.close(reader)
            code = _end(child)
        output = folder / "output"
        tail = output.read_bytes()[-_OUTPUT_TAIL:] if output.is_file() else b""
    finally:
        shutil.rmtree(folder, ignore_errors=True)
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
    compile_job: Callable[[Job, Blobs], tuple[Job, Blobs]], job: Job, blobs: Blobs, writer: int, folder: Path
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
        cpu = math.ceil(float(job["deadline_s"])) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu))
        confine(job)
        _place(job, blobs)
        header, files = _command(job) if job["kind"] == "command" else compile_job(job, blobs)
        write_all(writer, encode(header, files))
        code = 0
    finally:
        if code:
            traceback.print_exc()
            sys.stderr.flush()
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
