"""Replays: any export as a device, in virtual time, deterministic for a seed; atlas; leaks refused."""

from __future__ import annotations

import dataclasses
import gzip
import json
import math
from pathlib import Path

import pytest
from landscape import make_kernel, make_task, right, share, truth

from kforecast.store import kernels, measurements, searches, tasks
from kforecast.store.clock import utc_now
from kforecast.store.database import Store
from kforecast.store.errors import InputError
from kforecast.store.exchange import export
from kforecast.store.identity import new_id
from kforecast.store.models import Forecast, Kernel, Measurement
from kforecast.tools.search.events import Proposed, SearchConfig, projection
from kforecast.tools.search.forecasting import ForecastAsk, ScriptedForecaster
from kforecast.tools.search.generators.atlas import AtlasGenerator
from kforecast.tools.search.log import read_events
from kforecast.tools.search.parts import parts_for
from kforecast.tools.search.replay import pool_of
from kforecast.tools.search.report import report_of
from kforecast.tools.search.stored import StoredForecaster
from kforecast.tools.search.use import look, search

RIGHT = [path for path in (f"/{n}" for n in range(8)) if right(path)]
PATHS = ["", *(f"/{n}" for n in range(8)), *(f"/{n}/{m}" for n in range(8) for m in range(4))]


def measured(kernel: Kernel, path: str) -> Measurement:
    ok = right(path)
    return Measurement(
        id=new_id("m"),
        kernel_id=kernel.id,
        task_id=kernel.task_id,
        task_name="scale",
        device="cuda:0",
        device_id="GPU-1",
        lane="device-only",
        launch_mode="stream",
        effort="normal",
        verdict="ok" if ok else "incorrect",
        reason="" if ok else "y[0] is wrong",
        time_us=100.0 * 2.0 ** -truth(path) if ok else None,
        noise_pct=0.5,
        device_seconds=0.1 + share("seconds", path),
        created_at=utc_now(),
    )


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("pool")
    with Store.open(folder / "pool.db") as store:
        tasks.save(store, make_task())
        for path in PATHS:
            kernel = make_kernel(path).model_copy(update={"name": f"kernel{path}" if path else "seed.c"})
            kernels.save(store, kernel)
            measurements.save(store, measured(kernel, path))
        export(store, folder / "pool.jsonl")
    lines = (folder / "pool.jsonl").read_text()
    for path, above in (("", None), ("/5", ""), ("/5/2", "/5")):
        parent = None if above is None else make_kernel(above).id
        origin = {"kernel_id": make_kernel(path).id, "parent_id": parent, "idea": f"step{path}", "tag": "step"}
        lines += json.dumps({"kind": "origin", "noun": origin}) + "\n"
    with gzip.open(folder / "pool.jsonl.gz", "wt") as file:
        file.write(lines)
    return f"replay:{folder / 'pool.jsonl.gz'}"


def replayed(tmp_path: Path, pool: str, name: str, **config: object) -> tuple[Store, str]:
    store = Store.open(tmp_path / f"{name}.db")
    result = search("scale", budget="12m", device=pool, detached=False, store=store, **config)  # type: ignore[arg-type]
    assert result.state == "completed", result.reason
    return store, result.search_id


def meaning(store: Store, search_id: str) -> list[object]:
    """A log without the ids that follow from the search's own."""
    known = {node.id: node.kernel_id for node in searches.nodes(store, search_id, limit=None)}
    text = json.dumps(projection(read_events(store, search_id), virtual=True))
    for node, kernel in known.items():
        text = text.replace(node, kernel)
    found: list[object] = json.loads(text)
    return found[1:]


def test_the_same_seed_sees_the_same(tmp_path: Path, pool: str) -> None:
    logs = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        store, search_id = replayed(tmp_path, pool, name, random_seed=seed)
        logs.append(meaning(store, search_id))
        store.close()
    assert logs[0] == logs[1]
    assert logs[0] != logs[2]


