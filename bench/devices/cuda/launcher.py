"""The launcher process: holds a context, loads cubins, launches and times them. It knows no seed, no reference, no
verdict.

Started as `python -m kforecast.bench.devices.cuda.launcher FD ORDINAL`; imports the driver bindings alone, so that
it is ready in a fraction of a second. One message in, one message out:

    open {handle}                      map the oracle's memory
    trust {cubin}                      load the launcher's own kernels, allocate the flush buffer
    load {modules}                     load the candidate's or baseline's, each {cubin, stateful, programs}
                                       -> {loaded}: of each {module, programs, unreachable}: its number, those of its
                                       programs, and names of its device variables that `time` cannot set back
    programs {programs}                -> {programs}: numbers of {module, launches, zero}; pointers are offsets from a
                                       slot's inputs or outputs
    run {calls}                        launch each [program, inputs, outputs], offsets in the memory, one after another,
                                       and wait for them all
    time {samples}                     -> {times}: per sample microseconds cold and warm; a sample with `renew` begins
                                       with the module's device variables as they were loaded
    empty {count, calls}               -> {times}: the empty kernel, `calls` to a sample, as `time` would time it
    unload                             drop modules and programs

A CUDA error that poisons the context is answered with {fault}, any other one with {refused}, once nothing runs any
more; `call` of either is the number of the call that failed. A process with a poisoned context then waits for its end.
"""

from __future__ import annotations

import ctypes
import os
import resource
import socket
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cuda.bindings import driver as cuda

from .channel import Channel, ChannelClosed
from .variables import device_variables

OUTPUT_LIMIT = 16 << 20
_NOT_POISONING = frozenset(
    {
        "CUDA_ERROR_INVALID_VALUE",
        "CUDA_ERROR_INVALID_IMAGE",
        "CUDA_ERROR_INVALID_PTX",
        "CUDA_ERROR_INVALID_SOURCE",
        "CUDA_ERROR_NO_BINARY_FOR_GPU",
        "CUDA_ERROR_NOT_FOUND",
        "CUDA_ERROR_FILE_NOT_FOUND",
        "CUDA_ERROR_OUT_OF_MEMORY",
        "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
        "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE",
        "CUDA_ERROR_SHARED_OBJECT_INIT_FAILED",
        "CUDA_ERROR_NOT_SUPPORTED",
    }
)


class CudaFailure(Exception):
    """A driver call did not succeed. `name` is the CUresult's name."""

    def __init__(self, name: str, call: str) -> None:
        super().__init__(f"{name} from {call}")
        self.name = name


def check(result: tuple[Any, ...], call: str) -> Any:
    """The value of a driver call. Raises CudaFailure."""
    if result[0] != cuda.CUresult.CUDA_SUCCESS:
        raise CudaFailure(cuda.CUresult(result[0]).name, call)
    return result[1] if len(result) == 2 else None


class PlacedLaunch:
    """One launch with its parameters' storage: pointers are patched per slot, scalars stay."""

    def __init__(self, function: Any, data: dict[str, Any]) -> None:
        self.function = function
        self.grid: list[int] = data["grid"]
        self.block: list[int] = data["block"]
        self.smem: int = data["smem"]
        self.inputs: list[tuple[int, int]] = []
        self.outputs: list[tuple[int, int]] = []
        count = len(data["args"])
        self.values = (ctypes.c_uint64 * max(count, 1))()
        self.pointers = (ctypes.c_void_p * max(count, 1))()
        for index, (kind, value) in enumerate(data["args"]):
            if kind == "s":
                self.values[index] = value
            else:
                (self.inputs if kind == "i" else self.outputs).append((index, value))
            self.pointers[index] = ctypes.addressof(self.values) + 8 * index
        self.address = ctypes.addressof(self.pointers)

    def launch(self, inputs: int, outputs: int, stream: Any) -> None:
        for index, offset in self.inputs:
            self.values[index] = inputs + offset
        for index, offset in self.outputs:
            self.values[index] = outputs + offset
        gx, gy, gz = self.grid
        bx, by, bz = self.block
        check(
            cuda.cuLaunchKernel(self.function, gx, gy, gz, bx, by, bz, self.smem, stream, self.address, 0),
            "cuLaunchKernel",
        )


