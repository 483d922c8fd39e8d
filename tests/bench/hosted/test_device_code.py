"""Device code in the host-code lane, with a stand-in for the driver: what is launched and what is refused."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kforecast.bench.correctness.gate import expect
from kforecast.bench.devices.cpu.machine import device_id
from kforecast.bench.faults import KernelFault
from kforecast.bench.header.load import load_kernel
from kforecast.bench.header.signature import Signature, signatures
from kforecast.bench.hosted import device_code, launching, process
from kforecast.bench.hosted.arguments import arguments_of_launch
from kforecast.bench.hosted.device_code import NOTE, as_hosted
from kforecast.bench.hosted.lane import HostedLane
from kforecast.bench.hosted.problems import TensorDefinition, array_of
from kforecast.bench.lane import Inspection, Program, Tool
from kforecast.bench.languages.build import Build, Form, FormParameter
from kforecast.bench.languages.c import find_compiler
from kforecast.bench.measuring import Job, measure
from kforecast.bench.tasks.builtin import builtin_kernel, builtin_task
from kforecast.bench.tasks.load import resolve_task
from kforecast.store.errors import UnsupportedError
from kforecast.store.models import Facts, Kernel, Task
from kforecast.tools.kernels import Asked, load_file

torch = pytest.importorskip("torch")

H200 = {"WARP": 32, "SM_COUNT": 132, "SMEM_MAX": 232448}
CUBIN = b"cubin\0of part, total, count"
SUM = """/* kforecast 1
task = "sum_all"
[scratch]
W = { dtype = "f64", shape = ["PARTS"], zero = true }
[[launch]]
entry = "part"
args = ["x", "W", "N", "PARTS"]
grid = ["PARTS", 1, 2]
block = [64, 2]
smem = "KIB * 1024"
[[launch]]
entry = "total"
args = ["W", "y", "PARTS"]
[tune]
PARTS = [8]
KIB = [64, 228]
*/
extern "C" __global__ void part(const float* x, double* W, int N, int parts) {}
extern "C" __global__ void total(const double* W, float* y, int parts) {}
"""
COUNT = """/* kforecast 1
task = "histogram"
[[launch]]
entry = "count"
args = ["x", "h", "N", "BINS"]
block = [256]
*/
extern "C" __global__ void count(const int* x, int* h, long long N, int bins) {}
"""


def program_of(source: str, folder: Path, **settings: int) -> tuple[Program, Task]:
    """The program of a source whose cubin is one that the stand-in takes."""
    loaded = load_kernel(source, resolve_task=resolve_task, settings=settings)
    cubin = folder / "kernel.cubin"
    cubin.write_bytes(CUBIN)
    symbols = {launch.entry: launch.entry for launch in loaded.kernel.launches}
    build = Build(cubin, Facts(ok=True), symbols)
    return Program(loaded.kernel, loaded.signatures, build), loaded.task


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("driver") / "libcuda.so.1"
    source = Path(__file__).with_name("fake_cuda.c")
    subprocess.run([find_compiler().path, "-shared", "-fPIC", "-O1", str(source), "-o", str(library)], check=True)
    return library


@pytest.fixture
def told(driver: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], list[str]]]:
    """Stands in for the driver and for torch's stream; what it was told since it was asked last."""
    library = ctypes.CDLL(str(driver))
    library.fake_calls.restype = ctypes.c_char_p
    library.fake_forget()
    monkeypatch.setattr(launching.ctypes, "CDLL", lambda name: library)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=0x5EED))

    def calls() -> list[str]:
        found: str = library.fake_calls().decode()
        library.fake_forget()
        return found.splitlines()

    yield calls


def made(hosted: Kernel, folder: Path) -> Any:
    """What a candidate's process makes of a program: its text, with its files beside it."""
    for name, text in hosted.includes.items():
        (folder / name).write_text(text)
    space: dict[str, Any] = {"__file__": str(folder / hosted.name), "__name__": "submission"}
    exec(compile(hosted.source, hosted.name, "exec"), space)
    return space[hosted.launches[0].entry]()


