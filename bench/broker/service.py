"""Working off requests: the same code inside a broker and, with `--no-broker`, inside the process that asks."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from ...store import kernels, profiles, requests, tasks
from ...store.database import Store
from ...store.errors import DeviceError, InputError, KforecastError, StoreError, refused_by_system
from ...store.models import Kernel, Request, Task
from ..devices.catalogue import open_hosted, open_lane, runs_hosted
from ..faults import Cancelled
from ..lane import Lane, Shareable
from ..measuring import Job, measure
from ..turns import Held, Turns
from .lock import device_lock
from .payload import MeasurePayload
from .prefetch import Prefetch
from .protocol import log_path
from .telling import Telling

if TYPE_CHECKING:
    from ..devices.cuda.ahead import StartedAhead

_TURN_S = 0.1
"""How often a request that waits for its turn looks whether it is still wanted."""


@dataclass(eq=False)
class Service:
    """Works off requests for one device on one store. Threads may share one: a request compiles and is written up while
    another one measures, and the device is used in turns.

    on_progress: told (request id, text) at every step; cancelled: asked whether a request is still wanted. sharers: how
    many processes measure on the device beside each other, this one included; more than one where a broker has hands.
    started: helper processes for the device-only lane, for as many sharers; the lane has them once it is open.
    """

    store: Store
    device: str
    owner: str
    on_progress: Callable[[str, str], None] = lambda request_id, text: None
    cancelled: Callable[[str], bool] = lambda request_id: False
    sharers: int = 1
    started: StartedAhead | None = None

    def __post_init__(self) -> None:
        self._opening, self._turn = threading.Lock(), threading.Lock()
        self._lanes: dict[bool, Lane] = {}
        self._turns: dict[bool, Turns] = {}
        self._tasks: dict[str, Task] = {}
        self._ahead: Prefetch | None = None
        self._checked: set[str] = set()
        self._telling = Telling(self.store, self.owner)

    def run(self, request: Request) -> None:
        """Work off a claimed request: its row ends `completed` with a measurement or `failed` with an error.

        Raises Cancelled where `cancelled()` turned true or the row is no longer this owner's: what becomes of it is the
        caller's to say. Raises StoreError where the store itself fails: without it nothing can be answered.
        """
        try:
            job = self._job(request)
            hosted = runs_hosted(*(side.language for side in (job.candidate, job.baseline) if side))
            lane = self._open(hosted=hosted)
            if self._ahead is not None:
                self._ahead.settle(job.candidate.id)
            measurement = measure(
                job,
                lane,
                device_lock=lambda: self._lock(request, lane, self._turns.get(hosted)),
                progress=lambda text: self._progress(request, text),
                cancelled=lambda: self.cancelled(request.id),
                checked_before=self._checked,
            )
            requests.complete(self.store, request.id, self.owner, measurement)
        except StoreError:
            raise
        except KforecastError as error:
            requests.fail(self.store, request.id, error.as_dict(), owner=self.owner)
        finally:
            self._telling.forget(request.id)

    def work_off(self, request: Request) -> None:
        """As `run`, but a fault of ours in one measurement fails that one alone: whatever state the device's helpers
        are in then, the next request gets fresh ones. Raises Cancelled and StoreError.
        """
        try:
            self.run(request)
        except (Cancelled, StoreError):
            raise
        except Exception as error:  # noqa: BLE001  it must not take the others down
            _log_traceback()
            requests.fail(self.store, request.id, self._as_fault(error), owner=self.owner)
            self.close()

    def open_ahead(self) -> None:
        """Open the device's device-only lane before a request asks for it, and let its helper processes start.

        Raises nothing: what goes wrong here goes wrong again with the request, which is told.
        """
        try:
            self._open()
        except KforecastError:
            pass
        except Exception:  # noqa: BLE001  a fault of ours, as in `work_off`
            _log_traceback()
            self.close()

    def get_ready(self) -> None:
        """Open the device and, where others measure on it, return once it is warm. Raises DeviceError, Cancelled."""
        lane, turns = self._open(), self._turns.get(False)
        if isinstance(lane, Shareable) and turns is not None:
            with self._held(lane, turns, f"get ready for {self.owner}", lambda: self.cancelled("")):
                lane.get_ready()

    def compile_ahead(self, request: Request) -> bool:
        """Compile the kernel of a request that waits, where the device is open and that leaves the times alone; whether
        it will be.
        """
        ahead, kernel = self._to_compile(request)
        return ahead is not None and kernel is not None and ahead.ask(kernel, tasks.get(self.store, kernel.task_id))

    @property
    def compiles_ahead(self) -> bool:
        """Whether the device is open and kernels that wait are compiled meanwhile."""
        return self._ahead is not None and self._ahead.is_open

    def is_compiling(self, request: Request) -> bool:
        """Whether the kernel of a request that waits is being compiled, or soon will be."""
        return self._ahead is not None and self._ahead.is_asked(str(request.payload.get("kernel_id")))

    def compile_first(self, request: Request) -> None:
        """As `compile_ahead`, and return when it is compiled: the compilers of this process are warm, those of another
        one that measures it may not be.
        """
        ahead, kernel = self._to_compile(request)
        if ahead is not None and kernel is not None:
            ahead.finish(kernel, tasks.get(self.store, kernel.task_id))

    def _to_compile(self, request: Request) -> tuple[Prefetch | None, Kernel | None]:
        ahead = self._ahead
        kernel = None if ahead is None else kernels.get(self.store, str(request.payload.get("kernel_id")))
        return ahead, None if kernel is None or runs_hosted(kernel.language) else kernel

    def close(self) -> None:
        """End the device's helper processes, once nobody measures."""
        with self._turn, self._opening:
            self._telling.close()
            if self._ahead is not None:
                self._ahead.close()
                self._ahead = None
            while self._lanes:
                self._lanes.popitem()[1].close()

    def _open(self, *, hosted: bool = False) -> Lane:
        with self._opening:
            if hosted not in self._lanes:
                lane = open_hosted(self.device) if hosted else open_lane(self.device, self._profile)
                self._lanes[hosted] = lane
                started = None if hosted else self.started
                if self.sharers > 1 and isinstance(lane, Shareable):
                    self._turns[hosted] = (started and started.turns) or Turns(lane.device_id)
                    lane.share(self._turns[hosted], self.sharers)
                if started is not None:
                    started.hand_over(lane)
                    self.started = None
                lane.warm_up()
                self._ahead = self._ahead or (None if hosted else Prefetch(lane, hands=self.sharers))
            return self._lanes[hosted]

    def _profile(self, device_id: str) -> dict[str, Any] | None:
        found = profiles.latest(self.store, device_id, profiles.DEVICE)
        return None if found is None else found.facts

    def _lock(self, request: Request, lane: Lane, turns: Turns | None) -> AbstractContextManager[Held | None]:
        purpose = f"measure {request.id} for {request.client}"
        return self._held(lane, turns, purpose, lambda: self.cancelled(request.id))

    @contextmanager
    def _held(
        self, lane: Lane, turns: Turns | None, purpose: str, unwanted: Callable[[], bool]
    ) -> Iterator[Held | None]:
        """This service's turn first, then the device's lock: threads of one process need not poll for each other."""
        while not self._turn.acquire(timeout=_TURN_S):
            if unwanted():
                raise Cancelled
        try:
            with device_lock(
                lane.device_id,
                device=self.device,
                purpose=purpose,
                cancelled=unwanted,
                shared=turns is not None,
                owner=self.owner,
            ):
                if turns is None:
                    yield None
                    return
                with turns.measuring(unwanted) as held:
                    yield held
        finally:
            self._turn.release()

    def _progress(self, request: Request, text: str) -> None:
        self.on_progress(request.id, text)
        if not self._telling.tell(request.id, text):
            raise Cancelled

    def _as_fault(self, error: Exception) -> dict[str, str | int | None]:
        refused = refused_by_system(error)
        if refused is not None:
            return refused.as_dict()
        return DeviceError(
            "a fault in kforecast ended this measurement",
            value=f"{type(error).__name__}: {error}",
            next_step=f"Please report it with the traceback at the end of {log_path(self.device, self.store.path)}.",
        ).as_dict()

    def _job(self, request: Request) -> Job:
        try:
            payload = MeasurePayload.model_validate(request.payload)
        except ValidationError as error:
            raise InputError(
                "the request's payload is not one of this version",
                value=f"{request.id}: {error.errors()[0]['msg']}",
                next_step="Ask again with `kforecast measure`.",
            ) from error
        candidate, task = self._kernel(payload.kernel_id)
        baseline = None if payload.baseline_id is None else self._kernel(payload.baseline_id)[0]
        if baseline is not None and baseline.task_id != candidate.task_id:
            raise InputError(
                "the baseline computes another task than the candidate",
                value=f"{baseline.id} and {candidate.id}",
                next_step="Compare kernels of one task.",
            )
        return Job(
            task,
            candidate,
            baseline,
            payload.effort,
            payload.call_deadline_s,
            payload.time_cap_s,
            payload.profile,
            request_id=request.id,
        )

    def _kernel(self, kernel_id: str) -> tuple[Kernel, Task]:
        kernel = kernels.get(self.store, kernel_id)
        task = None if kernel is None else self._tasks.get(kernel.task_id) or tasks.get(self.store, kernel.task_id)
        if kernel is None or task is None:
            raise InputError(
                "the store has no such kernel",
                value=kernel_id,
                next_step="Give the file again; `kforecast status` lists recent ids.",
            )
        self._tasks[kernel.task_id] = task  # its id names its content
        return kernel, task


def _log_traceback() -> None:
    """The traceback of what is being handled, where it can be written: a full disk may be what went wrong."""
    with suppress(OSError):
        traceback.print_exc(file=sys.stderr)
