"""The device profile: what a GPU does at best, measured once through the launcher; floors and briefs follow from it.

Facts carry their units in the names: `_gbs` 10^9 bytes a second, `_gops` 10^9 and `_tflops` 10^12 operations a second,
`_us`, `_ns`, `_mhz`, `_pct`, `_bytes`, `_s`. The rates `mma_sync_*` are that instruction's in a loop on registers
only: on architectures with a newer tensor core instruction they lie below the device's peak, which is `peak_*`.
"""

from __future__ import annotations

import math
import struct
import time
from collections.abc import Mapping
from importlib import resources
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any

from ....store.errors import DeviceError, InputError
from ....store.models import Kernel, Launch
from ...languages.build import Build
from ...languages.cuda.compile import compile_cuda
from ...tasks.floor import DeviceRates
from ...timing.noise import MAD_TO_SIGMA
from .helpers import HelperDied
from .peaks import best_rates, peak_rates

if TYPE_CHECKING:
    from .lane import CudaLane

_BANDWIDTH = ("fill", "read", "copy")
_LATENCY = ("chain", "chase", "chase_shared")
_THROUGHPUT = ("shared_read", "shared_add", "global_add", "fma_f32")
_TENSOR = {
    "mma_bf16": 2 * 16 * 8 * 16,
    "mma_f16": 2 * 16 * 8 * 16,
    "mma_tf32": 2 * 16 * 8 * 8,
    "mma_f64": 2 * 8 * 8 * 4,
}
"""Operations of one `mma.sync` of a warp."""

_MOST_BYTES = 2 << 30
_REPEATS = 9
_WARM_UP_S = 0.15
_DEADLINE_S = 20.0
_LINE = 128
_UNROLLED = 8
"""Loads, additions or `mma.sync` in one pass of the kernels' loops."""


def measure_profile(lane: CudaLane) -> dict[str, Any]:
    """Measure the profile of a GPU: medians after a warm-up, a few seconds in all. The caller holds the device's lock.

    Raises DeviceError where the GPU or its helper processes fail.
    """
    began = time.monotonic()
    facts = lane.facts
    bench = _Bench(lane, tensor=int(facts.arch.removeprefix("sm_")) >= 80)
    try:
        bench.warm_up()
        before = lane.monitor.read()
        found: dict[str, Any] = {
            "gpu": facts.name,
            "arch": facts.arch,
            "driver": lane.monitor.describe().get("driver", ""),
            "sm_count": facts.sm_count,
            "boost_mhz": facts.boost_mhz,
            "memory_bytes": facts.memory_bytes,
            "l2_bytes": facts.l2_bytes,
            **bench.memory(),
            **bench.launches(),
            **bench.latencies(),
            **bench.atomics(),
            **bench.rates(),
        }
        peaks = peak_rates(facts.arch, facts.sm_count, facts.boost_mhz)
        found |= {f"peak_{unit}_tflops": rate / 1e12 for unit, rate in peaks.items()}
        after = lane.monitor.read()
        found |= {"sm_mhz_before": before.get("sm_mhz"), "sm_mhz_after": after.get("sm_mhz")}
        found["throttled"] = sorted({*before.get("throttled", ()), *after.get("throttled", ())})
        found["took_s"] = round(time.monotonic() - began, 3)
        return found
    finally:
        bench.close()


def quick_rates(lane: CudaLane) -> DeviceRates:
    """What a floor needs and no more, in a few tens of milliseconds: bandwidth measured, operations from the peaks.

    The caller holds the device's lock. Raises DeviceError as `measure_profile` does.
    """
    bench = _Bench(lane, bandwidth_only=True)
    try:
        found = bench.memory(repeats=5)
    finally:
        bench.close()
    facts = lane.facts
    return rates_of({**found, "arch": facts.arch, "sm_count": facts.sm_count, "boost_mhz": facts.boost_mhz})


def compile_bandwidth(arch: str) -> None:
    """Compile what `quick_rates` will load."""
    build_profile("bandwidth.cu", _BANDWIDTH, arch)


def rates_of(profile: Mapping[str, Any]) -> DeviceRates:
    """The rates that floors follow from, none below what the device can do.

    Bandwidth: reading or copying, whichever was faster. Operations: the architecture's peak at the boost clock. Raises
    InputError for a profile that lacks what they follow from.
    """
    try:
        bandwidth = 1e9 * max(profile["copy_bandwidth_gbs"], profile["read_bandwidth_gbs"])
        measured = {
            name.removeprefix("mma_"): 1e12 * profile.get(f"mma_sync_{name.removeprefix('mma_')}_tflops", 0.0)
            for name in _TENSOR
        }
        measured["f32"] = 1e12 * profile.get("fp32_tflops", 0.0)
        operations = best_rates(profile["arch"], profile["sm_count"], profile["boost_mhz"], measured)
    except (KeyError, TypeError) as error:
        raise InputError(
            "the stored device profile is not one of this version",
            value=f"{type(error).__name__}: {error}",
            next_step="Measure it again: `kforecast doctor --profile`.",
        ) from error
    return DeviceRates(bandwidth, operations)


