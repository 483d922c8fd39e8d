"""Header models: both documented examples, unknown keys with the nearest right one, names and their clashes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforecast.bench.header.block import find_header
from kforecast.bench.header.header import Header, check_names, parse_header
from kforecast.store.errors import InputError
from kforecast.store.models import Launch, Scratch, Task


def header(body: str) -> Header:
    block = find_header(f"/* kforecast 1\n{body}\n*/", "cuda")
    assert block is not None
    return parse_header(block)


LAUNCH = '[[launch]]\nentry = "k"\nargs = ["x", "y", "R", "C"]\n'


def test_first_example(softmax_source: str, tasks: dict[str, Task]) -> None:
    block = find_header(softmax_source, "cuda")
    assert block is not None
    parsed = parse_header(block)
    check_names(parsed, tasks["softmax_rows"])
    assert parsed.task == "softmax_rows"
    assert parsed.launches == (
        Launch(
            entry="softmax_rows", args=("x", "y", "R", "C"), grid=("R",), block=("BLOCK",), smem="4 * (BLOCK // 32)"
        ),
    )
    assert parsed.tune.values == {"BLOCK": (256, 128, 512, 1024), "VEC": (4, 1, 2)}
    assert parsed.tune.when == ("BLOCK * VEC <= 4096",)


def test_second_example(gemm_file: object, tasks: dict[str, Task]) -> None:
    block = find_header(gemm_file.read_text(), "cuda")  # type: ignore[attr-defined]
    assert block is not None
    parsed = parse_header(block)
    check_names(parsed, tasks["gemm_bf16_nt"])
    assert isinstance(parsed.task, dict)
    assert parsed.task["out"] == {"C": {"dtype": "bf16", "shape": ["M", "N"]}}
    assert parsed.include == ("mma_tile.cuh",)
    assert parsed.scratch == (Scratch(name="W", dtype="f32", shape=("SPLIT", "M", "N")),)
    assert [launch.entry for launch in parsed.launches] == ["gemm_part<BM, BN, BK>", "sum_parts"]
    assert parsed.launches[0].block == ("256",)
    assert list(parsed.tune.values) == ["BM", "BN", "BK", "SPLIT"]


@pytest.mark.parametrize(
    ("body", "parts"),
    [
        ("tsk = 'a'\n" + LAUNCH, ["unknown key", "tsk", "Did you mean task?", "line 2"]),
        ("tunes = 'a'\n" + LAUNCH, ["tunes", "Did you mean tune?"]),
        (LAUNCH + "blok = [1]\n", ["launch 1", "blok", "Did you mean block?", "line 5"]),
        (LAUNCH + "Block = [1]\n", ["Block", "Did you mean block?"]),
        (
            LAUNCH + "\n[[launch]]\nentry = 'a'\nargs = []\nsmen = 1\n",
            ["launch 2", "smen", "Did you mean smem?", "line 9"],
        ),
        (LAUNCH + "options = ['-O3']\n", ["options", "belongs at the top"]),
        ("entry = 'a'\n" + LAUNCH, ["entry", "belongs in [[launch]]"]),
        (LAUNCH + "[scratch]\nW = { dtype = 'f32', shap = ['R'] }\n", ["scratch, W", "shap", "Did you mean shape?"]),
        ("zzzzqq = 1\n" + LAUNCH, ["zzzzqq", "Known: include, launch, options, scratch, task, tune"]),
        ("task = 'a'", ["lacks", "launch", "[[launch]]"]),
        ("[launch]\nentry = 'k'\nargs = []", ["launch", "[[launch]]"]),
        ("[[launch]]\nargs = []", ["lacks", "entry", "launch 1"]),
        ("[[launch]]\nentry = 'k'", ["lacks", "args"]),
        ("task = 3\n" + LAUNCH, ["task", "table"]),
        ("options = '-O3'\n" + LAUNCH, ["options", "list"]),
        ("[[launch]]\nentry = 'k'\nargs = 'x'", ["args", "list"]),
        ("[[launch]]\nentry = 'k'\nargs = [true]", ["args 1", "not as it must be"]),
        ("[[launch]]\nentry = 'k'\nargs = [1.5]", ["args 1", "not as it must be"]),
        ("[[launch]]\nentry = 'k'\nargs = []\ngrid = []", ["grid"]),
        ("[[launch]]\nentry = 'k'\nargs = []\ngrid = [1, 1, 1, 1]", ["grid"]),
        ("[[launch]]\nentry = 'k'\nargs = []\ngrid = [true]", ["grid"]),
        ("[[launch]]\nentry = 'k; rm'\nargs = []", ["k; rm", "name"]),
        ("[[launch]]\nentry = 'k<a, b'\nargs = []", ["k<a, b"]),
        ("[[launch]]\nentry = 'k'\nargs = ['x /2']", ["argument 1 of launch k", "x /2"]),
        ("[[launch]]\nentry = 'k'\nargs = []\ngrid = ['R', 'C**2']", ["grid y of launch k"]),
        ("[[launch]]\nentry = 'k'\nargs = []\nsmem = '4 *'", ["smem of launch k"]),
        ("[[launch]]\nentry = 'k<BM +>'\nargs = []", ["template argument 1 of launch k"]),
        (LAUNCH + "[scratch]\nW = { dtype = 'f31', shape = ['R'] }", ["scratch", "dtype"]),
        (LAUNCH + "[scratch]\nW = { dtype = 'f32', shape = [] }", ["scratch", "shape"]),
        (LAUNCH + "[scratch]\nW = { dtype = 'f32', shape = ['R %'] }", ["dimension 1 of scratch W"]),
        (LAUNCH + "[scratch]\nW = { dtype = 'f32', shape = ['R'], zero = 1 }", ["zero"]),
        (LAUNCH + "[tune]\nB = []", ["no values", "B"]),
        (LAUNCH + "[tune]\nB = [1, 1]", ["twice"]),
        (LAUNCH + "[tune]\nB = 1", ["lists whole numbers"]),
        (LAUNCH + "[tune]\nB = [true]", ["lists whole numbers"]),
        (LAUNCH + "[tune]\nB = [1.0]", ["lists whole numbers"]),
        (LAUNCH + "[tune]\nB = ['1']", ["lists whole numbers"]),
        (LAUNCH + "[tune]\nB = [9223372036854775808]", ["64 bits"]),
        (LAUNCH + "[tune]\nB = [1]\nwhen = 'B < 2'", ["when", "list of conditions"]),
        (LAUNCH + "[tune]\nB = [1]\nwhne = ['B < 2']", ["Did you mean when?"]),
        (LAUNCH + "[tune]\nB = [1]\nwhen = ['B']", ["must compare"]),
        (LAUNCH + "[tune]\nB = [1]\nwhen = ['BB < 2']", ["unknown name", "Did you mean B?"]),
        (LAUNCH + "[tune]\nB = [1]\nwhen = ['R < 2']", ["unknown name", "R"]),
        ("tune = 3\n" + LAUNCH, ["tune"]),
    ],
)
def test_mistakes(body: str, parts: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        header(body)
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("body", "parts"),
    [
        (LAUNCH + "[tune]\nR = [1]", ["R", "a size of the task and a tunable"]),
        (LAUNCH + "[tune]\nx = [1]", ["x", "a tensor of the task and a tunable"]),
        (LAUNCH + "[scratch]\ny = { dtype = 'f32', shape = ['R'] }", ["y", "a tensor of the task and scratch memory"]),
        (LAUNCH + "[scratch]\nW = { dtype = 'f32', shape = ['R'] }\n[tune]\nW = [1]", ["scratch memory and a tunable"]),
        (LAUNCH + "[tune]\nWARP = [1]", ["a device constant and a tunable"]),
        (LAUNCH + "[tune]\nSMEM_MAX = [1]", ["a device constant"]),
        (LAUNCH + "[tune]\nmin = [1]", ["cannot have this name"]),
        (LAUNCH + "[tune]\n'a b' = [1]", ["cannot have this name"]),
        (LAUNCH + "[tune]\n'ß' = [1]", ["cannot have this name"]),
        (LAUNCH + "[tune]\nint = [1]", ["the compiler gives it a meaning"]),
        (LAUNCH + "[tune]\n__CUDA_ARCH__ = [1]", ["the compiler gives it a meaning"]),
        ("[[launch]]\nentry = 'k'\nargs = ['x', 'RR']", ["argument 2 of launch k", "Did you mean R?"]),
        ("[[launch]]\nentry = 'k'\nargs = ['x + 1']", ["computes with a tensor"]),
        ("[[launch]]\nentry = 'k'\nargs = ['x']\ngrid = ['x']", ["grid x", "computes with a tensor"]),
        ("[[launch]]\nentry = 'k<R>'\nargs = ['x']", ["template argument 1", "size of the task"]),
        ("[[launch]]\nentry = 'k'\nargs = ['x']\nblock = ['BLOK']\n[tune]\nBLOCK = [1]", ["Did you mean BLOCK?"]),
        (LAUNCH + "[scratch]\nW = { dtype = 'f32', shape = ['Q'] }", ["dimension 1 of scratch W", "Q"]),
    ],
)
def test_names(body: str, parts: list[str], tasks: dict[str, Task]) -> None:
    parsed = header(body)
    with pytest.raises(InputError) as caught:
        check_names(parsed, tasks["softmax_rows"])
    for part in parts:
        assert part in str(caught.value)


TOML_VALUES = st.recursive(
    st.sampled_from(["1", "-7", "true", "1.5", "'x'", "'R + 1'", "''", "2020-01-01", "'k<BM>'"]),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]")
        | st.dictionaries(st.sampled_from(["dtype", "shape", "entry", "args", "when"]), inner, max_size=3).map(
            lambda table: "{ " + ", ".join(f"{key} = {value}" for key, value in table.items()) + " }"
        )
    ),
    max_leaves=6,
)
KEYS = ["task", "include", "options", "scratch", "launch", "tune", "other"]


@given(st.dictionaries(st.sampled_from(KEYS), TOML_VALUES, max_size=5))
def test_any_toml_is_a_header_or_an_error(tables: dict[str, str]) -> None:
    try:
        parsed = header("\n".join(f"{key} = {value}" for key, value in tables.items()))
    except InputError as error:
        assert error.what
        assert error.next_step.endswith(".")
    else:
        assert parsed.launches
