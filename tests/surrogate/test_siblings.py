"""Structure and the choice of siblings."""

from __future__ import annotations

import random
from collections.abc import Callable

from kforecast.store.models import Kernel
from kforecast.surrogate.contract import Sibling
from kforecast.surrogate.siblings import choose
from kforecast.surrogate.structure import plain, similarity, tokens, traits

MakeKernel = Callable[..., Kernel]
LOOPY = 'extern "C" __global__ void scale(const float* x, float* y, int N) { for (;;) { __syncthreads(); atomicAdd(y, x[0]); } }'  # noqa: E501


def pool_of(make_kernel: MakeKernel) -> list[Sibling]:
    base = make_kernel().source
    kernels = [make_kernel(BLOCK=block) for block in (32, 64, 128, 512, 1024)]
    kernels += [make_kernel(base.replace("2.0f", f"{factor}.0f"), BLOCK=256) for factor in (3, 4, 5)]
    kernels += [make_kernel(LOOPY, BLOCK=256)]
    return [Sibling(kernel=kernel, log2_speedup=0.1, time_us=1.0) for kernel in kernels]


def test_similarity_is_symmetric_and_one_for_the_same_program(make_kernel: MakeKernel) -> None:
    one, other = make_kernel(BLOCK=128), make_kernel(LOOPY, BLOCK=256)
    assert similarity(one, other) == similarity(other, one) < 0.5
    assert similarity(one, make_kernel("// note\n" + one.source, BLOCK=128)) == 1.0


def test_nearer_tunables_are_more_alike(make_kernel: MakeKernel) -> None:
    base = make_kernel(BLOCK=256)
    alike = [similarity(base, make_kernel(BLOCK=block)) for block in (256, 512, 1024)]
    assert alike == sorted(alike, reverse=True) and len(set(alike)) == 3


def test_names_of_ones_own_do_not_count(make_kernel: MakeKernel) -> None:
    source = make_kernel().source
    assert tokens(make_kernel(source.replace(" i ", " index ").replace("(i ", "(index "))) == tokens(
        make_kernel(source)
    )


def test_traits_count_constructs_outside_comments(make_kernel: MakeKernel) -> None:
    found = traits(make_kernel(LOOPY + "// __syncthreads(); for (;;) float4"))
    assert (found["loops"], found["barriers"], found["atomics"], found["vector4"]) == (1, 1, 1, 0)


def test_plain_python_has_no_remarks_but_keeps_its_indents(make_kernel: MakeKernel) -> None:
    kernel = make_kernel().model_copy(
        update={"language": "triton", "source": "def f(x):  # trust me\n    # S = 8\n    return '#' + x\n"}
    )
    assert plain(kernel) == "def f(x):\n    return '#' + x"


def test_the_nearest_come_first_and_the_odd_one_is_among_the_far(make_kernel: MakeKernel) -> None:
    pool = pool_of(make_kernel)
    chosen = choose(pool, make_kernel(BLOCK=256), [make_kernel(BLOCK=96)], count=4, far=1)
    assert [sibling.kernel.tunables["BLOCK"] for sibling in chosen[:2]] in ([128, 64], [64, 128])
    assert chosen[-1].kernel.source == LOOPY


def test_the_order_of_the_pool_does_not_matter(make_kernel: MakeKernel) -> None:
    pool = pool_of(make_kernel)
    shuffled = pool[:]
    random.Random(1).shuffle(shuffled)
    arguments = (make_kernel(BLOCK=256), [make_kernel(BLOCK=96), make_kernel(LOOPY, BLOCK=64)])
    assert choose(pool, *arguments, count=5) == choose(shuffled, *arguments, count=5)


def test_the_pair_itself_and_repeats_are_left_out(make_kernel: MakeKernel) -> None:
    pool = pool_of(make_kernel)
    base, candidate = pool[0].kernel, pool[1].kernel
    chosen = choose([*pool, *pool], base, [candidate], count=50)
    ids = [sibling.kernel.source_id for sibling in chosen]
    assert len(ids) == len(set(ids)) == len(pool) - 2
    assert base.source_id not in ids and candidate.source_id not in ids


def test_every_candidate_gets_its_nearest(make_kernel: MakeKernel) -> None:
    pool = pool_of(make_kernel)
    chosen = choose(pool, make_kernel(BLOCK=256), [make_kernel(BLOCK=48), make_kernel(LOOPY, BLOCK=64)], count=2, far=0)
    assert {sibling.kernel.source for sibling in chosen} == {make_kernel().source, LOOPY}


def test_an_empty_pool_gives_nothing(make_kernel: MakeKernel) -> None:
    assert choose([], make_kernel(BLOCK=256), [make_kernel(BLOCK=64)]) == ()


def test_of_two_measurements_of_one_program_the_first_stands(make_kernel: MakeKernel) -> None:
    new, old = (Sibling(kernel=make_kernel(BLOCK=32), log2_speedup=log2, time_us=1.0) for log2 in (0.2, 0.1))
    assert choose([new, old], make_kernel(BLOCK=256), [make_kernel(BLOCK=64)]) == (new,)
