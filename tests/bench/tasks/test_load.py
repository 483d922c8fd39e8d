from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kforecast.bench.tasks.load import load_task, resolve_task, task_from_table
from kforecast.bench.tasks.reference import load_reference
from kforecast.bench.tasks.shapes import bytes_of, shape_of
from kforecast.store.errors import InputError
from kforecast.store.models import Precision, Task

GEMM: dict[str, Any] = {
    "name": "gemm_nt",
    "in": {
        "A": {"dtype": "bf16", "shape": ["M", "K"], "fill": "normal"},
        "B": {"dtype": "bf16", "shape": ["N", "K"]},
    },
    "out": {"C": {"dtype": "bf16", "shape": ["M", "N"]}},
    "reference": "einsum: mk,nk->mn",
    "precision": {"multiply": "bf16", "accumulate": "f32"},
    "flops": "2 * M * N * K",
    "timed": [{"M": 64, "N": 32, "K": 16}, {"M": 8, "N": 8, "K": 8, "fill": {"A": "large"}}],
    "checked": [{"M": 7, "N": 9, "K": 5}, {"K": 1, "N": 1, "M": 1}],
}


def load(**changes: Any) -> Task:
    table = {key: value for key, value in {**GEMM, **changes}.items() if value is not None}
    return task_from_table(table, folder=None, where="gemm.cu")


def test_a_header_table_becomes_a_task() -> None:
    task = load()
    assert [(t.name, t.role, t.dtype, t.shape) for t in task.tensors] == [
        ("A", "in", "bf16", ("M", "K")),
        ("B", "in", "bf16", ("N", "K")),
        ("C", "out", "bf16", ("M", "N")),
    ]
    assert task.precision == Precision(multiply="bf16", accumulate="f32")
    assert task.size_names == ("M", "N", "K")
    assert task.checked[1].name == "M=1 N=1 K=1"
    assert task.timed_on("cuda") == task.timed_on("cpu") == task.timed["any"]
    assert task.timed["any"][1].fill == {"A": "large"}
    assert shape_of(task.tensor("A"), task.checked[0]) == (7, 5)
    assert bytes_of(task.tensor("C"), task.checked[0]) == 2 * 63


def test_equal_tables_make_equal_ids_and_other_cases_another() -> None:
    assert load().id == load().id
    assert load(checked=[{"M": 7, "N": 9, "K": 6}]).id != load().id


def test_timed_cases_by_device_kind() -> None:
    task = load(timed={"cpu": [{"M": 1, "N": 2, "K": 3}], "cuda": [{"M": 4, "N": 5, "K": 6}]})
    assert task.timed_on("cpu")[0].sizes == {"M": 1, "N": 2, "K": 3}
    assert task.timed_on("cuda")[0].sizes["M"] == 4


def test_an_einsum_over_floats_has_a_precision_even_if_unsaid() -> None:
    assert load(precision=None).precision == Precision(multiply="bf16", accumulate="f32")
    ints = {name: {"dtype": "i32", "shape": list(shape)} for name, shape in {"A": "MK", "B": "NK"}.items()}
    timed = [{"M": 8, "N": 8, "K": 8}]
    exact = load(precision=None, **{"in": ints}, out={"C": {"dtype": "i32", "shape": ["M", "N"]}}, timed=timed)
    assert exact.precision is None
    assert exact.tensor("A").fill == "ints"


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"refrence": "x"}, "Did you mean reference"),
    ({"name": "gemm-nt"}, "no identifier"),
    ({"name": None}, "lacks a key"),
    ({"out": None}, "without outputs"),
    ({"in": {"A": {"dtype": "fp16", "shape": ["M"]}}}, "Did you mean .*f16"),
    ({"in": {"A": {"dtype": "f32", "shape": ["M"], "fil": "normal"}}}, "Did you mean fill"),
    ({"in": {"A": {"dtype": "f32", "shape": ["M"], "zero": True}}}, "unknown key of tensor A"),
    ({"in": {"A": {"dtype": "f32", "shape": "M"}}}, "list of expressions"),
    ({"in": {"A": {"dtype": "f32", "shape": ["M ** 2"]}}}, "gemm.cu"),
    ({"in": {"M": {"dtype": "f32", "shape": ["M"]}}}, "share a name"),
    ({"in": {"A": {"dtype": "f32", "shape": ["M", "K"]}}}, "does not fit its tensors"),
    ({"inout": {"A": {"dtype": "f32", "shape": ["M", "K"]}}}, "declared twice"),
    ({"reference": "einsum: mk,nk->mz"}, "output index"),
    ({"reference": "einsum: mk,nk"}, "cannot be used"),
    ({"reference": "matmul"}, "no known form"),
    ({"reference": "gemm.py:reference"}, "no folder"),
    ({"precision": {"multiply": "i32", "accumulate": "f32"}}, "floating-point"),
    ({"precision": {"multiply": "f32", "acumulate": "f32"}}, "Did you mean accumulate"),
    ({"precision": {"multiply": "f32"}}, "accumulate"),
    ({"flops": "2 * M * P"}, "lacks a size.*P"),
    ({"flops": True}, "no expression"),
    ({"data_dependent": "yes"}, "neither true nor false"),
    ({"checked": None}, "no list of cases"),
    ({"checked": []}, "no list of cases"),
    ({"checked": [{"M": 1, "N": 1}]}, "lacks a size.*K"),
    ({"checked": [{"M": 1, "N": 1, "K": 1, "L": 1}]}, "unknown key of a checked case"),
    ({"checked": [{"M": 0, "N": 1, "K": 1}]}, "no positive integer"),
    ({"checked": [{"M": True, "N": 1, "K": 1}]}, "no positive integer"),
    ({"checked": [{"M": 1, "N": 1, "K": 1, "fill": {"A": "larg"}}]}, "Did you mean large"),
    ({"checked": [{"M": 1, "N": 1, "K": 1, "fill": {"C": "large"}}]}, "unknown key of fill"),
    ({"checked": [{"M": 1, "N": 1, "K": 1, "fill": "large"}]}, "no table"),
    ({"timed": {"gpu": [{"M": 1, "N": 1, "K": 1}]}}, "Did you mean cpu"),
    ({"timed": {}}, "no cases"),
    ({"timed": [{"M": 2**30, "N": 2**30, "K": 1}]}, "TiB"),
    ({"out": {"C": {"dtype": "bf16", "shape": ["M - 7", "N"]}}}, "at least 1.*M - 7 at M=7"),
    (
        {"in": {"A": {"dtype": "i8", "shape": ["M", "K"], "fill": "index:1000"}, "B": GEMM["in"]["B"]}},
        "does not fit i8",
    ),
    (
        {"in": {"A": {"dtype": "i32", "shape": ["M", "K"], "fill": "normal"}, "B": GEMM["in"]["B"]}},
        "gemm.cu: fill of A is for floats",
    ),
]


