"""What a compiler, fed hostile text or simply broken, may do to the process that asked."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kforecast.bench.landlock import landlock_version
from kforecast.bench.languages.cuda.pool import CompilePool, Outcome
from kforecast.store.errors import DeviceError


def sh(pool: CompilePool, script: str, *, deadline_s: float = 20.0, outputs: tuple[str, ...] = ()) -> Outcome:
    return pool.run([["/bin/sh", "-c", script]], files={}, outputs=outputs, deadline_s=deadline_s)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def running(text: str) -> set[int]:
    """Processes whose command line holds `text`. A fenced job cannot tell its own numbers to the outside."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if text in words and alive(int(entry.parent.name)):
            found.add(int(entry.parent.name))
    return found


def gone(text: str) -> bool:
    """Whether no such process is left, soon."""
    deadline = time.monotonic() + 20
    while running(text) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not running(text)


def workers() -> set[int]:
    """The compile workers that this process started, and not their children."""
    own = f"PPid:\t{os.getpid()}\n"
    return {pid for pid in running("cuda.worker") if own in Path(f"/proc/{pid}/status").read_text()}


def test_a_job_past_its_deadline_dies_with_all_it_started(pool: CompilePool) -> None:
    outcome = sh(pool, "sleep 300.0625 & sleep 300.0625", deadline_s=0.5)
    assert outcome.failure == "the compiler was still running after 0.5 s and was stopped"
    assert not running("sleep 300.0625")


def test_processes_left_behind_by_a_finished_job_are_killed(pool: CompilePool) -> None:
    for command in ("sleep 300.125", "setsid sleep 300.125", "setsid sh -c 'sleep 300.125 & wait'"):
        assert sh(pool, f"{command} > /dev/null 2>&1 & sleep 0.1; test -d /proc/self && kill -0 $!").ok
        assert not running("300.125")


