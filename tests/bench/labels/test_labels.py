"""What sources give away, and what honest ones do not."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforecast.bench.labels import POLICY, Label, kernel_labels, labels, policy_names
from kforecast.bench.tasks.builtin import builtin_kernel, builtin_names, builtin_task
from kforecast.store.models import Facts, Language
from kforecast.tools.kernels import Asked, load_file

ADD = builtin_task("vector_add")
BF16 = builtin_task("gemm_bf16")
EXPLOITS = Path(__file__).parents[2] / "exploits"
HEADER = """/* kforecast 1
task = "vector_add"
options = ["--use_fast_math"]
[[launch]]
entry = "k"
args = ["a", "b", "c", "N"]
*/
"""


def names(source: str, language: Language, facts: Facts | None = None) -> set[str]:
    return {label.name for label in labels(source, language, facts, ADD)}


@pytest.mark.parametrize(
    ("language", "source", "name"),
    [
        ("torch", "def f(a, b): return torch.matmul(a, b)", "library"),
        ("torch", "def f(a, b): return a @ b", "library"),
        ("torch", "def f(a): return torch.nn.functional.softmax(a, -1)", "library"),
        ("torch", "def f(a): return a.softmax(-1)", "library"),
        ("torch", "import flash_attn", "library"),
        ("torch", "f = torch.compile(g)", "library"),
        ("torch", "def f(a):\n try:\n  return k(a)\n except Exception:\n  return g(a)", "fallback"),
        ("torch", "torch.backends.cuda.matmul.allow_tf32 = True", "low-precision"),
        ("torch", "torch.set_float32_matmul_precision('high')", "low-precision"),
        ("torch", "def f(a): return k(a.half())", "low-precision"),
        ("torch", "def f(a): return k(a.to(torch.bfloat16))", "low-precision"),
        ("triton", "def f(a, b): return tl.dot(a, b, input_precision='tf32')", "low-precision"),
        ("torch", "def f(a):\n if a.shape[0] == 4096: return k(a)\n return g(a)", "specialised"),
        ("torch", "def f(a):\n if a.shape == (4096, 128): return k(a)\n return g(a)", "specialised"),
        ("torch", "kept = {}\ndef f(a):\n kept[a.data_ptr()] = a", "stateful"),
        ("torch", "@lru_cache\ndef f(a): return a", "stateful"),
        ("torch", "class M:\n def forward(self, a):\n  self.last = a", "stateful"),
        ("torch", "m = load_inline('m', s, extra_cuda_cflags=['--use_fast_math'])", "fast-math"),
        ("torch", "s = torch.cuda.Stream()", "streams"),
        ("torch", "g = torch.cuda.CUDAGraph()", "graphs"),
        ("torch", "import threading", "threads"),
        ("torch", "exec(code)", "run-time-code"),
        ("torch", "import base64", "run-time-code"),
        ("cuda", "void f() { cublasSgemm(h); }", "library"),
        ("cuda", "#include <cub/cub.cuh>\n", "library"),
        ("cuda", "__global__ void k(float* x) { *x = __expf(*x); }", "fast-math"),
        ("cuda", '__global__ void k(float* x) { asm("ex2.approx.f32 %0, %0;" : "+f"(*x)); }', "fast-math"),
        ("cuda", '__global__ void k(float* x) { asm("ex2.approx.f32 %0, %0;" : "+f"(*x)); }', "assembly"),
        ("cuda", HEADER + "__global__ void k() {}", "fast-math"),
        ("cuda", "__global__ void k(int N) { if (N == 16777216) return; }", "specialised"),
        ("cuda", "__global__ void k(int N) { if (4096 != N) return; }", "specialised"),
        ("cuda", '#include "/etc/passwd"\n', "foreign-include"),
        ("cuda", "#include HIDDEN\n", "foreign-include"),
        ("cuda", "void f() { cudaStreamCreate(&s); }", "streams"),
        ("cuda", "void f() { cudaGraphLaunch(g, s); }", "graphs"),
        ("c", "static float kept[64];\nvoid f(void) {}", "stateful"),
        ("c", "void f(void) { static int calls = 0; calls++; }", "stateful"),
        ("c", '#pragma GCC optimize("fast-math")\n', "fast-math"),
        ("c", "void f(void) { pthread_create(&t, 0, g, 0); }", "threads"),
        ("c", 'void f(void) { dlopen("x", 1); }', "run-time-code"),
        ("c", "void f(void) { sgemm_(a); }", "library"),
    ],
)
def test_a_finding(language: Language, source: str, name: str) -> None:
    assert name in names(source, language)


@pytest.mark.parametrize(
    ("language", "source"),
    [
        ("torch", "import torch\ndef f(a):\n y = torch.empty_like(a)\n k[(1,)](a, y, a.numel())\n return y.view(-1)"),
        ("torch", "try:\n import triton\nexcept ImportError:\n triton = None"),
        ("torch", "def f(a):\n try:\n  return k(a)\n except RuntimeError as e:\n  raise ValueError from e"),
        ("torch", "def f(a):\n if a.dim() == 2 and a.shape[1] % 4 == 0: return k(a)"),
        ("torch", "# torch.matmul(a, b)\ns = 'exec(code) torch.cuda.Stream'"),
        ("torch", "NAMES = {'a': 1}\ndef f(a): return NAMES['a']"),
        ("triton", "def k(x, n, B: tl.constexpr):\n i = tl.arange(0, B)\n tl.store(x + i, tl.sum(tl.load(x + i)))"),
        ("triton", "def k(a, b): return tl.dot(a, b, input_precision='ieee')"),
        ("cuda", "__global__ void k(int N, int BLOCK) { if (N <= 1024 || N % 4 == 0 || BLOCK == 256) return; }"),
        ("cuda", "// cublasSgemm, __expf\n__global__ void k() { /* if (N == 4096) */ }"),
        ("cuda", "__global__ void k(float* x) { *x = expf(*x) + __fmul_rn(*x, 2.0f) + rsqrtf(*x); }"),
        (
            "c",
            "static inline float f(float x) { return x; }\nstatic const float t[] = {1, 2};\nstatic void g(void);",
        ),
        ("c", '#include <math.h>\n#include "parts/own.h"\nvoid f(int N) { for (int i = 0; i != N; i++) {} }'),
        ("torch", "this is no Python ("),
        ("c", 'unterminated "'),
    ],
)
def test_nothing_to_say(language: Language, source: str) -> None:
    assert names(source, language) == set()


def test_operand_types_count_against_the_tasks_own_policy() -> None:
    facts = Facts(ok=True, labels=("mma-bf16", "mma-tf32", "stateful", "approximate-math"))
    assert names("", "cuda", facts) == {"low-precision", "stateful"}
    assert policy_names(labels("", "cuda", facts, BF16)) == ("stateful",)
    assert policy_names(labels("", "cuda", facts, None)) == ("stateful",)


def test_options_count_wherever_they_were_given() -> None:
    path = builtin_kernel("vector_add", "cuda", "seed")
    assert path is not None
    for options, wanted in ((("--use_fast_math",), ("fast-math",)), (("--maxrregcount=64",), ())):
        kernel = load_file(path, Asked(options=options)).kernel
        assert policy_names(kernel_labels(kernel)) == wanted


def test_what_only_tells_is_no_policy_label() -> None:
    found = labels("s = torch.cuda.Stream()\na @ b\n", "torch")
    assert [(label.name, label.line, label.policy) for label in found] == [("library", 2, True), ("streams", 1, False)]
    assert policy_names([*found, *found]) == ("library",)
    assert policy_names([Label(name, "") for name in reversed(POLICY)]) == POLICY


@pytest.mark.parametrize("task", builtin_names())
def test_the_shipped_kernels_say_no_more_than_they_do(task: str) -> None:
    for language in ("c", "cuda"):
        for role in ("seed", "tuned"):
            path = builtin_kernel(task, language, role)  # type: ignore[arg-type]
            if path is None:
                continue
            named = load_file(path, Asked())
            found = {label.name for label in kernel_labels(named.kernel, None, named.task)}
            assert not found & {"library", "fallback", "specialised", "run-time-code", "foreign-include"}, path
            assert role == "tuned" or not found, path


def test_honest_twins_get_no_word_about_precision_libraries_or_shapes() -> None:
    for path in sorted((EXPLOITS / "honest" / "cuda").glob("*.cu")):
        named = load_file(path, Asked())
        found = policy_names(kernel_labels(named.kernel, None, named.task))
        assert found == (), path


@given(st.text(max_size=200), st.sampled_from(["c", "cuda", "triton", "torch"]))
def test_no_text_is_too_odd(source: str, language: Language) -> None:
    for label in labels(source, language, None, ADD):
        assert label.line is None or label.line >= 1
