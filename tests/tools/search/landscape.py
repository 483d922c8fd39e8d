"""A landscape to search: kernels whose true S follows from their text; bench and generator know nothing else."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kforecast.store.database import Store
from kforecast.store.models import Case, Kernel, Launch, Task, Tensor
from kforecast.tools.search.beginning import begin_search
from kforecast.tools.search.bench import Job, Outcome
from kforecast.tools.search.budget import Budget
from kforecast.tools.search.events import SearchConfig
from kforecast.tools.search.forecasting import BaseRateForecaster, ForecastAsk, Outlook, ScriptedForecaster
from kforecast.tools.search.generators.protocol import Nothing, Proposal, ProposalAsk
from kforecast.tools.search.state import State
from kforecast.tools.search.worker import Parts, Worker

SEARCH = "s_00000000000000000000"


def share(*parts: object) -> float:
    """A number in 0..1 that follows from the parts."""
    digest = hashlib.sha256("\n".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def make_task() -> Task:
    return Task(
        name="scale",
        tensors=(
            Tensor(name="x", role="in", dtype="f32", shape=("N",)),
            Tensor(name="y", role="out", dtype="f32", shape=("N",)),
        ),
        reference="einsum: n->n",
        checked=(Case(sizes={"N": 7}),),
        timed={"any": (Case(sizes={"N": 4096}),)},
    )


def make_kernel(path: str = "") -> Kernel:
    """The kernel at a path of the landscape, e.g. `/0/3`."""
    return Kernel.make(
        language="c",
        name=f"kernel{path}",
        source=f'void scale(const float* x, float* y, int N) {{ work("{path}"); }}\n',
        launches=(Launch(entry="scale", args=("x", "y", "N")),),
        task_id=make_task().id,
    )


def path_of(kernel: Kernel) -> str:
    return kernel.source.split('"')[1]


def truth(path: str) -> float:
    """True log2 S of a path: each step adds something between -1 and 0.5, the same for all of its descendants."""
    steps = path.split("/")[1:]
    return sum(1.5 * share("/".join(steps[: depth + 1])) - 1.0 for depth in range(len(steps)))


def right(path: str) -> bool:
    return not path or all(share("wrong", path[: end + 1]) > 0.15 for end in range(len(path)))


@dataclass
class Landscape:
    """The bench: outcomes follow from paths alone; every measurement takes half a second or more of virtual time."""

    virtual: bool = True
    by_id: dict[str, str] = field(default_factory=dict)
    measured: list[tuple[str, str]] = field(default_factory=list)
    delay: Callable[[str], float] = lambda path: 0.0
    outcome: Callable[[Job, Outcome], Outcome] = lambda job, outcome: outcome

    async def measure(self, job: Job) -> Outcome:
        path, base = self.by_id[job.kernel_id], self.by_id.get(job.baseline_id or "")
        await asyncio.sleep(self.delay(path))
        self.measured.append((path, job.effort))
        seconds = (0.5 + share("seconds", path)) * {"quick": 1, "normal": 2, "claim": 5}[job.effort]
        if not right(path):
            return self.outcome(job, Outcome("incorrect", seconds=seconds / 4, detail="y[3] is 2, not 3"))
        time_us = 100.0 * 2.0 ** -truth(path)
        if base is None:
            return self.outcome(job, Outcome("ok", seconds=seconds, time_us=time_us))
        log2 = truth(path) - truth(base) + 0.02 * (share("noise", path, job.effort) - 0.5)
        found = Outcome("ok", log2, log2 - 0.02, log2 + 0.02, seconds, time_us)
        return self.outcome(job, found)

    def call_off(self, job: Job) -> None:
        pass

    def close(self) -> None:
        pass


@dataclass
class Children:
    """The generator: child `ordinal` of a path is the path with the ordinal at its end; at most `most` of them."""

    landscape: Landscape
    most: int = 1_000_000
    inline: bool = True
    asks: bool = False
    name: str = "children"

    def propose(self, ask: ProposalAsk) -> Proposal | Nothing:
        path = path_of(ask.parent)
        # One that takes its time must not depend on what else the search has seen by then.
        for number in range(self.most) if self.inline else [ask.ordinal]:
            kernel = make_kernel(f"{path}/{number}")
            if not ask.seen(kernel.source_id):
                self.landscape.by_id[kernel.id] = path_of(kernel)
                return Proposal(kernel, f"step {number}", f"step{number % 3}")
        return Nothing("exhausted")


def oracle(noise: float = 0.1) -> ScriptedForecaster:
    """A forecaster that knows the truth but for some noise."""

    def script(ask: ForecastAsk) -> Outlook:
        path, base = path_of(ask.kernel), path_of(ask.anchor)
        seen = truth(path) - truth(base) + noise * (share("blur", path) - 0.5)
        correct = 0.9 if right(path) else 0.2
        kind, answer = ("drop", "slower") if correct < 0.5 or seen < -0.8 else ("measure", "unsure")
        return Outlook("oracle", correct, seen, seen - 0.2, seen + 0.2, decision=kind, answer=answer)  # type: ignore[arg-type]

    return ScriptedForecaster(script, name="oracle")


@dataclass
class Bed:
    """A store, a landscape and what it takes to search there."""

    store: Store
    landscape: Landscape
    search_id: str = SEARCH
    forecaster: Any = field(default_factory=BaseRateForecaster)
    children: Children | None = None

    def begin(self, budget: Budget, **config: Any) -> None:
        seed, task = make_kernel(), make_task()
        self.landscape.by_id[seed.id] = ""
        settings = {"virtual": self.landscape.virtual, "device": "cpu", **config}
        begin_search(
            self.store,
            seed,
            task,
            SearchConfig(task_id=task.id, task_name=task.name, seed_id=seed.id, budget=budget, **settings),
            search_id=self.search_id,
        )

    def worker(self, **more: Any) -> Worker:
        generator = self.children or Children(self.landscape)
        parts = Parts(self.landscape, generator, self.forecaster)
        return Worker(self.store, self.search_id, parts, owner=None, **more)

    def run(self, budget: Budget, **config: Any) -> State:
        self.begin(budget, **config)
        return asyncio.run(self.worker().run())
