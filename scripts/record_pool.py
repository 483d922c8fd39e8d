"""Record a pool of measured kernels for replays: from each task's seed, whatever `edits` and `tune` propose.

usage: python scripts/record_pool.py OUT.jsonl.gz [--tasks A,B] [--kernels 200] [--language cuda|c] [--effort quick]

Each task is one search with `control-all`, so that nothing is chosen by a forecast. The file also holds each kernel's
parent, which the generator `atlas` goes by. Works on the store that KFORECAST_DB names: a new one is best.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
import time
from pathlib import Path

from kforecast.bench.tasks.builtin import builtin_kernel, builtin_names
from kforecast.store import searches
from kforecast.store.database import Store
from kforecast.store.exchange import export
from kforecast.tools.search.use import search


def record(store: Store, task: str, given: argparse.Namespace) -> str | None:
    """Search one task; the search's id, None where it has no seed in this language."""
    seed = builtin_kernel(task, given.language, "seed")
    if seed is None:
        return None
    start = time.monotonic()
    result = search(
        str(seed),
        budget=f"{given.kernels}m",
        policy="control-all",
        generator="edits+tune",
        forecaster="base-rate",
        effort=given.effort,
        speculate=1,
        measuring=4,
        verify=False,
        detached=False,
        store=store,
    )
    print(f"{task}: {result.summary} {result.spent.get('gpu_seconds', 0):.1f} GPU s, {time.monotonic() - start:.0f} s")
    return result.search_id


def main() -> None:
    """Record all tasks asked for into one compressed export."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--tasks", default="softmax_rows,layernorm,transpose,gemm_f32,cross_entropy,rmsnorm,bias_gelu")
    parser.add_argument("--kernels", type=int, default=200)
    parser.add_argument("--language", choices=["c", "cuda"], default="cuda")
    parser.add_argument("--effort", choices=["quick", "normal"], default="quick")
    given = parser.parse_args()
    unknown = set(given.tasks.split(",")) - set(builtin_names())
    if unknown:
        parser.error(f"no such task: {', '.join(sorted(unknown))}")
    with Store.open() as store, tempfile.TemporaryDirectory() as folder:
        done = [found for task in given.tasks.split(",") if (found := record(store, task, given)) is not None]
        plain = Path(folder) / "pool.jsonl"
        counts = export(store, plain)
        with gzip.open(given.out, "wt", encoding="utf-8") as file:
            with plain.open(encoding="utf-8") as lines:
                file.writelines(lines)
            for search_id in done:
                for node in searches.nodes(store, search_id, limit=None):
                    kept = {"id": node.id, "parent_id": node.parent_id, "kernel_id": node.kernel_id, "idea": node.idea}
                    file.write(json.dumps({"kind": "node", "noun": kept}) + "\n")
    print(f"{given.out}: {counts}")


if __name__ == "__main__":
    main()
