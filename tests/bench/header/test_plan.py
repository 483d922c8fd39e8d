"""Launches in numbers: the documented examples, and every check with the case and the values in its error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforecast.bench.header.entry import name_expressions
from kforecast.bench.header.load import LoadedKernel
from kforecast.bench.header.plan import PlannedLaunch, PointerArg, ScalarArg, plan_launches
from kforecast.bench.header.signature import signatures
from kforecast.store.errors import InputError, KforecastError, UnsupportedError
from kforecast.store.models import Case, Dtype, Kernel, Language, Launch, Scratch, Task, Tensor

H200 = {"SMEM_MAX": 232448, "SM_COUNT": 132, "WARP": 32}
Load = Callable[..., LoadedKernel]
ALL_DTYPES: tuple[Dtype, ...] = ("f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8")


def task(dtype: Dtype = "f32") -> Task:
    case = Case(sizes={"N": 1000})
    return Task(
        name="copy",
        tensors=(
            Tensor(name="x", role="in", dtype=dtype, shape=("N",)),
            Tensor(name="y", role="out", dtype=dtype, shape=("N",)),
            Tensor(name="z", role="inout", dtype=dtype, shape=("N",)),
        ),
        reference="reference",
        checked=(case,),
        timed={"any": (case,)},
    )


def plan(
    parameters: str,
    args: list[str],
    *,
    n: int = 1000,
    language: Language = "cuda",
    dtype: Dtype = "f32",
    before: str = "__global__ void",
    **launch: Any,
) -> PlannedLaunch:
    source = f"{before if language == 'cuda' else 'void'} k({parameters}) {{ }}"
    kernel = Kernel.make(
        language=language,
        name="k",
        source=source,
        launches=(Launch(**{"entry": "k", "args": tuple(args), **launch}),),
        scratch=(Scratch(name="W", dtype="f32", shape=("N",)),),
        tunables={"BLOCK": 256, "BIG": 2000},
        task_id="t",
    )
    (planned,) = plan_launches(kernel, task(dtype), Case(sizes={"N": n}), signatures(source, language), H200)
    return planned


def test_first_example(load: Load, softmax_source: str) -> None:
    loaded = load(softmax_source)
    (case,) = loaded.task.timed_on("cuda")
    assert plan_launches(loaded.kernel, loaded.task, case, loaded.signatures, H200) == (
        PlannedLaunch(
            entry="softmax_rows",
            expression="softmax_rows",
            args=(PointerArg("x"), PointerArg("y"), ScalarArg(4096, "int", "i32"), ScalarArg(1024, "int", "i32")),
            grid=(4096, 1, 1),
            block=(256, 1, 1),
            smem=32,
        ),
    )


def test_second_example(load: Load, gemm_file: Path) -> None:
    loaded = load(gemm_file, settings={"BN": 64, "SPLIT": 2}, constants=H200)
    case = Case(sizes={"M": 257, "N": 129, "K": 70})
    part, total = plan_launches(loaded.kernel, loaded.task, case, loaded.signatures, H200)
    assert (part.entry, part.expression) == ("gemm_part<BM, BN, BK>", "gemm_part<128, 64, 32>")
    assert (part.grid, part.block, part.smem) == ((3, 3, 2), (256, 1, 1), 2 * 2 * (128 + 64) * 32)
    assert part.args[2:4] == (PointerArg("W"), ScalarArg(257, "int", "i32"))
    assert total.args[2] == ScalarArg(257 * 129, "long long", "i64")
    assert total.grid == (33, 1, 1)
    assert name_expressions(loaded.kernel, loaded.signatures) == {
        "gemm_part<BM, BN, BK>": "gemm_part<128, 64, 32>",
        "sum_parts": "sum_parts",
    }


@pytest.mark.parametrize(
    ("parameters", "args", "launch", "parts"),
    [
        ("const float* x, int n", ["x"], {}, ["has 1 args", "takes 2", "k(const float* x, int n)"]),
        ("const float* x", ["x", "N"], {}, ["has 2 args", "takes 1"]),
        ("int n", ["x"], {}, ["argument 1", "is memory, but the parameter is a number"]),
        ("const float* x", ["N"], {}, ["is a number, but the parameter is a pointer", "x, y, z, W"]),
        ("const int* x", ["x"], {}, ["argument 1", "f32", "i32", "float*"]),
        ("const double* w", ["W"], {}, ["f32", "f64"]),
        ("float* x", ["x"], {}, ["is an input, but the parameter may write to it", "const"]),
        ("int n", ["N * 3000000"], {}, ["does not fit", "N * 3000000 = 3000000000 at N=1000", "int n"]),
        ("unsigned n", ["N - 1001"], {}, ["does not fit", "= -1 at N=1000"]),
        ("short n", ["N * 33"], {}, ["does not fit", "33000"]),
        ("bool b", ["N"], {}, ["does not fit"]),
        ("float f", ["N * N * N * 17 + 1"], {}, ["does not fit"]),
        ("int n", ["N // (N - 1000)"], {}, ["division by zero", "case N=1000", "N=1000"]),
        ("int n", ["N"], {"grid": ("N - 1000",)}, ["grid x", "is 0, but must be at least 1", "N=1000"]),
        ("int n", ["N"], {"grid": ("1", "66 * N")}, ["grid y = 66000 at N=1000, but the device allows 65535"]),
        ("int n", ["N"], {"grid": ("1", "1", "66 * N")}, ["grid z = 66000", "65535"]),
        ("int n", ["N"], {"grid": ("N * 2147484",)}, ["grid x = 2147484000 at N=1000", "the device allows 2147483647"]),
        ("int n", ["N"], {"block": ("BIG",)}, ["block x = 2000 at BIG=2000", "1024"]),
        ("int n", ["N"], {"block": ("1", "1", "65")}, ["block z = 65", "64"]),
        ("int n", ["N"], {"block": ("BLOCK", "5")}, ["threads of a block = 1280 at BLOCK=256", "1024"]),
        ("int n", ["N"], {"smem": "N - 1001"}, ["smem", "at least 0"]),
        ("int n", ["N"], {"smem": "233 * N"}, ["smem = 233000 at N=1000", "232448"]),
        ("int n", ["N"], {"entry": "kk"}, ["no such kernel", "Did you mean k?"]),
        ("int n", ["N"], {"entry": "k<1>"}, ["template arguments do not match"]),
    ],
)
def test_refused(parameters: str, args: list[str], launch: dict[str, Any], parts: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        plan(parameters, args, **launch)
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("parameters", "before", "part"),
    [
        ("Params p", "struct Params { int n; }; __global__ void", "Params by value"),
        ("const __grid_constant__ CUtensorMap p", "__global__ void", "tensor maps"),
        ("int& n", "__global__ void", "reference"),
        (
            "int n",
            "__device__ void sync() { cg::this_grid().sync(); } __global__ void",
            "cooperative launch: this_grid",
        ),
        (
            "int n",
            "__device__ void all(const cg::grid_group& g) { g.sync(); } __global__ void",
            "cooperative launch: grid_group",
        ),
        (
            "int n",
            "__device__ void all() { auto g = cooperative_groups::this_grid(); cg::sync(g); } __global__ void",
            "cooperative launch: this_grid",
        ),
        (
            "int n",
            "__device__ void all() { cg::grid_group g(cg::this_grid()); g.barrier_wait(g.barrier_arrive()); } "
            "__global__ void",
            "cooperative launch: this_grid",
        ),
    ],
)
def test_unsupported_by_name(parameters: str, before: str, part: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        plan(parameters, ["N"], before=before)
    assert part in str(caught.value)


@pytest.mark.parametrize(
    "before",
    [
        "__device__ auto rank() { return cg::this_grid().thread_rank(); } __global__ void",
        "__device__ void f() { auto g = cg::this_grid(); auto b = cg::this_thread_block(); b.sync(); g.size(); } "
        "__global__ void",
        "__device__ void f(cg::grid_group g) { auto w = cg::this_thread_block(); cg::sync(w); } __global__ void",
    ],
)
def test_a_grid_may_be_asked_for_ranks_and_sizes(before: str) -> None:
    assert plan("int n", ["N"], before=before).args == (ScalarArg(1000, "int", "i32"),)


def test_grid_groups_in_comments_do_not_count() -> None:
    assert plan("int n", ["N"], before="// not this_grid()\n__global__ void").args == (ScalarArg(1000, "int", "i32"),)


def test_results_are_returned_through_pointers() -> None:
    with pytest.raises(InputError, match="returns a value"):
        plan("int n", ["N"], before="__global__ int")


def test_who_may_write() -> None:
    assert plan("const float* a, float* b, float* c, const float* d", ["x", "y", "z", "W"]).args == tuple(
        PointerArg(name) for name in ("x", "y", "z", "W")
    )
    assert plan("const float* a, const void* b", ["y", "x"]).args == (PointerArg("y"), PointerArg("x"))


@pytest.mark.parametrize(
    ("dtype", "good", "bad"),
    [
        ("bf16", ["uint16_t", "__nv_bfloat16", "unsigned short", "__nv_bfloat162"], ["half", "short", "float"]),
        ("f16", ["half", "uint16_t", "half2"], ["__nv_bfloat16", "int16_t"]),
        ("i32", ["int", "int32_t", "int4"], ["unsigned", "long long", "float"]),
        ("u8", ["unsigned char", "uint8_t", "bool"], ["char", "int8_t"]),
        ("i64", ["long long", "int64_t", "long"], ["int", "size_t"]),
        ("f32", ["float", "float4", "void"], ["double", "uint32_t"]),
    ],
)
def test_pointer_dtypes(dtype: Dtype, good: list[str], bad: list[str]) -> None:
    languages: tuple[Language, ...] = ("c", "cuda")
    for language in languages:
        for spelling in good:
            assert plan(f"const {spelling}* x", ["x"], dtype=dtype, language=language).args == (PointerArg("x"),)
        for spelling in bad:
            with pytest.raises(InputError, match=f"is {dtype}, but the parameter points to"):
                plan(f"const {spelling}* x", ["x"], dtype=dtype, language=language)


def test_c_ignores_geometry() -> None:
    planned = plan("int n", ["N"], language="c", grid=("0 // 0",), block=("5000",), smem="-1")
    assert (planned.grid, planned.block, planned.smem) == ((1, 1, 1), (1, 1, 1), 0)


@pytest.mark.parametrize("fraction", ["float", "double", "__half"])
def test_numbers_that_floats_hold_exactly(fraction: str) -> None:
    assert plan(f"{fraction} f", ["N * 2"], n=1024).args[0] == ScalarArg(2048, fraction, plan_dtype(fraction))
    with pytest.raises(InputError, match="does not fit"):
        plan(f"{fraction} f", ["N"], n=2**53 + 1)


def plan_dtype(spelling: str) -> Dtype:
    return {"float": "f32", "double": "f64", "__half": "f16"}[spelling]  # type: ignore[return-value]


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_scalar_fits_or_is_refused(value: int) -> None:
    for spelling, low, high in (("int", -(2**31), 2**31), ("uint8_t", 0, 256), ("int64_t", -(2**63), 2**63)):
        if low <= value < high:
            assert plan(f"{spelling} n", ["N"], n=value).args == (ScalarArg(value, spelling, DTYPES[spelling]),)
        else:
            with pytest.raises(InputError, match="does not fit"):
                plan(f"{spelling} n", ["N"], n=value)


DTYPES: dict[str, Dtype] = {"int": "i32", "uint8_t": "u8", "int64_t": "i64"}


@pytest.mark.parametrize(
    ("entry", "expression"),
    [
        ("k<float, BLOCK>", "k<float, 256>"),
        ("k< float , max(BLOCK, 300) >", "k<float, 300>"),
        ("k<float, -WARP>", "k<float, -32>"),
        ("k<float>", "k<float>"),
    ],
)
def test_template_arguments(entry: str, expression: str) -> None:
    template = "template <typename T, int B = 4> __global__ void"
    planned = plan("const T* x, T s", ["x", "N"], before=template, entry=entry)
    assert planned.expression == expression
    assert planned.args == (PointerArg("x"), ScalarArg(1000, "T", "f32"))


@pytest.mark.parametrize("entry", ["k", "k<>", "k<float, 1, 2>", "k<256, float>", "k<double, 1>", "k<float, 1 // 0>"])
def test_template_arguments_that_do_not_match(entry: str) -> None:
    with pytest.raises(InputError):
        plan("const T* x", ["x"], before="template <typename T, int B = 4> __global__ void", entry=entry)


def test_triton_constants_are_tunables() -> None:
    source = "@triton.jit\ndef k(x_ptr, n, BLOCK: tl.constexpr): ...\n"
    launches = (Launch(entry="k", args=("x", "N"), grid=("cdiv(N, BLOCK)",)),)

    def planned(tunables: dict[str, int]) -> tuple[PlannedLaunch, ...]:
        kernel = Kernel.make(
            language="triton", name="k", source=source, launches=launches, tunables=tunables, task_id="t"
        )
        return plan_launches(kernel, task(), Case(sizes={"N": 1000}), signatures(source, "triton"), H200)

    assert planned({"BLOCK": 256})[0].args == (PointerArg("x"), ScalarArg(1000, "int64_t", "i64"))
    assert planned({"BLOCK": 256})[0].grid == (4, 1, 1)
    with pytest.raises(InputError, match="constexpr"):
        planned({})


@given(
    st.sampled_from(["x", "y", "W", "N", "N // 0", "BLOCK * N", "nothing"]),
    st.sampled_from(["const float* p", "float* p", "int p", "Params p", "float p", "T p"]),
    st.sampled_from(ALL_DTYPES),
    st.sampled_from(["1", "N", "N * N * N", "0", "65536"]),
)
def test_any_launch_is_planned_or_an_error(arg: str, parameter: str, dtype: Dtype, axis: str) -> None:
    try:
        planned = plan(parameter, [arg], dtype=dtype, grid=("1", axis))
    except KforecastError as error:
        assert error.what
        assert error.next_step.endswith(".")
    else:
        assert 1 <= planned.grid[1] <= 65535
