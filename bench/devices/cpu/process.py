"""One candidate process: started fresh, told what to run, bounded by deadlines, killed with everything it started."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import select
import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from ....store.errors import DeviceError
from ...faults import Cancelled, KernelFault
from ...header.plan import PlannedLaunch, PointerArg
from ...languages.build import Build
from ...languages.c import find_compiler
from ...processes import clean_environment, run_limited
from ..scalars import scalar_bits
from .memory import GUARD, Arena

OUTPUT_LIMIT = 16 << 20
ADDRESS_LIMIT = 4 << 30
_START_DEADLINE_S = 20.0
_SLICE_MS = 200
"""How often a long call looks whether it is still wanted; an answer ends the wait at once."""

_HEAD, _REGION, _LAUNCH, _ARGUMENT = (struct.Struct(text) for text in ("=II4096s", "=QQQQII", "=64sII", "=IIQ"))
_COMMAND, _REPLY = struct.Struct("=II"), struct.Struct("=IIqQ256s")
_CALL, _NOTHING, _END = 1, 2, 3
_READY, _DONE, _FAULT, _LOAD_FAILED = 1, 2, 3, 4


@functools.cache
def runner(cache: Path) -> Path:
    """The compiled `candidate.c`, built by the system compiler on first use and kept in `cache`."""
    source = resources.files(__package__).joinpath("candidate.c").read_text()
    compiler = find_compiler()
    key = hashlib.sha256(f"{compiler.version}\0{source}".encode()).hexdigest()[:24]
    binary = cache / "c" / f"candidate-{key}"
    if binary.exists():
        return binary
    binary.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="kforecast-cc-") as text:
        folder = Path(text)
        (folder / "candidate.c").write_text(source)
        # _FORTIFY_SOURCE and the like stay off: the process exists to be crashed.
        command = [compiler.path, "-O2", "-o", "candidate", "candidate.c", "-ldl"]
        outcome = run_limited(command, cwd=folder, deadline_s=60.0)
        if outcome.returncode != 0:
            raise DeviceError(
                "the candidate process of the cpu device does not compile",
                value=outcome.output.strip()[:500],
                next_step=f"Check the compiler {compiler.path} ({compiler.version}); Linux headers are needed.",
            )
        temporary = binary.with_name(f"{binary.name}.{os.getpid()}.{os.urandom(4).hex()}")
        temporary.write_bytes((folder / "candidate").read_bytes())
        temporary.chmod(0o755)
        temporary.rename(binary)
    return binary


@dataclass(frozen=True)
class Program:
    """What a candidate process runs: a compiled kernel, its launches for one case, and which region each name means."""

    build: Build
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
        namespaces: bool = True,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        self._arena = arena
        self._cancelled = cancelled
        self._names = list(arena.regions)
        self._home = tempfile.TemporaryDirectory(prefix="kforecast-run-")
        self._stdout = tempfile.TemporaryFile(dir=self._home.name)  # noqa: SIM115  closed in close()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket = ours
        self._poll = select.poll()
        self._poll.register(ours, select.POLLIN)
        self._sequence = 0
        self._base = 0
        self.isolated = False
        self.own_ns = 0
        with theirs:
            handed = (theirs.fileno(), *arena.files)
            argv = [str(runner(cache)), *map(str, handed), str(OUTPUT_LIMIT), str(ADDRESS_LIMIT), str(int(namespaces))]
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
        try:
            self._start(program)
        except BaseException:
            self.close()
            raise

    def _start(self, program: Program) -> None:
        index = {name: number for number, name in enumerate(self._names)}
        messages = [_HEAD.pack(len(self._names), len(program.launches), os.fsencode(program.build.binary or ""))]
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
        reply = self._receive(_START_DEADLINE_S, "loading")
        self.isolated = bool(reply[2])
        self._base = reply[3]

    def call(self, deadline_s: float) -> int:
        """Run the kernel once. Returns the parent's wall nanoseconds from command to answer, round trip included."""
        return self._command(_CALL, deadline_s)

    def nothing(self) -> int:
        """The round trip alone: the same command and answer with no kernel between them, in nanoseconds."""
        return self._command(_NOTHING, _START_DEADLINE_S)

    def _command(self, op: int, deadline_s: float) -> int:
        self._sequence += 1
        packet = _COMMAND.pack(op, self._sequence)
        milliseconds = max(1, int(deadline_s * 1e3))
        begin = time.perf_counter_ns()
        try:
            self._socket.send(packet)
        except OSError:
            self._died("before it was called")
        answered = self._poll.poll(min(milliseconds, _SLICE_MS))
        end = time.perf_counter_ns()
        while not answered:
            if self._cancelled():
                raise Cancelled
            if end - begin > deadline_s * 1e9:
                self._overdue(deadline_s)
            answered = self._poll.poll(_SLICE_MS)
            end = time.perf_counter_ns()
        reply = self._receive(1.0, "running")
        if reply[1] != self._sequence:
            raise KernelFault("tampered", "an answer arrived for a call that was not made: something forged it")
        self.own_ns = reply[2]
        return end - begin

    def _overdue(self, deadline_s: float) -> None:
        output = self.output()
        self.close()
        raise KernelFault("timeout", f"one call did not finish within its deadline of {deadline_s:g} s", output)

    def _receive(self, deadline_s: float, doing: str) -> tuple[int, int, int, int]:
        if not self._poll.poll(int(deadline_s * 1e3)):
            self._overdue(deadline_s)
        try:
            data = self._socket.recv(_REPLY.size)
        except OSError:
            data = b""
        if len(data) != _REPLY.size:
            self._died(f"while {doing}")
        kind, sequence, number, address, raw = _REPLY.unpack(data)
        if kind == _LOAD_FAILED:
            text = raw.rstrip(b"\0").decode(errors="replace")
            raise KernelFault("compile_error", f"the compiled kernel does not load: {text}")
        if kind == _FAULT:
            output = self.output()
            self.close()
            raise KernelFault("crashed", self._explain(int(number), address), output)
        return kind, sequence, number, address

    def _died(self, when: str) -> None:
        """The socket closed: say how the process ended."""
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
        if self._socket.fileno() >= 0:
            self._socket.close()
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # it may end by itself between the check and the kill
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
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
