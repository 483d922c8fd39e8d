"""Real compilations. What NVRTC says is asserted where a user would see it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kforecast.bench.languages.build import Build
from kforecast.bench.languages.cuda.cache import BuildCache
from kforecast.bench.languages.cuda.compile import compile_cuda
from kforecast.bench.languages.cuda.nvcc import version_in
from kforecast.bench.languages.cuda.pool import CompilePool
from kforecast.store.errors import InputError
from kforecast.store.models import Kernel

Builder = Callable[..., Build]

SCALE = 'extern "C" __global__ void k(const float* x, float* y, int n) {\n' + (
    "  int i = blockIdx.x * BLOCK + threadIdx.x;\n  if (i < n) y[i] = 2.0f * x[i];\n}\n"
)
needs_nvcc = pytest.mark.skipif(
    shutil.which("nvcc") is None and not Path("/usr/local/cuda/bin/nvcc").exists(), reason="needs nvcc"
)


def test_a_kernel_becomes_a_cubin_with_facts(build: Builder, pool: CompilePool) -> None:
    built = build(SCALE, tunables={"BLOCK": 128})
    assert built.ok, built.facts.error
    assert built.binary is not None
    assert built.binary.read_bytes()[:4] == b"\x7fELF"
    assert built.symbols == {"k": "k"}
    facts = built.facts
    assert facts.toolchain == pool.toolchain.identity
    assert (facts.arch, facts.code_bytes) == ("sm_90", built.binary.stat().st_size)
    (entry,) = facts.entries
    assert entry.registers is not None
    assert 4 <= entry.registers <= 32
    assert (entry.spill_bytes, entry.shared_bytes, entry.local_bytes) == (0, 0, 0)
    assert facts.instruction_mix["ld.global"] == facts.instruction_mix["st.global"] == 1
    assert facts.warnings == ""


def test_the_toolchains_version_is_the_one_that_the_ptx_names(build: Builder, pool: CompilePool) -> None:
    built = build(SCALE, tunables={"BLOCK": 128})
    assert built.binary is not None
    ptx = built.binary.with_name("kernel.ptx").read_text()
    assert pool.toolchain.identity == f"nvrtc {version_in(ptx)}"


def test_templates_namespaces_and_overload_free_names_are_lowered(build: Builder) -> None:
    source = """
template <int B, typename T> __global__ void part(T* a) { __shared__ T s[B]; s[threadIdx.x] = a[threadIdx.x];
  __syncthreads(); a[threadIdx.x] = s[B - 1 - threadIdx.x]; }
namespace inner { __global__ void sum(float* a) { a[0] += a[1]; } }
"""
    built = build(source, "part<BLOCK, float>", "part<32, double>", "inner::sum", tunables={"BLOCK": 64})
    assert built.ok, built.facts.error
    assert set(built.symbols) == {"part<BLOCK, float>", "part<32, double>", "inner::sum"}
    assert len(set(built.symbols.values())) == 3
    ptx = built.binary.with_name("kernel.ptx").read_text() if built.binary else ""
    assert all(re.search(rf"\.entry {re.escape(symbol)}\(", ptx) for symbol in built.symbols.values())
    assert [entry.shared_bytes for entry in built.facts.entries] == [256, 256, 0]


def test_entries_may_be_named_by_another_expression(
    pool: CompilePool, cache: BuildCache, kernel: Callable[..., Kernel]
) -> None:
    made = kernel("template <int B> __global__ void k(float* a) { a[0] = B; }", "k<min(B, 3)>")
    built = compile_cuda(made, {"k<min(B, 3)>": "k<3>"}, arch="sm_80", pool=pool, cache=cache)
    assert built.symbols == {"k<min(B, 3)>": "_Z1kILi3EEvPf"}


def test_a_tunable_may_share_its_name_with_a_template_parameter(build: Builder) -> None:
    source = """template <int BM, typename T = float> __device__ T scaled(T x) { return BM * x; }
