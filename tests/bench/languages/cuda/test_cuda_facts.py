from __future__ import annotations

from collections.abc import Callable

from kforecast.bench.header.plan import PlannedLaunch
from kforecast.bench.languages.cuda.cache import BuildCache
from kforecast.bench.languages.cuda.facts import cuda_facts, with_occupancy
from kforecast.bench.languages.cuda.pool import CompilePool
from kforecast.store.models import EntryFacts, Facts, Kernel


def planned(smem: int = 0) -> PlannedLaunch:
    return PlannedLaunch("k", "k", (), block=(32, 8, 1), smem=smem)


def test_facts_of_a_kernel_and_its_launches(
    pool: CompilePool, cache: BuildCache, kernel: Callable[..., Kernel]
) -> None:
    made = kernel("extern __shared__ float s[];\n__global__ void k(float* a) { s[0] = a[0]; a[1] = s[0]; }\n")
    shapes = [planned(), planned(smem=100_000)]
    facts = cuda_facts(made, shapes, arch="sm_90", pool=pool, cache=cache)
    assert facts.ok
    assert facts.entries[0].occupancy == 2 * 8 / 64  # the case with 100,000 bytes: two blocks of eight warps
    assert cuda_facts(made, shapes[:1], arch="sm_90", pool=pool, cache=cache).entries[0].occupancy == 1.0
    broken = cuda_facts(kernel("x"), shapes, arch="sm_90", pool=pool, cache=cache)
    assert not broken.ok


def test_occupancy_stays_unknown_where_something_is_missing() -> None:
    known = EntryFacts(entry="k", registers=32, shared_bytes=0)
    shape = [planned()]
    assert with_occupancy(Facts(ok=True, arch="sm_90", entries=(known,)), shape).entries[0].occupancy == 1.0
    assert with_occupancy(Facts(ok=True, arch="sm_90", entries=(known,)), []).entries[0].occupancy is None
    assert with_occupancy(Facts(ok=True, arch="sm_61", entries=(known,)), shape).entries[0].occupancy is None
    unknown = EntryFacts(entry="k")
    assert with_occupancy(Facts(ok=True, arch="sm_90", entries=(unknown,)), shape).entries[0].occupancy is None


def test_entries_are_compiled_as_the_plan_spells_them(
    pool: CompilePool, cache: BuildCache, kernel: Callable[..., Kernel]
) -> None:
    made = kernel("template <int B> __global__ void k(float* a) { a[0] = B; }", "k<min(B, 3)>", tunables={"B": 9})
    launch = PlannedLaunch("k<min(B, 3)>", "k<3>", (), block=(64, 1, 1))
    facts = cuda_facts(made, [launch], arch="sm_90", pool=pool, cache=cache)
    assert [entry.entry for entry in facts.entries] == ["k<min(B, 3)>"]
    assert facts.entries[0].occupancy == 1.0