class _Variables:
    """The device variables of a module, and what they held when it was loaded: memory in which a kernel could keep
    answers from one launch to the next.
    """

    def __init__(self, module: Any, variables: Iterable[tuple[str, bool]], stream: Any) -> None:
        self._places: list[tuple[int, int, int]] = []
        self.unreachable: list[str] = []
        for name, initialised in variables:
            code, pointer, size = cuda.cuModuleGetGlobal(module, name.encode())
            if code != cuda.CUresult.CUDA_SUCCESS:
                self.unreachable.append(name)
                continue
            first = 0
            if initialised:
                first = int(check(cuda.cuMemAlloc(size), "cuMemAlloc"))
                check(cuda.cuMemcpyDtoDAsync(first, pointer, size, stream), "cuMemcpyDtoDAsync")
            self._places.append((int(pointer), int(size), first))

    def renew(self, stream: Any) -> None:
        """Queue setting them back."""
        for pointer, size, first in self._places:
            if first:
                check(cuda.cuMemcpyDtoDAsync(pointer, first, size, stream), "cuMemcpyDtoDAsync")
            else:
                check(cuda.cuMemsetD8Async(pointer, 0, size, stream), "cuMemsetD8Async")

    def free(self) -> None:
        for _, _, first in self._places:
            if first:
                check(cuda.cuMemFree(first), "cuMemFree")


class _Program:
    """The launches of one kernel for one case, the memory that each call must clear first, and its module's variables,
    where it has any.
    """

    def __init__(
        self, launches: list[PlacedLaunch], zero: list[tuple[int, int]], variables: _Variables | None = None
    ) -> None:
        self.launches = launches
        self.zero = zero
        self.variables = variables

    def run(self, inputs: int, outputs: int, stream: Any) -> None:
        for offset, size in self.zero:
            check(cuda.cuMemsetD8Async(outputs + offset, 0, size, stream), "cuMemsetD8Async")
        for launch in self.launches:
            launch.launch(inputs, outputs, stream)


class _Progress:
    """How far the calls of one message came, in memory of the host that the device writes: it can be read when the
    context is poisoned, and costs no wait between the calls.
    """

    def __init__(self) -> None:
        self._host = int(check(cuda.cuMemHostAlloc(4, cuda.CU_MEMHOSTALLOC_DEVICEMAP), "cuMemHostAlloc"))
        self._device = int(check(cuda.cuMemHostGetDevicePointer(self._host, 0), "cuMemHostGetDevicePointer"))
        self._written = True
        self.queued = 0
        """The number of the call that is queued now."""

    def probe(self, stream: Any) -> None:
        """See whether the device writes it. Where it does not, each call is waited for."""
        self.begin()
        try:
            self.mark(1, stream)
            check(cuda.cuStreamSynchronize(stream), "cuStreamSynchronize")
        except CudaFailure as failure:
            if failure.name != "CUDA_ERROR_NOT_SUPPORTED":
                raise
            self._written = False
        self._written = self._written and self.ended == 1

    @property
    def ended(self) -> int:
        """Calls that have ended."""
        return ctypes.c_uint32.from_address(self._host).value

    def begin(self) -> None:
        ctypes.c_uint32.from_address(self._host).value = 0

    def mark(self, calls: int, stream: Any) -> None:
        """Queue the note that so many have ended."""
        if self._written:
            check(cuda.cuStreamWriteValue32(stream, self._device, calls, 0), "cuStreamWriteValue32")
        else:
            check(cuda.cuStreamSynchronize(stream), "cuStreamSynchronize")
            ctypes.c_uint32.from_address(self._host).value = calls


