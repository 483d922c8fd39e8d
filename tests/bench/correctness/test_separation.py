"""The gate between two populations: honest, naive f32 kernels pass; kernels one precision lower do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kforecast.bench.correctness.compare import FloatExpectation
from kforecast.bench.correctness.gate import expect
from kforecast.bench.correctness.norms import measure_norms
from kforecast.bench.correctness.nulls import null_outputs
from kforecast.bench.tasks.builtin import builtin_names, builtin_task
from kforecast.bench.tasks.dtypes import is_float, round_to, to_float
from kforecast.bench.tasks.inputs import make_inputs
from kforecast.store.models import Case

Array = Any
Arrays = dict[str, Array]
F32 = np.float32

# One case a task as its timed ones are, but smaller.
TIMED_CLASS = {
    "vector_add": {"N": 200_000},
    "bias_gelu": {"R": 256, "C": 512},
    "softmax_rows": {"R": 64, "C": 4096},
    "layernorm": {"R": 64, "C": 4096},
    "rmsnorm": {"R": 64, "C": 4096},
    "sum_all": {"N": 1_000_000},
    "argmax_rows": {"R": 1024, "C": 512},
    "transpose": {"R": 512, "C": 384},
    "gemm_f32": {"M": 96, "N": 128, "K": 2048},
    "gemm_bf16": {"M": 96, "N": 128, "K": 4096},
    "gemv": {"M": 256, "K": 8192},
    "batched_gemm": {"G": 8, "M": 64, "N": 64, "K": 128},
    "histogram": {"N": 200_000, "BINS": 256},
    "scan": {"N": 1_000_000},
    "stencil2d": {"H": 300, "W": 512},
    "conv1d": {"G": 2, "C": 64, "L": 2048, "T": 4},
    "embedding": {"V": 4096, "D": 128, "T": 2048},
    "cross_entropy": {"R": 128, "C": 8192},
    "attention": {"H": 2, "S": 512, "D": 64},
}


def rough_exp(x: Array) -> Array:
    """exp as `__expf` may be: wrong by up to 2 + 1.173 |x| ulp (CUDA C++ programming guide, intrinsic functions)."""
    ulps = np.random.default_rng(7).uniform(-1, 1, x.shape) * (2 + 1.173 * np.minimum(abs(x), 100))
    return (np.exp(x, dtype=F32) * (1 + ulps * 2.0**-23)).astype(F32)


def serial_sum(x: Array) -> Array:
    """Sum along the last axis, one f32 addition after the other."""
    return np.cumsum(x, axis=-1, dtype=F32)[..., -1]


def serial_matmul(a: Array, b: Array) -> Array:
    """a @ b with one f32 accumulator an element, k ascending."""
    out = np.zeros((*a.shape[:-1], b.shape[-1]), F32)
    for k in range(a.shape[-1]):
        out += a[..., :, k, None] * b[..., k, None, :]
    return out


def bias_gelu(x: Array, b: Array) -> Array:
    v = x + b
    z = F32(0.7978845608) * (v + F32(0.044715) * v * v * v)
    return F32(0.5) * v * (1 + (1 - 2 / (rough_exp(2 * z) + 1)))


def softmax(x: Array) -> Array:
    e = rough_exp(x - x.max(axis=-1, keepdims=True))
    return e * (1 / serial_sum(e))[..., None]


def layernorm(x: Array, gamma: Array, beta: Array) -> Array:
    d = x - (serial_sum(x) / F32(x.shape[-1]))[:, None]
    return d * (1 / np.sqrt(serial_sum(d * d) / F32(x.shape[-1]) + F32(1e-5)))[:, None] * gamma + beta


def rmsnorm(x: Array, w: Array) -> Array:
    return x * (1 / np.sqrt(serial_sum(x * x) / F32(x.shape[-1]) + F32(1e-6)))[:, None] * w


def stencil(x: Array) -> Array:
    y = x.copy()
    if min(x.shape) > 2:
        sides = x[:-2, 1:-1] * F32(0.125) + x[2:, 1:-1] * F32(0.125)
        y[1:-1, 1:-1] = sides + x[1:-1, :-2] * F32(0.125) + x[1:-1, 2:] * F32(0.125) + x[1:-1, 1:-1] * F32(0.5)
    return y


def conv(x: Array, w: Array) -> Array:
    taps = w.shape[1]
    padded = np.pad(x, ((0, 0), (0, 0), (taps - 1, 0)))
    y = np.zeros_like(x)
    for t in reversed(range(taps)):
        y += w[None, :, t, None] * padded[..., t : t + x.shape[2]]
    return y


def cross_entropy(logits: Array, labels: Array) -> Array:
    top = logits.max(axis=1)
    picked = logits[np.arange(len(labels)), labels]
    return np.log(serial_sum(rough_exp(logits - top[:, None]))) + top - picked


def attention(q: Array, k: Array, v: Array) -> Array:
    scores = serial_matmul(q, k.swapaxes(1, 2)) * F32(1 / np.sqrt(q.shape[2]))
    return serial_matmul(softmax(scores), v)


HONEST: dict[str, Callable[..., Array]] = {
    "vector_add": lambda a, b: a + b,
    "bias_gelu": bias_gelu,
    "softmax_rows": softmax,
    "layernorm": layernorm,
    "rmsnorm": rmsnorm,
    "sum_all": lambda x: serial_sum(x).reshape(1),
    "gemm_f32": serial_matmul,
    "gemm_bf16": lambda a, b: serial_matmul(a, b.T),
    "gemv": lambda a, x: serial_sum(a * x),
    "batched_gemm": serial_matmul,
    "scan": lambda x: np.cumsum(x, dtype=F32),
    "stencil2d": stencil,
    "conv1d": conv,
    "cross_entropy": cross_entropy,
    "attention": attention,
}
WITHIN_PRECISION = sorted(HONEST)


def honest_outputs(name: str, inputs: Arrays) -> Arrays:
    task = builtin_task(name)
    dtypes = {tensor.name: tensor.dtype for tensor in task.tensors}
    wide = [to_float(a, dtypes[n], np, F32) if is_float(dtypes[n]) else a for n, a in inputs.items()]
    with np.errstate(all="ignore"):
        result = HONEST[name](*wide)
    (output,) = (tensor for tensor in task.tensors if tensor.role == "out")
    return {output.name: round_to(result, output.dtype, np)}


def test_every_built_in_task_is_here() -> None:
    assert set(TIMED_CLASS) == set(builtin_names())
    assert set(WITHIN_PRECISION) == {name for name in builtin_names() if builtin_task(name).precision}


@pytest.mark.parametrize("name", WITHIN_PRECISION)
def test_an_honest_naive_kernel_passes_every_case_with_room_to_spare(name: str) -> None:
    task = builtin_task(name)
    for number, case in enumerate((*task.checked, Case(sizes=TIMED_CLASS[name]))):
        inputs = make_inputs(task, case, seed=1000 + number)
        expectation = expect(task, case, inputs)
        outputs = honest_outputs(name, inputs)
        assert expectation.check(outputs) is None, case.name
        (expected,) = expectation.tensors
        assert isinstance(expected, FloatExpectation)
        (got,) = outputs.values()
        norms = measure_norms(expected.scale, to_float(got, expected.tensor.dtype, np).reshape(-1), np)
        for norm, limit in zip(norms, expected.limits, strict=True):
            assert norm <= 0.7 * limit, f"{case.name}: {norms} against {expected.limits}"


@pytest.mark.parametrize("name", WITHIN_PRECISION)
def test_a_kernel_one_precision_lower_fails_wherever_its_operands_are_rounded_and_not_averaged_away(name: str) -> None:
    task = builtin_task(name)
    plain = [case for case in (*task.checked, Case(sizes=TIMED_CLASS[name])) if not case.fill]
    failed = []
    for number, case in enumerate(plain):
        lower = null_outputs(task, case, 1000 + number)["lower precision"]
        mismatch = expect(task, case, make_inputs(task, case, 1000 + number)).check(lower)
        failed.append(mismatch is not None)
    # A row of one has softmax 1 and loss 0 at any precision; a few sums of many terms may be right by luck.
    exempt = {"sum_all": 3, "softmax_rows": 1, "cross_entropy": 2}.get(name, 0)
    assert failed.count(False) <= exempt, [case.name for case, bad in zip(plain, failed, strict=True) if not bad]


@pytest.mark.parametrize("name", ["gemm_f32", "softmax_rows", "layernorm", "conv1d", "bias_gelu", "attention"])
def test_the_limits_stand_clear_of_both_populations(name: str) -> None:
    task, case = builtin_task(name), Case(sizes=TIMED_CLASS[name])
    inputs = make_inputs(task, case, seed=5)
    (expected,) = expect(task, case, inputs).tensors
    assert isinstance(expected, FloatExpectation)
    (got,) = honest_outputs(name, inputs).values()
    honest = measure_norms(expected.scale, got.reshape(-1).astype(np.float64), np)
    assert honest.rms * 4 < expected.limits.rms < expected.lower.rms / 3
    assert honest.maximum * 2 < expected.limits.maximum < expected.lower.maximum / 2


def test_bf16_sums_fail_a_task_that_accumulates_in_f32() -> None:
    task, case = builtin_task("gemm_bf16"), Case(sizes={"M": 32, "N": 48, "K": 1024})
    inputs = make_inputs(task, case, seed=3)
    a, b = (to_float(inputs[name], "bf16", np, F32) for name in "AB")
    total = np.zeros((32, 48), F32)
    for k in range(1024):
        total = to_float(round_to(total + a[:, k, None] * b[None, :, k], "bf16", np), "bf16", np, F32)
    assert expect(task, case, inputs).check({"C": round_to(total, "bf16", np)}) is not None