def run_checked(program: Program, task: Task, folder: Path) -> None:
    """Every checked case of the task through the program, judged as ever."""
    hosted = as_hosted(program, task, H200).kernel
    function = made(hosted, folder)
    definition = TensorDefinition(task, "cpu")
    for number, case in enumerate(task.checked):
        tensors = definition.inputs(case, 99 + number)
        arguments, destinations = arguments_of_launch(hosted, task, case)
        arrays = {t.name: array_of(v).copy() for t, v in zip(task.tensors, tensors, strict=True) if t.role == "in"}
        for tensor in (tensors[place] for place in destinations):
            tensor.fill_(7)  # whatever it held before is none of the kernel's business
        given = [tensors[one["tensor"]] if "tensor" in one else one["value"] for one in arguments]
        assert function(*given) is None
        outputs = {task.tensors[place].name: array_of(tensors[place]) for place in destinations}
        assert expect(task, case, arrays).check(outputs) is None, case.name


def test_launches_run_in_order_with_scratch_shared_memory_and_the_stream(
    told: Callable[[], list[str]], tmp_path: Path
) -> None:
    program, task = program_of(SUM, tmp_path)
    run_checked(program, task, tmp_path)
    first = ["clear 64 on 0x5eed", "part <<<(8, 1, 2), (64, 2, 1), 65536, 0x5eed>>>"]
    assert told() == [*first, "total <<<(1, 1, 1), (1, 1, 1), 0, 0x5eed>>>"] * len(task.checked)


def test_outputs_that_start_as_zeros_are_cleared_in_every_call(told: Callable[[], list[str]], tmp_path: Path) -> None:
    program, task = program_of(COUNT, tmp_path)
    run_checked(program, task, tmp_path)
    assert told()[:2] == ["clear 4 on 0x5eed", "count <<<(1, 1, 1), (256, 1, 1), 0, 0x5eed>>>"]


def test_geometry_that_does_not_fit_the_device_is_told_before_anything_runs(tmp_path: Path) -> None:
    program, task = program_of(SUM, tmp_path, KIB=228)
    with pytest.raises(KernelFault, match="smem") as caught:
        as_hosted(program, task, H200)
    assert caught.value.verdict == "launch_error"
    source = SUM.replace("{}", "{ cooperative_groups::this_grid().sync(); }")
    program, task = program_of(source, tmp_path)
    with pytest.raises(KernelFault) as caught:
        as_hosted(program, task, H200)
    assert caught.value.verdict == "unsupported"


def test_what_the_driver_refuses_is_told_with_its_name(told: Callable[[], list[str]], tmp_path: Path) -> None:
    program, task = program_of(SUM, tmp_path)
    assert program.build.binary is not None
    hosted = as_hosted(program, task, H200).kernel
    (tmp_path / "x.cubin").write_bytes(b"another image, as long as that")
    other = replace(program, build=replace(program.build, binary=tmp_path / "x.cubin"))
    with pytest.raises(RuntimeError, match="refuses the cubin: CUresult 200"):
        made(as_hosted(other, task, H200).kernel, tmp_path)
    renamed = replace(program, build=replace(program.build, symbols={"part": "part", "total": "totals"}))
    with pytest.raises(RuntimeError, match="refuses the symbol totals: CUDA_ERROR_NOT_FOUND"):
        made(as_hosted(renamed, task, H200).kernel, tmp_path)
    large = hosted.includes["plan.json"].replace("65536", str(1 << 20))
    with pytest.raises(RuntimeError, match="refuses 1048576 bytes of dynamic shared memory: CUDA_ERROR_INVALID"):
        made(hosted.model_copy(update={"includes": {"plan.json": large}}), tmp_path)
    wide = hosted.includes["plan.json"].replace("[64, 2, 1]", "[64, 32, 1]")
    function = made(hosted.model_copy(update={"includes": {"plan.json": wide}}), tmp_path)
    x, y = torch.ones(1), torch.zeros(1)
    with pytest.raises(RuntimeError, match=r"refuses launching part, grid \[8, 1, 2\], block \[64, 32, 1\]"):
        function(x, y, 1)


