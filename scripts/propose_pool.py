"""Propose the kernels of a pool, without a GPU: children and grandchildren of each task's seed and tuned kernel.

usage: python scripts/propose_pool.py [OUT.jsonl.gz] [--tasks A,B] [--kernels 240] [--arch sm_90] [--seed 1]

The generators `edits` and `tune` grow a tree from the seed kernel, of which the tuned kernel and the files in
`scripts/gpu/rewrites` are rewrites; the tunables of the tuned one have more values here than in its own file. What
NVRTC does not compile, or compiles to the same machine code under the same launch as an earlier one, is left out. The
file is in the tree, as `scripts/gpu/pool.jsonl.gz`: `scripts/gpu/pool.py` measures it. One line a kernel.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import random
import re
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from kforecast.bench.header.load import load_kernel
from kforecast.bench.languages.cuda.cache import BuildCache
from kforecast.bench.languages.cuda.compile import compile_cuda
from kforecast.bench.tasks.builtin import builtin_kernel
from kforecast.bench.tasks.load import resolve_task
from kforecast.store.models import Kernel, Task
from kforecast.tools.kernels import stamp
from kforecast.tools.search.generators.edits import EditsGenerator
from kforecast.tools.search.generators.lists import Together
from kforecast.tools.search.generators.protocol import Proposal, ProposalAsk
from kforecast.tools.search.generators.tune import TuneGenerator

TASKS = (
    *("softmax_rows", "layernorm", "transpose", "gemm_f32", "gemv", "histogram", "sum_all", "stencil2d"),
    *("bias_gelu", "cross_entropy", "rmsnorm", "conv1d", "batched_gemm", "embedding"),
)
"""The ones that a replay should be sure to have first."""

_ROWS = {"VECS": "[4, 1, 2, 8, 16]", "THREADS": "[1024, 64, 128, 256, 512]"}
_TILES = {"BM": "[128, 32, 64, 256]", "BN": "[128, 64, 256]", "BK": "[16, 4, 8, 32]"}
_FLAT = {"BLOCK": "[256, 32, 64, 128, 512, 1024]", "VECS": "[2, 1, 4, 8]"}
WIDER: dict[str, dict[str, str]] = {
    "softmax_rows": _ROWS,
    "layernorm": _ROWS,
    "rmsnorm": _ROWS,
    "cross_entropy": _ROWS,
    "transpose": {"BLOCK": "[256, 32, 64, 128, 512, 1024]", "TILE": "[64, 16, 32, 48, 96]"},
    "gemm_f32": _TILES,
    "batched_gemm": _TILES,
    "gemv": {"ROWS": "[4, 1, 2, 8, 16]", "THREADS": "[256, 32, 64, 128, 512, 1024]", "VECS": "[2, 1, 4, 8]"},
    "histogram": {
        "BLOCK": "[512, 128, 256, 1024]",
        "BLOCKS": "[4, 1, 2, 3, 8]",
        "VECS": "[4, 1, 2, 8]",
        "COUNTERS": "[8192, 1024, 2048, 4096]",
    },
    "sum_all": {"BLOCK": "[512, 64, 128, 256, 1024]", "BLOCKS": "[4, 1, 2, 8, 16]", "VECS": "[4, 1, 2, 8, 16]"},
    "stencil2d": {"STRIPS": "[8, 1, 2, 4, 16, 32]", "ROWS": "[8, 1, 2, 4, 16, 32]"},
    "bias_gelu": _FLAT,
    "conv1d": _FLAT,
    "embedding": _FLAT,
}
"""Values of the tuned kernels' tunables, the default first."""
FITS = dict.fromkeys(("gemm_f32", "batched_gemm"), 'when = ["BN <= 16 * BK", "BM <= 16 * BK", "BM * BN <= 65536"]')
"""Conditions without which a kernel is wrong; a tuned kernel's own ones also leave out what is merely slow."""
_WHEN = re.compile(r"^when = \[[^\n]*\n", re.MULTILINE)
REWRITES = Path(__file__).parent / "gpu" / "rewrites"
_WEIGHTS = {"seed": 0.25, "tuned": 0.45, "rewrites": 0.3}
"""How often a kernel's family is asked for another one."""
_DEEPEST = 5
_DEAD_ENDS = frozenset({"edits:reciprocal", "edits:float-math", "edits:quotients"})
"""Edits that are wrong too often to go on from them."""
_THREADS = 2


@dataclass(frozen=True)
class Found:
    """A kernel of the pool. parent: its place in the task's list, -1 for the seed."""

    kernel: Kernel
    parent: int
    idea: str
    tag: str
    depth: int


def tuned_with_more(task: str) -> Kernel:
    """The tuned kernel with more values of its tunables."""
    path = builtin_kernel(task, "cuda", "tuned")
    assert path is not None
    text = path.read_text(encoding="utf-8")
    for name, values in WIDER[task].items():
        text, count = re.subn(rf"^{name} = \[[^\]]*\]", f"{name} = {values}", text, flags=re.MULTILINE)
        assert count == 1, (task, name)
    text = _WHEN.sub(FITS[task] + "\n" if task in FITS else "", text)
    kernel = stamp(load_kernel(text, resolve_task=resolve_task).kernel)
    return kernel.model_copy(update={"name": path.name})


