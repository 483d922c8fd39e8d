"""Facts of Triton files as a user asks for them, and the plan that a launch is made from."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kforecast.bench.devices.cuda.inspection import plan_of
from kforecast.bench.header.load import LoadedKernel
from kforecast.bench.lane import Program
from kforecast.bench.languages.build import Build
from kforecast.bench.languages.triton.toolchain import find_triton
from kforecast.bench.tasks.builtin import builtin_task
from kforecast.store.errors import DeviceError, InputError, UnsupportedError
from kforecast.store.models import Case
from kforecast.tools.facts import facts
from kforecast.tools.kernels import Asked, device_for, find_baseline, load_file

ROOT = Path(__file__).parents[4]
SOFTMAX = ROOT / "examples" / "softmax_triton.py"
BAD = ROOT / "tests" / "exhibits" / "triton" / "bad"


def test_the_example_has_facts() -> None:
    pytest.importorskip("triton")
    found = facts(str(SOFTMAX), arch="sm_90", settings={"BLOCK": 1024, "num_warps": 4})
    assert found.ok and found.language == "triton" and found.task == "softmax_rows"
    (entry,) = found.entries
    assert entry.registers and entry.occupancy is not None and 0 < entry.occupancy <= 1
    assert "bytes of shared memory" in found.summary
    assert found.instruction_mix["ex2"] > 0
    assert "softmax_rows: compiled for R is a multiple of 16, C is a multiple of 16" in str(found.diagnostics)


def test_an_error_is_an_answer_with_the_users_line() -> None:
    pytest.importorskip("triton")
    found = facts(str(BAD / "unknown_function.py"))
    assert not found.ok
    assert str(found.error).startswith("unknown_function.py:18:53: error: ")
    assert "^" in str(found.diagnostics)


def test_a_bare_file_is_told_what_to_add() -> None:
    with pytest.raises(InputError) as raised:
        facts(str(BAD / "bare.py"))
    assert "# /// kforecast 1" in raised.value.next_step
    assert "vector_add" in raised.value.next_step


def test_without_triton_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    find_triton.cache_clear()
    original = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "triton" else original(name))
    try:
        with pytest.raises(DeviceError, match="not installed") as raised:
            find_triton()
    finally:
        find_triton.cache_clear()
    assert "kforecast[triton]" in raised.value.next_step


def test_a_triton_kernel_is_compared_with_the_cuda_seed_on_a_gpu() -> None:
    found = load_file(SOFTMAX, Asked())
    assert device_for(found.kernel, None) == "cuda:0"
    with pytest.raises(UnsupportedError):
        device_for(found.kernel, "cpu")
    from kforecast.store.database import Store

    with Store.open() as store:
        baseline, _ = find_baseline(store, None, found)
    assert baseline is not None and baseline.kernel.language == "cuda"


def test_a_plan_holds_what_the_compiler_fixed(build: Callable[..., Build], load: Callable[..., LoadedKernel]) -> None:
    path = ROOT / "tests" / "exhibits" / "triton" / "gemm_bf16.py"
    loaded, built = load(path), build(path)
    program = Program(loaded.kernel, loaded.signatures, built)
    constants = {"WARP": 32, "SM_COUNT": 132, "SMEM_MAX": 232448}

    def launch(**sizes: int) -> dict[str, Any]:
        plan = plan_of(program, builtin_task("gemm_bf16"), Case(sizes=sizes), constants, 0)
        (found,) = plan["launches"]
        return dict(found)

    special, general = launch(M=256, N=128, K=64), launch(M=257, N=129, K=70)
    assert (special["symbol"], general["symbol"]) == ("gemm_bf16", "gemm_bf16__1")
    assert special["block"] == general["block"] == (256, 1, 1)
    assert special["smem"] == built.forms[0].smem
    # Three tensors, six sizes, null pointers; the inner stride is always 1, and no parameter.
    assert special["args"] == [
        *(("t", name) for name in "ABC"),
        *(("s", value) for value in (256, 128, 64, 64, 64, 128)),
        *[("s", 0)] * built.forms[0].trailing,
    ]


def test_a_plan_holds_the_compilers_own_memory(build: Callable[..., Build], load: Callable[..., LoadedKernel]) -> None:
    path = ROOT / "tests" / "exhibits" / "triton" / "gemm_bf16_descriptors.py"
    loaded, built = load(path), build(path)
    program = Program(loaded.kernel, loaded.signatures, built)
    constants = {"WARP": 32, "SM_COUNT": 132, "SMEM_MAX": 232448}
    plan = plan_of(program, builtin_task("gemm_bf16"), Case(sizes={"M": 256, "N": 128, "K": 64}), constants, 0)
    ((name, size),) = plan["scratch"].items()
    assert size == 2 * built.forms[0].scratch
    (launch,) = plan["launches"]
    assert launch["args"][-2:] == [("t", name), ("s", 0)]
