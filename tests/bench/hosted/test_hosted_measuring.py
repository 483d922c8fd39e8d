"""PyTorch programs end to end on the cpu: verdicts on the problems of other benches, and on tasks of our own."""

from __future__ import annotations

import errno
import os
from contextlib import nullcontext
from pathlib import Path

import pytest

from kforecast.bench.hosted.builds import Builds
from kforecast.bench.hosted.lane import HostedLane
from kforecast.bench.languages.torch import peer_kernel, reference_kernel
from kforecast.bench.measuring import Job, measure
from kforecast.bench.tasks.peers import peer_task
from kforecast.store.errors import DeviceError, InputError
from kforecast.store.models import Kernel, Launch, Measurement, Task
from kforecast.tools.kernels import Asked, load_file

TWO_OUTPUTS = """
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, columns, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(columns))
        self.eps = eps

    def forward(self, x, scale):
        y = x * (self.weight * scale)
        return [y / ((y * y).sum(1, keepdim=True).sqrt() + self.eps), torch.max(x, dim=1).indices]
"""


def task_of(path: Path) -> Task:
    task = peer_task(path)
    assert task is not None
    return task


def measured(lane: HostedLane, kernel: Kernel, task: Task, baseline: Kernel | None = None) -> Measurement:
    job = Job(task, kernel, baseline, "quick", call_deadline_s=5.0, time_cap_s=2.0)
    return measure(job, lane, device_lock=nullcontext)


def submitted(lane: HostedLane, source: str, path: Path) -> Measurement:
    task = task_of(path)
    return measured(lane, peer_kernel(source, "submission.py", task), task)


def test_a_problem_against_itself_has_a_ratio_near_one(lane: HostedLane, kernelbench: Path) -> None:
    task = task_of(kernelbench / "norm_and_parts.py")
    kernel = reference_kernel(task)
    result = measured(lane, kernel, task, kernel)
    assert result.verdict == "ok", result.reason
    assert result.lane == "host-code"
    assert result.log2_speedup is not None
    assert result.baseline_us is not None
    assert [case.case for case in result.cases] == ["the problem's inputs"]
    assert result.environment["null_call_us"] > 0


def test_a_submission_may_nest_its_outputs_as_a_list(lane: HostedLane, kernelbench: Path) -> None:
    result = submitted(lane, TWO_OUTPUTS, kernelbench / "norm_and_parts.py")
    assert result.verdict == "ok", (result.reason, result.diagnostics)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("torch.max(x, dim=1).indices", "torch.min(x, dim=1).indices", "every bit counts"),
        ("torch.max(x, dim=1).indices", "torch.max(x, dim=1).indices.int()", "another shape or dtype"),
        ("self.eps), torch", "self.eps) * 1.0001, torch", "elements are wrong"),
        ("return [y /", "return [y / 1, 1.0, y /", "nested otherwise"),
        ("(self.weight * scale)", "(self.weight.bfloat16() * scale).float()", "elements are wrong"),
    ],
)
def test_what_is_wrong_is_named(lane: HostedLane, kernelbench: Path, old: str, new: str, said: str) -> None:
    result = submitted(lane, TWO_OUTPUTS.replace(old, new), kernelbench / "norm_and_parts.py")
    assert result.verdict == "incorrect"
    assert said in result.reason


def test_an_exception_is_told_with_its_place(lane: HostedLane, kernelbench: Path) -> None:
    source = TWO_OUTPUTS.replace("y = x *", "raise ValueError('no such plan')\n        y = x *")
    result = submitted(lane, source, kernelbench / "norm_and_parts.py")
    assert (result.verdict, result.reason) == ("crashed", "it raised ValueError: no such plan")
    assert 'File "submission.py", line 13, in forward' in result.diagnostics


def test_wrong_syntax_and_a_failing_import_do_not_load(lane: HostedLane, kernelbench: Path) -> None:
    path = kernelbench / "norm_and_parts.py"
    syntax = submitted(lane, "import torch\nclass ModelNew(:\n    pass\n", path)
    assert syntax.verdict == "compile_error"
    assert "submission.py:2:16: error: SyntaxError: " in syntax.reason
    assert syntax.diagnostics.splitlines()[1:] == ["    class ModelNew(:", "                   ^"]
    missing = submitted(lane, "import no_such_module\n" + TWO_OUTPUTS, path)
    assert missing.verdict == "compile_error"
    assert "no_such_module" in missing.reason