def test_triton_launches_take_the_form_that_their_arguments_allow(tmp_path: Path) -> None:
    source = (
        '# /// kforecast 1\n# task = "vector_add"\n# [[launch]]\n# entry = "add"\n# args = ["a", "b", "c", "N"]\n'
        '# grid = ["cdiv(N, 1024)"]\n# ///\nimport triton\n\n\n@triton.jit\ndef add(a, b, c, N):\n    pass\n'
    )
    program, task = program_of(source, tmp_path)
    pointers = (FormParameter(None),) * 3
    forms = (
        Form(0, "add_by_16", 128, 512, 1, (*pointers, FormParameter("i32", multiple=16)), 2, scratch=256),
        Form(0, "add", 256, 0, 2, (*pointers, FormParameter("i64")), 1),
    )
    hosted = as_hosted(replace(program, build=replace(program.build, forms=forms)), task, H200).kernel
    plan = launching.json.loads(hosted.includes["plan.json"])
    assert plan["shared"] == {"add": 0, "add_by_16": 512}
    launches = {case["sizes"][0]: case["launches"][0] for case in plan["cases"]}
    even = {case["sizes"][0]: case for case in plan["cases"]}[4096]
    assert even["scratch"] == [4 * 256]
    memory = [["memory", 0], ["memory", 1], ["memory", 2]]
    assert launches[4096]["args"] == [*memory, ["number", 4096], ["memory", 3], ["number", 0]]
    assert launches[4096]["block"] == [128, 1, 1]
    assert (launches[31]["grid"], launches[31]["block"]) == ([2, 1, 1], [256, 1, 1])
    assert launches[31]["args"] == [*memory, ["number", 31], ["number", 0]]


class StandIn(HostedLane):
    """The lane of the cpu, for device code that has a build already."""

    builds_of: dict[str, Build]

    @property
    def constants(self) -> dict[str, int]:
        return H200

    def inspect(self, tool: Tool, program: Program, task: Task) -> Inspection:
        return Inspection(notes=(f"{tool} of {program.kernel.name} in {program.kernel.language}",))

    def compile(self, kernel: Kernel, signatures: Sequence[Signature], task: Task | None = None) -> Build:
        return self.builds_of[kernel.id] if kernel.language == "cuda" else super().compile(kernel, signatures, task)


def test_a_kernel_against_the_library_from_compile_to_verdict(
    driver: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readable, text = process.readable_paths(), launching.__file__
    changed = Path(text).read_text().replace('"libcuda.so.1"', repr(str(driver)))
    changed = changed.replace("torch.cuda.current_stream(where).cuda_stream", "0")
    monkeypatch.setattr(device_code, "launcher_text", lambda: changed)
    monkeypatch.setattr(process, "readable_paths", lambda: (*readable, str(driver.parent)))
    builtin = builtin_task("sum_all")
    task = builtin.model_copy(update={"timed": {"any": builtin.checked[3:5]}})
    library = builtin_kernel("sum_all", "torch", "library")
    assert library is not None
    baseline = load_file(library, Asked()).kernel.model_copy(update={"task_id": task.id})
    program, _ = program_of(SUM, tmp_path)
    lane = StandIn("cpu", device_id(), tmp_path / "cache", load_deadline_s=20.0)
    lane.sweep = lambda: None
    lane.builds_of = {program.kernel.id: program.build}
    try:
        job = Job(task, program.kernel, baseline, "quick", call_deadline_s=5.0, time_cap_s=2.0, profile=True)
        result = measure(job, lane, device_lock=nullcontext)
        assert result.verdict == "ok", (result.reason, result.diagnostics)
        assert (result.lane, result.launch_mode) == ("host-code", "process")
        assert (result.kernel_id, result.baseline_id) == (program.kernel.id, baseline.id)
        assert result.log2_speedup is not None
        assert {NOTE, f"profile of {program.kernel.name} in cuda"} <= set(result.notes)
        assert "library" not in result.labels
        turned = measure(replace(job, candidate=baseline, baseline=program.kernel), lane, device_lock=nullcontext)
        assert (turned.verdict, "library" in turned.labels, NOTE in turned.notes) == ("ok", True, True)
        wrong = SUM.replace('"N", "PARTS"]', '"N - N // 2", "PARTS"]')
        half, _ = program_of(wrong, tmp_path)
        lane.builds_of[half.kernel.id] = half.build
        result = measure(replace(job, candidate=half.kernel), lane, device_lock=nullcontext)
        assert (result.verdict, result.mismatch is not None) == ("incorrect", True)
    finally:
        lane.close()


def test_device_code_does_not_run_on_the_cpu(tmp_path: Path) -> None:
    lane = HostedLane("cpu", device_id(), tmp_path)
    program, task = program_of(COUNT, tmp_path)
    with pytest.raises(UnsupportedError, match="cuda kernel does not run in the host-code lane of cpu"):
        lane.compile(program.kernel, signatures(program.kernel.source, "cuda"), task)
