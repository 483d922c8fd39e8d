"""What the search engine and the store cost a candidate, without model and GPU: milliseconds of
processor time (others may use the machine), and memory as it grows.

usage: python scripts/bench_search.py [CANDIDATES]       (10,000 unless given; aim: 5 ms a candidate, flat memory)
"""

from __future__ import annotations

import asyncio
import resource
import sys
import tempfile
import time
from pathlib import Path

from kforecast.store.database import Store
from kforecast.store.models import Case, Kernel, Launch, Task, Tensor
from kforecast.tools.search.beginning import begin_search
from kforecast.tools.search.bench import Job, Outcome
from kforecast.tools.search.budget import Budget
from kforecast.tools.search.events import SearchConfig
from kforecast.tools.search.forecasting import BaseRateForecaster
from kforecast.tools.search.generators.protocol import Nothing, Proposal, ProposalAsk
from kforecast.tools.search.worker import Parts, Worker

TASK = Task(
    name="scale",
    tensors=(
        Tensor(name="x", role="in", dtype="f32", shape=("N",)),
        Tensor(name="y", role="out", dtype="f32", shape=("N",)),
    ),
    reference="einsum: n->n",
    checked=(Case(sizes={"N": 7}),),
    timed={"any": (Case(sizes={"N": 4096}),)},
)
BODY = "\n".join(f"    y[i + {n}] = 2.0f * x[i + {n}];" for n in range(40))


def kernel_at(path: str) -> Kernel:
    """A kernel of some 40 lines."""
    source = f'void scale(const float* x, float* y, int N) {{\n    tag("{path}");\n{BODY}\n}}\n'
    return Kernel.make(
        language="c",
        name="scale",
        source=source,
        launches=(Launch(entry="scale", args=("x", "y", "N")),),
        task_id=TASK.id,
    )


class Children:
    """Child n of a path is the path with n at its end."""

    name = "children"
    inline = True
    asks = False

    def propose(self, ask: ProposalAsk) -> Proposal | Nothing:
        """Never exhausted."""
        path = ask.parent.source.split('"')[1]
        return Proposal(kernel_at(f"{path}/{ask.ordinal}"), f"step {ask.ordinal}", f"tag{ask.ordinal % 7}")


class Instant:
    """Measurements at once, with S that follow from the node's id."""

    virtual = True

    async def measure(self, job: Job) -> Outcome:
        """Half a second of virtual time."""
        log2 = int(job.node[2:10], 16) / 2**32 - 0.7
        return Outcome("ok", log2, log2 - 0.02, log2 + 0.02, 0.5, 100.0)

    def call_off(self, job: Job) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Nothing to do."""


def main() -> None:
    """Run one search and print what each tenth of it took."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder).resolve() / "bench.db") as store:
        seed = kernel_at("")
        config = SearchConfig(
            task_id=TASK.id,
            task_name=TASK.name,
            seed_id=seed.id,
            device="cpu",
            budget=Budget(candidates=count, measurements=count),
            virtual=True,
        )
        search = begin_search(store, seed, TASK, config)
        seen = [(0, time.process_time())]

        def watch(instant: str) -> None:
            nodes = len(worker.state.nodes) - 1
            if instant == "after decided" and nodes % (count // 10) == 0:
                now = time.process_time()
                each = (now - seen[-1][1]) / max(1, nodes - seen[-1][0]) * 1e3
                memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
                print(f"{nodes:7d} candidates  {each:6.2f} ms each  {memory:6.0f} MiB at most")
                seen.append((nodes, now))

        worker = Worker(store, search.id, Parts(Instant(), Children(), BaseRateForecaster()), owner=None, fault=watch)
        start = time.process_time()
        state = asyncio.run(worker.run())
        took = time.process_time() - start
        print(
            f"{state.spent.candidates} candidates, {state.spent.measurements} measured: "
            f"{took / state.spent.candidates * 1e3:.2f} ms a candidate"
        )


if __name__ == "__main__":
    main()
