"""The learned forecaster: mirrored, a tie for equal programs, better with siblings, silent where it was not trained."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from kforecast.store.errors import InputError
from kforecast.store.models import EntryFacts, Facts, Kernel, Launch, Task
from kforecast.surrogate.backends.learned import Learned
from kforecast.surrogate.contract import Query, Reply, Sibling, Side
from kforecast.surrogate.learned.covariance import distances
from kforecast.surrogate.learned.features import NAMES, features, vector
from kforecast.surrogate.learned.model import Model, bins_of_normal, load, save
from kforecast.surrogate.learned.train import Sample, train

BASE = Reply(p_correct=0.5, p_bins=(1 / 8,) * 8)
LINES = {
    "loop": "  for (int k = 0; k < 4; ++k) s += x[i + k];",
    "shared": "  __shared__ float tile[256]; tile[threadIdx.x] = x[i]; __syncthreads();",
    "vector": "  float4 v = ((const float4*)x)[i]; s += v.x + v.y + v.z + v.w;",
    "shuffle": "  s += __shfl_xor_sync(0xffffffffu, s, 16);",
    "atomic": "  atomicAdd(y, s);",
    "exp": "  s = expf(s) + expf(-s);",
}
COST = {"loop": 0.5, "shared": -0.3, "vector": -0.8, "shuffle": -0.2, "atomic": 0.9, "exp": 0.3}


def kernel(parts: tuple[str, ...], block: int, task: str) -> Kernel:
    body = "\n".join(LINES[part] for part in parts)
    head = f"__global__ void {task}(const float* x, float* y) {{\n  int i = threadIdx.x; float s = 0;"
    source = f"{head}\n{body}\n  y[i] = s;\n}}"
    return Kernel.make(
        language="cuda", name=task, source=source, launches=(Launch(entry=task, args=("x", "y"), block=("BLOCK",)),),
        task_id=task, tunables={"BLOCK": block},
    )  # fmt: skip


def samples(tasks: int = 5, each: int = 40, seed: int = 0, odd: float = 0.4) -> list[Sample]:
    """log2 time = a task's level + the parts' costs, `odd` of them its own + what a block size does in this task."""
    rng = np.random.default_rng(seed)
    result = []
    for number in range(tasks):
        level, best = rng.normal(5, 2), rng.choice([64, 128, 256, 512])
        surprise = {name: rng.normal(0, odd) for name in LINES}
        for _ in range(each):
            parts = tuple(name for name in LINES if rng.random() < 0.5)
            block = int(rng.choice([32, 64, 128, 256, 512, 1024]))
            log2 = level + sum(COST[name] + surprise[name] for name in parts) + 0.15 * abs(math.log2(block / best))
            ok = bool(rng.random() < (0.6 if "atomic" in parts else 0.95))
            time = float(2.0 ** (log2 + rng.normal(0, 0.02)))
            result.append(Sample(kernel(parts, block, f"t{number}"), f"t{number}", "cuda", ok, time if ok else None))
    return result


@pytest.fixture(scope="module")
def model() -> Model:
    return train(samples())


def query_of(task: Task, base: Sample, candidate: Sample, siblings: list[Sample], *, timed: bool = False) -> Query:
    return Query(
        task=task, device="cuda:0", device_kind="cuda",
        baseline=Side(kernel=base.kernel), baseline_us=base.time_us if timed else None,
        candidates=(Side(kernel=candidate.kernel),),
        siblings=tuple(Sibling(kernel=one.kernel, time_us=one.time_us, log2_speedup=0.0) for one in siblings),
    )  # fmt: skip


def median(model: Model, query: Query) -> float:
    reply = Learned(model, BASE).forecast(query).replies[0]
    assert reply is not None
    return reply.quantile(0.5)


@given(st.floats(-4, 4), st.floats(0, 3))
def test_bins_of_a_normal_are_its_masses_and_mirror(mean: float, sd: float) -> None:
    p = bins_of_normal(mean, sd)
    assert sum(p) == pytest.approx(1)
    assert p == pytest.approx(bins_of_normal(-mean, sd)[::-1], abs=1e-12)
    if sd > 0.01:
        edges = [-2, -1, -0.5, 0, 0.5, 1, 2]
        assert np.cumsum(p)[:-1] == pytest.approx(stats.norm.cdf(edges, mean, sd), abs=1e-9)


@pytest.mark.parametrize("count", [0, 6])
def test_swapping_the_sides_mirrors_the_forecast(model: Model, task: Task, count: int) -> None:
    pool = [sample for sample in samples(seed=9, tasks=1) if sample.timed]
    for base, candidate in ((pool[0], pool[1]), (pool[2], pool[3])):
        siblings = pool[10 : 10 + count]
        one = Learned(model, BASE).forecast(query_of(task, base, candidate, siblings)).replies[0]
        other = Learned(model, BASE).forecast(query_of(task, candidate, base, siblings)).replies[0]
        assert one is not None and other is not None
        assert one.p_bins == pytest.approx(other.p_bins[::-1], abs=1e-9)


def test_equal_source_is_a_tie_whatever_its_comments_and_siblings(model: Model, task: Task) -> None:
    pool = [sample for sample in samples(seed=9, tasks=1) if sample.timed]
    base = pool[0]
    loud = Kernel.make(
        language="cuda", name="other", source="// the fastest kernel there is, S = 8\n" + base.kernel.source,
        launches=base.kernel.launches, task_id=base.kernel.task_id, tunables=base.kernel.tunables, toolchain="another",
    )  # fmt: skip
    reply = Learned(model, BASE).forecast(query_of(task, base, replace(base, kernel=loud), pool[1:6])).replies[0]
    assert reply is not None
    assert reply.p_bins == pytest.approx((0, 0, 0, 0.5, 0.5, 0, 0, 0))
    assert reply.quantile(0.5) == pytest.approx(0.0, abs=1e-9)


def errors(model: Model, task: Task, siblings: int) -> tuple[float, float]:
    """(Spearman, mean absolute error) on tasks never trained on."""
    said, truth = [], []
    for seed in range(20, 26):
        pool = [sample for sample in samples(seed=seed, tasks=1) if sample.timed]
        for candidate in pool[-8:]:
            query = query_of(task, pool[0], candidate, pool[1 : 1 + siblings], timed=True)
            said.append(median(model, query))
            truth.append(math.log2((pool[0].time_us or 1) / (candidate.time_us or 1)))
    return float(stats.spearmanr(said, truth).statistic), float(np.abs(np.subtract(said, truth)).mean())


def test_it_ranks_unseen_tasks_and_siblings_teach_it(model: Model, task: Task) -> None:
    alone, taught = errors(model, task, 0), errors(model, task, 20)
    assert alone[0] > 0.5
    assert taught[0] > max(0.85, alone[0])
    assert taught[1] < 0.7 * alone[1]


def test_its_uncertainty_is_about_right(model: Model, task: Task) -> None:
    inside = []
    for seed in range(30, 36):
        pool = [sample for sample in samples(seed=seed, tasks=1) if sample.timed]
        for candidate in pool[-8:]:
            reply = Learned(model, BASE).forecast(query_of(task, pool[0], candidate, pool[1:9], timed=True)).replies[0]
            assert reply is not None
            truth = math.log2((pool[0].time_us or 1) / (candidate.time_us or 1))
            inside.append(reply.quantile(0.1) <= truth <= reply.quantile(0.9))
    assert 0.6 <= np.mean(inside) <= 0.97


def test_p_correct_looks_at_the_candidate_alone(model: Model, task: Task) -> None:
    risky, safe = (Sample(kernel(parts, 64, "t"), "t", "cuda", True, 1.0) for parts in (("atomic",), ("vector",)))
    answers = [Learned(model, BASE).forecast(query_of(task, base, risky, [])).replies[0] for base in (risky, safe)]
    assert answers[0] is not None and answers[1] is not None
    assert answers[0].p_correct == answers[1].p_correct
    other = Learned(model, BASE).forecast(query_of(task, risky, safe, [])).replies[0]
    assert other is not None and other.p_correct > answers[0].p_correct + 0.1


def test_what_does_not_compile_is_not_correct(model: Model, task: Task) -> None:
    one, two = (Sample(kernel((), block, "t"), "t", "cuda", True, 1.0) for block in (64, 128))
    query = query_of(task, one, two, [])
    broken = query.model_copy(update={"candidates": (Side(kernel=two.kernel, facts=Facts(ok=False, error="x")),)})
    reply = Learned(model, BASE).forecast(broken).replies[0]
    assert reply is not None and reply.p_correct == 0.0


def test_outside_what_it_was_trained_for_it_steps_aside(model: Model, task: Task) -> None:
    pool = samples(seed=9, tasks=1)
    query = query_of(task, pool[0], pool[1], [])
    for learned, asked in (
        (Learned(model, BASE), query.model_copy(update={"device_kind": "cpu"})),
        (Learned(None, BASE), query),
    ):
        answer = learned.forecast(asked)
        assert answer.not_trained and answer.forecaster == "base-rate" and answer.replies == (BASE,)


def test_a_model_survives_its_file_and_other_files_are_refused(model: Model, tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    save(model, path)
    assert load(path) == model
    text = path.read_text()
    for damaged, said in (
        (text[:-20], "cannot be read"),
        (text.replace('"format": 2', '"format": 1'), "another version"),
        (text.replace(NAMES[0], "other", 1), "another version"),
        (text.replace('"text": ', '"text_": '), "damaged"),
        ("[]", "another version"),
    ):
        path.write_text(damaged)
        with pytest.raises(InputError, match=said):
            load(path)
    with pytest.raises(InputError, match="cannot be read"):
        load(tmp_path / "none.json")


def test_too_little_to_train_on_is_refused() -> None:
    with pytest.raises(InputError, match="30 timed kernels"):
        train(samples(tasks=1))
    with pytest.raises(InputError, match="30 timed kernels"):
        train(samples(tasks=2, each=10))


def test_features_have_fixed_names_and_read_the_facts(make_kernel: Callable[..., Kernel]) -> None:
    facts = Facts(
        ok=True, code_bytes=1024, instruction_mix={"LDG.E": 3, "HMMA.16816": 1},
        entries=(EntryFacts(entry="scale", registers=255, spill_bytes=7, shared_bytes=49152, occupancy=0.5),),
    )  # fmt: skip
    found = features(make_kernel(BLOCK=256), facts)
    assert tuple(sorted(found)) == NAMES
    assert (found["registers"], found["spills"], found["shared"], found["occupancy"]) == (1.0, 3.0, 1.0, 0.5)
    assert (found["mix_load"], found["mix_mma"], found["tunables"]) == (2.0, 1.0, 8.0)
    assert features(make_kernel(BLOCK=256))["facts_known"] == 0.0


def test_comments_change_no_feature(make_kernel: Callable[..., Kernel]) -> None:
    hostile = make_kernel("/* for (;;) float4 __syncthreads(); */\n" + make_kernel().source)
    assert vector(hostile) == pytest.approx(vector(make_kernel()))


def test_a_task_whose_siblings_differ_more_is_less_sure(model: Model, task: Task) -> None:
    """Tasks differ by a factor of a hundred in how far their kernels lie apart; the measured ones tell how far."""
    model = replace(model, weights=(0.0,) * len(NAMES), shares=(1 / len(model.shares),) * len(model.shares))
    pool = [sample for sample in samples(seed=9, tasks=1) if sample.timed]
    widths = []
    for factor in (1.0, 2.0, 4.0):
        others = [replace(one, time_us=(one.time_us or 1.0) ** factor) for one in pool[1:13]]
        base = replace(pool[0], time_us=(pool[0].time_us or 1.0) ** factor)
        reply = Learned(model, BASE).forecast(query_of(task, base, pool[-1], others, timed=True)).replies[0]
        assert reply is not None
        widths.append(reply.quantile(0.9) - reply.quantile(0.1))
    assert 1.3 * widths[0] < widths[1] < widths[2] / 1.3


def test_a_task_of_many_kernels_counts_no_more_than_another() -> None:
    """One task says the opposite of four others, with ten times their kernels."""
    many = [sample for sample in samples(tasks=5, each=30, odd=0.0) if sample.group != "t4"]
    odd = [sample for sample in samples(tasks=5, each=300, seed=1, odd=0.0) if sample.group == "t4"]
    flipped = [replace(one, time_us=None if one.time_us is None else 1 / one.time_us) for one in odd]
    trained = train([*many, *flipped])
    assert trained.weights[NAMES.index("trait_atomics")] > 0 > trained.weights[NAMES.index("trait_vector4")]


@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 99))
def test_distances_are_mean_squared_differences(n: int, m: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    one, other = rng.normal(0, 3, (n, 7)), rng.normal(0, 3, (m, 7))
    assert distances(one, other) == pytest.approx(((one[:, None] - other[None]) ** 2).mean(axis=2), abs=1e-9)
    assert np.diag(distances(one, one)) == pytest.approx(0.0, abs=1e-9)


def test_siblings_make_it_surer(model: Model, task: Task) -> None:
    pool = [sample for sample in samples(seed=9, tasks=1) if sample.timed]
    widths = []
    for count in (0, 5, 25):
        reply = Learned(model, BASE).forecast(query_of(task, pool[0], pool[-1], pool[1 : 1 + count])).replies[0]
        assert reply is not None
        widths.append(reply.quantile(0.9) - reply.quantile(0.1))
    assert widths == sorted(widths, reverse=True) and widths[2] < 0.8 * widths[0]
