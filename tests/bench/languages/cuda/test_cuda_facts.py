from __future__ import annotations

from collections.abc import Callable

from kforecast.bench.languages.cuda.cache import BuildCache
from kforecast.bench.languages.cuda.facts import LaunchShape, cuda_facts, with_occupancy
from kforecast.bench.languages.cuda.pool import CompilePool
from kforecast.store.models import EntryFacts, Facts, Kernel


def test_facts_of_a_kernel_and_its_launches(
    pool: CompilePool, cache: BuildCache, kernel: Callable[..., Kernel]
) -> None:
    made = kernel("extern __shared__ float s[];\n__global__ void k(float* a) { s[0] = a[0]; a[1] = s[0]; }\n")
    shapes = [LaunchShape("k", threads=256), LaunchShape("k", threads=256, dynamic_shared=100_000)]
    facts = cuda_facts(made, shapes, arch="sm_90", pool=pool, cache=cache)
    assert facts.ok
    assert facts.entries[0].occupancy == 2 * 8 / 64  # the case with 100,000 bytes: two blocks of eight warps
    assert cuda_facts(made, shapes[:1], arch="sm_90", pool=pool, cache=cache).entries[0].occupancy == 1.0
    broken = cuda_facts(kernel("x"), shapes, arch="sm_90", pool=pool, cache=cache)
    assert not broken.ok


def test_occupancy_stays_unknown_where_something_is_missing() -> None:
    known = EntryFacts(entry="k", registers=32, shared_bytes=0)
    shape = [LaunchShape("k", threads=256)]
    assert with_occupancy(Facts(ok=True, arch="sm_90", entries=(known,)), shape).entries[0].occupancy == 1.0
    assert with_occupancy(Facts(ok=True, arch="sm_90", entries=(known,)), []).entries[0].occupancy is None
    assert with_occupancy(Facts(ok=True, arch="sm_61", entries=(known,)), shape).entries[0].occupancy is None
    unknown = EntryFacts(entry="k")
    assert with_occupancy(Facts(ok=True, arch="sm_90", entries=(unknown,)), shape).entries[0].occupancy is None
