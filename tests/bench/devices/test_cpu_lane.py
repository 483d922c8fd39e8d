"""The cpu device on right kernels: what a measurement holds, scratch, C++, several launches, tunables, zeroed
outputs.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from measured import judged, measured

from kforecast.bench.devices.cpu.lane import CpuLane
from kforecast.bench.header.signature import signatures
from kforecast.bench.tasks.builtin import builtin_kernel, builtin_names
from kforecast.store.errors import InputError
from kforecast.store.paths import cache_dir
from kforecast.tools.kernels import Asked, load_file

INLINE = """/* kforecast 1
{options}
[task]
name = "double"
in.x = {{ dtype = "f32", shape = ["N"] }}
out.y = {{ dtype = "f32", shape = ["N"]{zero} }}
reference = "double.py:reference"
checked = [{{ N = 1 }}, {{ N = 37 }}]
timed = [{{ N = 4096 }}]
{extra}
*/
"""
REFERENCE = "def reference(xp, inputs, sizes):\n    return {'y': inputs['x'] * 2}\n"
LAUNCH = '[[launch]]\nentry = "twice"\nargs = ["x", "y", "N"]\n'


@pytest.fixture
def lane() -> CpuLane:
    return CpuLane(cache_dir())


@pytest.fixture
def write(tmp_path: Path) -> object:
    (tmp_path / "double.py").write_text(REFERENCE)

    def write(name: str, code: str, *, options: str = "", extra: str = LAUNCH, zero: str = "") -> Path:
        path = tmp_path / name
        path.write_text(INLINE.format(options=options, extra=extra, zero=zero) + code)
        return path

    return write


def kernel(task: str, role: str) -> Path:
    path = builtin_kernel(task, "c", role)  # type: ignore[arg-type]
    assert path is not None
    return path


@pytest.mark.parametrize("task", builtin_names())
@pytest.mark.parametrize("role", ["seed", "tuned"])
def test_every_shipped_kernel_is_right(task: str, role: str, lane: CpuLane) -> None:
    assert judged(kernel(task, role), lane, deadline_s=20.0) == ("ok", "")


def test_without_a_baseline_there_are_times_and_no_ratio(lane: CpuLane) -> None:
    result = measured(kernel("attention", "seed"), lane)
    assert (result.verdict, result.comparison, result.log2_speedup) == ("ok", "none", None)
    assert len(result.cases) >= 1
    assert all(case.time_us is not None and case.time_us > 0 for case in result.cases)


def test_a_measurement_against_a_baseline_holds_ratio_interval_and_fingerprint(lane: CpuLane) -> None:
    result = measured(kernel("bias_gelu", "tuned"), lane, baseline=kernel("bias_gelu", "seed"))
    assert result.verdict == "ok"
    assert result.comparison == "faster"  # the tuned one is tens of times faster: no load hides it
    assert result.log2_speedup is not None and result.log2_low is not None and result.log2_high is not None
    assert result.log2_low <= result.log2_speedup <= result.log2_high
    assert result.blocks >= 5
    assert result.launch_mode == "process"
    assert result.lane == "host-code"
    assert result.device_seconds > 0
    assert result.environment["cpu"]
    assert result.environment["null_call_spread_us"] >= 0


def test_a_far_slower_candidate_is_censored(write, lane: CpuLane) -> None:  # type: ignore[no-untyped-def]
    """Twelve times slower, and long enough that a busy machine changes little about it."""
    twice = "{{ {wait} for (int i = 0; i < N; i++) y[i] = 2 * x[i]; }}"
    head = "#include <unistd.h>\nvoid twice(const float* x, float* y, int N) "
    slow = write("slow.c", head + twice.format(wait="usleep(60000);"))
    result = measured(slow, lane, baseline=write("fast.c", head + twice.format(wait="usleep(5000);")), effort="normal")
    assert result.comparison == "slower"
    assert result.censored
    assert result.blocks < 8


def test_scratch_and_two_launches(write, lane: CpuLane) -> None:  # type: ignore[no-untyped-def]
    path = write(
        "two.c",
        "void first(const float* x, float* w, int N) { for (int i = 0; i < N; i++) w[i] = x[i] + x[i]; }\n"
        "void second(const float* w, float* y, int N) { for (int i = 0; i < N; i++) y[i] = w[i]; }\n",
        extra='[scratch]\nW = { dtype = "f32", shape = ["N"] }\n'
        '[[launch]]\nentry = "first"\nargs = ["x", "W", "N"]\n[[launch]]\nentry = "second"\nargs = ["W", "y", "N"]\n',
    )
    assert measured(path, lane).verdict == "ok"


def test_a_zeroed_output_is_cleared_before_every_call(write, lane: CpuLane) -> None:  # type: ignore[no-untyped-def]
    path = write(
        "sum.c",
        "void twice(const float* x, float* y, int N) { for (int i = 0; i < N; i++) y[i] += 2 * x[i]; }\n",
        zero=", zero = true",
    )
    assert measured(path, lane).verdict == "ok"


def test_an_output_that_is_not_zeroed_starts_poisoned(write, lane: CpuLane) -> None:  # type: ignore[no-untyped-def]
    path = write(
        "sum.c", "void twice(const float* x, float* y, int N) { for (int i = 0; i < N; i++) y[i] += 2 * x[i]; }\n"
    )
    assert measured(path, lane).verdict == "incorrect"


def test_cpp_with_c_linkage(write, lane: CpuLane) -> None:  # type: ignore[no-untyped-def]
    path = write(
        "twice.cpp",
        "#include <algorithm>\n"
        'extern "C" void twice(const float* x, float* y, int N) {\n'
        "    std::transform(x, x + N, y, [](float v) { return 2 * v; });\n}\n",
    )
    assert measured(path, lane).verdict == "ok"


def test_tunables_reach_the_compiler_and_the_id(write, lane: CpuLane) -> None:  # type: ignore[no-untyped-def]
    code = "void twice(const float* x, float* y, int N) { for (int i = 0; i < N; i++) y[i] = FACTOR * x[i]; }\n"
    path = write("tuned.c", code, extra=f"{LAUNCH}[tune]\nFACTOR = [2, 3]\n")
    right, wrong = measured(path, lane), measured(path, lane, settings={"FACTOR": 3})
    assert right.verdict == "ok"
    assert wrong.verdict == "incorrect"
    assert right.kernel_id != wrong.kernel_id


def test_threads_are_allowed(write, lane: CpuLane) -> None:  # type: ignore[no-untyped-def]
    path = write(
        "threads.c",
        "void twice(const float* x, float* y, int N) {\n#pragma omp parallel for\n"
        "    for (int i = 0; i < N; i++) y[i] = 2 * x[i];\n}\n",
        options='options = ["-fopenmp"]',
    )
    assert measured(path, lane).verdict == "ok"


def test_a_baseline_that_is_wrong_is_the_callers_error(lane: CpuLane) -> None:
    wrong = sorted((Path(__file__).parents[2] / "exhibits" / "wrong").glob("vector_add*.c"))[0]
    with pytest.raises(InputError, match="baseline"):
        measured(kernel("vector_add", "tuned"), lane, baseline=wrong)


def test_a_cached_answer_is_found(write, lane: CpuLane) -> None:  # type: ignore[no-untyped-def]
    """The kernel keeps the answers of each address: right on the first call, stale on every later one."""
    path = write(
        "cached.c",
        "#include <string.h>\nstatic float kept[1 << 20]; static const float* seen;\n"
        "void twice(const float* x, float* y, int N) {\n"
        "    if (seen == x) { memcpy(y, kept, N * sizeof *y); return; }\n"
        "    for (int i = 0; i < N; i++) y[i] = kept[i] = 2 * x[i];\n    seen = x;\n}\n",
    )
    assert measured(path, lane).verdict == "incorrect"


@pytest.mark.parametrize("name", ["two words.c", "-o.c", "a:b", "idea 3: unrolled", "x.unknown", "ünï.c"])
def test_any_name_compiles(name: str, lane: CpuLane) -> None:
    kernel_file = kernel("vector_add", "seed")
    found = load_file(kernel_file, Asked())
    renamed = found.kernel.model_copy(update={"name": name, "id": "k_" + name.encode().hex()[:20]})
    parsed = signatures(renamed.source, renamed.language, renamed.includes)
    assert lane.compile(renamed, parsed).ok
