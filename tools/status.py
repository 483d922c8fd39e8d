"""What was measured, what waits, who holds the devices; and any one measurement or request again, by its id."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from ..bench.broker.lock import holder
from ..store import kernels, measurements, requests
from ..store.database import Store
from ..store.errors import InputError
from ..store.faults import StoreMissing
from ..store.models import Comparison, Measurement, Request, RequestState, Verdict
from ..store.paths import runtime_dir, store_path
from .filters import check_task
from .hits import forecast_hit
from .results import MeasureResult, measure_result, pending_result


class Holder(BaseModel):
    """A process that holds a device now. since: UTC text; None where it has not said yet."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    device: str | None
    pid: int | None
    purpose: str
    since: str | None


class RequestLine(BaseModel):
    """One unfinished request. before: how many are begun before it; None once it is worked on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    request_id: str
    device: str
    client: str
    state: RequestState
    progress: str
    before: int | None
    created_at: str


class MeasurementLine(BaseModel):
    """One measurement in short. Times in microseconds, cold caches."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    measurement_id: str
    kernel_id: str
    name: str
    task: str
    device: str
    verdict: Verdict
    comparison: Comparison
    speedup: float | None
    time_us: float | None
    quarantined: bool
    created_at: str


class Status(BaseModel):
    """The store's and the devices' present, newest measurements first."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    store: str
    store_exists: bool
    holders: tuple[Holder, ...]
    unfinished: tuple[RequestLine, ...]
    measurements: tuple[MeasurementLine, ...]


def status(*, limit: int = 10, task: str | None = None, device: str | None = None) -> Status:
    """The last `limit` measurements of a task and device (None: all), what is unfinished, and who holds devices.

    Raises InputError for a task that there is not.
    """
    path = store_path()
    try:
        store = Store.open_readonly(path)
    except StoreMissing:
        return Status(store=str(path), store_exists=False, holders=holders(), unfinished=(), measurements=())
    with store:
        check_task(store, task)
        return status_of(store, limit=limit, task=task, device=device)


def status_of(store: Store, *, limit: int = 10, task: str | None = None, device: str | None = None) -> Status:
    """As `status`, of an open store."""
    found = measurements.find(store, task=task, device=device, limit=limit)
    return Status(
        store=str(store.path),
        store_exists=True,
        holders=holders(),
        unfinished=tuple(request_line(store, request) for request in requests.unfinished(store, device=device)),
        measurements=tuple(measurement_line(store, measurement) for measurement in found),
    )


def look_up(identity: str) -> MeasureResult:
    """A measurement (`m_…`) or a request (`r_…`) as `measure` answered it. Raises InputError for an id nobody has."""
    with Store.open_readonly() as store:
        measurement = measurements.get(store, identity)
        if measurement is not None:
            return _result(store, measurement)
        request = requests.get(store, identity)
        if request is not None:
            done = None if request.result_id is None else measurements.get(store, request.result_id)
            before = requests.position(store, request.id)
            return (
                pending_result(request, name=request.id, queue_position=before)
                if done is None
                else _result(store, done)
            )
    step = "`kforecast status` lists the last ones with their ids."
    raise InputError("no measurement and no request has this id", value=identity, next_step=step)


def _result(store: Store, measurement: Measurement) -> MeasureResult:
    baseline = None if measurement.baseline_id is None else kernel_name(store, measurement.baseline_id)
    return measure_result(
        measurement,
        name=kernel_name(store, measurement.kernel_id),
        baseline_name=baseline,
        forecast_hit=forecast_hit(store, measurement),
    )


def kernel_name(store: Store, kernel_id: str) -> str:
    """What people call a kernel of the store: its file's name; its id where it has none."""
    kernel = kernels.get(store, kernel_id)
    return kernel_id if kernel is None else Path(kernel.name).name or kernel_id


def holders() -> tuple[Holder, ...]:
    """The processes that hold a device now."""
    prefix = "device-"
    found = (holder(path.stem.removeprefix(prefix)) for path in sorted(runtime_dir().glob(f"{prefix}*.lock")))
    return tuple(Holder(**record) for record in found if record is not None)


def request_line(store: Store, request: Request) -> RequestLine:
    """A request in short."""
    return RequestLine(
        request_id=request.id,
        device=request.device,
        client=request.client,
        state=request.state,
        progress=request.progress,
        before=requests.position(store, request.id),
        created_at=request.created_at,
    )


def measurement_line(store: Store, measurement: Measurement) -> MeasurementLine:
    """A measurement in short."""
    return MeasurementLine(
        measurement_id=measurement.id,
        kernel_id=measurement.kernel_id,
        name=kernel_name(store, measurement.kernel_id),
        task=measurement.task_name,
        device=measurement.device,
        verdict=measurement.verdict,
        comparison=measurement.comparison,
        speedup=measurement.speedup,
        time_us=measurement.time_us,
        quarantined=measurement.quarantine is not None,
        created_at=measurement.created_at,
    )
