"""Signatures are read from real-world spellings, and what is not understood is said rather than guessed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforecast.bench.header.signature import Parameter, Signature, signatures


def only(source: str, language: str = "cuda") -> Signature:
    (found,) = signatures(source, language)  # type: ignore[arg-type]
    return found


def parameter(text: str) -> Parameter:
    (found,) = only(f"__global__ void k({text}) {{ }}").parameters
    return found


@pytest.mark.parametrize(
    ("text", "name", "pointer", "const", "dtype"),
    [
        ("const float* __restrict__ x", "x", True, True, "f32"),
        ("float const * x", "x", True, True, "f32"),
        ("float *const x", "x", True, False, "f32"),
        ("const float* const __restrict x", "x", True, True, "f32"),
        ("float x[]", "x", True, False, "f32"),
        ("const int x[static 4]", "x", True, True, "i32"),
        ("volatile float* x", "x", True, False, "f32"),
        ("void* x", "x", True, False, None),
        ("const void *x", "x", True, True, None),
        ("const float4* x", "x", True, True, "f32"),
        ("__nv_bfloat162 *x", "x", True, False, "bf16"),
        ("const uint16_t* x", "x", True, True, "u16"),
        ("const half* x", "x", True, True, "f16"),
        ("__half* x", "x", True, False, "f16"),
        ("std::uint8_t* x", "x", True, False, "u8"),
        ("unsigned char* x", "x", True, False, "u8"),
        ("[[maybe_unused]] int n", "n", False, False, "i32"),
        ("const int n", "n", False, False, "i32"),
        ("int const n = f(1, 2)", "n", False, False, "i32"),
        ("unsigned n", "n", False, False, "u32"),
        ("unsigned", "", False, False, "u32"),
        ("unsigned long long int n", "n", False, False, "u64"),
        ("long int unsigned long n", "n", False, False, "u64"),
        ("long n", "n", False, False, "i64"),
        ("short int n", "n", False, False, "i16"),
        ("signed char n", "n", False, False, "i8"),
        ("std::size_t n", "n", False, False, "u64"),
        ("::std::int64_t n", "n", False, False, "i64"),
        ("int64_t n", "n", False, False, "i64"),
        ("bool flag", "flag", False, False, "u8"),
        ("double eps", "eps", False, False, "f64"),
        ("__half h", "h", False, False, "f16"),
    ],
)
def test_parameters(text: str, name: str, pointer: bool, const: bool, dtype: str | None) -> None:
    found = parameter(text)
    assert (found.name, found.pointer, found.const, found.dtype) == (name, pointer, const, dtype)
    assert found.problem is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Params p", "Params by value"),
        ("struct Params p", "Params by value"),
        ("const __grid_constant__ CUtensorMap map", "tensor maps"),
        ("float4 v", "float4 by value"),
        ("float** x", "pointer to a pointer"),
        ("float* x[4]", "pointer to a pointer"),
        ("float x[4][4]", "array of arrays"),
        ("int& n", "reference"),
        ("void (*f)(int)", "function pointer"),
        ("MACRO(float) x", "macro"),
        ("std::array<float, 4> a", "std::array<float,4> by value"),
        ("Mystery* p", "pointer to Mystery"),
        ("int n, ...", "variable number"),
        ("unsigned float x", "unsigned float by value"),
        ("long double x", "long double by value"),
        ("int SOME_MACRO n", "int SOME_MACRO by value"),
        ("float* ALIGNED x", "unknown macro"),
    ],
)
def test_what_is_not_understood_is_said(text: str, says: str) -> None:
    problem = only(f"__global__ void k({text}) {{ }}").parameters[-1].problem
    assert problem is not None
    assert says in problem


def test_entries_of_cuda() -> None:
    source = r"""
    // __global__ void commented(int n) { }
    /* __global__ void commented_too(int n) { } */
    const char* text = "__global__ void quoted(int n) { }";
    const char* raw = R"(__global__ void raw(int n) { })";
    #if 0
    __global__ void dead(int n) { }
    #else
    __global__ void alive(int n) { }
    #endif
    __global__ void declared(int n);
    __device__ float helper(float x) { return x > 0 ? x : 0; }
    struct Tile { __device__ void load(int n) { } float values[4]; };
    int table[] = {1, 2, 3};
    #define KERNEL extern "C" __global__ void
    #define RESTRICT __restrict__
    typedef float real;
    using index = long long;
    KERNEL macros(const real* RESTRICT x, index n) { char c = '}'; }
    namespace a { namespace b::c { static __global__ void inner(int n) { } } __global__ void outer() { } }
    extern "C" { __global__ void linked(void) { } }
    __global__ __launch_bounds__(256, 2) void bounds(int n) { }
    void __global__ __launch_bounds__(BLOCK) swapped(int n) { }
    __attribute__((used)) __global__ auto trailing(int n) -> void { }
    """
    found = {entry.name: entry for entry in signatures(source, "cuda")}
    assert list(found) == [
        "alive", "macros", "a::b::c::inner", "a::outer", "linked", "bounds", "swapped", "trailing",
    ]  # fmt: skip
    assert {name for name, entry in found.items() if entry.extern_c} == {"macros", "linked"}
    assert all(entry.problem is None and entry.returns == "void" for entry in found.values())
    assert [entry.dtype for entry in found["macros"].parameters] == ["f32", "i64"]
    assert found["linked"].parameters == ()
    assert found["alive"].line == 9


def test_entries_of_c() -> None:
    source = """
    #include <stdint.h>
    static float square(float x) { return x * x; }
    static inline int one(void) { return 1; }
    inline int two(void) { return 2; }
    #ifdef __cplusplus
    extern "C" {
    #endif
    void scan(const float *restrict x, float *restrict y, int64_t N) { for (;;) { if (N) { } } }
    #ifdef __cplusplus
    }
    #endif
    int compare(const void *a, const void *b) { return 0; }
    int main(int argc, char **argv) { return 0; }
    """
    found = signatures(source, "c")
    assert [(entry.name, entry.returns) for entry in found] == [("scan", "void"), ("compare", "int")]
    assert str(found[0]) == "scan(const float* x, float* y, int64_t N)"


def test_cpp_needs_c_linkage_to_be_called() -> None:
    source = """
    namespace { void hidden(int n) { } }
    template <int N> void generic(int n) { }
    void mangled(int n) { }
    extern "C" void plain(int n) { }
    """
    assert [(entry.name, entry.extern_c) for entry in signatures(source, "c")] == [("mangled", False), ("plain", True)]


def test_templates() -> None:
    found = only("template <int BM, typename T, bool FLAG = (3 > 2)>\n__global__ void k(const T* x, T* y, T s) { }")
    assert [(entry.name, entry.is_type, entry.default) for entry in found.template] == [
        ("BM", False, False),
        ("T", True, False),
        ("FLAG", False, True),
    ]
    assert [(entry.template_type, entry.dtype, entry.problem) for entry in found.parameters] == [("T", None, None)] * 3
    assert [entry.const for entry in found.parameters] == [True, False, False]


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("template <int... N> __global__ void k(int n) { }", "template parameter"),
        ("template <template <int> class T> __global__ void k(int n) { }", "template parameter"),
        ("template <int N, int> __global__ void k(int n) { }", "template parameter"),
        ("__global__ void NAME(k)(int n) { }", "macro"),
        ("__global__ void space::k(int n) { }", "qualified"),
    ],
)
def test_signatures_that_are_not_understood(source: str, says: str) -> None:
    problem = only(source).problem
    assert problem is not None
    assert says in problem


def test_types_and_kernels_of_included_files() -> None:
    includes = {"types.cuh": "using real = __half;\n#define INDEX unsigned\n__global__ void shared(int n) { }"}
    found = signatures("__global__ void k(const real* x, INDEX n) { }", "cuda", includes)
    assert [entry.name for entry in found] == ["shared", "k"]
    assert [entry.dtype for entry in found[1].parameters] == ["f16", "u32"]


def test_macros_that_expand_without_end_stay_as_they_are() -> None:
    bomb = "\n".join(f"#define M{i} {' '.join([f'M{i + 1}'] * 50)}" for i in range(12))
    assert only(f"{bomb}\n#define SELF SELF\n__global__ void k(int SELF) {{ M0 }}").name == "k"


def test_python_entries() -> None:
    source = """