def grown(task_name: str, chance: random.Random) -> Iterator[Found]:
    """Ever more kernels of a task, all different in text: seed, tuned, then children of what there is."""
    path = builtin_kernel(task_name, "cuda", "seed")
    assert path is not None
    loaded = load_kernel(path, resolve_task=resolve_task)
    rewrites = [tuned_with_more(task_name)]
    for file in sorted(REWRITES.glob(f"{task_name}_*.cu")):
        rewrites.append(stamp(load_kernel(file, resolve_task=resolve_task).kernel))
    nodes = [Found(stamp(loaded.kernel), -1, "the seed", "", 0)]
    nodes += [Found(kernel, 0, f"rewritten: {Path(kernel.name).stem}", "rewrite", 0) for kernel in rewrites]
    yield from nodes
    seen = {node.kernel.source_id for node in nodes}
    families = [[place] for place in range(len(nodes))]
    others = _WEIGHTS["rewrites"] / max(1, len(nodes) - 2)
    weights = [_WEIGHTS["seed"], _WEIGHTS["tuned"], *(others for _ in nodes[2:])]
    both = Together([EditsGenerator(), TuneGenerator()])
    misses = 0
    while misses < 1000:
        family = chance.choices(families, weights)[0]
        parent = chance.choice(family)
        depth = nodes[parent].depth
        deep = depth >= _DEEPEST or chance.random() < depth / (2 * _DEEPEST)
        found = None
        if not deep and nodes[parent].tag not in _DEAD_ENDS:
            found = _child(both, nodes[parent].kernel, loaded.task, chance, seen)
        if found is None:
            misses += 1
            continue
        misses = 0
        seen.add(found.kernel.source_id)
        family.append(len(nodes))
        nodes.append(Found(found.kernel, parent, found.idea, found.tag, depth + 1))
        yield nodes[-1]


def _child(generator: Together, parent: Kernel, task: Task, chance: random.Random, seen: set[str]) -> Proposal | None:
    ask = ProposalAsk(
        parent=parent,
        task=task,
        device="cuda:0",
        ordinal=chance.randrange(2),
        random_seed=1,
        seen=lambda source: source in seen,
    )
    found = generator.propose(ask)
    return found if isinstance(found, Proposal) else None


def different(task: str, count: int, arch: str, cache: BuildCache, seed: int) -> list[Found]:
    """The first `count` that compile, and to something new. A child of what is left out is its parent's child."""
    stream = grown(task, random.Random(f"{seed} {task}"))
    places: dict[int, int] = {}
    kept: list[Found] = []
    codes: set[str] = set()
    number, refused, twins = 0, 0, 0
    parents: list[int] = []
    with ThreadPoolExecutor(_THREADS) as pool:
        while len(kept) < count:
            chunk = list(islice(stream, 16))
            if not chunk:
                break
            for found, code in zip(chunk, pool.map(lambda one: _code(one.kernel, arch, cache), chunk), strict=True):
                parents.append(found.parent)
                new = code is not None and code not in codes
                refused, twins = refused + (code is None), twins + (code in codes)
                if new and len(kept) < count:
                    assert code is not None
                    codes.add(code)
                    places[number] = len(kept)
                    kept.append(Found(found.kernel, _kept(found.parent, parents, places), found.idea, found.tag, 0))
                number += 1
    print(f"{task}: {len(kept)} different ones of {number}, {refused} do not compile, {twins} to the same", flush=True)
    return kept


def _kept(parent: int, parents: list[int], places: dict[int, int]) -> int:
    while parent >= 0 and parent not in places:
        parent = parents[parent]
    return places.get(parent, -1)


def _code(kernel: Kernel, arch: str, cache: BuildCache) -> str | None:
    """What runs: machine code, launches and the values they may use; None where it does not compile."""
    build = compile_cuda(kernel, arch=arch, cache=cache)
    if not build.ok or build.binary is None:
        return None
    launches = json.dumps([launch.model_dump(mode="json") for launch in kernel.launches], sort_keys=True)
    content = build.binary.read_bytes() + launches.encode() + json.dumps(kernel.tunables, sort_keys=True).encode()
    return hashlib.sha256(content).hexdigest()


def main() -> None:
    """Propose for all tasks asked for, into one compressed file that is the same for the same arguments."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path, nargs="?", default=Path(__file__).parent / "gpu" / "pool.jsonl.gz")
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--kernels", type=int, default=240)
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    lines = []
    with tempfile.TemporaryDirectory(prefix="kforecast-pool-") as folder:
        cache = BuildCache(Path(folder))
        for task in given.tasks.split(","):
            for place, found in enumerate(different(task, given.kernels, given.arch, cache, given.seed)):
                noun = found.kernel.model_dump(mode="json", exclude={"id", "source_id", "task_id", "toolchain"})
                line = {"task": task, "place": place, "parent": found.parent, "idea": found.idea, "tag": found.tag}
                lines.append(json.dumps({**line, "kernel": noun}))
    with given.out.open("wb") as raw, gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed:
        packed.write(("\n".join(lines) + "\n").encode())
    print(f"{given.out}: {len(lines)} kernels, {given.out.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
