"""Record searches for `kforecast demo`: out of a store, or made on the spot over recorded kernels.

usage: python scripts/record_demo.py OUT.jsonl.gz --store FILE.db --search s_… [--search s_…] --about TEXT
       python scripts/record_demo.py OUT.jsonl.gz --pool docs/results/h200_pool.jsonl.gz --tasks gemm_f32=100m,…

The first form takes searches as they went, e.g. on a GPU. The second searches each task over a pool of measured kernels
(`--device replay:POOL`, forecaster `learned-fold`: trained on the pool's other families): what is measured there is the
pool's record of it. The recording that ships is `tools/demo/searches.jsonl.gz`.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from kforecast.store import searches
from kforecast.store.database import Store
from kforecast.tools.demo.recording import record, write
from kforecast.tools.search.replay import pool_of
from kforecast.tools.search.use import search

_MOST_BYTES = 400_000


def search_pool(store: Store, given: argparse.Namespace) -> list[str]:
    """One search a task over the pool; their ids."""
    found = []
    for task in given.tasks.split(","):
        name, _, budget = task.partition("=")
        result = search(
            name,
            budget=budget or given.budget,
            device=f"replay:{given.pool}",
            forecaster="learned-fold",
            random_seed=given.random_seed,
            detached=False,
            store=store,
        )
        print(f"{name}: {result.summary}")
        found.append(result.search_id)
    return found


def main() -> None:
    """Record, and say what came of it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--search", action="append", default=[])
    parser.add_argument("--pool", type=Path)
    parser.add_argument("--tasks", default="", help="NAME or NAME=BUDGET, e.g. histogram=45m,gemv=25m")
    parser.add_argument("--budget", default="40m")
    parser.add_argument("--random-seed", type=int, default=0)
    parser.add_argument("--about", help="Where and how it was recorded, for people.")
    parser.add_argument("--device", default="cuda:0", help="What the recorded searches say they ran on.")
    parser.add_argument("--seconds", type=float, default=90.0, help="How long it plays at speed 1.")
    given = parser.parse_args()
    if (given.store is None) == (given.pool is None):
        parser.error("give either --store with --search, or --pool with --tasks")
    with tempfile.TemporaryDirectory(prefix="kforecast-") as folder:
        path = Path(folder).resolve() / "searches.db" if given.store is None else given.store.expanduser().absolute()
        with Store.open(path) if given.store is None else Store.open_readonly(path) as store:
            ids = given.search if given.store is not None else search_pool(store, given)
            if not ids:
                parser.error("name at least one --search")
            about = given.about
            if about is None and given.pool is not None:
                gpus = {
                    str(one.measurement.environment.get("gpu"))
                    for one in pool_of(f"replay:{given.pool}").recorded.values()
                }
                about = f"Kernels measured on an {' and an '.join(sorted(gpus))}, and searches over that record"
            first = searches.resolve(store, ids[0])
            made = record(
                store,
                ids,
                about=about or "",
                device=given.device,
                recorded=first.created_at[:10],
                seconds=given.seconds,
            )
    size = write(made, given.out)
    events = sum(len(log) for _, log in made.searches)
    print(f"{given.out}: {len(made.searches)} searches, {events} events, {size} bytes")
    if size > _MOST_BYTES:
        print(f"That is more than the {_MOST_BYTES} bytes a package should carry.")


if __name__ == "__main__":
    main()
