"""The `cuda:N` device: CUDA kernels compiled to cubins, launched by a process that holds nothing but a context."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cached_property, partial
from pathlib import Path
from threading import Thread
from typing import Any

from ....store.errors import DeviceError, InputError, KforecastError
from ....store.models import Case, Kernel, Task
from ....store.models import Lane as LaneName
from ...header.signature import Signature
from ...languages.build import Build
from ...tasks.floor import DeviceRates, floor_us
from ...turns import Turns
from .clock import ClockCost, clock_cost
from .compiling import COMPILE_S, OwnKernels, compile_for, constants_of
from .device import DeviceFacts, device_facts, require_packages
from .helpers import Helper, HelperDied, Launchers
from .monitor import Monitor
from .profile import compile_bandwidth, quick_rates
from .session import MOST_BATCHED, CudaSession, Prepared

SLAB_SHARE = 0.35
"""Share of the device's memory that inputs and outputs of one hand-over may take; pristine copies and golden values
need the same again, and the kernels' own contexts the rest."""
SLAB_MOST = 32 << 30
_SLAB_STEP = 256 << 20
_ORACLE_KERNELS = ("copy_many", "fill_many", "differ_many", "judge")


class CudaLane:
    """The device-only lane of one GPU.

    rates: what floors follow from, out of the device's stored profile; None: measured when the first session opens.
    """

    kind = "cuda"
    lane: LaneName = "device-only"
    launch_mode = "stream"

    def __init__(self, ordinal: int, rates: DeviceRates | None = None) -> None:
        self.device = f"cuda:{ordinal}"
        self.ordinal = ordinal
        self.facts: DeviceFacts = device_facts(ordinal)
        require_packages()
        self.device_id = self.facts.uuid
        self.monitor = Monitor(ordinal)
        self.rates = rates
        self.compile_deadline_s = COMPILE_S
        self._handle = ""
        self._slab_bytes = 0
        self._launchers: Launchers | None = None
        self._oracle: Helper | None = None
        self._equipped = False
        self._own = OwnKernels(self.facts.arch)
        self._told: set[str] = set()
        self._turns: Turns | None = None
        self._sharers = 1
        self.prepared: dict[str, Prepared] = {}
        """By task, the baseline that the last measurement on it prepared."""

    def share(self, turns: Turns, sharers: int) -> None:
        """See `bench.lane.Shareable`."""
        self._turns, self._sharers = turns, sharers

    def adopt(self, oracle: Helper, launchers: Launchers) -> None:
        """Go on with processes that were started before there was a lane. To be called before it starts its own."""
        self._oracle, self._launchers = oracle, launchers

    def alone(self) -> AbstractContextManager[None]:
        """Have the device for oneself for several messages, on one that others measure on."""
        return nullcontext() if self._turns is None else self._turns.alone()

    def get_ready(self, cancelled: Callable[[], bool] = lambda: False) -> None:
        """Start every helper process, and measure what floors need while the device is held; later they are asked for
        when it no longer is.
        """
        if self.rates is None:
            self.rates = quick_rates(self)
        _ = self.clock_cost

    # -- compile -------------------------------------------------------------------------------------------------

    def compile(self, kernel: Kernel, signatures: Sequence[Signature], task: Task | None = None) -> Build:
        """Compile with NVRTC or Triton for this GPU's architecture, in the sandboxed pool. Needs no device."""
        return compile_for(self.facts, kernel, signatures, task, deadline_s=self.compile_deadline_s)

    @property
    def constants(self) -> dict[str, int]:
        """Names that geometry may use."""
        return constants_of(self.facts)

    # -- processes -----------------------------------------------------------------------------------------------

    @property
    def oracle(self) -> Helper:
        if self._oracle is None or not self._oracle.alive:
            self._oracle = Helper("oracle", self.ordinal, self._turns, self._sharers)
            self._handle, self._slab_bytes = "", 0
            self._equipped = False
            self._told.clear()
        return self._oracle

    def ask_oracle(self, verb: str, **fields: Any) -> dict[str, Any]:
        """An answer of the oracle. It is trusted: when it dies, the machinery has failed, not a kernel."""
        try:
            oracle = self.oracle
            if not self._equipped:
                oracle.ask("equip", cubin=str(self._judging), kernels=_ORACLE_KERNELS)
                self._equipped = True
            return oracle.ask(verb, **fields)
        except HelperDied as death:
            lines = death.output.splitlines()
            raise DeviceError(
                "the oracle of the GPU " + ("did not answer" if death.overdue else "died"),
                value=f"while it was asked to {verb}: {lines[-1] if lines else 'it printed nothing'}",
                next_step="Try again; if it stays, the task's reference may need more device memory than there is.",
            ) from death

    def begin(self, task: Task) -> None:
        """Tell the oracle that a measurement on this task begins. What it knows of the task's baseline it keeps."""
        _ = self.oracle  # a new one was told nothing
        known = self.prepared.get(task.id)
        self.ask_oracle(
            "begin",
            task_id=task.id,
            task=None if task.id in self._told else task.model_dump(mode="json"),
            keep=None if known is None else known.kernel_id,
        )
        self._told.add(task.id)

    def launcher(self) -> Helper:
        """The launcher in use, replaced if it died."""
        self.reserve(_SLAB_STEP)
        return self._pool.current(self._handle)

    def fresh_launcher(self) -> Helper:
        """A launcher that has run nothing yet: a new run of a measurement."""
        return self._pool.fresh(self._handle)

    @property
    def trusted_cubin(self) -> Path:
        """The launcher's own kernels, compiled."""
        return self._own.path("trusted.cu", ("flush", "nothing", "canary"))

    @property
    def _judging(self) -> Path:
        return self._own.path("oracle.cu", _ORACLE_KERNELS)

    @property
    def _pool(self) -> Launchers:
        if self._launchers is None:
            self._launchers = Launchers(self.ordinal, self.device_id, lambda: self.trusted_cubin, self._turns)
        return self._launchers

    def warm_up(self) -> None:
        """Start every helper process and compile what they will need, without waiting for it."""
        _ = self.oracle, self._pool
        works: list[Callable[[], object]] = [lambda: self.trusted_cubin, lambda: self._judging]
        if self.rates is None:
            works.append(lambda: compile_bandwidth(self.facts.arch))
        for work in works:
            Thread(target=_ahead, args=(work,), name="kforecast-ahead", daemon=True).start()

    @cached_property
    def slab_limit(self) -> int:
        """Bytes that one hand-over may take."""
        return min(int(SLAB_SHARE * self.facts.memory_bytes / self._sharers), SLAB_MOST)

    def reserve(self, size: int) -> None:
        """Make the slab at least `size` bytes. Raises DeviceError where the device has not that much."""
        _ = self.oracle  # a new one has no slab yet
        if size <= self._slab_bytes:
            return
        most = 2 * self.slab_limit * self._sharers  # a large task may take more than its share while there is room
        if size > most:
            raise DeviceError(
                "the task's cases do not fit into the GPU's memory",
                value=f"{size} bytes wanted, {most} at most",
                next_step="Give the task smaller timed cases.",
            )
        wanted = -(-max(size, min(2 * self._slab_bytes, self.slab_limit)) // _SLAB_STEP) * _SLAB_STEP
        self._handle, self._slab_bytes = "", 0  # the oracle lets go of the old one first
        try:
            self._handle = str(self.ask_oracle("reserve", bytes=wanted)["handle"])
        except DeviceError as error:
            if self._sharers == 1:
                raise
            step = "KFORECAST_HANDS=1 leaves all of the device's memory to one measurement at a time."
            raise DeviceError(error.what, value=error.value, next_step=step) from error
        self._slab_bytes = wanted
        if self._launchers is not None:
            self._launchers.reopen(self._handle)

    def end_session(self, *, clean: bool) -> None:
        """Forget the session's modules; after an interruption, end the launcher that may still run its kernel."""
        if self._launchers is None:
            return
        current = self._launchers.alive()
        if current is None:
            self._launchers.end_poisoned()
            return
        if clean:
            current.ask("unload")
        else:
            current.close()

    def close(self) -> None:
        """End every helper process and wait for the reap: their device memory is free afterwards."""
        if self._launchers is not None:
            self._launchers.close()
            self._launchers = None
        if self._oracle is not None:
            self._oracle.close()
            self._oracle = None

    # -- sessions ------------------------------------------------------------------------------------------------

    def session(self, task: Task, *, call_deadline_s: float, cancelled: Callable[[], bool]) -> CudaSession:
        """A session on this task. Raises InputError where the task has no timed case for CUDA."""
        if not task.timed_on("cuda"):
            raise InputError(
                "the task has no timed case for cuda",
                value=task.name,
                next_step="Add `timed = [...]` (every device) or `timed.cuda = [...]` to the task.",
            )
        self.get_ready()
        return CudaSession(self, task, call_deadline_s, cancelled)

    @cached_property
    def description(self) -> dict[str, Any]:
        """The part of the fingerprint that does not change while the lane is open."""
        return {**self.monitor.describe(), "arch": self.facts.arch, "l2_bytes": self.facts.l2_bytes}

    @cached_property
    def clock_cost(self) -> ClockCost:
        """What a pair of events adds to what lies between them, and what an empty kernel takes."""
        empty = partial(self.launcher().ask, "empty", count=15)
        return clock_cost(
            {calls: [sample[0] for sample in empty(calls=calls)["times"]] for calls in (1, 8, MOST_BATCHED)}
        )

    @property
    def empty_us(self) -> float:
        """What an empty kernel costs, in microseconds: no launch of any mode takes less."""
        return self.clock_cost.empty_us

    def floor_us(self, task: Task, case: Case) -> float | None:
        if self.rates is None:
            return None
        return floor_us(task, case, self.rates, self.facts.l2_bytes, launch_us=self.empty_us)


def _ahead(work: Callable[[], object]) -> None:
    """Do work that fills the compile cache. What fails here fails again where it is needed, and is told there."""
    with suppress(KforecastError):
        work()
