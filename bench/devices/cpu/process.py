"""One candidate process: started fresh, told what to run, bounded by deadlines, killed with everything it started."""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, NoReturn

from ....store.errors import DeviceError
from ...faults import KernelFault
from ...header.plan import PlannedLaunch, PointerArg
from ...languages.build import Build
from ...languages.c import build_trusted
from ...processes import clean_environment
from ...roundtrip import Standstill, hang_up, round_trip
from ..scalars import scalar_bits
from .defences import Defences, readable_paths
from .memory import GUARD, Arena, Glance

OUTPUT_LIMIT = 16 << 20
ADDRESS_LIMIT = 4 << 30
_START_DEADLINE_S = 20.0
_END_MS = 2000

_HEAD, _REGION, _LAUNCH, _ARGUMENT = (struct.Struct(text) for text in ("=II4096s", "=QQQQII", "=64sII", "=IIQ"))
_COMMAND, _REPLY = struct.Struct("=II"), struct.Struct("=IIqQ256s")
_CREDENTIALS = struct.Struct("3i")
_CALL, _NOTHING, _END = 1, 2, 3
_READY, _DONE, _FAULT, _LOAD_FAILED, _CONFINED, _GROUP = 1, 2, 3, 4, 5, 6


def runner(cache: Path) -> Path:
    """The compiled `candidate.c`, built by the system compiler on first use and kept in `cache`."""
    return build_trusted("candidate.c", cache)


class _Reply(NamedTuple):
    kind: int
    sequence: int
    number: int
    address: int
    text: str
    pid: int
    """Of who sent it, as the system says."""


@dataclass(frozen=True)
class Program:
    """What a candidate process runs: a compiled kernel (None: nothing, for empty calls), its launches for one case, and
    which region each name means."""

    build: Build | None
    launches: Sequence[PlannedLaunch]
    regions: Mapping[str, str]
    """Tensor or scratch name as the launch says it -> name of the region in the arena."""


