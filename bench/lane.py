"""What a device offers to the measuring code: sessions that check sides and take blocks of timed samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Protocol, runtime_checkable

from ..store.models import Case, Kernel, Mismatch, Task
from ..store.models import Lane as LaneName
from .header.signature import Signature
from .languages.build import Build
from .timing.samples import Block, BlockOrder, Side
from .turns import Turns

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Program:
    """One compiled side of a measurement."""

    kernel: Kernel
    signatures: tuple[Signature, ...]
    build: Build


Tool = Literal["profile", "sanitize"]
"""What `Session.inspect` can do: count with the hardware's counters; look for memory errors and races."""


@dataclass(frozen=True)
class Inspection:
    """What a look inside the candidate says: notes for readers, labels, and why its measurement is to be
    quarantined.
    """

    notes: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    quarantine: str | None = None


class Session(Protocol):
    """One measurement on one device, which it holds until it is closed.

    `check` and `block` raise KernelFault when the kernel crashes, hangs or writes where it must not, and DeviceError
    when the machinery fails.
    """

    clock_spread_ns: float
    """Spread of an empty call on this device's clock; 0 where the clock is on the device itself."""
    notes: tuple[str, ...]
    """What readers of the numbers should know of the task here, one sentence each; mostly none."""

    @property
    def launch_mode(self) -> str:
        """How calls were launched, once the sides are prepared: only measurements of one mode compare."""
        ...

    @property
    def isolation(self) -> str:
        """What holds the candidate's process, in words."""
        ...

    def add(self, side: Side, program: Program) -> None:
        """Make a side known. Geometry that the device cannot launch raises KernelFault `launch_error`."""
        ...

    def check(self, side: Side, cases: Sequence[Case], progress: Progress) -> Mismatch | None:
        """Run the checked cases on fresh inputs, outputs poisoned; the first mismatch, or None."""
        ...

    def prepare(self, side: Side, progress: Progress) -> Mismatch | None:
        """Check the timed cases and make ready to time them."""
        ...

    def sample_seconds(self) -> float:
        """Estimated whole cost of one sample (set-up, flush, calls, check), the mean over the prepared sides and
        cases.
        """
        ...

    def blocks(self, orders: Sequence[BlockOrder], run: int, group: int, repetitions: int) -> tuple[Block, ...]:
        """Take blocks of samples on every timed case; every output of a timed call is checked.

        A session may take fewer than asked for, but at least one. Each `run` has processes of its own.
        """
        ...

    def inspect(self, tool: Tool, progress: Progress) -> Inspection:
        """Look inside the candidate, once it is prepared, in a process apart; what cannot be done here is a note."""
        ...

    def environment(self) -> dict[str, Any]:
        """The fingerprint: clocks, temperature, throttle reasons, load, versions. Recorded, never changed."""
        ...

    def __enter__(self) -> Session: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Lane(Protocol):
    """A device in one of its lanes."""

    device: str
    device_id: str
    kind: str
    """`cpu` or `cuda`: selects the task's timed cases."""
    lane: LaneName
    launch_mode: str

    def warm_up(self) -> None:
        """Start what will be needed, without waiting for it: it starts while the first kernel compiles."""
        ...

    def get_ready(self, cancelled: Callable[[], bool] = lambda: False) -> None:
        """Return once a measurement would find everything started and warm; the caller holds the device's lock. Raises
        Cancelled, DeviceError.
        """
        ...

    def compile(self, kernel: Kernel, signatures: Sequence[Signature], task: Task | None = None) -> Build:
        """Compile for this device. task: the kernel's; Triton kernels need it, as what their compiler may assume of
        arguments follows from the cases.
        """
        ...

    def floor_us(self, task: Task, case: Case) -> float | None:
        """The least time of a cold call that physics allows here; None where it is unknown or depends on the data."""
        ...

    def session(self, task: Task, *, call_deadline_s: float, cancelled: Callable[[], bool]) -> Session:
        """Open a session; the caller holds the device's lock. A wait that sees `cancelled()` raises Cancelled."""
        ...

    def close(self) -> None:
        """End every process this lane started and wait for the reap. Idempotent."""
        ...


@runtime_checkable
class Shareable(Protocol):
    """A lane whose measurements may overlap with those of other processes on the same device."""

    def share(self, turns: Turns, sharers: int) -> None:
        """Take turns for everything that runs on the device, with `sharers` processes in all, this one included.

        To be called before anything is started.
        """
        ...
