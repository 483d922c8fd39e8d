"""A search that a test grows event by event: what a worker would write, without one."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kforecast.store.database import Store
from kforecast.store.models import Case, Kernel, Launch, Task, Tensor
from kforecast.tools.search.beginning import begin_search, root_id
from kforecast.tools.search.budget import Budget
from kforecast.tools.search.events import (
    AnyEvent,
    Began,
    Decided,
    Finished,
    Forecasted,
    Measured,
    Proposed,
    SearchConfig,
    node_id,
)
from kforecast.tools.search.log import SearchLog

TASK = Task(
    name="double",
    tensors=(
        Tensor(name="x", role="in", dtype="f32", shape=("N",)),
        Tensor(name="y", role="out", dtype="f32", shape=("N",)),
    ),
    reference="einsum: n->n",
    checked=(Case(sizes={"N": 3}),),
    timed={"any": (Case(sizes={"N": 9}),)},
)


def kernel(number: int, *, source: str = "", tunables: dict[str, int] | None = None) -> Kernel:
    """A kernel of the task that differs from its siblings."""
    return Kernel.make(
        language="c",
        name=f"k{number}.c",
        source=source or f"// variant {number}\nvoid f(const float* x, float* y) {{ y[0] = {number}; }}\n",
        launches=(Launch(entry="f", args=("x", "y")),),
        task_id=TASK.id,
        tunables=tunables or {},
    )


@dataclass
class Grown:
    """A store with one search in it."""

    path: Path
    budget: Budget = field(default_factory=lambda: Budget(measurements=40, wall_s=60))
    generator: str = "edits"
    search_id: str = ""
    clock: float = 0.0
    counts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.store = Store.open(self.path)
        seed = kernel(0)
        config = SearchConfig(
            task_id=TASK.id,
            task_name=TASK.name,
            seed_id=seed.id,
            device="cpu",
            budget=self.budget,
            generator=self.generator,
            forecaster="base-rate",
        )
        self.search_id = begin_search(self.store, seed, TASK, config).id
        self.log = SearchLog(self.store, self.search_id)
        self.root = root_id(self.search_id)
        self.say(Measured(node=self.root, effort="quick", purpose="seed", verdict="ok", time_us=100.0, seconds=0.5))

    def say(self, *events: AnyEvent, kernels: tuple[Kernel, ...] = ()) -> None:
        """Append to the log."""
        self.clock += 1
        self.log.append([event.model_copy(update={"clock": self.clock}) for event in events], new_kernels=kernels)

    def propose(self, parent: str | None = None, idea: str = "", made: Kernel | None = None) -> str:
        """A new child; its id."""
        above = parent or self.root
        ordinal = self.counts.get(above, 0)
        self.counts[above] = ordinal + 1
        number = sum(self.counts.values())
        child = made or kernel(number)
        node = node_id(self.search_id, above, ordinal)
        event = Proposed(
            node=node,
            parent=above,
            ordinal=ordinal,
            kernel_id=child.id,
            source_id=child.source_id,
            idea=idea or f"idea {number}",
            tag="test",
            generator="edits",
        )
        self.say(event, kernels=(child,))
        return node

    def decide(self, node: str, decision: Any = "measure", *, audited: bool = False, median: float = 0.2) -> None:
        """Forecast it against the root, and decide."""
        self.say(
            Forecasted(
                node=node, anchor=self.root, forecaster="base-rate", p_correct=0.8, log2_median=median,
                log2_p10=median - 1, log2_p90=median + 1, p_faster=0.6,
            ),
            Decided(
                node=node, decision=decision, answer="slower" if decision == "drop" else "unsure",
                reason=f"because of {decision}", audited=audited, probability=0.05 if decision == "drop" else 1.0,
            ),
        )  # fmt: skip

    def begin(self, node: str) -> None:
        """Put its measurement in flight."""
        self.say(Began(work="measure", node=node))

    def measure(self, node: str, log2: float | None) -> None:
        """Its measurement; None is a wrong kernel."""
        ends = {} if log2 is None else {"log2": log2, "log2_low": log2 - 0.1, "log2_high": log2 + 0.1}
        verdict: Any = "incorrect" if log2 is None else "ok"
        self.say(
            Measured(node=node, effort="quick", purpose="explore", verdict=verdict, time_us=50.0, seconds=0.1, **ends)
        )

    def child(self, parent: str | None = None, log2: float | None = 0.5, idea: str = "") -> str:
        """A child that was forecast and measured."""
        node = self.propose(parent, idea)
        self.decide(node)
        self.begin(node)
        self.measure(node, log2)
        return node

    def finish(self) -> None:
        """End the search."""
        self.say(Finished(outcome="completed", reason="Everything there was to try was tried."))

    def close(self) -> None:
        self.store.close()