def test_a_file_named_from_here_is_found_from_anywhere(
    tmp_path: Path, pool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = Path(pool.removeprefix("replay:"))
    monkeypatch.chdir(file.parent)
    with Store.open(tmp_path / "a.db") as store:
        result = search("scale", budget="3m", device=f"replay:{file.name}", store=store)
        ended = look(result.search_id, store=store, wait_s=60)
    assert (ended.state, ended.device) == ("completed", pool), ended.reason


def test_gpu_seconds_and_times_are_the_recorded_ones(tmp_path: Path, pool: str) -> None:
    store, search_id = replayed(tmp_path, pool, "a")
    report = report_of(store, search_id)
    spent = report.result.spent
    assert spent["gpu_seconds"] == pytest.approx(spent["wall_s"])
    assert report.curve[-1].gpu_seconds == pytest.approx(spent["gpu_seconds"])
    assert report.missed.in_pool is not None and report.missed.in_pool >= 0
    for row in report.rows:
        if row.log2 is not None and row.parent is not None:
            recorded = pool_of(pool).recorded[row.kernel_id].measurement
            assert row.log2 == pytest.approx(math.log2(100.0 / (recorded.time_us or 0.0)), abs=0.1)
    store.close()


def test_all_is_proposed_once_and_the_best_is_found_in_the_end(tmp_path: Path, pool: str) -> None:
    store = Store.open(tmp_path / "a.db")
    result = search("scale", budget="1000m", device=pool, detached=False, store=store, speculate=1)
    proposed = [event.kernel_id for event in read_events(store, result.search_id) if isinstance(event, Proposed)]
    assert sorted([make_kernel("").id, *proposed]) == sorted(pool_of(pool).recorded)
    assert result.best is not None
    best = pool_of(pool).best(make_task().id)
    assert best is not None and math.log2(result.best.speedup) == pytest.approx(truth_of(best.kernel), abs=0.1)
    store.close()


def truth_of(kernel: Kernel) -> float:
    return truth(kernel.source.split('"')[1])


def test_recorded_children_come_first_then_the_nearest(pool: str) -> None:
    read = pool_of(pool)
    seed = read.recorded[make_kernel("").id].kernel
    found = list(AtlasGenerator(read).candidates(seed, make_task(), 0))
    assert found[0].kernel.id == make_kernel("/5").id
    assert len(found) == len(PATHS) - 1


def test_stored_forecasts_are_turned_to_the_anchor(tmp_path: Path, pool: str) -> None:
    read = pool_of(pool)
    base, anchor, kernel = (read.recorded[make_kernel(path).id].kernel for path in ("", RIGHT[0], RIGHT[1]))
    task = make_task()
    made = Forecast(
        id="f_1",
        kernel_id=kernel.id,
        baseline_id=base.id,
        task_id=task.id,
        device="cuda:0",
        forecaster="agent:tester",
        p_correct=0.9,
        p_bins=(0, 0, 0, 0, 0.5, 0.5, 0, 0),
        log2_median=0.5,
        log2_p10=0.1,
        log2_p90=0.9,
        created_at=utc_now(),
    )
    forecaster = StoredForecaster(dataclasses.replace(read, forecasts=(made,)), task, "agent:tester")
    told = forecaster.outlooks([ForecastAsk("n_1", kernel, anchor, pool)])[0]
    assert told.log2_median == pytest.approx(0.5 - truth(RIGHT[0]))
    assert told.p_faster is not None and 0 <= told.p_faster <= 1
    assert forecaster.outlooks([ForecastAsk("n_1", kernel, base, pool)])[0].p_faster == pytest.approx(1.0)
    assert forecaster.outlooks([ForecastAsk("n_2", anchor, base, pool)])[0].p_correct is None
    with pytest.raises(InputError, match="nobody"):
        StoredForecaster(read, task, "agent:tester")


def test_what_is_not_recorded_is_unsupported(tmp_path: Path, pool: str) -> None:
    store, search_id = replayed(tmp_path, pool, "a", generator="edits")
    verdicts = report_of(store, search_id).verdicts
    assert set(verdicts) == {"unsupported"}
    store.close()


def test_a_forecaster_that_saw_the_pool_is_refused(tmp_path: Path, pool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from kforecast.tools.search import parts

    seen = ScriptedForecaster(lambda ask: None, name="learned", trained_on=frozenset({"scale"}))  # type: ignore[arg-type,return-value]
    monkeypatch.setattr(parts, "forecaster_named", lambda store, config, task, seed: seen)
    with Store.open(tmp_path / "a.db") as store:
        task = make_task()
        config = SearchConfig(
            task_id=task.id,
            task_name=task.name,
            seed_id=make_kernel().id,
            device=pool,
            generator="atlas",
            budget={"measurements": 3},  # type: ignore[arg-type]
        )
        with pytest.raises(InputError, match="trained on"):
            parts_for(store, config, task, make_kernel())


@pytest.mark.parametrize("text", ["", "nonsense\n", '{"kind": "kernel", "noun": {"id": 3}}\n', "[]\n"])
def test_a_file_that_is_no_pool_is_told(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(text)
    with pytest.raises(InputError):
        pool_of(f"replay:{path}")
    with pytest.raises(InputError, match="no such file"):
        pool_of(f"replay:{tmp_path / 'none.jsonl'}")


def test_the_root_is_where_the_others_come_from(pool: str) -> None:
    read = pool_of(pool)
    root = read.root(make_task().id)
    assert root is not None and root.kernel.id == make_kernel("").id
    bare = dataclasses.replace(read, parents={})
    assert bare.root(make_task().id) == root, "the one called a seed"
    renamed = {
        id_: dataclasses.replace(one, kernel=one.kernel.model_copy(update={"name": "k"}))
        for id_, one in read.recorded.items()
    }
    slowest = dataclasses.replace(read, parents={}, recorded=renamed).root(make_task().id)
    assert slowest is not None
    assert slowest.measurement.time_us == max(one.measurement.time_us or 0.0 for one in renamed.values())
    assert read.root("t_unknown") is None
