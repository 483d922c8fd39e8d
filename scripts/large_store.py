"""A store as large searches leave it, and a process that goes on writing to it, for scripts that measure under load."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

from kforecast.bench.broker import processes_alive
from kforecast.bench.tasks.builtin import builtin_task
from kforecast.store import kernels, measurements, pages, searches, tasks
from kforecast.store.clock import utc_now
from kforecast.store.database import Store
from kforecast.store.identity import new_id
from kforecast.store.models import Kernel, Launch, Measurement
from kforecast.store.searches import LoggedEvent, Search, SearchNode
from kforecast.tools.search.beginning import begin_search, root_id
from kforecast.tools.search.budget import Budget
from kforecast.tools.search.events import (
    AnyEvent,
    Began,
    Decided,
    Forecasted,
    Measured,
    Proposed,
    Refused,
    SearchConfig,
    node_id,
    to_row,
)

TASK = builtin_task("softmax_rows")
KERNELS = 500
SMALL = 30
"""Searches beside the large one, which has seven tenths of all candidates."""
PER_NODE = 10
BEATS_A_SECOND = 10


def kernel(number: int) -> Kernel:
    """One of the kernels that candidates are made of."""
    return Kernel.make(
        language="c",
        name=f"softmax-{number}.c",
        source=f"// {number}\nvoid softmax_rows(const float* x, float* y, long R, long C) {{ y[0] = x[{number}]; }}\n",
        launches=(Launch(entry="softmax_rows", args=("x", "y", "R", "C")),),
        task_id=TASK.id,
        tunables={"TILE": number},
    )


class Grower:
    """Grows a search as a worker would, ten events a candidate, without asking anybody."""

    def __init__(self, search: Search, made: list[Kernel], rng: random.Random, counts: int = 1) -> None:
        self.search, self._kernels, self._rng = search, made, rng
        self.nodes: list[tuple[str, int]] = [(root_id(search.id), 0)]
        self.events = counts
        self.clock = 0.0
        self.best = 0.0

    def candidate(self) -> tuple[list[AnyEvent], SearchNode]:
        """The next one: its events, and how it stands after them."""
        rng = self._rng
        place = max(0, len(self.nodes) - 1 - int(rng.expovariate(1 / 400)))
        parent, begun = self.nodes[place]
        self.nodes[place] = parent, begun + 3
        name = node_id(self.search.id, parent, begun)
        number = len(self.nodes)
        self.nodes.append((name, 0))
        one = self._kernels[number % len(self._kernels)]
        median, log2 = rng.gauss(0, 0.4), rng.gauss(0.1, 0.5)
        fate = rng.random()
        verdict: Any = "ok" if fate > 0.12 else "incorrect"
        self.clock += 0.1
        told = {"p10": median - 0.6, "p90": median + 0.6}
        common = {"clock": self.clock}
        log: list[AnyEvent] = [
            Began(**common, work="propose", node=parent, ordinal=begun),
            Proposed(**common, node=name, parent=parent, ordinal=begun, kernel_id=one.id, source_id=new_id("s"),
                     idea=f"unroll the loop over the columns by {number}", tag="unroll", generator="edits"),
            Refused(**common, parent=parent, ordinal=begun + 1, why="duplicate", detail="the same program"),
            Began(**common, work="propose", node=parent, ordinal=begun + 2),
            Refused(**common, parent=parent, ordinal=begun + 2, why="duplicate", detail="the same program"),
            Began(**common, work="forecast", node=name),
            Forecasted(**common, node=name, anchor=self.nodes[0][0], forecaster="learned", p_correct=0.9,
                       log2_median=median, log2_p10=told["p10"], log2_p90=told["p90"], p_faster=0.6),
            Decided(**common, node=name, decision="measure", answer="unsure", reason="Not sure enough to act on."),
            Began(**common, work="measure", node=name),
            Measured(**common, node=name, effort="quick", purpose="explore", verdict=verdict,
                     log2=log2 if verdict == "ok" else None, log2_low=log2 - 0.05, log2_high=log2 + 0.05, seconds=0.1,
                     time_us=100.0 * 2**-log2),
        ]  # fmt: skip
        node = SearchNode(
            id=name, search_id=self.search.id, ordinal=number, parent_id=parent, kernel_id=one.id,
            state="measured" if verdict == "ok" else "failed", idea=f"unroll the loop over the columns by {number}",
            log2_speedup=log2 if verdict == "ok" else None, log2_low=log2 - 0.05, log2_high=log2 + 0.05,
            forecast_log2=median, p_correct=0.9, verdict=verdict, created_at=utc_now(),
        )  # fmt: skip
        if verdict == "ok" and log2 > self.best:
            self.best = log2
        return log, node

    def rows(self, log: list[AnyEvent]) -> list[LoggedEvent]:
        """The events as rows, numbered on."""
        rows = [to_row(event, self.events + place) for place, event in enumerate(log)]
        self.events += len(rows)
        return rows

    def summary(self) -> Search:
        """The search after them."""
        counts = {"proposed": len(self.nodes) - 1, "measured": len(self.nodes), "dropped": 0, "failed": 0}
        spent = {
            "measurements": float(len(self.nodes)),
            "gpu_seconds": self.clock,
            "candidates": float(len(self.nodes)),
        }
        return self.search.model_copy(
            update={"events": self.events, "best_log2": self.best, "counts": counts, "spent": spent,
                    "updated_at": utc_now()}
        )  # fmt: skip


def build(path: Path, nodes: int, events: int) -> str:
    """A store with that many candidates and events; the id of its large search."""
    rng = random.Random(7)
    made = [kernel(number) for number in range(KERNELS)]
    per_small = nodes * 3 // 10 // SMALL
    with Store.open(path) as store:
        tasks.save(store, TASK)
        for one in made:
            kernels.save(store, one)
        sizes = [nodes - SMALL * per_small, *[per_small] * SMALL]
        large = ""
        for place, size in enumerate(sizes):
            config = SearchConfig(
                task_id=TASK.id, task_name=TASK.name, seed_id=made[0].id, device="cpu", generator="edits",
                forecaster="learned", budget=Budget(measurements=10 * nodes),
            )  # fmt: skip
            search = begin_search(store, made[0], TASK, config)
            large = large or search.id
            grower = Grower(search, made, rng)
            fill(store, grower, size, last=place > 0)
        for number in range(5000):
            measurements.save(store, measured(made[number % KERNELS], rng))
        found = pages.last_seq(store, "nodes"), pages.last_seq(store, "events")
        print(f"store: {found[0]:,} candidates, {found[1]:,} events, {path.stat().st_size >> 20} MiB")
        assert found[1] >= events, "ten events a candidate"
    return large


def fill(store: Store, grower: Grower, size: int, *, last: bool) -> None:
    """Grow a search to its size, thousands of candidates a transaction, past the checks of a worker's append."""
    root = SearchNode(
        id=grower.nodes[0][0], search_id=grower.search.id, ordinal=0, kernel_id=grower.search.seed_id, state="measured",
        idea="the seed", log2_speedup=0.0, log2_low=0.0, log2_high=0.0, verdict="ok", created_at=utc_now(),
    )  # fmt: skip
    pending: tuple[list[LoggedEvent], list[SearchNode]] = ([], [root])
    for number in range(size):
        log, node = grower.candidate()
        pending[0].extend(grower.rows(log))
        pending[1].append(node)
        if len(pending[1]) >= 2000 or number == size - 1:
            with store.write() as db:
                now = utc_now()
                seq = db.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()[0]
                db.executemany(
                    "INSERT INTO events (search_id, ordinal, kind, node_id, clock, json, created_at, seq) "
                    "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    [(grower.search.id, e.ordinal, e.kind, e.node_id, e.clock, e.json, now, seq + at)
                     for at, e in enumerate(pending[0], start=1)],
                )  # fmt: skip
                seq = db.execute("SELECT coalesce(max(seq), 0) FROM nodes").fetchone()[0]
                names = tuple(SearchNode.model_fields)
                db.executemany(
                    f"INSERT INTO nodes ({', '.join(names)}, seq) VALUES ({', '.join('?' * (len(names) + 1))})",
                    [(*(getattr(node, name) for name in names), seq + at)
                     for at, node in enumerate(pending[1], start=1)],
                )  # fmt: skip
            pending = ([], [])
    done = grower.summary().model_copy(update={"state": "completed" if last else "working"})
    with store.write() as db:
        db.execute(
            "UPDATE searches SET state = ?, best_log2 = ?, events = ?, json = ? WHERE id = ?",
            (done.state, done.best_log2, done.events,
             json.dumps({"counts": done.counts, "spent": done.spent, "limits": done.limits, "reason": ""}), done.id),
        )  # fmt: skip


