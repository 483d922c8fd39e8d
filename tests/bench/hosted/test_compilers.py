"""Programs that compile themselves while they run: built apart, measured where no program can be started."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from kforecast.bench.hosted import compilers
from kforecast.bench.hosted.builds import Builds
from kforecast.bench.hosted.lane import HostedLane
from kforecast.bench.languages.torch import peer_kernel
from kforecast.bench.measuring import Job, measure
from kforecast.bench.tasks.peers import peer_task
from kforecast.store.models import Kernel, Launch

JIT = '''
import ctypes, json, os, subprocess
from pathlib import Path
import torch
from torch import nn


def compiled(columns):
    """As Triton does it: ask the compiler for its version, look into the cache's lists, compile what is not there."""
    version = subprocess.check_output(["gcc", "--version"]).decode().split("\\n")[0].split()[-1]
    folder = Path(os.environ["TRITON_CACHE_DIR"]) / version
    group, library = folder / f"__grp__{columns}.json", folder / f"halve{columns}.so"
    if not (group.exists() and all(map(os.path.exists, json.loads(group.read_text())))):
        folder.mkdir(parents=True, exist_ok=True)
        group.write_text(json.dumps([str(library)]))
        source = folder / f"halve{columns}.c"
        source.write_text("void halve(float* x, long n) { for (long i = 0; i < n; i++) x[i] /= 2; }")
        subprocess.check_call(["gcc", "-shared", "-fPIC", "-O1", str(source), "-o", str(library)])
    return ctypes.CDLL(str(library))


class ModelNew(nn.Module):
    def forward(self, x):
        y = x.clone()
        compiled(x.shape[1]).halve(ctypes.c_void_p(y.data_ptr()), ctypes.c_long(y.numel()))
        return y
'''
PROBLEM = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x / 2


def get_inputs():
    return [torch.randn(5, 7)]


def get_init_inputs():
    return []
"""


def test_a_program_with_a_jit_of_its_own_is_built_apart(lane: HostedLane, tmp_path: Path) -> None:
    (tmp_path / "problem.py").write_text(PROBLEM)
    task = peer_task(tmp_path / "problem.py")
    assert task is not None

    def run(source: str) -> tuple[str, str, list[str]]:
        said: list[str] = []
        job = Job(task, peer_kernel(source, "mine.py", task), None, "quick", call_deadline_s=5.0, time_cap_s=1.0)
        result = measure(job, lane, device_lock=nullcontext, progress=said.append)
        return result.verdict, result.reason, [text for text in said if text.startswith("building")]

    assert run(JIT) == ("ok", "", ["building what gcc makes"])
    assert run(JIT) == ("ok", "", [])
    verdict, reason, _ = run(JIT.replace("if not (group", "if True or (group"))
    assert (verdict, reason) == ("unsupported", "it wants to build what gcc makes each time it runs")


@pytest.fixture
def begin(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., list[str]]:
    """Installs it in this process, for one test; the list grows by what is needed."""
    needed: list[str] = []
    monkeypatch.setattr(subprocess, "run", subprocess.run)
    monkeypatch.setattr(subprocess.Popen, "__init__", subprocess.Popen.__init__)
    monkeypatch.setenv("TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS", "")

    def need(what: str) -> None:
        needed.append(what)
        raise SystemExit

    def run(*, building: bool) -> list[str]:
        cache = tmp_path / "cache"
        cache.mkdir(exist_ok=True)
        compilers.install(cache / "answers.json", building=building, need=need)
        return needed

    return run


def test_what_programs_said_is_told_again_as_it_was_asked_for(begin: Callable[..., list[str]], tmp_path: Path) -> None:
    python = [sys.executable, "--version"]
    tries = [sys.executable, "-c", f"print({str(tmp_path / 'library.so')!r})"]
    fails = [sys.executable, "-c", "raise SystemExit(3)"]
    begin(building=True)
    version, path = subprocess.check_output(python), subprocess.check_output(tries, text=True)
    assert subprocess.run(fails, check=False).returncode == 3
    kept = json.loads((tmp_path / "cache" / "answers.json").read_text())
    assert len(kept) == 3
    assert json.dumps([sys.executable, "-c", "print('~/library.so')"]) in kept
    (tmp_path / "cache" / "answers.json").write_text(
        json.dumps({key: [*one[:1], "kept", None] for key, one in kept.items()})
    )
    begin(building=False)
    assert version.startswith(b"Python")
    assert path == f"{tmp_path / 'library.so'}\n"
    assert subprocess.check_output(python) == b"kept"
    assert subprocess.run(tries, text=True, stdout=subprocess.PIPE, check=True).stdout == "kept"
    with pytest.raises(subprocess.CalledProcessError):
        subprocess.run(fails, check=True)


@pytest.mark.parametrize(
    ("command", "compiler"),
    [
        (["/usr/local/cuda/bin/ptxas", "-v", "a.ptx", "-o", "a.cubin"], "ptxas"),
        ("x86_64-linux-gnu-gcc-12 -c a.c", "x86_64-linux-gnu-gcc-12"),
        (["ninja"], "ninja"),
        (["c++", "--version"], "c++"),
    ],
)
def test_compilers_are_needed_where_they_may_not_run(
    begin: Callable[..., list[str]], command: list[str] | str, compiler: str
) -> None:
    needed = begin(building=False)
    with pytest.raises(SystemExit):
        subprocess.check_call(command)
    assert needed == [f"what {compiler} makes"]
    assert subprocess.run(["true"], check=True).returncode == 0  # not ours to stop
    assert len(needed) == 1


def test_later_builds_come_to_what_is_kept(tmp_path: Path) -> None:
    builds = Builds(tmp_path / "cache", "cpu")
    kernel = Kernel.make(
        language="torch", name="a.py", source="x = 1", launches=(Launch(entry="x", args=()),), task_id="t_0"
    )
    for number, names in enumerate((("a/first.so", "a/lock"), ("a/second.so", "b/c/__grp__third.json"))):
        made = tmp_path / f"made{number}"
        for name in names:
            (made / name).parent.mkdir(parents=True, exist_ok=True)
            (made / name).write_text(name)
        builds.keep(kernel, made)
    kept = builds.folder(kernel)
    found = {path.relative_to(kept).as_posix() for path in kept.rglob("*") if path.is_file()}
    assert found == {"a/first.so", "a/second.so", "b/c/__grp__third.json"}
    assert [path.name for path in (tmp_path / "cache" / "torch").iterdir()] == [kept.name]