def test_a_problem_that_a_null_kernel_solves_is_refused_by_its_name(lane: HostedLane, kernelbench: Path) -> None:
    task = task_of(kernelbench / "constant.py")
    with pytest.raises(InputError) as caught:
        measured(lane, reference_kernel(task), task)
    assert {"ones", "constant mean", "previous output"} <= set(str(caught.value.value).split(", "))


def test_a_gpu_mode_problem_is_judged_by_its_own_check(lane: HostedLane, gpumode: Path) -> None:
    task = task_of(gpumode)
    kernel = load_file(gpumode / "submission.py", Asked()).kernel
    result = measured(lane, kernel, task, reference_kernel(task))
    assert result.verdict == "ok", (result.reason, result.diagnostics)
    assert [case.case for case in result.cases] == ['rows=64 columns=256 kind="flat"']
    source = kernel.source.replace("x.sum(-1)", "x[:, :-1].sum(-1)")
    wrong = measured(lane, peer_kernel(source, "wrong.py", task), task)
    assert wrong.verdict == "incorrect"
    assert "the problem's check says: output 1: differs" in wrong.reason


@pytest.mark.parametrize(
    "body",
    [
        "return into, x.sum(-1)",  # what lay in the given output
        "return into.zero_(), x.sum(-1) * 0",
        "return into.fill_(float('nan')), x.sum(-1) * float('nan')",
        "x.zero_(); return into.zero_(), x.sum(-1)",
    ],
)
def test_gpu_mode_shortcuts_fail(lane: HostedLane, gpumode: Path, body: str) -> None:
    source = f"def custom_kernel(data):\n    x, into, options = data\n    {body}\n"
    assert submitted(lane, source, gpumode).verdict in ("incorrect", "crashed")


def test_a_problem_for_gpus_is_unsupported_on_the_cpu(lane: HostedLane, gpumode: Path, tmp_path: Path) -> None:
    for path in gpumode.iterdir():
        if path.is_file():
            (tmp_path / path.name).write_text(path.read_text().replace("torch.Generator()", "torch.Generator('cuda')"))
    task = task_of(tmp_path)
    result = measured(lane, reference_kernel(task), task)
    assert result.verdict == "unsupported"
    assert "'cuda'" in result.reason


HEADER = '# /// kforecast 1\n# task = "vector_add"\n# [[launch]]\n# entry = "{entry}"\n# args = [{args}]\n# ///\n'


@pytest.mark.parametrize(
    ("entry", "args", "body", "verdict"),
    [
        ("add", '"a", "b"', "def add(a, b):\n    return a + b\n", "ok"),
        ("add", '"a", "b", "c"', "def add(a, b, c):\n    torch.add(a, b, out=c)\n", "ok"),
        ("add", '"a", "b", "c", "N"', "def add(a, b, c, n):\n    c[: n - 1] = (a + b)[: n - 1]\n", "incorrect"),
        ("Add", '"a", "b"', "class Add(torch.nn.Module):\n    def forward(self, a, b):\n        return a + b\n", "ok"),
    ],
)
def test_a_file_with_a_header_solves_a_task_of_tensors(
    lane: HostedLane, tmp_path: Path, entry: str, args: str, body: str, verdict: str
) -> None:
    path = tmp_path / "add.py"
    path.write_text(HEADER.format(entry=entry, args=args) + "import torch\n" + body)
    named = load_file(path, Asked())
    assert named.warnings == ()
    assert measured(lane, named.kernel, named.task).verdict == verdict


EXTENSION = """
import ctypes

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = 'extern "C" void halve(float *x, long n) { for (long i = 0; i < n; i++) x[i] *= 0.5f; }'
LIBRARY = ctypes.CDLL(load_inline("halve", SOURCE, is_python_module=False, no_implicit_headers=True))


class ModelNew(nn.Module):
    def __init__(self, columns, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(columns))
        self.eps = eps

    def forward(self, x, scale):
        y = x * (self.weight * scale * 2)
        LIBRARY.halve(ctypes.c_void_p(y.data_ptr()), ctypes.c_long(y.numel()))
        return y / (y.norm(dim=1, keepdim=True) + self.eps), x.argmax(dim=1)
"""


