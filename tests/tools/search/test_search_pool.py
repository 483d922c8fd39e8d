"""Recorded pools: what was proposed for one is whole, and where kernels come from survives the file."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from pathlib import Path

from kforecast.bench.tasks.builtin import builtin_names, builtin_task
from kforecast.store.database import Store
from kforecast.store.exchange import import_
from kforecast.store.models import Kernel
from kforecast.tools.search.replay import pool_of
from kforecast.tools.search.use import search

ROOT = Path(__file__).parents[3]


def test_the_proposed_pool_is_whole() -> None:
    """Every task has at least 200 different kernels, each with a parent before it, the tuned one among the first."""
    programs: dict[str, list[str]] = defaultdict(list)
    with gzip.open(ROOT / "scripts" / "gpu" / "pool.jsonl.gz", "rt", encoding="utf-8") as file:
        for text in file:
            line = json.loads(text)
            here = programs[line["task"]]
            assert line["place"] == len(here)
            assert -1 <= line["parent"] < line["place"] and (line["parent"] < 0) == (line["place"] == 0)
            noun = {**line["kernel"], "id": "", "source_id": "", "task_id": builtin_task(line["task"]).id}
            kernel = Kernel.model_validate(noun)
            assert kernel.launches and kernel.language == "cuda"
            here.append(json.dumps([kernel.source, kernel.tunables, kernel.options]))
    assert programs.keys() <= set(builtin_names()) and len(programs) >= 6
    assert all(len(set(here)) == len(here) >= 200 for here in programs.values())


def test_a_pool_says_where_its_kernels_come_from(tmp_path: Path) -> None:
    """A replay starts at the origin and tells the ideas; an import takes the rest of the file."""
    recorded = ROOT / "docs" / "results" / "h200_kernels.jsonl.gz"
    task = next(task for task in pool_of(f"replay:{recorded}").tasks.values() if task.name == "sum_all")
    kernels = [one.kernel.id for one in pool_of(f"replay:{recorded}").of_task(task.id) if one.ok]
    origins = [
        {"kernel_id": kernel, "parent_id": kernels[0] if place else None, "idea": f"idea {place}", "tag": "edits:test"}
        for place, kernel in enumerate(kernels)
    ]
    pool = tmp_path / "pool.jsonl.gz"
    with gzip.open(recorded, "rb") as source, gzip.open(pool, "wb") as target:
        target.writelines(source)
        target.writelines(json.dumps({"kind": "origin", "noun": one}).encode() + b"\n" for one in origins)
    found = pool_of(f"replay:{pool}")
    root = found.root(task.id)
    assert root is not None and root.kernel.id == kernels[0]
    assert found.ideas[kernels[1]] == ("idea 1", "edits:test")
    with Store.open(tmp_path / "a.db") as store:
        added = import_(store, pool).added
        assert added["kernel"] >= len(kernels)
        result = search("sum_all", budget="6m", device=f"replay:{pool}", detached=False, verify=False, store=store)
        assert result.seed_id == kernels[0] and result.spent["measurements"] == 6
