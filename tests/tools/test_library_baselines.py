"""`--baseline library`: which program it is for a candidate of each language, and which lane the two sides share."""

from __future__ import annotations

from pathlib import Path

import pytest

from kforecast.bench.devices.catalogue import runs_hosted
from kforecast.bench.tasks.builtin import builtin_kernel
from kforecast.store.database import Store
from kforecast.store.errors import InputError
from kforecast.tools.kernels import Asked, Named, find_baseline, load_file
from kforecast.tools.measure import measure

EXAMPLES = Path(__file__).parents[2] / "examples"


def shipped(task: str, language: str, role: str = "seed") -> Path:
    path = builtin_kernel(task, language, role)  # type: ignore[arg-type]
    assert path is not None
    return path


def library_of(candidate: Named) -> Named:
    with Store.open() as store:
        found, because = find_baseline(store, "library", candidate)
    assert found is not None
    assert (found.called, because) == ("the library kernel", "asked for")
    assert found.task.id == candidate.task.id
    return found


@pytest.mark.parametrize(
    ("path", "language"),
    [
        (shipped("softmax_rows", "cuda"), "torch"),
        (EXAMPLES / "softmax_triton.py", "torch"),
        (shipped("softmax_rows", "torch", "library"), "torch"),
        (shipped("gemm_f32", "c"), "c"),
    ],
)
def test_the_library_of_a_candidate(path: Path, language: str) -> None:
    candidate = load_file(path, Asked())
    found = library_of(candidate)
    assert found.kernel.language == language
    assert runs_hosted(candidate.kernel.language, found.kernel.language) == (language == "torch")


@pytest.mark.parametrize(
    ("task", "language", "other"), [("stencil2d", "cuda", "PyTorch file"), ("scan", "c", "a file")]
)
def test_where_a_task_comes_with_none_the_answer_says_what_there_is(task: str, language: str, other: str) -> None:
    candidate = load_file(shipped(task, language), Asked())
    with Store.open() as store, pytest.raises(InputError, match=f"no library kernel for {language}") as caught:
        find_baseline(store, "library", candidate)
    assert "It has: seed, tuned." in caught.value.next_step
    assert other in caught.value.next_step


def test_device_code_may_have_any_pytorch_file_as_its_baseline_and_be_one(tmp_path: Path) -> None:
    program = tmp_path / "softmax.py"
    program.write_text(shipped("softmax_rows", "torch", "library").read_text().replace("torch.softmax(", "torch.relu("))
    mine, cuda = load_file(program, Asked()), load_file(shipped("softmax_rows", "cuda"), Asked())
    with Store.open() as store:
        found, _ = find_baseline(store, str(program), cuda)
        assert found is not None
        assert found.kernel.id == mine.kernel.id
        found, _ = find_baseline(store, str(shipped("softmax_rows", "cuda")), mine)
        assert found is not None
        assert found.kernel.id == cuda.kernel.id


def test_openblas_is_the_library_of_c_kernels_on_the_cpu() -> None:
    result = measure(
        str(shipped("batched_gemm", "c")), baseline="library", device="cpu", effort="quick", use_broker=False
    )
    assert (result.verdict, result.speedup is not None) == ("ok", True), result
    assert "the library kernel" in result.summary
