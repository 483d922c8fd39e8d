"""Learning one task while it is searched: readings bind, near ones pull, wrong ones warn; nothing but the arguments
counts."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kforecast.store.models import Facts, Kernel, Launch
from kforecast.surrogate.contract import Side
from kforecast.surrogate.learned.learner import Guess, Learner, Seen
from kforecast.surrogate.learned.marks import apart, marks, unlike
from kforecast.surrogate.learned.model import load
from kforecast.tools.learned import SHIPPED

LINES = ("int i = threadIdx.x;", "float a = x[i];", "__shared__ float s[32];", "#pragma unroll 4", "y[i] = a;")


def kernel(*extra: str, remark: str = "", options: tuple[str, ...] = (), **tunables: int) -> Kernel:
    body = "\n".join([*LINES, *extra])
    return Kernel.make(
        language="cuda",
        name="k.cu",
        source=f"// {remark}\n__global__ void k(const float* x, float* y) {{\n{body}\n}}\n",
        launches=(Launch(entry="k", args=("x", "y"), grid=("1",), block=("32",)),),
        task_id="t_1",
        options=options,
        tunables=tunables,
    )


def side(one: Kernel, facts: Facts | None = None) -> Side:
    return Side(kernel=one, facts=facts)


def seen(one: Kernel, log2: float | None) -> Seen:
    return Seen(side(one), log2)


SEED = kernel()
DRAWN = st.lists(
    st.tuples(st.sets(st.integers(0, 6), max_size=3), st.sampled_from([1, 2, 8]), st.none() | st.floats(-3, 3)),
    min_size=1,
    max_size=8,
)


def test_marks_are_blind_to_comments_and_count_repeats() -> None:
    assert marks(kernel(remark="fast!")) == marks(kernel(remark="slow"))
    assert unlike(kernel(), kernel("a += 1;")) == 1
    assert unlike(kernel("a += 1;"), kernel("a += 1;", "a += 1;")) == 1
    assert unlike(kernel(options=("--use_fast_math",)), kernel()) == 1
    assert apart(kernel(B=1), kernel(B=8)) == pytest.approx(9.0) and apart(kernel(B=1), kernel()) == 1.0


@settings(max_examples=25, deadline=None)
@given(DRAWN, st.booleans())
def test_the_answer_depends_on_the_arguments_alone(
    drawn: list[tuple[set[int], int, float | None]], trained: bool
) -> None:
    """Whatever a learner was asked before, and in whatever order candidates stand, each gets the same answer."""
    model = load(SHIPPED) if trained else None
    made = [(kernel(*(f"a += {n};" for n in sorted(extra)), B=b), log2) for extra, b, log2 in drawn]
    known = [seen(SEED, 0.0), *(seen(one, log2) for one, log2 in made)]
    candidates = [side(kernel(f"a *= {n};", B=4)) for n in range(3)]
    used = Learner(model)
    used.guesses(known[:1], candidates[::-1])
    told = used.guesses(known, candidates)
    fresh = Learner(model).guesses(known, candidates[::-1])[::-1]
    for one, other in zip(told, fresh, strict=True):
        assert one.mean == pytest.approx(other.mean, abs=1e-6) and one.sd == pytest.approx(other.sd, abs=1e-6)
        assert one.p_correct == pytest.approx(other.p_correct) and 0 <= one.p_correct <= 1 and one.sd > 0


def test_a_reading_binds_and_near_ones_pull() -> None:
    base = [seen(SEED, 0.0), *(seen(kernel(f"a += {n};"), 0.02 * n) for n in range(5))]
    fast, near, far = kernel("b = 7;"), kernel("b = 7;", "c = 1;"), kernel(*(f"d[{n}] = {n};" for n in range(20)))
    known = [*base, seen(fast, 2.0)]
    same, close, other = Learner(None).guesses(known, [side(fast), side(near), side(far)])
    assert same.mean == pytest.approx(2.0, abs=0.3)
    assert close.mean > other.mean and same.sd < close.sd < other.sd


def test_wrong_neighbours_and_compile_errors_are_heard() -> None:
    suspect = kernel("y[i + 1] = a;", "c = 1;")
    known = [seen(SEED, 0.0), *(seen(kernel("y[i + 1] = a;", f"a += {n};"), None) for n in range(4))]
    warned, unwarned = Learner(None).guesses(known, [side(suspect), side(kernel("c = 1;"))])
    assert warned.p_correct < unwarned.p_correct - 0.05 and warned.p_correct < 0.5
    broken = Facts(ok=False, error="no", arch="sm_90", toolchain="nvrtc")
    assert Learner(None).guesses(known, [side(suspect, broken)])[0].p_correct == 0.0


def test_additive_effects_of_edits_and_tunables_are_learnt() -> None:
    """Of a landscape where lines and a tunable add up, twenty measurements rank the rest."""
    chance = random.Random(1)
    worth = {n: chance.gauss(0, 0.5) for n in range(12)}
    made = []
    for _ in range(60):
        chosen, block = sorted(chance.sample(range(12), 3)), chance.choice([1, 2, 4, 8])
        truth = sum(worth[n] for n in chosen) - 0.3 * abs(block - 4) ** 0.5
        made.append((kernel(*(f"a += {n};" for n in chosen), B=block), truth))
    known = [seen(SEED, 0.0), *(seen(one, truth) for one, truth in made[:25])]
    told = Learner(None).guesses(known, [side(one) for one, _ in made[25:]])
    assert _agreement(told, [truth for _, truth in made[25:]]) > 0.7


def _agreement(told: list[Guess], truths: list[float]) -> float:
    """Share of pairs in the right order."""
    pairs = [(i, j) for i in range(len(truths)) for j in range(i)]
    return sum((told[i].mean - told[j].mean) * (truths[i] - truths[j]) > 0 for i, j in pairs) / len(pairs)


def test_threads_may_share_a_learner() -> None:
    kernels = [kernel(f"a += {n};") for n in range(40)]

    def mean(learner: Learner, one: Kernel) -> float:
        return learner.guesses([seen(SEED, 0.0)], [side(one)])[0].mean

    alone = [mean(Learner(None), one) for one in kernels]
    for _ in range(5):
        with ThreadPoolExecutor(8) as pool:
            told = list(pool.map(partial(mean, Learner(None)), kernels))
        assert told == pytest.approx(alone)
