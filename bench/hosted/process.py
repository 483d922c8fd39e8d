"""One candidate process, from outside: forked from the zygote, told what to run, bounded by deadlines, killed whole."""

from __future__ import annotations

import errno
import json
import os
import select
import shutil
import signal
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from ...store.errors import DeviceError
from ...store.models import Kernel
from ..disk import EXTENSION_BYTES, check_disk
from ..faults import Cancelled, KernelFault
from ..processes import clean_environment
from ..roundtrip import Standstill, hang_up, round_trip
from . import wire
from .defences import Defences, gpu_devices, gpu_folders, readable_paths
from .helpers import Zygote
from .memory import SharedMemory, mapped_from, read_process
from .wire import Returned, TensorForm
from .zygote import STATUS

OUTPUT_LIMIT = 16 << 20
GPU_OUTPUT_LIMIT = 256 << 20
"""The driver's own memory files count as files."""
BUILD_OUTPUT_LIMIT = 2 << 30
START_S = 60.0
_SLICE_MS = 200
_END_MS = 20_000
_CREDENTIALS = struct.Struct("3i")
_PASSED = (
    *("CUDA_HOME", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES", "LD_LIBRARY_PATH"),
    *("CC", "CXX", "TORCH_CUDA_ARCH_LIST", "TRITON_PTXAS_PATH"),
)


@dataclass(frozen=True)
class Program:
    """What a candidate process runs. kernel None: nothing, for empty calls."""

    kernel: Kernel | None
    extensions: Path | None = None
    """A folder of compiled extensions that is copied into the process's own home."""


@dataclass(frozen=True)
class Setting:
    """What every process of a session is started with."""

    device: str
    cases: list[dict[str, Any]]
    init: dict[str, Any]
    weight_seed: int
    inputs: SharedMemory
    mutable: SharedMemory
    memory_limit: int
    flush_bytes: int = 0
    fetch_offset: int = 0
    preload: tuple[str, ...] = ()
    """Modules of torch's that are to be there before any process is forked."""


class NeedsBuilding(Exception):
    """The program asks for an extension that is not built; a process that is measured may not start a compiler."""


class _Reply(NamedTuple):
    kind: int
    sequence: int
    number: int
    text: str
    pid: int


class CandidateProcess:
    """A fresh process around one program. `prepare`, then `call`, as often as wanted."""

    def __init__(
        self,
        program: Program,
        setting: Setting,
        zygote: Zygote,
        *,
        defences: Defences,
        load_deadline_s: float,
        building: bool = False,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        self._defences = defences
        self._cancelled = cancelled
        self._gpu = setting.device != "cpu"
        self._building = building
        self._sequence = 0
        self._group = Standstill(wanted=defences.freeze)
        self._pid = 0
        self._code: int | None = None
        self.isolation = "process"
        self.own_ns = 0
        self._home = tempfile.TemporaryDirectory(prefix="kforecast-run-", ignore_cleanup_errors=True)
        self.home = Path(self._home.name)
        self._log = (self.home / "output").open("w+b")
        self._unlisted()
        self._write_program(program, setting)
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        message = {
            "home": self._home.name,
            "environment": environment(self.home, gpu=self._gpu),
            "defences": defences.as_data(),
            "preload": setting.preload,
            "gpu": self._gpu,
            "building": building,
            "memory": setting.memory_limit,
            "output": BUILD_OUTPUT_LIMIT if building else GPU_OUTPUT_LIMIT if self._gpu else OUTPUT_LIMIT,
            "readable": [*readable_paths(), *(["/sys"] if self._gpu else [])],
            "writable": [self._home.name, *(gpu_folders() if self._gpu else ())],
            "devices": list(gpu_devices()) if self._gpu else [],
        }
        files = [theirs.fileno(), setting.inputs.file, setting.mutable.file, self._log.fileno()]
        try:
            with theirs:
                self._status = zygote.spawn(message, files)
            self._start(load_deadline_s)
        except BaseException:
            self.close()
            raise

    def _unlisted(self) -> None:
        (self.home / "output").unlink()  # the program has it as stdout, not by name

    def _write_program(self, program: Program, setting: Setting) -> None:
        kernel = program.kernel
        spec: dict[str, Any] = {
            "device": setting.device,
            "cases": setting.cases,
            "entry": None,
            "flush_bytes": setting.flush_bytes,
            "fetch_offset": setting.fetch_offset,
        }
        if kernel is not None:
            folder = self.home / "program"
            folder.mkdir()
            for name, text in kernel.includes.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_text(text)
            file = Path(kernel.name).name if kernel.name.endswith(".py") else "submission.py"
            (folder / file).write_text(kernel.source)
            spec |= {"source": kernel.source, "file": file, "entry": kernel.launches[0].entry}
            spec |= {"init": setting.init, "weight_seed": setting.weight_seed}
        (self.home / "spec.json").write_text(json.dumps(spec))
        if program.extensions is None:
            (self.home / "cache").mkdir()
        else:
            shutil.copytree(program.extensions, self.home / "cache", symlinks=True)

    def _start(self, load_deadline_s: float) -> None:
        # All this is said before any untrusted code runs, hence first: what comes later could be forged.
        self._group.number = self._receive(START_S, "starting").number
        confined = self._receive(START_S, "starting")
        self._pid, self.isolation = confined.pid, confined.text
        self._receive(load_deadline_s, "loading")
        self._group.freeze()
        if not self._gpu:  # there a glance, and not the answer, ends a call
            self._group.stop_at_answer(self._socket, self._pid)

    # -- calls ---------------------------------------------------------------------------------------------------

    def prepare(self, case: int, deadline_s: float) -> None:
        """Let it drop what it returned and see the inputs of a case as they are now."""
        self._command(wire.PREPARE, case, deadline_s)

    def call(self, case: int, deadline_s: float) -> tuple[int, Returned]:
        """Run the program once: the parent's nanoseconds from command to answer, and what it says it returned.

        It is stopped again when this returns, with all its threads: what it returned is what it is now.
        """
        elapsed, text = self._command(wire.CALL, case, deadline_s, freeze=not self._gpu)
        try:
            return elapsed, wire.returned_of(text)
        except ValueError as error:
            raise KernelFault("tampered", f"its answer is not one that our code writes ({error})") from error

    def glance(self, places: Sequence[int], deadline_s: float) -> tuple[int, bytes]:
        """On a GPU, right after a call: the parent's nanoseconds until some elements of the first output were told, and
        their bytes. Which ones nobody could know before; work that was put off is paid for here.
        """
        elapsed, text = self._command(wire.GLANCE, 0, deadline_s, more=wire.PLACES.pack(*places))
        try:
            return elapsed, bytes.fromhex(text)
        except ValueError as error:
            raise KernelFault("tampered", "its answer is not one that our code writes") from error

    def fetch(self, deadline_s: float, *, inputs: bool = False) -> int:
        """Have outputs (or inputs) copied from the GPU into the mutable area, contiguous; the parent's nanoseconds."""
        return self._command(wire.FETCH_INPUTS if inputs else wire.FETCH, 0, deadline_s)[0]

    def _command(
        self, operation: int, case: int, deadline_s: float, *, freeze: bool = True, more: bytes = b""
    ) -> tuple[int, str]:
        self._sequence += 1
        packet = wire.COMMAND.pack(operation, self._sequence, case) + more
        self._group.thaw()
        try:
            elapsed = round_trip(self._socket, packet, deadline_s, self._cancelled)
        except OSError:
            self._died("before it was called")
        if elapsed is None:
            self._overdue(deadline_s, "one call did not finish")
        if freeze:
            self._group.freeze()
        reply = self._receive(1.0, "running")
        if reply.kind != wire.DONE or reply.sequence != self._sequence:
            raise KernelFault("tampered", "an answer arrived for a call that was not made: something forged it")
        self.own_ns = reply.number
        return elapsed, reply.text

    def read(self, returned: Returned, into: SharedMemory, offsets: list[int]) -> None:
        """Copy the tensors' bytes out of the stopped process."""
        for form, address, offset in zip(returned.forms, returned.addresses, offsets, strict=True):
            if form.span_bytes == 0:
                continue
            code = read_process(self._pid, address, form.span_bytes, into, offset)
            if code == errno.EPERM:
                raise KernelFault("tampered", "it hid its memory from the process that reads its outputs")
            if code:
                raise KernelFault(
                    "tampered", f"the memory it returned is not there ({errno.errorcode.get(code, code)})"
                )

    def aliases_input(self, form: TensorForm, address: int) -> bool:
        """Whether a tensor lies in the memory of inputs that the reference leaves alone."""
        return form.span_bytes > 0 and mapped_from(self._pid, "inputs", address, form.span_bytes)

    # -- life ----------------------------------------------------------------------------------------------------

    def _overdue(self, deadline_s: float, what: str) -> NoReturn:
        output = self.output()
        self.close()
        raise KernelFault("timeout", f"{what} within its deadline of {deadline_s:g} s", output)

    def _receive(self, deadline_s: float, doing: str) -> _Reply:
        left = deadline_s
        while not self._poll.poll(int(min(left, _SLICE_MS / 1e3) * 1e3)):
            left -= _SLICE_MS / 1e3
            if self._cancelled():
                raise Cancelled
            if left <= 0:
                self._overdue(deadline_s, f"{doing} it did not finish")
        try:
            data, ancillary, _, _ = self._socket.recvmsg(wire.REPLY.size, socket.CMSG_LEN(_CREDENTIALS.size))
        except OSError:
            data, ancillary = b"", []
        if data and len(data) != wire.REPLY.size:
            output = self.output()
            self.close()
            raise KernelFault("tampered", "a packet arrived that our code does not send: something forged it", output)
        if not data:
            self._died(f"while {doing}")
        kind, sequence, number, length, raw = wire.REPLY.unpack(data)
        text = raw[: min(length, wire.TEXT)].decode(errors="replace")
        pid = _CREDENTIALS.unpack(ancillary[0][2])[0] if ancillary else 0
        if self._building and kind in (wire.REFUSED, wire.RAISED):
            check_disk(self.home.parent, EXTENSION_BYTES)
        if kind == wire.REFUSED:
            output = self.output()
            self.close()
            raise KernelFault("compile_error", f"it does not load: {text.splitlines()[0]}", f"{text}\n{output}")
        if kind == wire.NEEDS:
            self.close()
            raise NeedsBuilding(text)
        if kind == wire.RAISED:
            output = self.output()
            self.close()
            raise KernelFault("crashed", f"it raised {text.splitlines()[0]}", f"{text}\n{output}")
        return _Reply(kind, sequence, number, text, pid)

    def _died(self, when: str) -> NoReturn:
        """The socket closed: say how the process ended."""
        self._group.thaw()  # a stopped process cannot pass its exit status on
        code = self._wait(2000)
        output = self.output()
        self.close()
        if code is not None and code > 128:
            reason = f"it was killed by {signal.Signals(code - 128).name} {when}"
            if code - 128 in (signal.SIGSEGV, signal.SIGBUS):
                reason += ": a segmentation fault, or a write to an input"
            elif code - 128 == signal.SIGKILL:
                reason += " (out of memory?)"
        else:
            reason = f"it ended its process (exit code {code}) {when} instead of returning"
        raise KernelFault("crashed", reason, output)

    def _wait(self, milliseconds: int) -> int | None:
        """The exit code (128 + signal for a killed one), or None where it does not end in time."""
        if self._code is not None or not hasattr(self, "_status"):
            return self._code
        ready = select.poll()
        ready.register(self._status, select.POLLIN)
        until = time.monotonic() + milliseconds / 1e3
        while self._code is None:
            left = until - time.monotonic()
            if left <= 0 or not ready.poll(int(left * 1e3) + 1):
                return None
            data = self._status.recv(STATUS.size)
            if len(data) != STATUS.size:
                return None  # the zygote is gone, and what it forked with it
            what, number = STATUS.unpack(data)
            if what == 2:
                code = os.waitstatus_to_exitcode(number)
                self._code = code if code >= 0 else 128 - code
        return self._code

    def output(self, limit: int = 4096) -> str:
        """What the program printed so far, its first `limit` bytes."""
        try:
            return os.pread(self._log.fileno(), limit, 0).decode(errors="replace")
        except ValueError:
            return ""  # closed already: whoever closed it has read it

    def kill(self) -> None:
        """Let the process begin to end; `close` waits for it."""
        if self._code is None:
            self._group.signal(signal.SIGKILL)

    def close(self) -> None:
        """Kill the process and all it started, wait for the reap, drop its files. Idempotent."""
        if self._code is None and hasattr(self, "_status"):
            self._group.signal(signal.SIGKILL)
            if self._wait(_END_MS) is None and self._group.signal(signal.SIGKILL):
                raise DeviceError(
                    "a candidate's process outlives SIGKILL",
                    value=f"process group {self._group.number}",
                    next_step="A driver may hold it; restart the machine if it stays.",
                )
            self._code = self._code if self._code is not None else -1
        if hasattr(self, "_status"):
            self._status.close()
        hang_up(self._socket, _END_MS)
        self._log.close()
        self._home.cleanup()

    def __enter__(self) -> CandidateProcess:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def environment(home: Path, *, gpu: bool) -> dict[str, str]:
    """A candidate's environment: an allow-list, with every cache in its own home."""
    cache = home / "cache"
    places = {
        "TORCH_EXTENSIONS_DIR": "extensions",
        "TRITON_CACHE_DIR": "triton",
        "TORCHINDUCTOR_CACHE_DIR": "inductor",
        "CUDA_CACHE_PATH": "cuda",
        "CUPY_CACHE_DIR": "cupy",
        "XDG_CACHE_HOME": "xdg",
    }
    passed = [name for name in _PASSED if name in os.environ]
    return {
        **clean_environment(home),
        **{name: str(cache / folder) for name, folder in places.items()},
        **{name: os.environ[name] for name in passed},
        # ninja lies beside the interpreter where a virtual environment is not activated.
        "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '/usr/local/bin:/usr/bin:/bin')}",
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "MAX_JOBS": str(max(1, (os.cpu_count() or 1) // 2)),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        **({"CUDA_MODULE_LOADING": "LAZY"} if gpu else {}),
    }