template <int BM> __global__ void part(float* a) { a[0] = scaled<BM>(a[1]); }
__global__ void other(float* a) { a[0] = BLOCK; }
"""
    built = build(source, "part<BM>", "other", tunables={"BM": 7, "BLOCK": 64})
    assert built.ok, built.facts.error
    assert built.symbols["part<BM>"] == "_Z4partILi7EEvPf"


def test_errors_carry_the_users_file_and_line(build: Builder) -> None:
    built = build("/* header\n*/\n__global__ void k() {\n  int z = missing;\n}\n", name="some/dir/mine.cu")
    assert built.binary is None
    assert built.facts.error is not None
    assert built.facts.error.startswith('mine.cu(4): error: identifier "missing" is undefined')
    assert "ptxas" not in built.facts.error
    assert "kforecast-kernel" not in built.facts.error + built.log


def test_errors_in_an_include_carry_its_name(build: Builder) -> None:
    built = build('#include "t.cuh"\n__global__ void k() {}\n', includes={"t.cuh": "\nint f() { return nope; }\n"})
    assert built.facts.error is not None
    assert built.facts.error.startswith("t.cuh(2): error: ")


def test_includes_find_each_other_as_on_disk(build: Builder) -> None:
    includes = {
        "sub/tile.cuh": '#include "near.cuh"\n#include "../top.cuh"\n#include "../../up.cuh"\n',
        "sub/near.cuh": "#define NEAR 1\n",
        "near.cuh": "#define NEAR 2\n",
        "top.cuh": "#define TOP 3\n",
        "../up.cuh": "#define UP 4\n",
    }
    body = '#include "sub/tile.cuh"\nstatic_assert(NEAR == 1 && TOP == 3 && UP == 4);\n__global__ void k() {}\n'
    built = build(body, includes=includes)
    assert built.ok, built.facts.error
    assert built.facts.toolchain.startswith("nvrtc")
    broken = build(body, includes={**includes, "../up.cuh": "\nint x = y;\n"}).facts.error
    assert broken is not None
    assert broken.startswith("sub/../../up.cuh(2): error: ")
    outside = build(body, includes={**includes, "sub/tile.cuh": '#include "../other.cuh"\n'}).facts.error
    assert outside is not None
    assert outside.startswith("sub/tile.cuh(1): error: #include of")


def test_equal_sources_share_a_build_but_messages_keep_each_name(build: Builder, cache: BuildCache) -> None:
    names = ["a.cu", "b.cu"]
    errors = [build("__global__ void k() { x; }\n", name=name).facts.error for name in names]
    assert [str(error).split("(")[0] for error in errors] == names
    assert len(list(cache.root.glob("??/*"))) == 1


def test_a_missing_entry_lists_the_kernels_there_are(build: Builder) -> None:
    source = "__global__ void __launch_bounds__(128) first(float*) {}\ntemplate <int N> __global__ void second() {}\n"
    for entry, reason in (("third", "undefined"), ("second<float>", "second<float>"), ("second", "second")):
        error = build(source, entry).facts.error
        assert error is not None
        assert f'launch entry "{entry}"' in error
        assert reason in error
        assert error.endswith("kernels found: first, second")


def test_an_error_of_the_program_hides_what_followed_from_it(build: Builder) -> None:
    error = build("__global__ void k() { x; }\n", "other").facts.error
    assert error is not None
    assert "launch entry" not in error
    assert 'identifier "x"' in error


def test_warnings_are_facts(build: Builder) -> None:
    facts = build("__global__ void k() { int unused = 3; }\n").facts
    assert facts.ok
    assert facts.warnings.startswith("user.cu(1): warning")
    assert "ptxas" not in facts.warnings


def test_options_reach_the_compiler(build: Builder) -> None:
    source = "__global__ void k(float* a) { a[0] = a[1] / a[2]; }\n"
    plain, fast = build(source), build(source, options=("--use_fast_math", "-O3"))
    assert plain.facts.instruction_mix == fast.facts.instruction_mix
    ptx = [built.binary.with_name("kernel.ptx").read_text() for built in (plain, fast) if built.binary]
    assert ["div.rn.f32" in text for text in ptx] == [True, False]
    assert ["div.approx.ftz.f32" in text for text in ptx] == [False, True]
    with pytest.raises(InputError, match="not allowed"):
        build(source, options=("--include-path=/etc",))
    with pytest.raises(InputError, match="sm_90"):
        build(source, arch="compute_90")


def test_register_limits_make_spills_visible(build: Builder) -> None:
    source = """__global__ void k(float* a) {
  float v[64];
  #pragma unroll
  for (int i = 0; i < 64; i++) v[i] = a[i * 32 + threadIdx.x];
  __syncthreads();
  #pragma unroll
  for (int i = 0; i < 64; i++) a[i * 64 + threadIdx.x] = v[i] * v[63 - i] + v[(i * 7) % 64];
}
"""
    free, tight = build(source), build(source, options=("--maxrregcount=24",))
    assert free.facts.entries[0].spill_bytes == 0
    assert tight.facts.entries[0].registers == 24
    assert (tight.facts.entries[0].spill_bytes or 0) > 0
    assert (tight.facts.entries[0].local_bytes or 0) > 0


def test_host_headers_that_kernels_name_out_of_habit_are_there(build: Builder, pool: CompilePool) -> None:
    source = """#include <cuda_runtime.h>
