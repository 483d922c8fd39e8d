"""The header that a bare file is answered with can be pasted: it parses, and with a known task it loads."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pytest

from kforecast.bench.header.block import find_header
from kforecast.bench.header.header import parse_header
from kforecast.bench.header.load import LoadedKernel
from kforecast.bench.header.scaffold import scaffold
from kforecast.bench.header.signature import signatures
from kforecast.store.errors import InputError
from kforecast.store.models import Language, Task

Load = Callable[..., LoadedKernel]
ROWS = "__global__ void rows(const float* __restrict__ x, float* y, int R, int C) { }\n"


def answer(load: Load, source: str, **arguments: object) -> tuple[str, str]:
    """The error for a bare text, and the header inside it."""
    with pytest.raises(InputError) as caught:
        load(source, **arguments)
    found = re.search(r"/\* kforecast 1.*?\*/|# /// kforecast 1.*?\n# ///", str(caught.value), re.DOTALL)
    assert found is not None
    return str(caught.value), found.group()


def test_the_answer_lists_what_was_found(load: Load) -> None:
    error, _ = answer(load, "\n__global__ void first(int n) { }\n" + ROWS)
    assert "no kernel header" in error
    assert "line 2: first(int n); line 3: rows(const float* x, float* y, int R, int C)" in error


@pytest.mark.parametrize(
    "source",
    [
        ROWS,
        ROWS.replace(" x,", " source,").replace(" y,", " target,").replace("int R", "int rows_"),
        "__global__ void helper(Params p) { }\n" + ROWS,
        "void softmax_rows(const float* source, float* y, int R, int C) { }\n",  # by its own names it needs no header
    ],
)
def test_with_its_task_it_loads(load: Load, tasks: dict[str, Task], source: str) -> None:
    _, header = answer(load, source, task=tasks["softmax_rows"])
    loaded = load(f"{header}\n{source}")
    assert loaded.task.name == "softmax_rows"
    assert loaded.kernel.launches[0].args == ("x", "y", "R", "C")
    assert loaded.warnings == ()


def test_the_task_is_suggested_by_names(load: Load, tasks: dict[str, Task]) -> None:
    def known() -> Sequence[Task]:
        return tuple(tasks.values())

    assert 'task = "softmax_rows"' in answer(load, ROWS, known_tasks=known)[1]
    assert "[task]" in answer(load, ROWS.replace("float* y", "double* y"), known_tasks=known)[1]
    assert "[task]" in answer(load, ROWS.replace("int C", "int Q"), known_tasks=known)[1]


@pytest.mark.parametrize(
    ("language", "source"),
    [
        ("cuda", ROWS),
        ("cuda", "template <typename T, int BM> __global__ void k(const T* in, T* out, float eps) { }"),
        ("cuda", "namespace a { __global__ void k(float*, int) { } }"),
        ("cuda", "__global__ void k(Params p) { }"),
        ("cuda", "nothing here"),
        ("c", "void k(const float* a, const uint16_t* b, double* c, int64_t N) { }"),
        ("triton", "@triton.jit\ndef k(x_ptr, y_ptr, n, BLOCK: tl.constexpr): ..."),
        ("torch", "class Model: ..."),
    ],
)
def test_it_always_parses(language: Language, source: str) -> None:
    block = find_header(scaffold(language, signatures(source, language)), language)
    assert block is not None
    parsed = parse_header(block)
    assert isinstance(parsed.task, dict)
    assert len(parsed.launches) == 1


def test_inputs_and_outputs_are_told_apart_by_const() -> None:
    block = find_header(scaffold("cuda", signatures(ROWS, "cuda")), "cuda")
    assert block is not None
    assert block.table["task"]["in"] == {"x": {"dtype": "f32", "shape": ["R", "C"]}}
    assert block.table["task"]["out"] == {"y": {"dtype": "f32", "shape": ["R", "C"]}}
