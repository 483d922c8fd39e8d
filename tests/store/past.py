"""A store with a past, and what the rest of kforecast asks a store for."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from kforecast.store import forecasts, kernels, measurements, profiles, requests, retention, searches, tasks, verified
from kforecast.store.database import Store
from kforecast.store.models import Case, Decision, Forecast, Kernel, Launch, Measurement, Task, Tensor
from kforecast.store.searches import LoggedEvent, Search, SearchNode

TASK = Task(
    name="copy",
    tensors=(Tensor(name="a", role="in", dtype="f32", shape=("N",)),),
    reference="copy",
    checked=(Case(sizes={"N": 7}),),
    timed={"any": (Case(sizes={"N": 9}),)},
)
KERNELS = [
    Kernel.make(
        language="c", name=f"k{number}.c", source=f"int x{number};", launches=(Launch(entry="f", args=("a",)),),
        task_id=TASK.id,
    )
    for number in range(5)
]  # fmt: skip
CUT = "2026-06-15T00:00:00.000000Z"
DEVICES = ("cpu", "cuda:0")

days = st.integers(1, 20)
kernel = st.integers(0, len(KERNELS) - 1)
# Few different ways, so that readings of one kind pile up: kernel, baseline, device, verdict, quarantine, effort.
ways = st.sampled_from(
    [
        *[(1, 0, "cpu", "ok", None, "quick")] * 4,
        *[(2, 0, "cpu", "ok", None, "quick")] * 4,
        (1, 0, "cpu", "incorrect", None, "quick"),
        (1, None, "cpu", "ok", None, "claim"),
        (2, 0, "cpu", "ok", "too fast", "quick"),
        (3, 1, "cuda:0", "ok", None, "quick"),
    ]
)
readings = st.lists(st.tuples(ways, days), min_size=6, max_size=16)
pairs = st.sampled_from([*[(1, 0, "cpu", "agent:a")] * 3, (1, 0, "cpu", "learned"), (4, 1, "cuda:0", "agent:b")])
said = st.lists(st.tuples(pairs, days), max_size=4)
asked = st.lists(
    st.tuples(
        kernel, st.sampled_from(["queued", "completed", "cancelled"]), st.sampled_from(["cli:1", "search:s_live"])
    ),
    max_size=5,
)


def moment(day: int, step: int = 0) -> str:
    return f"2026-06-{day:02}T12:00:00.{step:06}Z"


def fill(store: Store, measured: list[Any], forecast: list[Any], waiting: list[Any], in_search: list[int]) -> None:
    """A store with a past: measurements, forecasts, requests, and a search that names some of them in its log."""
    tasks.save(store, TASK)
    for one in KERNELS:
        kernels.save(store, one)
    ids = []
    for step, ((k, base, on, verdict, quarantine, effort), day) in enumerate(measured):
        found = Measurement(
            id=f"m_{step}", kernel_id=KERNELS[k].id, baseline_id=None if base is None else KERNELS[base].id,
            task_id=TASK.id, task_name=TASK.name, device=on, device_id=f"id-{on}", lane="host-code",
            launch_mode="process", effort=effort, verdict=verdict, reason="", quarantine=quarantine,
            log2_speedup=0.25 * step if verdict == "ok" and base is not None else None,
            time_us=1.0 + step if verdict == "ok" else None, created_at=moment(day, step),
        )  # fmt: skip
        measurements.save(store, found)
        ids.append(found.id)
    for step, ((k, base, on, forecaster), day) in enumerate(forecast):
        made = Forecast(
            id=f"f_{step}", kernel_id=KERNELS[k].id, baseline_id=KERNELS[base].id, task_id=TASK.id, device=on,
            forecaster=forecaster, p_correct=0.5, p_bins=(0.125,) * 8, log2_median=0.0, log2_p10=-1.0, log2_p90=1.0,
            created_at=moment(day, step),
        )  # fmt: skip
        decided = Decision(id=f"d_{step}", forecast_id=made.id, kind="measure", reason="", created_at=made.created_at)
        forecasts.save(store, made, decided)
    for day in (1, 2, 27):
        profiles.save(store, "id-cpu", profiles.DEVICE, {"day": day})
    for k, state, client in waiting:
        request = requests.enqueue(store, device="cpu", payload={"kernel_id": KERNELS[k].id}, client=client)
        if state == "completed" and ids:
            with store.write() as db:
                db.execute(
                    "UPDATE requests SET state = 'completed', result_id = ?, turn = ordinal, finished_at = ? "
                    "WHERE id = ?",
                    (ids[k % len(ids)], moment(2 + k), request.id),
                )
        elif state == "cancelled":
            requests.cancel(store, request.id)
    for name, state in (("s_live", "working"), ("s_done", "completed")):
        search(store, name, state, [ids[one % len(ids)] for one in in_search] if ids else [], in_search)
    with store.write() as db:  # what is saved now was saved long ago
        for table in ("kernels", "tasks", "profiles", "requests"):
            db.execute(f"UPDATE {table} SET created_at = ?", (moment(1),))


def search(store: Store, name: str, state: Any, measured: list[str], of: list[int]) -> None:
    now = moment(1)
    row = Search(
        id=name, state=state, task_name=TASK.name, device="cpu", policy="puct", generator="edits",
        forecaster="base-rate", seed_id=KERNELS[0].id, task_id=TASK.id, created_at=now, updated_at=now,
    )  # fmt: skip
    searches.create(store, row, [LoggedEvent(0, "created", None, 0.0, "{}")])
    log = [LoggedEvent(1, "woke", None, 0.0, "{}")]
    nodes = []
    for place, found in enumerate(measured):
        body = json.dumps({"kind": "measured", "measurement_id": found})
        log.append(LoggedEvent(2 + place, "measured", f"n_{name}{place}", 0.0, body))
        nodes.append(
            SearchNode(
                id=f"n_{name}{place}", search_id=name, ordinal=place, kernel_id=KERNELS[of[place] % len(KERNELS)].id,
                state="measured", created_at=now,
            )
        )  # fmt: skip
    searches.append(store, row.model_copy(update={"events": 1 + len(log)}), log, nodes)


def asked_for(store: Store) -> dict[str, Any]:
    """What the rest of kforecast asks a store for."""
    answers: dict[str, Any] = {}
    for on in DEVICES:
        for physical in (None, f"id-{on}"):
            answers[f"verified {on} {physical}"] = verified.verified(store, device=on, device_id=physical)
        for one in KERNELS:
            for base in (None, *(other.id for other in KERNELS)):
                for verdict in (None, "ok", "incorrect"):
                    answers[f"latest {on} {one.id} {base} {verdict}"] = measurements.latest(
                        store,
                        one.id,
                        baseline_id=base,
                        device_id=f"id-{on}",
                        verdict=verdict,  # type: ignore[arg-type]
                    )
        answers[f"best {on}"] = measurements.best(store, task_id=TASK.id, device_id=f"id-{on}")
        answers[f"last forecaster {on}"] = verified.forecaster_before(store, device=on, prefix="agent:")
    answers["quarantined"] = measurements.find(store, quarantined=True, limit=None)
    answers["unfinished"] = requests.unfinished(store)
    answers["profile"] = profiles.latest(store, "id-cpu", profiles.DEVICE)
    for name in ("s_live", "s_done"):
        answers[name] = (searches.get(store, name), searches.events(store, name), searches.nodes(store, name))
        logged = [json.loads(event.json).get("measurement_id") for event in searches.events(store, name)]
        answers[f"of {name}"] = [measurements.get(store, one) for one in logged if one]
        answers[f"kernels of {name}"] = [kernels.get(store, node.kernel_id) for node in searches.nodes(store, name)]
    answers["young"] = measurements.find(store, since=CUT, limit=None)
    return answers


def ends(store: Store) -> list[int]:
    return [store.read(f"SELECT coalesce(max(seq), 0) FROM {table}")[0][0] for table in retention.TABLES]