#include <cstdint>
#include <stdint.h>
#include <cmath>
#include <math.h>
#include <cfloat>
#include <float.h>
#include <climits>
#include <cstddef>
#include <cstdio>
#include <cassert>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
__global__ void k(float* a, std::int32_t* b, int64_t n, std::size_t m, uint8_t c) {
  assert(n > 0);
  a[0] = std::exp(a[1]) + std::fmaxf(a[2], -INFINITY) + FLT_MAX + sqrtf(M_PI) + std::abs(a[3]);
  b[0] = INT_MAX + c;
  printf("%d", b[0]);
}
"""
    built = build(source)
    assert built.ok, built.facts.error
    assert built.facts.toolchain == pool.toolchain.identity


def test_helpers_need_no_device_annotation(build: Builder) -> None:
    built = build("float twice(float x) { return 2 * x; }\n__global__ void k(float* a) { a[0] = twice(a[1]); }\n")
    assert built.ok, built.facts.error


def test_instructions_of_one_architecture_alone_choose_its_variant(build: Builder) -> None:
    built = build('__global__ void k() { asm volatile("setmaxnreg.inc.sync.aligned.u32 240;"); }\n')
    assert built.ok, built.facts.error
    assert built.facts.arch == "sm_90a"
    old = build('__global__ void k() { asm volatile("setmaxnreg.inc.sync.aligned.u32 240;"); }\n', arch="sm_80")
    assert old.facts.error is not None
    assert "setmaxnreg" in old.facts.error


def test_includes_outside_the_kernel_are_refused_before_any_compiler(build: Builder, cache: BuildCache) -> None:
    built = build('\n#include "/etc/passwd"\n__global__ void k() {}\n')
    assert built.facts.error is not None
    assert built.facts.error.startswith('user.cu(2): error: #include of "/etc/passwd"')
    in_header = build('#include "h.cuh"\n__global__ void k() {}\n', includes={"h.cuh": '#include "../x"\n'})
    assert in_header.facts.error is not None
    assert in_header.facts.error.startswith("h.cuh(1): error: ")
    assert not cache.root.exists()


def test_include_folders_of_the_user_count_by_their_content(build: Builder, tmp_path: Path) -> None:
    folder = tmp_path / "inc"
    folder.mkdir()
    (folder / "value.cuh").write_text("#define VALUE 1\n")
    source = "#include <value.cuh>\nstatic_assert(VALUE == 1);\n__global__ void k() {}\n"
    assert build(source, include_dirs=(folder,)).ok
    (folder / "value.cuh").write_text("#define VALUE 10\n")
    error = build(source, include_dirs=(folder,)).facts.error
    assert error is not None
    assert error.startswith("user.cu(2): error: static assertion failed")
    missing = build(source).facts.error
    assert missing is not None
    assert 'cannot open source file "value.cuh"' in missing


def test_a_second_build_comes_from_the_cache_and_a_damaged_one_is_made_again(build: Builder) -> None:
    first = build(SCALE, tunables={"BLOCK": 128})
    again = build(SCALE, tunables={"BLOCK": 128})
    assert again == first  # compile_ms too: it is the first compilation's
    assert first.binary is not None
    content = first.binary.read_bytes()
    first.binary.write_bytes(content[:-1] + b"!")
    assert build(SCALE, tunables={"BLOCK": 128}).binary == first.binary
    assert first.binary.read_bytes() == content
    assert build(SCALE, tunables={"BLOCK": 256}).binary != first.binary


def test_concurrent_builds_of_one_kernel_agree(kernel: Callable[..., Kernel], cache: BuildCache) -> None:
    made = kernel(SCALE, tunables={"BLOCK": 64})
    with CompilePool(workers=2) as pool, ThreadPoolExecutor(4) as threads:
        builds = list(threads.map(lambda _: compile_cuda(made, arch="sm_90", pool=pool, cache=cache).symbols, range(8)))
    assert builds == [{"k": "k"}] * 8


def test_a_deadline_is_an_error_that_is_not_kept(
    pool: CompilePool, cache: BuildCache, kernel: Callable[..., Kernel]
) -> None:
    made = kernel("__device__ int big[1u << 28] = {1};\n__global__ void k(int* a) { a[0] = big[a[1]]; }\n")
    built = compile_cuda(made, arch="sm_90", deadline_s=0.5, pool=pool, cache=cache)
    assert built.facts.error == "the compiler was still running after 0.5 s and was stopped"
    assert not list(cache.root.glob("??/*"))


@needs_nvcc
def test_host_headers_go_by_nvcc(build: Builder) -> None:
    source = """#include <vector>
template <int N> __global__ void part(float* a) { a[0] = N; }
namespace inner { __global__ void sum(float* a) { a[0] += a[1]; } }
"""
    built = build(source, "part<BLOCK>", "inner::sum", tunables={"BLOCK": 64})
    assert built.ok, built.facts.error
    assert built.facts.toolchain.startswith("nvcc ")
    assert built.symbols == {"part<BLOCK>": "_Z4partILi64EEvPf", "inner::sum": "_ZN5inner3sumEPf"}
    assert all(entry.registers for entry in built.facts.entries)
    error = build("#include <vector>\n\n__global__ void k() { x; }\n").facts.error
    assert error is not None
    assert error.startswith('user.cu(3): error: identifier "x" is undefined')
    unknown = build("#include <no_such_header.h>\n__global__ void k() {}\n").facts.error
    assert unknown is not None
    assert unknown.startswith('user.cu(1): catastrophic error: cannot open source file "no_such_header.h"')
