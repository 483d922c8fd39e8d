"""Problems of other benches become tasks without a line of them changed, or are refused with what is missing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kforecast.bench.languages.torch import compile_torch, peer_kernel, reference_kernel
from kforecast.bench.tasks.gpumode import arguments_of
from kforecast.bench.tasks.kernelbench import is_kernelbench, kernelbench_task
from kforecast.bench.tasks.load import load_task
from kforecast.bench.tasks.peers import peer_task, task_of_source
from kforecast.store.errors import InputError, UnsupportedError
from kforecast.store.models import Task
from kforecast.tools.peers import load_peer
from kforecast.tools.tasks import check_task, show_task

HOSTED = Path(__file__).parents[1] / "hosted"
PROBLEM = HOSTED / "kernelbench" / "norm_and_parts.py"
GPUMODE = HOSTED / "gpumode"


def gpumode() -> Task:
    task = peer_task(GPUMODE)
    assert task is not None
    return task


def test_a_kernelbench_file_is_a_task_of_one_case() -> None:
    task = peer_task(PROBLEM)
    assert task is not None and task.problem is not None
    assert task.name == "norm_and_parts"
    assert task.problem.files == {"problem.py": PROBLEM.read_text()}
    assert [case.name for case in task.timed_on("cuda")] == ["the problem's inputs"]
    assert task.id == kernelbench_task(PROBLEM.read_text(), "norm_and_parts").id
    assert Task.model_validate(task.model_dump(mode="json")) == task


def test_a_gpu_mode_folder_is_a_task_with_its_tests_and_benchmarks() -> None:
    task = gpumode()
    assert task.problem is not None
    assert sorted(task.problem.files) == ["reference.py", "task.py", "utils.py"]
    assert task.problem.most_seed == 31232
    assert [arguments_of(case) for case in task.checked] == [
        {"rows": 3, "columns": 17, "kind": "flat"},
        {"rows": 8, "columns": 64, "kind": "wide"},
    ]
    assert len(task.timed_on("cpu")) == 1
    assert peer_task(GPUMODE / "task.yml") == task


def test_a_task_without_a_problem_keeps_its_id() -> None:
    from kforecast.bench.tasks.builtin import builtin_task

    assert "problem" not in builtin_task("vector_add").model_dump(mode="json", exclude_defaults=True)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ("files: []\ntests: [{size: 1}]\n", "reference.py"),
        ("files: [{name: reference.py, source: reference.py}]\n", "no tests"),
        ("tests: [", "YAML"),
    ],
)
def test_a_folder_that_is_no_problem_says_why(tmp_path: Path, files: str, said: str) -> None:
    (tmp_path / "task.yml").write_text(files)
    (tmp_path / "reference.py").write_text("def ref_kernel(data): return data\n")
    with pytest.raises(InputError) as caught:
        peer_task(tmp_path)
    assert said in f"{caught.value.what} {caught.value.value}"


@pytest.mark.parametrize(
    ("more", "reference", "said"),
    [
        ("multi_gpu: true", "def ref_kernel(data): return data", "needs several GPUs"),
        (
            "lang: py",
            "import torch\ndef generate_inputs(n, seed): pass\ndef reference_forward(x): pass\n",
            "a runner of its own.*lacks generate_input, ref_kernel, check_implementation",
        ),
        ("lang: py", "def generate_input(n): pass\ndef ref_kernel(d): pass\n", "lacks check_implementation"),
    ],
)
def test_problems_that_are_judged_otherwise_are_unsupported(
    tmp_path: Path, more: str, reference: str, said: str
) -> None:
    files = "files: [{name: reference.py, source: reference.py}]"
    (tmp_path / "task.yml").write_text(f"{files}\n{more}\ntests: [{{size: 1}}]\n")
    (tmp_path / "reference.py").write_text(reference)
    with pytest.raises(UnsupportedError, match=said):
        peer_task(tmp_path)


@pytest.mark.parametrize(
    "reference",
    [
        "from others import *",
        "from others import generate_input, ref_kernel\ncheck_implementation = make(ref_kernel)",
        "if True:\n    def generate_input(n): pass\nelse:\n    generate_input = None\n"
        "def ref_kernel(d): pass\nclass check_implementation: pass",
        "this is no Python (",
    ],
)
def test_wherever_the_names_come_from_a_problem_is_one(tmp_path: Path, reference: str) -> None:
    (tmp_path / "task.yml").write_text("files: [{name: reference.py, source: reference.py}]\ntests: [{size: 1}]\n")
    (tmp_path / "reference.py").write_text(reference)
    assert peer_task(tmp_path) is not None


def test_the_files_are_read_without_a_yaml_library_too(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = gpumode()
    monkeypatch.setitem(sys.modules, "yaml", None)
    assert gpumode().model_copy(update={"title": wanted.title}) == wanted


def test_every_file_of_a_problem_is_asked_for() -> None:
    asked: list[str] = []
    peer_task(GPUMODE, lambda path: asked.append(path.name))
    assert asked == ["task.yml", "task.py", "helpers.py", "reference.py"]

    def refuse(path: Path) -> None:
        raise InputError("not below a root", value=path, next_step="Move it.")

    with pytest.raises(InputError, match="not below"):
        peer_task(PROBLEM, refuse)


def test_submissions_find_their_problem() -> None:
    source = (GPUMODE / "submission.py").read_text()
    assert task_of_source(source, GPUMODE / "submission.py") == gpumode()
    assert task_of_source("def custom_kernel(data): return data\n", PROBLEM) is None
    found = load_peer(PROBLEM, None, None)
    assert found is not None
    kernel, task, called = found
    assert (kernel.launches[0].entry, called) == ("Model", str(PROBLEM))
    assert kernel.id == reference_kernel(task).id
    assert load_peer("x = 1\ny = 2\n", None, None) is None


def test_a_submission_without_its_entry_is_refused() -> None:
    task = peer_task(PROBLEM)
    assert task is not None
    with pytest.raises(InputError, match="defines ModelNew"):
        peer_kernel("class Model: pass\n", "mine.py", task)
    with pytest.raises(InputError, match="defines custom_kernel"):
        peer_kernel("def kernel(data): return data\n", "mine.py", gpumode())


def test_what_a_submission_imports_lies_beside_it() -> None:
    kernel = peer_kernel((GPUMODE / "submission.py").read_text(), "submission.py", gpumode())
    assert set(kernel.includes) == {"reference.py", "task.py", "utils.py"}
    assert kernel.language == "torch"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("class Model: pass\nclass ModelNew(Model): pass\n", True),
        ("class Model: pass\nclass ModelNew: pass\n", False),
        ("class Model: pass\nclass ModelNew:\n    def __init__(self): self.inner = Model()\n", True),
    ],
)
def test_a_submission_that_is_the_reference_says_so(source: str, found: bool) -> None:
    task = peer_task(PROBLEM)
    assert task is not None
    assert ("inherits-reference" in compile_torch(peer_kernel(source, "mine.py", task)).facts.labels) == found
    assert compile_torch(reference_kernel(task)).facts.labels == ()


def test_a_problem_is_found_as_any_task_is_and_not_shown_as_one_of_tensors() -> None:
    assert load_task(str(GPUMODE)) == gpumode()
    assert load_task(str(PROBLEM)).problem is not None
    for ask in (show_task, check_task):
        with pytest.raises(UnsupportedError, match="bench"):
            ask(str(PROBLEM))


def test_recognising_reads_the_syntax_only() -> None:
    assert is_kernelbench("class Model: pass\ndef get_inputs(): ...\nget_init_inputs = lambda: []\n")
    assert not is_kernelbench("class Model: pass\n")
    assert not is_kernelbench("class Model(:\n")