class CandidateProcess:
    """A fresh process around one kernel. `call` runs it once and returns the parent's nanoseconds."""

    def __init__(
        self,
        program: Program,
        arena: Arena,
        *,
        cache: Path,
        defences: Defences | None = None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        self._arena = arena
        self._defences = defences or Defences()
        self._glance: Glance | None = None
        self._group = Standstill(wanted=self._defences.freeze)
        self._cancelled = cancelled
        self._names = list(arena.regions)
        program_of_ours = runner(cache)  # first: where it does not compile there is nothing yet to clean up
        self._home = tempfile.TemporaryDirectory(prefix="kforecast-run-")
        self._stdout = tempfile.TemporaryFile(dir=self._home.name)  # noqa: SIM115  closed in close()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket = ours
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._poll = select.poll()
        self._poll.register(ours, select.POLLIN)
        self._sequence = 0
        self._base = 0
        self.isolation = "process"
        """What holds the process, in words, e.g. `namespaces user+pid+ipc, Landlock 7, seccomp`."""
        self.own_ns = 0
        with theirs:
            handed = (theirs.fileno(), *arena.files)
            numbers = (*handed, OUTPUT_LIMIT, ADDRESS_LIMIT, self._defences.bits)
            argv = [str(program_of_ours), *map(str, numbers), readable_paths(), self._home.name]
            try:
                self._process = subprocess.Popen(
                    argv,
                    pass_fds=handed,
                    stdin=subprocess.DEVNULL,
                    stdout=self._stdout,
                    stderr=subprocess.STDOUT,
                    cwd=self._home.name,
                    env=clean_environment(Path(self._home.name)),
                    start_new_session=True,
                )
            except OSError as error:
                self._socket.close()
                self._stdout.close()
                self._home.cleanup()
                raise DeviceError(
                    "cannot start a candidate process",
                    value=error.strerror,
                    next_step="Check free memory and the process limit (`ulimit -u`).",
                ) from error
        self._group.number = self._process.pid  # until it says that it leads another
        try:
            self._start(program)
        except BaseException:
            self.close()
            raise

    def _start(self, program: Program) -> None:
        index = {name: number for number, name in enumerate(self._names)}
        binary = b"" if program.build is None else os.fsencode(program.build.binary or "")
        messages = [_HEAD.pack(len(self._names), len(program.launches), binary)]
        messages.append(
            b"".join(
                _REGION.pack(r.offset, r.mapped, r.start, r.size, int(r.block.writable), int(r.block.zeroed))
                for r in self._arena.regions.values()
            )
        )
        heads, arguments = [], []
        for number, launch in enumerate(program.launches):
            packed = []
            for argument in launch.args:
                if isinstance(argument, PointerArg):
                    packed.append(_ARGUMENT.pack(1, 0, index[program.regions[argument.name]]))
                else:
                    packed.append(_ARGUMENT.pack(0, 0, scalar_bits(argument)))
            heads.append(_LAUNCH.pack(f"kforecast_launch_{number}".encode(), len(packed), 0))
            arguments.append(b"".join(packed))
        messages += [b"".join(heads), *arguments]
        try:
            for message in filter(None, messages):
                self._socket.send(message)
        except OSError:
            self._died("before it was ready")
        # Both are said before any untrusted code runs, hence first: what comes later could be forged.
        self._group.number = self._receive(_START_DEADLINE_S, "starting").number or self._process.pid
        confined = self._receive(_START_DEADLINE_S, "starting")
        self.isolation = confined.text
        self._base = self._receive(_START_DEADLINE_S, "loading").address
        self._group.freeze()
        self._group.stop_at_answer(self._socket, confined.pid)

    def call(self, deadline_s: float) -> int:
        """Run the kernel once. Returns the parent's wall nanoseconds from command to answer, round trip included.

        The process is stopped again when this returns, with all its threads: what is not in the outputs by then will
        never be, and nobody else is disturbed.
        """
        self._glance = Glance(self._arena) if self._defences.glance else None
        return self._command(_CALL, deadline_s)

    def check_settled(self) -> None:
        """Raise KernelFault `tampered` where an output has changed since it was looked at when the answer came."""
        changed = self._glance.changed() if self._glance else None
        if changed is not None:
            raise KernelFault("tampered", f"it answered before it was done: {changed} changed after the answer")

    def nothing(self) -> int:
        """The round trip alone: the same command and answer with no kernel between them, in nanoseconds."""
        return self._command(_NOTHING, _START_DEADLINE_S)

    def _command(self, op: int, deadline_s: float) -> int:
        self._sequence += 1
        packet = _COMMAND.pack(op, self._sequence)
        self._group.thaw()
        try:
            elapsed = round_trip(self._socket, packet, deadline_s, self._cancelled)
        except OSError:
            self._died("before it was called")
        if elapsed is None:
            self._overdue(deadline_s)
        if self._glance is not None:
            self._glance.take()
        self._group.freeze()
        reply = self._receive(1.0, "running")
        if reply.kind != _DONE or reply.sequence != self._sequence:
            raise KernelFault("tampered", "an answer arrived for a call that was not made: something forged it")
        self.own_ns = reply.number
        return elapsed

    def _overdue(self, deadline_s: float) -> NoReturn:
        output = self.output()
        self.close()
        raise KernelFault("timeout", f"one call did not finish within its deadline of {deadline_s:g} s", output)

    def _receive(self, deadline_s: float, doing: str) -> _Reply:
        if not self._poll.poll(int(deadline_s * 1e3)):
            self._overdue(deadline_s)
        try:
            data, ancillary, _, _ = self._socket.recvmsg(_REPLY.size, socket.CMSG_LEN(_CREDENTIALS.size))
        except OSError:
            data, ancillary = b"", []
        if len(data) != _REPLY.size:
            self._died(f"while {doing}")
        kind, sequence, number, address, raw = _REPLY.unpack(data)
        text = raw.rstrip(b"\0").decode(errors="replace")
        if kind == _LOAD_FAILED:
            raise KernelFault("compile_error", f"the compiled kernel does not load: {text}")
        if kind == _FAULT:
            output = self.output()
            self.close()
            raise KernelFault("crashed", self._explain(int(number), address), output)
        pid = _CREDENTIALS.unpack(ancillary[0][2])[0] if ancillary else 0
        return _Reply(kind, sequence, number, address, text, pid)

    def _died(self, when: str) -> NoReturn:
        """The socket closed: say how the process ended."""
        self._group.thaw()  # a stopped process cannot pass its exit status on
        try:
            code = self._process.wait(timeout=2.0)
        except subprocess.TimeoutExpired:
            code = None
        output = self.output()
        self.close()
        if code is not None and code < 0:
            code = 128 - code
        if code is not None and code > 128:
            name = _signal_name(code - 128)
            if code - 128 == signal.SIGXFSZ:
                reason = f"it wrote more than {OUTPUT_LIMIT >> 20} MiB of output or files"
            else:
                reason = f"it was killed by {name} {when}"
        else:
            reason = f"it ended its process (exit code {code}) {when} instead of returning"
        raise KernelFault("crashed", reason, output)

    def _explain(self, number: int, address: int) -> str:
        text = _signal_name(number)
        if number not in (signal.SIGSEGV, signal.SIGBUS) or not self._base:
            return f"{text} while running"
        at = self._base
        for name in self._names:
            region = self._arena.regions[name]
            begin, size = at + region.start, region.size
            label = name.rpartition("/")[2]
            if begin <= address < begin + size:
                return f"{text}: wrote to {label}, which is an input (byte {address - begin} of {size})"
            if begin + size <= address < at + region.mapped + GUARD // 2:
                return f"{text}: access {address - begin - size} bytes past the end of {label} ({size} bytes)"
            if at - GUARD // 2 <= address < begin:
                return f"{text}: access {begin - address} bytes before the start of {label}"
            at += region.mapped + GUARD
        return f"{text}: access to address {address:#x}, which belongs to none of the tensors"

    def output(self, limit: int = 4096) -> str:
        """What the kernel printed so far, its first `limit` bytes."""
        try:
            return os.pread(self._stdout.fileno(), limit, 0).decode(errors="replace")
        except ValueError:
            return ""  # closed already: whoever closed it has read it

    def close(self) -> None:
        """Kill the process and all it started, wait for the reap, drop its files. Idempotent."""
        if self._process.returncode is None:
            self._group.signal(signal.SIGKILL)
            try:
                self._process.wait(_END_MS / 1e3)  # the outer process reaps the namespace and ends by itself
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        hang_up(self._socket, _END_MS)
        self._stdout.close()
        self._home.cleanup()

    def __enter__(self) -> CandidateProcess:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _signal_name(number: int) -> str:
    words = {
        signal.SIGSEGV: "segmentation fault",
        signal.SIGBUS: "bus error",
        signal.SIGFPE: "arithmetic fault (division by zero?)",
        signal.SIGILL: "illegal instruction",
        signal.SIGABRT: "abort",
        signal.SIGKILL: "SIGKILL (out of memory?)",
    }
    try:
        return words.get(signal.Signals(number), signal.Signals(number).name)
    except ValueError:
        return f"signal {number}"