class _Bench:
    """The profile's kernels, loaded into the lane's launcher, and the memory that they work on."""

    def __init__(self, lane: CudaLane, *, tensor: bool = False, bandwidth_only: bool = False) -> None:
        self._lane = lane
        self._sms = lane.facts.sm_count
        self._bytes = 1 << int(math.log2(min(_MOST_BYTES, lane.slab_limit)))
        lane.reserve(self._bytes)
        name = "bandwidth.cu" if bandwidth_only else "profile.cu"
        entries = _BANDWIDTH if bandwidth_only else (*_BANDWIDTH, *_LATENCY, *_THROUGHPUT, *(_TENSOR if tensor else ()))
        build = build_profile(name, entries, lane.facts.arch)
        self._symbols = build.symbols
        module = {"cubin": str(build.binary), "stateful": False, "programs": []}
        self._module = int(self._ask("load", modules=[module])["loaded"][0]["module"])

    def close(self) -> None:
        """Forget the kernels."""
        self._ask("unload")

    # -- parts of the profile ------------------------------------------------------------------------------------

    def warm_up(self) -> None:
        """Keep the GPU busy until its clocks have risen."""
        program = self._rate_program("fma_f32", 2048, [_bits(0.999), _bits(0.001), 0])
        until = time.monotonic() + _WARM_UP_S
        while time.monotonic() < until:
            self._ask("run", calls=[[program, 0, 0]] * 16)

    def memory(self, repeats: int = _REPEATS) -> dict[str, float]:
        """Bandwidths in GB/s, caches cold: bytes read, bytes read plus bytes written; A/A noise of the copy."""
        fill = self._program("fill", 8 * self._sms, [("o", 0), self._bytes // 4])
        read = self._program("read", 8 * self._sms, [("o", 0), self._bytes // 16, 1, 0])
        half = self._bytes // 2
        copy = self._program("copy", 8 * self._sms, [("o", 0), ("o", half), half // 16])
        self._ask("run", calls=[[fill, 0, 0]])
        for program in (read, copy):
            self._ask("run", calls=[[program, 0, 0]] * 3)
        copies = self._times(copy, cold=True, repeats=2 * repeats)
        return {
            "read_bandwidth_gbs": self._bytes / self._median(read, cold=True, repeats=repeats) / 1e3,
            "copy_bandwidth_gbs": self._bytes / median(copies) / 1e3,
            "noise_pct": noise_percent(copies),
        }

    def launches(self) -> dict[str, float]:
        """An empty kernel: between two events alone, and each of 64 in a graph, in microseconds."""
        return {"launch_us": self._empty_us(1), "launch_gap_us": self._empty_us(64)}

    def latencies(self) -> dict[str, float]:
        """One thread following a chain of addresses: nanoseconds a step. And the L2's bandwidth in GB/s, reading."""
        lane = self._lane
        places = self._bytes // 4 // _LINE
        found = {"global_latency_ns": self._chase_ns(places, 8192, cold=True)}
        near = 1 << int(math.log2(max(lane.facts.l2_bytes // 8 // _LINE, 1024)))
        found["l2_latency_ns"] = self._chase_ns(near, min(near, 32768), cold=False)
        steps = 1 << 16
        shared = self._program("chase_shared", 1, [steps, 0], threads=32)
        found["shared_latency_ns"] = 1e3 * self._median(shared, cold=False) / steps
        size, passes = max(lane.facts.l2_bytes // 4, 1 << 20) // 16 * 16, 32
        read = self._program("read", 8 * self._sms, [("o", 0), size // 16, passes, 0])
        found["l2_bandwidth_gbs"] = passes * size / self._median(read, cold=False) / 1e3
        return found

    def atomics(self) -> dict[str, float]:
        """Additions of 32-bit integers, in 10^9 a second: in shared memory without conflicts, on 2^18 words of global
        memory, and on one word of it.
        """
        threads = 2048 * self._sms
        shared = self._rate_program("shared_add", 256, [0])
        spread = self._program("global_add", 8 * self._sms, [("o", 0), 64, (1 << 18) - 1])
        same = self._program("global_add", 8 * self._sms, [("o", 0), 2, 0])
        return {
            "shared_atomic_gops": threads * 256 * _UNROLLED / self._median(shared, cold=False) / 1e3,
            "global_atomic_gops": threads * 64 * _UNROLLED / self._median(spread, cold=False) / 1e3,
            "global_atomic_one_word_gops": threads * 2 * _UNROLLED / self._median(same, cold=False) / 1e3,
        }

    def rates(self) -> dict[str, float]:
        """Shared memory's bandwidth, fp32 multiply-adds, `mma.sync`."""
        threads = 2048 * self._sms
        shared = self._rate_program("shared_read", 512, [0])
        fma = self._rate_program("fma_f32", 2048, [_bits(0.999), _bits(0.001), 0])
        found = {
            "shared_bandwidth_gbs": threads * 512 * _UNROLLED * 16 / self._median(shared, cold=False) / 1e3,
            "fp32_tflops": threads * 2048 * 64 * 2 / self._median(fma, cold=False) / 1e6,
        }
        for entry, operations in _TENSOR.items():
            if entry in self._symbols:
                passes = 512 if entry == "mma_f64" else 4096
                program = self._program(entry, 4 * self._sms, [passes, 0])
                done = 4 * self._sms * (256 // 32) * passes * _UNROLLED * operations
                found[f"mma_sync_{entry.removeprefix('mma_')}_tflops"] = done / self._median(program, cold=False) / 1e6
        return found

    # -- one measurement -----------------------------------------------------------------------------------------

    def _chase_ns(self, places: int, steps: int, *, cold: bool) -> float:
        chain = self._program("chain", 8 * self._sms, [("o", 0), places, _LINE // 4])
        self._ask("run", calls=[[chain, 0, 0]])
        chase = self._program("chase", 1, [("o", 0), steps, 0], threads=1)
        return 1e3 * self._median(chase, cold=cold) / steps

    def _empty_us(self, calls: int) -> float:
        return float(median(sample[0] for sample in self._ask("empty", calls=calls, count=21)["times"]))

    def _rate_program(self, entry: str, passes: int, more: list[int]) -> int:
        return self._program(entry, 8 * self._sms, [passes, *more])

    def _program(self, entry: str, blocks: int, args: list[int | tuple[str, int]], threads: int = 256) -> int:
        launch = {
            "symbol": self._symbols[entry],
            "grid": [blocks, 1, 1],
            "block": [threads, 1, 1],
            "smem": 0,
            "args": [arg if isinstance(arg, tuple) else ("s", arg) for arg in args],
        }
        programs = [{"module": self._module, "launches": [launch], "zero": []}]
        return int(self._ask("programs", programs=programs)["programs"][0])

    def _times(self, program: int, *, cold: bool, repeats: int) -> list[float]:
        """Microseconds of single calls; what is not cold runs once more before."""
        slots = [[0, 0]]
        if not cold:
            self._ask("run", calls=[[program, 0, 0]])
        sample = {"program": program, "cold": slots if cold else [], "warm": [] if cold else slots}
        return [float(times[0]) for times in self._ask("time", samples=[sample] * repeats)["times"]]

    def _median(self, program: int, *, cold: bool, repeats: int = _REPEATS) -> float:
        return median(self._times(program, cold=cold, repeats=repeats))

    def _ask(self, verb: str, **fields: Any) -> dict[str, Any]:
        try:
            answer = self._lane.launcher().ask(verb, deadline_s=_DEADLINE_S, **fields)
        except HelperDied as death:
            told = "did not answer" if death.overdue else f"died: {death.output}"
            raise _failed(f"the launcher was asked to {verb} and {told}") from death
        if "fault" in answer or "refused" in answer:
            raise _failed(f"{verb}: {answer['text']}")
        return answer


def build_profile(name: str, entries: tuple[str, ...], arch: str) -> Build:
    """Compile a file of the profile's kernels. Raises DeviceError where it does not compile."""
    folder = resources.files(__package__)
    kernel = Kernel.make(
        language="cuda",
        name=name,
        source=folder.joinpath(name).read_text(),
        includes={} if name == "bandwidth.cu" else {"bandwidth.cu": folder.joinpath("bandwidth.cu").read_text()},
        launches=tuple(Launch(entry=entry, args=()) for entry in entries),
        task_id="",
    )
    build = compile_cuda(kernel, arch=arch)
    if build.binary is None:
        raise _failed(f"{name} does not compile for {arch}: {build.facts.error}")
    return build


def noise_percent(times: list[float]) -> float:
    """Robust standard deviation, in percent, of the ratio of two neighbouring times of the same thing."""
    shifts = [math.log(first / second) for first, second in pairwise(times)]
    return 100 * MAD_TO_SIGMA * median(abs(shift) for shift in shifts)


def _failed(value: str) -> DeviceError:
    return DeviceError("the device profile cannot be measured", value=value, next_step="Run `kforecast doctor`.")


def _bits(value: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", value))[0])