@pytest.mark.parametrize("changes, text", WRONG, ids=[str(number) for number in range(len(WRONG))])
def test_a_wrong_table_is_refused_with_a_next_step(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError, match=f"(?s).*{text}") as caught:
        load(**changes)
    assert caught.value.next_step


def write_task(folder: Path, reference: str) -> Path:
    (folder / "ref.py").write_text(reference)
    file = folder / "task.toml"
    file.write_text(
        'title = "twice x"\n'
        'in.x = { dtype = "f32", shape = ["N"] }\n'
        'out.y = { dtype = "f32", shape = ["N"] }\n'
        'reference = "ref.py:twice"\n'
        'precision = { multiply = "f32", accumulate = "f32" }\n'
        "checked = [{ N = 5 }]\ntimed = [{ N = 50 }]\n"
    )
    return file


def test_files_and_folders_load_with_their_reference(tmp_path: Path) -> None:
    folder = tmp_path / "doubling"
    folder.mkdir()
    source = "def twice(xp, inputs, sizes):\n    return {'y': inputs['x'] * 2}\n"
    file = write_task(folder, source)
    task = load_task(str(file))
    assert (
        task
        == load_task(str(folder))
        == resolve_task("doubling/task.toml", tmp_path)
        == resolve_task("doubling", tmp_path)
    )
    assert (task.name, task.reference, task.reference_source) == ("doubling", "twice", source)


@pytest.mark.parametrize(
    "reference, text",
    [
        ("def double(xp, inputs, sizes): ...", "no such function"),
        ("def twice(inputs): ...", "no such function"),
        ("def twice(xp, inputs, sizes)", "does not load"),
        ("import no_such_module_anywhere", "does not load"),
    ],
)
def test_a_broken_reference_file_is_an_input_error(tmp_path: Path, reference: str, text: str) -> None:
    with pytest.raises(InputError, match=text):
        load_task(str(write_task(tmp_path, reference)))


def test_a_reference_that_fails_says_so(tmp_path: Path) -> None:
    task = load_task(str(write_task(tmp_path, "def twice(xp, inputs, sizes):\n    return inputs['z']\n")))
    with pytest.raises(InputError, match="KeyError"):
        load_reference(task).compute(None, {"x": 1}, {"N": 5})


def test_unknown_names_suggest_built_in_ones() -> None:
    with pytest.raises(InputError, match="softmax_rows"):
        load_task("softmax_row")


@pytest.mark.parametrize("text", ["= 3", "\x00"])
def test_files_that_are_no_toml(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.toml").write_text(text)
    with pytest.raises(InputError, match=r"t\.toml"):
        load_task(str(tmp_path / "t.toml"))


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        load_task(str(tmp_path / "none.toml"))


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "~nobody-there/x", ""])
def test_a_name_that_no_file_can_have_is_no_such_task(name: str) -> None:
    with pytest.raises(InputError, match="no such task"):
        load_task(name)
