"""Triton files without a GPU: what comes out of good ones, and what is said of the others."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kforecast.bench.header.load import LoadedKernel
from kforecast.bench.header.plan import PointerArg, plan_launches
from kforecast.bench.languages.build import Build
from kforecast.bench.languages.cuda.cache import BuildCache
from kforecast.bench.languages.cuda.worker import FORK_AHEAD
from kforecast.bench.languages.triton.compile import compile_triton
from kforecast.bench.languages.triton.pool import TritonPool
from kforecast.store.errors import InputError

ROOT = Path(__file__).parents[4]
EXHIBITS = ROOT / "tests" / "exhibits" / "triton"
GOOD = [*sorted(EXHIBITS.glob("*.py")), ROOT / "examples" / "softmax_triton.py"]
BAD = sorted((EXHIBITS / "bad").glob("*.py"))
H200 = {"WARP": 32, "SM_COUNT": 132, "SMEM_MAX": 232448}

Builder = Callable[..., Build]
Loader = Callable[..., LoadedKernel]

HEADER = """# /// kforecast 1
# task = "vector_add"
# [[launch]]
# entry = "vector_add"
# args = ["a", "b", "c", "N"]
# grid = ["cdiv(N, BLOCK)"]
# [tune]
# BLOCK = [1024, 512]
# num_warps = [4, 8]
# ///
"""
KERNEL = """
@triton.jit
def vector_add(a, b, c, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(c + at, tl.load(a + at, mask=at < N) + tl.load(b + at, mask=at < N), mask=at < N)
"""
IMPORTS = "import triton\nimport triton.language as tl\n"


def ptx_of(build: Build) -> str:
    assert build.binary is not None
    return (build.binary.parent / "kernel.ptx").read_text()


def parameters_of(ptx: str, symbol: str) -> int:
    """How many parameters an entry of the assembled text takes."""
    found = re.search(rf"\.entry {re.escape(symbol)}\(([^)]*)\)", ptx)
    assert found is not None
    return found[1].count(".param")


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_what_compiles_is_a_cubin_with_facts(path: Path, build: Builder, load: Loader) -> None:
    built = build(path)
    assert built.ok, built.facts.error
    assert built.binary is not None and built.binary.read_bytes()[:4] == b"\x7fELF"
    assert built.facts.arch == "sm_90a"
    assert built.facts.toolchain.startswith("triton ")
    assert [entry.entry for entry in built.facts.entries] == [launch.entry for launch in load(path).kernel.launches]
    assert all(entry.registers and entry.spill_bytes == 0 for entry in built.facts.entries)
    assert any(name.startswith("st.global") for name in built.facts.instruction_mix)


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_every_case_has_a_launch_that_fits_the_parameters(path: Path, build: Builder, load: Loader) -> None:
    built, loaded = build(path), load(path)
    ptx = ptx_of(built)
    for case in (*loaded.task.checked, *loaded.task.timed_on("cuda")):
        planned = plan_launches(loaded.kernel, loaded.task, case, loaded.signatures, H200)
        for symbol, launch in built.placed(planned):
            assert len(launch.args) == parameters_of(ptx, symbol)
            assert launch.block == (32 * loaded.kernel.tunables.get("num_warps", 4), 1, 1)


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_what_is_wrong_is_told(path: Path, build: Builder) -> None:
    found = re.search(r"^# expect: ([\w|]+): (.*)$", path.read_text(), re.MULTILINE)
    assert found is not None
    verdict, words = found[1], found[2].strip()
    if verdict == "refused":
        with pytest.raises(InputError) as raised:
            build(path)
        assert words in str(raised.value)
        return
    built = build(path, deadline_s=2.0 if path.stem == "endless_import" else 60.0)
    if verdict == "compile_error":
        assert not built.ok and built.binary is None
        assert words in str(built.facts.error)
        assert "kforecast_kernel" not in str(built.facts.error)
    else:
        assert built.ok, built.facts.error  # what is wrong with it shows when it runs


def test_what_is_no_python_is_refused_with_its_line(build: Builder) -> None:
    with pytest.raises(InputError, match=r"no Python: source text:15:27: error: SyntaxError: .*: def vector_add"):
        build(HEADER + IMPORTS + KERNEL.replace("N, BLOCK", "N BLOCK"))


def test_the_worker_outlives_them_all(build: Builder) -> None:
    assert build(HEADER + IMPORTS + "NUMBER = 17\n" + KERNEL).ok


def test_the_jit_would_assume_multiples_of_16_of_the_timed_case(build: Builder) -> None:
    built = build(EXHIBITS / "vector_add.py")
    special, general = ptx_of(built).split(".visible .entry ")[1:]
    assert "ld.global.v4" in special
    assert "ld.global.v4" not in general
    assert [form.symbol for form in built.forms] == ["vector_add", "vector_add__1"]
    assert "N is a multiple of 16" in built.log


def test_an_argument_that_is_always_one_is_compiled_in(build: Builder) -> None:
    built = build(EXHIBITS / "gemm_bf16.py")
    assert [form.parameters[-1].equals for form in built.forms] == [1, 1]
    assert parameters_of(ptx_of(built), "gemm_bf16") == 9 + built.forms[0].trailing
    assert "mma-bf16" in built.facts.labels
    assert built.forms[0].smem > 48 << 10


def test_tunables_reach_constants_and_the_compiler(build: Builder) -> None:
    text = HEADER + IMPORTS + KERNEL
    first, second = build(text), build(text, BLOCK=512, num_warps=8)
    assert (first.forms[0].threads, second.forms[0].threads) == (128, 256)
    assert first.binary != second.binary


def test_a_build_is_found_again_without_a_worker(cache: BuildCache, load: Loader, build: Builder) -> None:
    before = build(EXHIBITS / "vector_add.py")
    with TritonPool(workers=1) as unused:
        unused.close()
        loaded = load(EXHIBITS / "vector_add.py")
        again = compile_triton(
            loaded.kernel, loaded.task, loaded.signatures, arch="sm_90", constants=H200, pool=unused, cache=cache
        )
    assert again == before


def test_ptx_is_the_same_each_time(pool: TritonPool, tmp_path: Path, load: Loader, build: Builder) -> None:
    first = build(EXHIBITS / "bias_gelu.py")
    loaded = load(EXHIBITS / "bias_gelu.py")
    other = BuildCache(tmp_path)
    again = compile_triton(
        loaded.kernel, loaded.task, loaded.signatures, arch="sm_90", constants=H200, pool=pool, cache=other
    )
    assert ptx_of(first) == ptx_of(again)
    assert first.binary is not None and again.binary is not None
    assert first.binary.read_bytes() == again.binary.read_bytes()


def test_descriptors_made_on_the_device_get_memory(build: Builder, load: Loader) -> None:
    path = EXHIBITS / "gemm_bf16_descriptors.py"
    built, loaded = build(path), load(path)
    by_case = {dict(form.constexpr)["ALIGNED"]: form.scratch for form in built.forms}
    assert by_case[0] == 0 and by_case[1] > 0
    for case in (*loaded.task.timed_on("cuda"), *loaded.task.checked):
        planned = plan_launches(loaded.kernel, loaded.task, case, loaded.signatures, H200)
        ((_, launch),) = built.placed(planned)
        memory = built.scratch(planned)
        assert bool(memory) == (case.sizes["K"] % 8 == 0)
        assert [arg.name for arg in launch.args if isinstance(arg, PointerArg)] == [*"ABC", *memory]
        assert set(memory.values()) <= {by_case[1] * launch.grid[0]}
    timed = loaded.task.timed_on("cuda")[0]
    (launch,) = plan_launches(loaded.kernel, loaded.task, timed, loaded.signatures, H200)
    with pytest.raises(InputError, match="too much memory"):
        built.scratch([replace(launch, grid=(1 << 25, 1, 1))])


class ForkAhead(TritonPool):
    """As where Triton keeps threads after it has compiled: each job's child is forked ahead and warms up itself."""

    def __init__(self) -> None:
        super().__init__(workers=1)
        module, arguments, install = self._command
        self._command = (module, (*arguments, FORK_AHEAD), install)


def test_workers_that_fork_ahead_do_the_same(tmp_path: Path, load: Loader, build: Builder) -> None:
    fork_bomb = ROOT / "tests" / "exploits" / "triton" / "fork_bomb.py"
    with ForkAhead() as pool:
        for path, ok in ((EXHIBITS / "vector_add.py", True), (fork_bomb, False), (EXHIBITS / "bias_gelu.py", True)):
            loaded = load(path)
            found = (loaded.kernel, loaded.task, loaded.signatures)
            other = BuildCache(tmp_path)
            built = compile_triton(*found, arch="sm_90", constants=H200, pool=pool, cache=other)
            assert built.ok == ok, built.facts.error
            assert not ok or ptx_of(built) == ptx_of(build(path))


@pytest.mark.parametrize("arch", ["sm_80", "sm_100"])
def test_other_architectures(arch: str, build: Builder) -> None:
    built = build(EXHIBITS / "vector_add.py", arch=arch)
    assert built.ok, built.facts.error
    assert built.facts.arch.startswith(arch)


def test_constants_that_follow_from_sizes(build: Builder, load: Loader) -> None:
    path = EXHIBITS / "softmax_one_block.py"
    built = build(path)
    blocks = [dict(form.constexpr)["BLOCK"] for form in built.forms]
    assert blocks[:2] == [4096, 1024] and len(blocks) == len(set(blocks))
    assert set(blocks) == {1 << max(case.sizes["C"] - 1, 0).bit_length() for case in load(path).task.checked} | {4096}


@pytest.mark.parametrize(
    ("constexpr", "words"),
    [
        ('{ BLOCK = "N" }', "BLOCK of launch vector_add is a tunable as well"),
        ('{ BLOCKS = "N" }', "no constexpr of the kernel on line 16"),
        ('{ a = "N" }', "a of launch vector_add is no constexpr"),
    ],
)
def test_constants_that_cannot_be(constexpr: str, words: str, build: Builder) -> None:
    text = HEADER.replace("# [tune]", f"# constexpr = {constexpr}\n# [tune]") + IMPORTS + KERNEL
    assert words in str(build(text).facts.error)


def test_a_numbers_type_is_its_annotations_else_what_fits(build: Builder, load: Loader) -> None:
    text = HEADER + IMPORTS + KERNEL.replace("N, BLOCK", "N: tl.int64, BLOCK")
    assert {form.parameters[3].dtype for form in build(text).forms} == {"i64"}
    assert {form.parameters[3].dtype for form in build(HEADER + IMPORTS + KERNEL).forms} == {"i32"}
    frozen = KERNEL.replace("@triton.jit", '@triton.jit(do_not_specialize=["N"])')
    assert {form.parameters[3].multiple for form in build(HEADER + IMPORTS + frozen).forms} == {1}


@pytest.mark.slow
def test_the_exhibits_are_right_by_tritons_interpreter() -> None:
    """What the kernels compute, told apart from how we compile and launch them."""
    pytest.importorskip("torch")
    pytest.importorskip("triton", minversion="3.9", reason="older interpreters do not know NumPy 2.4")
    program = Path(__file__).with_name("interpreted.py")
    wrong = [path for path in BAD if path.stem.startswith("wrong_")]
    files = [path for path in GOOD if path.stem not in ("gemm_bf16", "gemm_bf16_descriptors", "sum_all")] + wrong
    done = subprocess.run(
        [sys.executable, str(program), *map(str, files)], capture_output=True, text=True, check=True, timeout=240
    )
    lines = [line.split("\t") for line in done.stdout.splitlines() if "\t" in line]
    verdicts = {Path(name).stem: answer for name, answer in lines}
    assert verdicts == {path.stem: "wrong" if path in wrong else "right" for path in files}


PARTS = """import triton
import triton.language as tl


@triton.jit
def plus(a, b):
    return a + b{}
"""


def test_what_it_includes_lies_beside_it(tmp_path: Path, build: Builder, load: Loader) -> None:
    header = HEADER.replace("# [[launch]]", '# include = ["parts/plus.py"]\n# [[launch]]')
    call = "plus(tl.load(a + at, mask=at < N), tl.load(b + at, mask=at < N))"
    kernel = KERNEL.replace("tl.load(a + at, mask=at < N) + tl.load(b + at, mask=at < N)", call)
    path = tmp_path / "kernel.py"
    path.write_text(header + IMPORTS + "from parts.plus import plus\n" + kernel)
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "plus.py").write_text(PARTS.format(""))
    right = load(path).kernel
    assert build(path).ok, build(path).facts.error
    (tmp_path / "parts" / "plus.py").write_text(PARTS.format(" + wrong"))
    assert load(path).kernel.id != right.id
    said = str(build(path).facts.error)
    assert said.startswith("parts/plus.py:7:20: error: ") and "called from kernel.py:19" in said