import triton, triton.language as tl
@triton.jit
def k(x_ptr, n, BLOCK: tl.constexpr): ...
@triton.autotune(configs=[])
@jit()
def tuned(x_ptr, *rest): ...
def helper(x): ...
class Model: ...
"""
    found = signatures(source, "triton")
    assert [entry.name for entry in found] == ["k", "tuned"]
    assert [(entry.name, entry.constant) for entry in found[0].parameters] == [
        ("x_ptr", False),
        ("n", False),
        ("BLOCK", True),
    ]
    assert found[1].parameters[1].problem == "a variable number of arguments"
    assert [entry.name for entry in signatures(source, "torch")] == ["k", "tuned", "helper", "Model"]
    assert signatures("def broken(", "torch") == ()


PIECES = st.sampled_from(
    ["__global__ ", "void ", "k", "(", ")", "{", "}", "<", ">", "template ", "int n", "float* x", ",", ";", "=", "::",
     'extern "C" ', "namespace ", "typedef ", "using ", "struct ", "#define A B\n", "#if 0\n", "#endif\n", "#else\n",
     "A ", "[", "]", "/*", "*/", "//", "\n", '"', "'", "R\"(", "\\", "...", "->", "&", "*", "const ", "\x00", "ß"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=40).map("".join), st.sampled_from(["c", "cuda"]))
def test_any_text_has_signatures_or_none(source: str, language: str) -> None:
    for entry in signatures(source, language):  # type: ignore[arg-type]
        assert entry.name
        assert 1 <= entry.line <= source.count("\n") + 1


@given(st.lists(PIECES, max_size=20).map("".join))
def test_text_in_comments_and_strings_changes_nothing(noise: str) -> None:
    quiet = noise.replace("*/", "").replace("*", "")
    text = quiet.replace("\\", "").replace('"', "").replace("\n", "")
    source = f'/*{quiet}*/ const char* s = "{text}"; // {text}\n__global__ void k(const float* x, int n) {{ }}'
    assert str(only(source)) == "k(const float* x, int n)"