class Launcher:
    """The process's state: context, memory, modules, programs."""

    def __init__(self, ordinal: int) -> None:
        check(cuda.cuInit(0), "cuInit")
        self.device = check(cuda.cuDeviceGet(ordinal), "cuDeviceGet")
        context = check(cuda.cuDevicePrimaryCtxRetain(self.device), "cuDevicePrimaryCtxRetain")
        check(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent")
        self.stream = check(cuda.cuStreamCreate(cuda.CUstream_flags.CU_STREAM_NON_BLOCKING.value), "cuStreamCreate")
        attributes = cuda.CUdevice_attribute
        self.l2_bytes = self._attribute(attributes.CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)
        self.smem_max = self._attribute(attributes.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
        self.sm_count = self._attribute(attributes.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
        self.base = 0
        self.modules: list[Any] = []
        self.variables: list[_Variables] = []
        self.known: list[_Program] = []
        self._progress = _Progress()
        self._smem: dict[tuple[int, str], int] = {}
        self._events: list[Any] = []
        self._flush: PlacedLaunch | None = None
        self._nothing: PlacedLaunch | None = None

    def _attribute(self, attribute: Any) -> int:
        return int(check(cuda.cuDeviceGetAttribute(attribute, self.device), "cuDeviceGetAttribute"))

    # -- messages ------------------------------------------------------------------------------------------------

    def open(self, message: dict[str, Any]) -> dict[str, Any]:
        if self.base:
            check(cuda.cuIpcCloseMemHandle(self.base), "cuIpcCloseMemHandle")
            self.base = 0
        handle = cuda.CUipcMemHandle()
        handle.reserved = bytes.fromhex(message["handle"])
        flag = cuda.CUipcMem_flags.CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
        self.base = int(check(cuda.cuIpcOpenMemHandle(handle, flag), "cuIpcOpenMemHandle"))
        return {}

    def trust(self, message: dict[str, Any]) -> dict[str, Any]:
        module = check(cuda.cuModuleLoad(message["cubin"].encode()), "cuModuleLoad")
        size = 2 * self.l2_bytes
        junk = int(check(cuda.cuMemAlloc(size), "cuMemAlloc"))
        sink = int(check(cuda.cuMemAlloc(256), "cuMemAlloc"))
        check(cuda.cuMemsetD8Async(junk, 0, size, self.stream), "cuMemsetD8Async")
        arguments = [("s", junk), ("s", size // 16), ("s", sink)]
        grid = {"grid": [8 * self.sm_count, 1, 1], "block": [256, 1, 1], "smem": 0}
        self._flush = PlacedLaunch(self._function(module, "flush"), {**grid, "args": arguments})
        one = {"grid": [1, 1, 1], "block": [32, 1, 1], "smem": 0, "args": []}
        self._nothing = PlacedLaunch(self._function(module, "nothing"), one)
        canary = int(check(cuda.cuMemAlloc(4096), "cuMemAlloc"))
        test = {"grid": [4, 1, 1], "block": [256, 1, 1], "smem": 0, "args": [("s", canary), ("s", 1024), ("s", 17)]}
        PlacedLaunch(self._function(module, "canary"), test).launch(0, 0, self.stream)
        got = (ctypes.c_uint32 * 1024)()
        check(cuda.cuMemcpyDtoHAsync(ctypes.addressof(got), canary, 4096, self.stream), "cuMemcpyDtoHAsync")
        self.synchronize()
        if any(value != 3 * i + 17 for i, value in enumerate(got)):
            raise CudaFailure("CANARY_FAILED", "the canary kernel")
        self._progress.probe(self.stream)
        check(cuda.cuMemFree(canary), "cuMemFree")
        return {"l2_bytes": self.l2_bytes, "smem_max": self.smem_max, "sm_count": self.sm_count}

    def load(self, message: dict[str, Any]) -> dict[str, Any]:
        return {"loaded": [self._loaded(module) for module in message["modules"]]}

    def _loaded(self, wanted: dict[str, Any]) -> dict[str, Any]:
        module = check(cuda.cuModuleLoad(wanted["cubin"].encode()), "cuModuleLoad")
        self.modules.append(module)
        names = device_variables(Path(wanted["cubin"]).read_bytes()) if wanted["stateful"] else ()
        self.variables.append(_Variables(module, names, self.stream))
        number = len(self.modules) - 1
        known = self.programs({"programs": [{**program, "module": number} for program in wanted["programs"]]})
        return {"module": number, "unreachable": self.variables[-1].unreachable, **known}

    def programs(self, message: dict[str, Any]) -> dict[str, Any]:
        numbers = []
        for program in message["programs"]:
            module = self.modules[program["module"]]
            launches = [
                PlacedLaunch(self._prepared(program["module"], module, data), data) for data in program["launches"]
            ]
            numbers.append(len(self.known))
            zero = [tuple(pair) for pair in program["zero"]]
            self.known.append(_Program(launches, zero, self.variables[program["module"]]))
        return {"programs": numbers}

    def _prepared(self, number: int, module: Any, data: dict[str, Any]) -> Any:
        """The function, allowed as much dynamic shared memory as any of its launches needs."""
        function = self._function(module, data["symbol"])
        # Without being asked a kernel has 48 KB, of which its static shared memory takes a part that is not known here.
        most = self._smem.get((number, data["symbol"]), 0)
        if data["smem"] > most:
            attribute = cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            check(cuda.cuFuncSetAttribute(function, attribute, data["smem"]), "cuFuncSetAttribute")
            self._smem[number, data["symbol"]] = data["smem"]
        return function

    def run(self, message: dict[str, Any]) -> dict[str, Any]:
        self._progress.begin()
        for number, (program, inputs, outputs) in enumerate(message["calls"]):
            self._progress.queued = number
            self.known[program].run(self.base + inputs, self.base + outputs, self.stream)
            self._progress.mark(number + 1, self.stream)
        self.synchronize()
        return {}

    def settled(self, failure: CudaFailure) -> tuple[CudaFailure, int]:
        """What failed in truth, and the number of the call: after a refusal, what was queued before it may end in a
        fault.
        """
        if failure.name in _NOT_POISONING:
            try:
                self.synchronize()
            except CudaFailure as fault:
                if fault.name not in _NOT_POISONING:
                    return fault, self._progress.ended
            return failure, self._progress.queued
        return failure, self._progress.ended

    def time(self, message: dict[str, Any]) -> dict[str, Any]:
        """Each sample {program, cold: [slots], warm: [slots], renew}: the calls of one list run back to back and share
        the time.

        Everything is queued before the device needs it: the flush keeps it busy while the host queues the calls.
        """
        pending = []
        graphs = []
        # Lines that a kernel asked to persist survive a flush. Once is enough: every sample has addresses of its own.
        check(cuda.cuCtxResetPersistingL2Cache(), "cuCtxResetPersistingL2Cache")
        for sample in message["samples"]:
            program = self.known[sample["program"]]
            marks = []
            for which in ("cold", "warm"):
                slots = sample[which]
                if not slots:
                    continue
                graph = self._graph(program, slots) if len(slots) > 1 else None
                if graph is not None:
                    graphs.append(graph)
                if which == "cold":
                    if sample.get("renew") and program.variables is not None:
                        program.variables.renew(self.stream)
                    self._cold()
                begin, end = self._event(), self._event()
                check(cuda.cuEventRecord(begin, self.stream), "cuEventRecord")
                if graph is not None:
                    check(cuda.cuGraphLaunch(graph, self.stream), "cuGraphLaunch")
                else:
                    program.run(self.base + slots[0][0], self.base + slots[0][1], self.stream)
                check(cuda.cuEventRecord(end, self.stream), "cuEventRecord")
                marks.append((begin, end, len(slots)))
            pending.append(marks)
        self.synchronize()
        times = [[self._elapsed_us(begin, end) / calls for begin, end, calls in marks] for marks in pending]
        for graph in graphs:
            check(cuda.cuGraphExecDestroy(graph), "cuGraphExecDestroy")
        for marks in pending:
            for begin, end, _ in marks:
                self._events += [begin, end]
        return {"times": times}

    def empty(self, message: dict[str, Any]) -> dict[str, Any]:
        assert self._nothing is not None
        self.known.append(_Program([self._nothing], []))
        index = len(self.known) - 1
        calls = [[0, 0]] * message["calls"]
        answer = self.time({"samples": [{"program": index, "cold": calls, "warm": []}] * message["count"]})
        self.known.pop()
        return answer

    def unload(self, message: dict[str, Any]) -> dict[str, Any]:
        self.known = []
        self._smem = {}
        for variables in self.variables:
            variables.free()
        self.variables = []
        for module in self.modules:
            check(cuda.cuModuleUnload(module), "cuModuleUnload")
        self.modules = []
        return {}

    # -- parts ---------------------------------------------------------------------------------------------------

    def _function(self, module: Any, symbol: str) -> Any:
        return check(cuda.cuModuleGetFunction(module, symbol.encode()), f"cuModuleGetFunction({symbol})")

    def _cold(self) -> None:
        assert self._flush is not None
        self._flush.launch(0, 0, self.stream)

    def _event(self) -> Any:
        if self._events:
            return self._events.pop()
        return check(cuda.cuEventCreate(cuda.CUevent_flags.CU_EVENT_DEFAULT.value), "cuEventCreate")

    def _elapsed_us(self, begin: Any, end: Any) -> float:
        return 1e3 * float(check(cuda.cuEventElapsedTime(begin, end), "cuEventElapsedTime"))

    def _graph(self, program: _Program, slots: list[list[int]]) -> Any:
        mode = cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        check(cuda.cuStreamBeginCapture(self.stream, mode), "cuStreamBeginCapture")
        try:
            for inputs, outputs in slots:
                program.run(self.base + inputs, self.base + outputs, self.stream)
        finally:
            graph = check(cuda.cuStreamEndCapture(self.stream), "cuStreamEndCapture")
        executable = check(cuda.cuGraphInstantiate(graph, 0), "cuGraphInstantiate")
        check(cuda.cuGraphDestroy(graph), "cuGraphDestroy")
        check(cuda.cuGraphUpload(executable, self.stream), "cuGraphUpload")
        return executable

    def synchronize(self) -> None:
        check(cuda.cuStreamSynchronize(self.stream), "cuStreamSynchronize")


_VERBS = ("open", "trust", "load", "programs", "run", "time", "empty", "unload")


def serve(channel: Channel, ordinal: int) -> int:
    """Answer messages until the other end closes. Returns the exit code."""
    try:
        launcher = Launcher(ordinal)
        channel.send({"ready": os.getpid()})
        while True:
            message = channel.receive()
            verb = message["verb"]
            if verb not in _VERBS:
                channel.send({"error": f"unknown verb {verb}"})
                continue
            try:
                answer = getattr(launcher, verb)(message)
            except CudaFailure as failed:
                failure, call = launcher.settled(failed)
                poisoned = failure.name not in _NOT_POISONING
                kind = "fault" if poisoned else "refused"
                channel.send({kind: failure.name, "text": str(failure), "call": call})
                if poisoned:
                    channel.receive()  # nothing more is asked of this process: its end is for the session to time
                    return 3
                continue
            channel.send(answer)
    except ChannelClosed:
        return 0
    except CudaFailure as failure:
        channel.send({"error": str(failure)})
        return 4


def main() -> None:
    """Entry point of the process."""
    from ...processes import die_with_parent

    die_with_parent()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Device-side printf ends up on stdout, a file: this caps it.
    resource.setrlimit(resource.RLIMIT_FSIZE, (OUTPUT_LIMIT, OUTPUT_LIMIT))
    code = serve(Channel(socket.socket(fileno=int(sys.argv[1]))), int(sys.argv[2]))
    sys.stdout.flush()
    os._exit(code)  # the driver's exit handlers can hang on a poisoned context; the kernel frees everything


if __name__ == "__main__":
    main()
