"""A small task on disk with kernels of it, and forecasts that came true, for the tests of the use cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kforecast.bench.devices.cpu.machine import device_id
from kforecast.store import forecasts, kernels, measurements, tasks
from kforecast.store.clock import utc_now
from kforecast.store.database import Store
from kforecast.store.identity import new_id
from kforecast.store.models import Decision, DecisionKind, Forecast, Measurement
from kforecast.tools.kernels import Asked, load_file

HEADER = """/* kforecast 1
[task]
name = "double"
in.x = { dtype = "f32", shape = ["N"], fill = "normal" }
out.y = { dtype = "f32", shape = ["N"] }
reference = "double.py:reference"
checked = [{ N = 1 }, { N = 37 }]
timed = [{ N = 4096 }]
[[launch]]
entry = "twice"
args = ["x", "y", "N"]
*/
"""
BODIES = {
    "base": "for (volatile int k = 0; k < 3; k++) for (int i = 0; i < N; i++) y[i] = 2 * x[i];",
    "once": "for (int i = 0; i < N; i++) y[i] = 2 * x[i];",
    "sum": "for (int i = 0; i < N; i++) y[i] = x[i] + x[i];",
    "unrolled": "int i = N % 2; if (i) *y = 2 * *x; for (; i < N; i += 2) { y[i] = 2 * x[i]; y[i + 1] = 2 * x[i + 1];}",
    "backwards": "for (int i = N - 1; i >= 0; i--) y[i] = 2 * x[i];",
    "broken": "y[0] = z;",
}

Sources = dict[str, str]
Verify = Callable[..., list[Forecast]]


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    """Paths of the kernels by name."""
    (tmp_path / "double.py").write_text("def reference(xp, inputs, sizes):\n    return {'y': inputs['x'] * 2}\n")
    for name, body in BODIES.items():
        (tmp_path / f"{name}.c").write_text(f"{HEADER}void twice(const float* x, float* y, int N) {{\n    {body}\n}}\n")
    return {name: str(tmp_path / f"{name}.c") for name in BODIES}


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open() as opened:
        yield opened


@pytest.fixture
def verify(sources: Sources, store: Store) -> Verify:
    """Put forecasts of as many new kernels into the store, each with a decision and a later measurement."""

    def put(
        count: int,
        *,
        forecaster: str = "agent:fable",
        p_bins: tuple[float, ...] = (0, 0, 0, 0, 0.5, 0.5, 0, 0),
        log2: float | None = 0.8,
        kind: DecisionKind = "measure",
        audited: bool = False,
        quarantine: str | None = None,
        measured_first: bool = False,
        start: int = 0,
        task: str = "double",
    ) -> list[Forecast]:
        folder = Path(sources["base"]).parent
        named = Path(sources["base"]).read_text().replace('"double"', f'"{task}"')
        (folder / f"base_{task}.c").write_text(named)
        baseline = load_file(folder / f"base_{task}.c", Asked())
        tasks.save(store, baseline.task)
        kernels.save(store, baseline.kernel)
        made = []
        for number in range(start, start + count):
            path = folder / f"variant{number}.c"
            text = Path(sources["once"]).read_text().replace('"double"', f'"{task}"')
            path.write_text(text.replace("2 * x[i]", f"2 * x[i] + 0 * {number}"))
            kernel = load_file(path, Asked()).kernel
            kernels.save(store, kernel)
            moments = sorted((utc_now(), utc_now()), reverse=measured_first)
            if moments[0] == moments[1]:
                moments = [moments[0], moments[1][:-1] + "9Z"]
            forecast = Forecast(
                id=new_id("f"), kernel_id=kernel.id, baseline_id=baseline.kernel.id, task_id=baseline.task.id,
                device="cpu", forecaster=forecaster, p_correct=0.98, p_bins=p_bins, log2_median=0.5, log2_p10=0.1,
                log2_p90=0.9, created_at=moments[0],
            )  # fmt: skip
            decision = Decision(
                id=new_id("d"), forecast_id=forecast.id, kind=kind, reason="", created_at=moments[0], audited=audited,
                audit_probability=1.0 if kind == "measure" else 0.05,
            )  # fmt: skip
            forecasts.save(store, forecast, decision)
            measurements.save(
                store,
                Measurement(
                    id=new_id("m"), kernel_id=kernel.id, baseline_id=baseline.kernel.id, task_id=baseline.task.id,
                    task_name=task, device="cpu", device_id=device_id(), lane="host-code", launch_mode="process",
                    effort="quick", verdict="incorrect" if log2 is None else "ok", reason="", quarantine=quarantine,
                    log2_speedup=log2, log2_low=None if log2 is None else log2 - 0.1,
                    log2_high=None if log2 is None else log2 + 0.1, time_us=None if log2 is None else 2.0**-log2,
                    baseline_us=1.0, created_at=moments[1],
                ),
            )  # fmt: skip
            made.append(forecast)
        return made

    return put
