"""References against formulations of another make: scipy, or loops over elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.ndimage
import scipy.signal
import scipy.special

from kforecast.bench.tasks.builtin import builtin_names, builtin_task
from kforecast.bench.tasks.dtypes import is_float, to_float
from kforecast.bench.tasks.inputs import make_inputs
from kforecast.bench.tasks.load import task_from_table
from kforecast.bench.tasks.reference import load_reference
from kforecast.bench.tasks.shapes import output_tensors, shape_of

Array = Any


def gelu(x: Array, b: Array) -> Array:
    def one(v: float) -> float:
        return 0.5 * v * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3)))

    return np.vectorize(one, otypes=[float])(x + b)


def layernorm(x: Array, gamma: Array, beta: Array) -> Array:
    return np.stack([(row - np.mean(row)) / np.sqrt(np.var(row) + 1e-5) * gamma + beta for row in x])


def rmsnorm(x: Array, w: Array) -> Array:
    return np.stack([row / math.sqrt(np.dot(row, row) / len(row) + 1e-6) * w for row in x])


def argmax(x: Array) -> Array:
    return np.array([min(c for c in range(len(row)) if row[c] == max(row)) for row in x.tolist()], np.int32)


def histogram(x: Array, bins: int) -> Array:
    return np.histogram(x, bins=np.arange(bins + 1))[0].astype(np.int32)


def stencil(x: Array) -> Array:
    weights = np.array([[0, 0.125, 0], [0.125, 0.5, 0.125], [0, 0.125, 0]])
    y = scipy.ndimage.correlate(x, weights, mode="nearest")
    y[[0, -1], :] = x[[0, -1], :]
    y[:, [0, -1]] = x[:, [0, -1]]
    return y


def conv1d(x: Array, w: Array) -> Array:
    rows = [[np.convolve(x[g, c], w[c, ::-1])[: x.shape[2]] for c in range(x.shape[1])] for g in range(x.shape[0])]
    return np.array(rows)


def cross_entropy(logits: Array, labels: Array) -> Array:
    return scipy.special.logsumexp(logits, axis=1) - np.array(
        [row[label] for row, label in zip(logits, labels, strict=True)]
    )


def attention(q: Array, k: Array, v: Array) -> Array:
    scores = np.einsum("hsd,htd->hst", q, k) / math.sqrt(q.shape[2])
    return np.einsum("hst,htd->hsd", scipy.special.softmax(scores, axis=2), v)


OTHER: dict[str, Callable[..., Array]] = {
    "vector_add": np.add,
    "bias_gelu": gelu,
    "softmax_rows": lambda x: scipy.special.softmax(x, axis=1),
    "layernorm": layernorm,
    "rmsnorm": rmsnorm,
    "sum_all": lambda x: np.array([math.fsum(x)]),
    "argmax_rows": argmax,
    "transpose": lambda x: np.einsum("rc->cr", x),
    "gemm_f32": lambda a, b: np.einsum("mk,kn->mn", a, b),
    "gemm_bf16": lambda a, b: np.einsum("mk,nk->mn", a, b),
    "gemv": lambda a, x: np.einsum("mk,k->m", a, x),
    "batched_gemm": lambda a, b: np.einsum("gmk,gkn->gmn", a, b),
    "histogram": histogram,
    "scan": lambda x: np.array([math.fsum(x[: n + 1]) for n in range(len(x))]),
    "stencil2d": stencil,
    "conv1d": conv1d,
    "embedding": lambda table, idx: np.stack([table[i] for i in idx]),
    "cross_entropy": cross_entropy,
    "attention": attention,
}


@pytest.mark.parametrize("name", builtin_names())
def test_a_reference_agrees_with_another_formulation(name: str) -> None:
    task = builtin_task(name)
    (output,) = output_tensors(task)
    reference = load_reference(task)
    for case in task.checked:
        if math.prod(shape_of(output, case)) > 5000 or {"nan_one", "inf_one", "neg_inf_one"} & set(case.fill.values()):
            continue
        inputs = make_inputs(task, case, seed=21)
        dtypes = {tensor.name: tensor.dtype for tensor in task.tensors}
        wide = {key: to_float(a, dtypes[key], np) if is_float(dtypes[key]) else a for key, a in inputs.items()}
        got = reference.compute(np, wide, case.sizes)[output.name]
        extra = [case.sizes["BINS"]] if name == "histogram" else []
        want = OTHER[name](*wide.values(), *extra)
        assert got.shape == shape_of(output, case)
        scale = float(np.abs(want[np.isfinite(want)]).max(initial=0)) or 1.0
        if task.precision is None:
            np.testing.assert_array_equal(got, want)
        else:
            inner = max(float(np.abs(a).max()) for a in wide.values())
            room = 1e-9 * scale if name in ("layernorm", "softmax_rows", "cross_entropy") else 1e-12 * max(scale, inner)
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=room, err_msg=case.name)


@pytest.mark.parametrize("name", builtin_names())
def test_a_reference_keeps_the_float_dtype_and_leaves_its_inputs_alone(name: str) -> None:
    task = builtin_task(name)
    case = task.checked[1]
    inputs = make_inputs(task, case, seed=22)
    dtypes = {tensor.name: tensor.dtype for tensor in task.tensors}
    for wide in (np.float32, np.float64):
        given = {key: to_float(a, dtypes[key], np, wide) if is_float(dtypes[key]) else a for key, a in inputs.items()}
        before = {key: array.copy() for key, array in given.items()}
        results = load_reference(task).compute(np, given, case.sizes)
        for tensor in output_tensors(task):
            assert results[tensor.name].dtype == (wide if is_float(tensor.dtype) else np.int32)
        for key, array in given.items():
            np.testing.assert_array_equal(array, before[key])


@pytest.mark.parametrize("fill, wanted", [("nan_one", np.isnan), ("neg_inf_one", lambda y: y == 0)])
def test_softmax_propagates_a_nan_through_its_row_and_gives_minus_infinity_no_weight(fill: str, wanted: Any) -> None:
    task = builtin_task("softmax_rows")
    case = task.checked[1].model_copy(update={"fill": {"x": fill}})
    x = make_inputs(task, case, seed=23)["x"]
    y = load_reference(task).compute(np, {"x": x.astype(np.float64)}, case.sizes)["y"]
    at = ~np.isfinite(x)
    assert at.sum() == 1
    assert wanted(y[at]).all()
    assert np.isnan(y).sum() == (x.shape[1] if fill == "nan_one" else 0)


def test_an_einsum_reference_knows_its_terms_and_its_scale() -> None:
    task = task_from_table(
        {
            "name": "t",
            "in": {"A": {"dtype": "f32", "shape": ["M", "K"]}, "B": {"dtype": "f32", "shape": ["K + 0", "N"]}},
            "out": {"C": {"dtype": "f32", "shape": ["M", "N"]}},
            "reference": "einsum: mk,kn->mn",
            "checked": [{"M": 3, "K": 5, "N": 4}],
            "timed": [{"M": 3, "K": 5, "N": 4}],
        },
        folder=None,
        where="test",
    )
    reference = load_reference(task)
    assert reference.terms is not None and reference.terms({"M": 3, "K": 5, "N": 4}) == 5
    inputs = make_inputs(task, task.checked[0], seed=1)
    np.testing.assert_allclose(reference.compute(np, inputs, {})["C"], inputs["A"] @ inputs["B"], rtol=1e-5, atol=1e-6)
    scale = reference.scales(np, inputs, {})["C"]
    assert scale.shape == (3, 4) and (abs(inputs["A"] @ inputs["B"]) <= scale * math.sqrt(5) * 1.001).all()