def test_a_job_sees_the_system_and_its_own_folder_only(pool: CompilePool, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hush")
    assert "hush" not in sh(pool, f"cat {secret}; ls {tmp_path}").log
    assert not sh(pool, "cat /etc/passwd").ok
    assert not sh(pool, f"echo planted > {tmp_path}/planted").ok
    assert list(tmp_path.iterdir()) == [secret]
    assert sh(pool, "echo fine > here && cat here /usr/include/errno.h > /dev/null").ok


def test_a_job_reaches_no_network_and_no_other_process(pool: CompilePool) -> None:
    python = sys.executable
    assert not sh(pool, f"{python} -c 'import socket; socket.socket()'").ok
    assert not sh(pool, f"kill -0 {os.getpid()}").ok


def test_a_crash_is_told_and_the_next_job_is_served(pool: CompilePool) -> None:
    assert sh(pool, "kill -SEGV $PPID").failure == "the compiler was killed by SIGSEGV"
    assert sh(pool, "exit 3").failure is None
    outcome = pool.compile(
        "__global__ void k() {}",
        name="a.cu",
        options=["--gpu-architecture=sm_90"],
        headers={},
        entries=["k"],
        deadline_s=60,
    )
    assert outcome.ok
    assert outcome.symbols == {"k": "_Z1kv"}


def test_floods_and_huge_files_are_cut(pool: CompilePool) -> None:
    flood = sh(pool, "head -c 50000000 /dev/zero | tr '\\0' x")
    assert flood.ok
    assert len(flood.log) == 1 << 20
    huge = sh(pool, "head -c 2000000000 /dev/zero > out", outputs=("out",))
    assert not huge.ok
    assert huge.files == {}


def test_each_job_has_a_folder_of_its_own_that_is_gone_afterwards(pool: CompilePool) -> None:
    outcome = pool.run(
        [["/bin/sh", "-c", "cat sub/in > out; pwd; echo $HOME $TMPDIR"]],
        files={"sub/in": b"abc"},
        outputs=("out", "absent"),
        deadline_s=20.0,
    )
    assert outcome.files == {"out": b"abc"}
    folder, homes = outcome.log.splitlines()
    assert homes == f"{folder} {folder}"
    assert not Path(folder).exists()


def test_the_environment_is_not_the_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KFORECAST_TEST_SECRET", "hush")
    with CompilePool(workers=1) as pool:
        assert "hush" not in sh(pool, "env").log


def test_limits_stand(pool: CompilePool) -> None:
    core, size, memory = sh(pool, "ulimit -c; ulimit -f; ulimit -v").log.split()
    assert core == "0"
    assert int(size) > 0
    assert int(memory) > 0


def test_a_worker_killed_between_jobs_is_replaced() -> None:
    before = workers()
    with CompilePool(workers=1) as pool:
        pool.warm()
        (worker,) = workers() - before
        os.kill(worker, signal.SIGKILL)
        deadline = time.monotonic() + 20
        while alive(worker) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert sh(pool, "echo on").log == "on\n"
        assert workers() - before - {worker}


def test_a_worker_killed_under_a_job_is_an_error_of_the_machinery() -> None:
    before = workers()
    with CompilePool(workers=1) as pool:
        pool.warm()
        (worker,) = workers() - before
        killer = threading.Timer(0.3, os.kill, (worker, signal.SIGKILL))
        killer.start()
        with pytest.raises(DeviceError, match="compile worker failed"):
            sh(pool, "exec sleep 300.25")
        killer.join()
        assert gone("300.25")
        assert sh(pool, "echo on").log == "on\n"


@pytest.fixture
def ahead() -> Iterator[CompilePool]:
    """One worker that makes each job's child before the job."""
    with CompilePool(workers=1, fork_ahead=True) as pool:
        yield pool


def compiled(pool: CompilePool, source: str, *options: str, deadline_s: float = 30.0) -> Outcome:
    return pool.compile(
        source,
        name="k.cu",
        options=["--gpu-architecture=sm_90", *options],
        headers={},
        entries=[],
        deadline_s=deadline_s,
    )


def test_children_made_ahead_compile_one_kernel_each(ahead: CompilePool, pool: CompilePool) -> None:
    for number in range(3):
        source = f'extern "C" __global__ void k(int* x) {{ x[0] = {number}; }}'
        outcome = compiled(ahead, source)
        assert outcome.ok
        assert outcome.files == compiled(pool, source).files
    assert not compiled(ahead, "nonsense").ok
    assert sh(ahead, "echo on").log == "on\n"
    assert compiled(ahead, 'extern "C" __global__ void k() {}').ok


def test_a_child_made_ahead_is_behind_the_fence_of_its_own_job(ahead: CompilePool, tmp_path: Path) -> None:
    for name, value in (("first", 1), ("second", 2)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "own.h").write_text(f"#define VALUE {value}\n")
    asks = '#include "own.h"\nextern "C" __global__ void k(int* x) { x[0] = VALUE; }'
    reads = f'#include "{tmp_path}/first/own.h"\nextern "C" __global__ void k(int* x) {{ x[0] = VALUE; }}'
    for folder in ("first", "first", "second", "first"):
        assert compiled(ahead, asks, f"-I{tmp_path / folder}").ok
    assert not compiled(ahead, asks).ok
    assert compiled(ahead, "").ok
    if landlock_version() > 0:
        assert not compiled(ahead, reads).ok


def test_a_hanging_compilation_ends_and_the_next_child_is_another(ahead: CompilePool) -> None:
    deep = "template<int N> struct F { static const int v = F<N-1>::v + F<N-2>::v; };"
    bomb = deep + " ".join(f"template<int A, int B> struct G{n} {{ int x[F<A>::v]; }};" for n in range(3))
    macros = "#define A(x) x x x x x x x x\n#define B(x) A(A(A(x)))\n" + "B(B(B(int x;)))"
    outcome = compiled(ahead, bomb + macros, deadline_s=1.0)
    assert not outcome.ok
    assert compiled(ahead, 'extern "C" __global__ void k() {}').ok


def test_closing_a_pool_ends_the_child_made_ahead() -> None:
    with CompilePool(workers=1, fork_ahead=True) as pool:
        assert compiled(pool, "").ok
        (worker,) = {pid for pid in workers() if "fork-ahead" in Path(f"/proc/{pid}/cmdline").read_text()}
        deadline = time.monotonic() + 20
        while not (children := Path(f"/proc/{worker}/task/{worker}/children").read_text().split()):
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert not any(alive(int(child)) for child in children)


def test_closing_the_pool_ends_its_workers() -> None:
    before = workers()
    pool = CompilePool(workers=1)
    pool.warm()
    (worker,) = workers() - before
    pool.close()
    assert not alive(worker)
    with pytest.raises(DeviceError, match="closed"):
        sh(pool, "true")
