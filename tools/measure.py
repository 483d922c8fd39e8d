"""The use case `measure`: resolve, ask the device's broker, answer. Written once for every face."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..bench.broker import processes_alive
from ..bench.broker.client import run_here, wait
from ..bench.broker.payload import MeasurePayload
from ..bench.broker.protocol import fingerprint
from ..bench.header.load import Geometry
from ..store import measurements, requests
from ..store.database import Store
from ..store.errors import KforecastError
from ..store.models import Effort, Request
from .hits import forecast_hit
from .kernels import Asked, Named, device_for, find_baseline, find_kernel, remember
from .results import MeasureResult, measure_result, pending_result

CALL_DEADLINE_S = 10.0

Progress = Callable[[str], None]


def measure(
    kernel: str,
    *,
    baseline: str | None = None,
    task: str | None = None,
    device: str | None = None,
    effort: Effort = "normal",
    geometry: Geometry | None = None,
    settings: dict[str, int] | None = None,
    override: bool = False,
    options: tuple[str, ...] = (),
    wait_s: float | None = None,
    timeout_s: float | None = None,
    profile: bool = False,
    request_key: str | None = None,
    use_broker: bool = True,
    client: str | None = None,
    on_progress: Progress | None = None,
    store: Store | None = None,
) -> MeasureResult:
    """Measure one kernel against its baseline and answer with a verdict, a comparison, times and the ratio S.

    kernel, baseline: a path, an id `k_…`, or source text (it holds a newline); the baseline also `seed`, `tuned`,
    `library` or `none`; None is the task's seed kernel where it has one. device: None lets the language decide.
    geometry, settings, options, override: what the command line adds to the kernel header. wait_s: how long to wait
    for the answer; a measurement that outlives it goes on and answers `working`; None waits to the end. timeout_s:
    deadline of one call of the kernel (10 s). profile: note what the hardware's counters say of the kernel.
    request_key: asking again with the same key is the same request. use_broker: False does the work in this process.
    client: who asks, for the fair queue. store: None opens the user's own.

    Raises InputError, UnsupportedError, StoreError or DeviceError; a kernel that is wrong is an answer, not an error.
    """
    opened = store or Store.open()
    try:
        begun = begin(
            opened,
            kernel,
            baseline=baseline,
            device=device,
            effort=effort,
            asked=Asked(task, geometry, settings, override, options),
            timeout_s=timeout_s,
            detached=wait_s is not None,
            profile=profile,
            request_key=request_key,
            client=client or processes_alive.owner_name("cli"),
        )
        request, say = begun.request, on_progress or (lambda text: None)
        ended = wait(opened, request, wait_s=wait_s, on_progress=say) if use_broker else run_here(opened, request, say)
        return answer(opened, ended, begun.candidate, begun.against)
    finally:
        if store is None:
            opened.close()


@dataclass(frozen=True)
class Begun:
    """A request for a measurement, and the two sides as somebody named them."""

    request: Request
    candidate: Named
    against: Named | None


def begin(
    store: Store,
    kernel: str,
    *,
    client: str,
    baseline: str | None = None,
    device: str | None = None,
    effort: Effort = "normal",
    asked: Asked | None = None,
    timeout_s: float | None = None,
    detached: bool = False,
    profile: bool = False,
    request_key: str | None = None,
) -> Begun:
    """Resolve both sides, save them and put the request into the queue, as `measure` does. detached: the request goes
    on when the client that asked vanishes. Raises InputError, UnsupportedError or StoreError."""
    candidate = find_kernel(store, kernel, asked)
    where = device_for(candidate.kernel, device)
    against, because = find_baseline(store, baseline, candidate)
    remember(store, [candidate, *([against] if against else [])])
    payload = MeasurePayload(
        kernel_id=candidate.kernel.id,
        baseline_id=None if against is None else against.kernel.id,
        baseline_because=because,
        effort=effort,
        call_deadline_s=timeout_s or CALL_DEADLINE_S,
        detached=detached,
        profile=profile,
        broker=fingerprint(),
    )
    request = requests.enqueue(
        store, device=where, payload=payload.model_dump(mode="json"), client=client, request_key=request_key
    )
    return Begun(request, candidate, against)


_FAILED_ALIKE = 3
"""Kernels that the machinery failed on, and no other, from which on it is taken for broken."""


def measure_many(
    kernels: Sequence[str], *, store: Store | None = None, on_progress: Progress | None = None, **same: object
) -> list[MeasureResult | KforecastError]:
    """Measure several kernels, each as `measure` does; what goes wrong with one stands in its place, the others go on.

    StoreError is raised, and so is DeviceError where it met each kernel, or the first three: the next would meet the
    same. Where other kernels went through (another language, another device), it stands in its place.
    """
    from ..store.errors import DeviceError, StoreError

    opened = store or Store.open()
    say = on_progress or (lambda text: None)
    results: list[MeasureResult | KforecastError] = []
    try:
        for number, kernel in enumerate(kernels, 1):
            prefix = f"{number}/{len(kernels)} {kernel if len(kernel) < 60 else kernel[:57] + '...'}"
            try:
                results.append(
                    measure(kernel, store=opened, on_progress=lambda text, p=prefix: say(f"{p}: {text}"), **same)  # type: ignore[arg-type,misc]
                )
            except StoreError:
                raise
            except KforecastError as error:
                results.append(error)
                met = all(isinstance(result, DeviceError) for result in results)
                if met and number >= min(len(kernels), _FAILED_ALIKE):
                    raise
    finally:
        if store is None:
            opened.close()
    return results


def answer(store: Store, request: Request, candidate: Named, against: Named | None) -> MeasureResult:
    """What a request's row says. Raises the KforecastError that a failed request ended with."""
    if request.state == "completed":
        assert request.result_id is not None
        measurement = measurements.get(store, request.result_id)
        assert measurement is not None, "an answer and its request are one transaction"
        result = measure_result(
            measurement,
            name=candidate.called,
            baseline_name=None if against is None else against.called,
            forecast_hit=forecast_hit(store, measurement),
        )
        return result.model_copy(update={"notes": (*candidate.warnings, *result.notes)})
    if request.state == "failed":
        raise as_error(request)
    place = requests.position(store, request.id)
    return pending_result(
        request, name=candidate.called, kernel_id=candidate.kernel.id, task=candidate.task.name, queue_position=place
    )


def as_error(request: Request) -> KforecastError:
    """The error of a failed request, of the class it was raised as."""
    from ..store import errors

    told = request.error or {}
    kind = getattr(errors, str(told.get("error")), errors.DeviceError)
    if not (isinstance(kind, type) and issubclass(kind, KforecastError)):
        kind = errors.DeviceError
    return kind(
        str(told.get("what", "the measurement failed")),
        value=told.get("value"),
        next_step=str(told.get("next", "Run `kforecast doctor`, then measure again.")),
    )
