"""Which C compiler compiles, and what the words of $CC and $CXX make of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kforecast.bench.devices.cpu.lane import CpuLane
from kforecast.bench.header.signature import signatures
from kforecast.bench.lane import Program
from kforecast.bench.languages.c import find_compiler
from kforecast.store.errors import InputError
from kforecast.store.models import Kernel
from kforecast.tools.kernels import Asked, load_file

Wrapper = Callable[[str], Path]
DOUBLE = """/* kforecast 1
[task]
name = "double"
in.x = { dtype = "f32", shape = ["N"] }
out.y = { dtype = "f32", shape = ["N"] }
reference = "double.py:reference"
checked = [{ N = 37 }]
timed = [{ N = 4096 }]
[[launch]]
entry = "twice"
args = ["x", "y", "N"]
*/
#ifndef FACTOR
#define FACTOR 2
#endif
void twice(const float* x, float* y, int N) { for (int i = 0; i < N; i++) y[i] = FACTOR * x[i]; }
"""


@pytest.fixture(autouse=True)
def anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Compilers are looked for once in a process."""
    for name in ("CC", "CXX"):
        monkeypatch.delenv(name, raising=False)
    find_compiler.cache_clear()
    yield
    monkeypatch.undo()
    find_compiler.cache_clear()


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def use(variable: str, value: str) -> None:
        monkeypatch.setenv(variable, value)
        find_compiler.cache_clear()

    return use


@pytest.fixture
def wrapper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Wrapper:
    """Makes a wrapper, first on the path: one that leaves a mark and compiles something else than it was given."""

    def make(name: str) -> Path:
        folder = tmp_path / "wrappers"
        folder.mkdir(exist_ok=True)
        path = folder / name
        path.write_text(f'#!/bin/sh\ntouch {tmp_path}/called\nexec "$@" -DFACTOR=3\n')
        path.chmod(0o755)
        monkeypatch.setenv("PATH", str(folder), prepend=":")
        return path

    return make


@pytest.fixture
def double(tmp_path: Path) -> Path:
    (tmp_path / "double.py").write_text("def reference(xp, inputs, sizes):\n    return {'y': inputs['x'] * 2}\n")
    path = tmp_path / "double.c"
    path.write_text(DOUBLE)
    return path


def loaded(path: Path) -> Kernel:
    return load_file(path, Asked()).kernel


def is_right(path: Path, kernel: Kernel, cache: Path) -> bool:
    """Whether the kernel, compiled and run, does what its task asks for."""
    lane, parsed = CpuLane(cache), signatures(kernel.source, kernel.language, kernel.includes)
    build = lane.compile(kernel, parsed)
    assert build.ok, build.log
    assert build.facts.toolchain == kernel.toolchain
    task = load_file(path, Asked()).task
    with lane.session(task, call_deadline_s=5.0, cancelled=lambda: False) as session:
        session.add("candidate", Program(kernel, parsed, build))
        return session.check("candidate", task.checked, lambda text: None) is None


@pytest.mark.parametrize("name", ["ccache", "sccache", "distcc"])
def test_a_wrapper_changes_nothing_and_is_never_called(
    name: str, wrapper: Wrapper, use: Callable[..., None], double: Path, tmp_path: Path
) -> None:
    plain, compiler = loaded(double), find_compiler()
    path = wrapper(name)
    for value in (f"{name} gcc", f"{path} {compiler.path}"):
        use("CC", value)
        assert (find_compiler().version, find_compiler().arguments) == (compiler.version, ())
        assert loaded(double).id == plain.id
        assert is_right(double, plain, tmp_path / "cache")
    assert not (tmp_path / "called").exists()


def test_a_wrapper_under_the_compilers_name_is_passed_over(
    wrapper: Wrapper, use: Callable[..., None], double: Path, tmp_path: Path
) -> None:
    plain, compiler = loaded(double), find_compiler()
    posing = wrapper("ccache").with_name("gcc")
    posing.symlink_to("ccache")
    for value in ("", "gcc", str(posing)):
        use("CC", value)
        assert (find_compiler().path, find_compiler().version) == (compiler.path, compiler.version)
        assert loaded(double).id == plain.id
    assert not (tmp_path / "called").exists()


def test_arguments_are_part_of_what_compiles(use: Callable[..., None], double: Path, tmp_path: Path) -> None:
    plain, compiler = loaded(double), find_compiler()
    use("CC", "gcc '-DFACTOR=2 + 1'")
    assert find_compiler().version == f"{compiler.version} '-DFACTOR=2 + 1'"
    other = loaded(double)
    assert (other.toolchain, other.source_id) == (find_compiler().version, plain.source_id)
    assert other.id != plain.id
    cache = tmp_path / "cache"
    assert not is_right(double, other, cache)  # x, 3 times
    assert is_right(double, plain, cache), "its id says that it is compiled without"


def test_a_kernels_own_options_come_after_those_of_the_variable(
    use: Callable[..., None], double: Path, tmp_path: Path
) -> None:
    use("CC", "gcc -std=c89 -Werror")
    double.write_text(DOUBLE.replace("[task]", 'options = ["-std=c11"]\n[task]'))
    assert is_right(double, loaded(double), tmp_path / "cache"), "its loop declares i, which C89 cannot"


def test_a_wrapped_cpp_compiler(wrapper: Wrapper, use: Callable[..., None], tmp_path: Path) -> None:
    plain = find_compiler(True).version
    wrapper("ccache")
    use("CXX", "ccache g++ -DONE")
    assert find_compiler(True).version == f"{plain} -DONE"
    assert find_compiler(False).arguments == ()


def test_a_path_may_hold_a_space(use: Callable[..., None], tmp_path: Path) -> None:
    place = tmp_path / "my compilers"
    place.mkdir()
    (place / "cc").symlink_to(find_compiler().path)
    for value in (str(place / "cc"), f"'{place}/cc' -O1"):
        use("CC", value)
        assert find_compiler().path == str(place / "cc")


@pytest.mark.parametrize("value", ["ccache", "ccache no-such-gcc", "gcc 'half", "-O3", "  ", "false", "gcc --no-such"])
def test_words_that_are_no_compiler_are_refused(value: str, wrapper: Wrapper, use: Callable[..., None]) -> None:
    wrapper("ccache")
    use("CC", value)
    with pytest.raises(InputError, match="no C compiler that runs here") as caught:
        find_compiler()
    assert "CC" in (caught.value.next_step or "")