def measured(of: Kernel, rng: random.Random) -> Measurement:
    """A measurement outside of searches."""
    time_us = 100.0 * 2 ** rng.gauss(0, 0.5)
    return Measurement(
        id=new_id("m"), kernel_id=of.id, task_id=TASK.id, task_name=TASK.name, device="cpu", device_id="cpu-load",
        lane="host-code", launch_mode="process", effort="quick", verdict="ok", reason="", time_us=time_us,
        noise_pct=1.0, created_at=utc_now(),
    )  # fmt: skip


def write_on(path: Path, search_id: str, rate: float, nodes: int, stop: Any) -> None:
    """Append to the large search at that rate, as a worker does: lease, summary, candidates; until told to stop."""
    rng = random.Random(11)
    made = [kernel(number) for number in range(KERNELS)]
    owner = processes_alive.owner_name("worker")
    with Store.open(path) as store:
        search = searches.get(store, search_id)
        assert search is not None
        searches.take_lease(store, search_id, owner, lambda _: False, stale_before=utc_now())
        grower = Grower(search, made, rng, search.events)
        grower.best = search.best_log2 or 0.0
        # Ordinals that no earlier writer has given to a child.
        grower.nodes += [(node.id, search.events) for node in searches.nodes(store, search_id, limit=None)][1:]
        per_beat = max(1, round(rate / PER_NODE / BEATS_A_SECOND))
        due = time.monotonic()
        written = 0
        while not stop.is_set():
            rows: list[LoggedEvent] = []
            grown: list[SearchNode] = []
            for _ in range(per_beat):
                log, node = grower.candidate()
                rows += grower.rows(log)
                grown.append(node)
            searches.append(store, grower.summary(), rows, grown, owner=owner)
            written += len(rows)
            if written % 2000 < len(rows):
                searches.beat(store, search_id, owner)
                measurements.save(store, measured(made[written % KERNELS], rng))
            due += 1 / BEATS_A_SECOND
            time.sleep(max(0.0, due - time.monotonic()))