def test_an_inline_extension_is_built_apart_once(
    lane: HostedLane, kernelbench: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[str] = []
    keep = Builds.keep

    def counted(self: Builds, kernel: Kernel, made: Path) -> None:
        kept.append(kernel.id)
        keep(self, kernel, made)

    monkeypatch.setattr(Builds, "keep", counted)
    path = kernelbench / "norm_and_parts.py"
    for _ in range(2):
        result = submitted(lane, EXTENSION, path)
        assert result.verdict == "ok", (result.reason, result.diagnostics)
    assert len(kept) == 1
    broken = submitted(lane, EXTENSION.replace("x[i] *= 0.5f", "x[i] *= half"), path)
    assert broken.verdict == "compile_error"
    assert "half" in broken.diagnostics
    monkeypatch.setattr("os.posix_fallocate", no_room)
    with pytest.raises(DeviceError, match=r"no room to compile in \(No space left on device\)"):
        submitted(lane, EXTENSION.replace("x[i] *= 0.5f", "x[i] *= full"), path)


def no_room(*anything: object, **named: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_cache_that_is_full_is_no_fault_of_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, cache = tmp_path / "made", tmp_path / "cache"
    made.mkdir()
    (made / "halve.so").write_bytes(b"machine code")
    (made / "halve.o").write_bytes(b"not needed")
    os.mkfifo(made / "pipe")
    kernel = Kernel.make(language="torch", name="a.py", source="", launches=(Launch(entry="f", args=()),), task_id="")
    builds = Builds(cache, "cpu")
    with monkeypatch.context() as full:
        full.setattr("shutil.copyfile", no_room)
        with pytest.raises(DeviceError, match=r"the cache cannot be written \(.*No space left on device\)"):
            builds.keep(kernel, made)
    assert not builds.folder(kernel).exists()
    builds.keep(kernel, made)
    assert [path.name for path in builds.folder(kernel).iterdir()] == ["halve.so"]


def test_nothing_is_left_after_crashes(lane: HostedLane, kernelbench: Path) -> None:
    source = TWO_OUTPUTS.replace("y = x *", "import os; os.abort()\n        y = x *")
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        result = submitted(lane, source, kernelbench / "norm_and_parts.py")
        assert result.verdict == "crashed"
    assert len(list(Path("/proc/self/fd").iterdir())) <= descriptors
    children = Path(f"/proc/{lane.zygote._process.pid}/task/{lane.zygote._process.pid}/children")
    assert not children.exists() or children.read_text().split() == []


def test_both_helpers_start_anew_after_their_deaths(lane: HostedLane, kernelbench: Path) -> None:
    task = task_of(kernelbench / "norm_and_parts.py")
    for helper in (lane.oracle, lane.zygote):
        helper._process.kill()
        helper._process.wait()
    assert measured(lane, reference_kernel(task), task).verdict == "ok"


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("from task import *\n", "reference.py defines no generate_input, ref_kernel, check_implementation"),
        ("import no_such_package\nfrom task import *\n", "it imports no_such_package, which this Python"),
        (
            "import torch\nref_kernel = check_implementation = 0\ndef generate_input(n): return torch.empty(1 << 50)",
            "generate_input fails here: it needs more memory than there is: 4503599627370496 bytes at once; measure",
        ),
        (
            "class Config: pass\ndef generate_input(n): return Config()\ndef ref_kernel(data): return data\n"
            "def check_implementation(data, output): return ''\n",
            "what cannot travel: a Config, where only tensors",
        ),
    ],
)
def test_a_problem_that_cannot_run_here_says_what_it_lacks(
    lane: HostedLane, tmp_path: Path, reference: str, said: str
) -> None:
    files = ", ".join(f"{{name: {name}, source: {name}}}" for name in ("reference.py", "task.py"))
    (tmp_path / "task.yml").write_text(f"files: [{files}]\ntests: [{{n: 1}}]\n")
    (tmp_path / "reference.py").write_text(reference)
    (tmp_path / "task.py").write_text("input_t = object\n")
    task = task_of(tmp_path)
    result = measured(lane, reference_kernel(task), task)
    assert result.verdict == "unsupported"
    assert said in result.reason
