"""What holds a program while it runs, and that nothing of it is left."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kforecast.bench.landlock import landlock_version
from kforecast.bench.languages.c import find_compiler
from kforecast.bench.programs.activity import read_activity
from kforecast.bench.programs.cupti import Cupti, find_cupti, injection
from kforecast.bench.programs.run import OUTPUT_BYTES, Ran, run_program
from kforecast.store.paths import cache_dir

SHELL = Path("/bin/sh")
HERE = Path(__file__).parent


def sh(script: str, deadline_s: float = 20.0) -> Ran:
    return run_program(SHELL, arguments=["-c", script], deadline_s=deadline_s)


def running(mark: str) -> bool:
    return any(mark.encode() in path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists())


@pytest.mark.parametrize(
    ("script", "ended", "code"),
    [("exit 0", "exit", 0), ("exit 7", "exit", 7), ("kill -11 $$", "signal", signal.SIGSEGV)],
)
def test_how_it_ended(script: str, ended: str, code: int) -> None:
    ran = sh(script)
    assert (ran.ended, ran.code) == (ended, code)


def test_at_its_deadline_it_ends_with_all_that_it_started() -> None:
    mark = f"sleep 321.{os.getpid()}"
    ran = sh(f"echo begun; (setsid {mark} &) ; {mark}", deadline_s=0.5)
    assert (ran.ended, ran.output) == ("deadline", "begun\n")
    assert not running(mark.replace(" ", "\0"))


def test_a_daemon_does_not_outlive_it() -> None:
    mark = f"sleep 322.{os.getpid()}"
    assert sh(f"(setsid {mark} > /dev/null 2>&1 &) ; exit 0").ended == "exit"
    assert not running(mark.replace(" ", "\0"))


def test_a_home_of_its_own_and_nothing_of_the_users(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("word")
    ran = sh(f"echo $HOME; pwd; echo own > file; cat file; cat {secret}; echo over > {secret}; env")
    home, folder, own = ran.output.splitlines()[:3]
    assert (home, own) == (folder, "own")
    assert not Path(home).exists()
    assert "KFORECAST_DB" not in ran.output
    if landlock_version():
        assert "word" not in ran.output
        assert secret.read_text() == "word"
        assert "Landlock" in ran.isolation


def test_there_is_no_network() -> None:
    script = "import socket; socket.create_connection(('127.0.0.1', 9), 1)"
    ran = run_program(Path(sys.executable), arguments=["-c", script], deadline_s=20.0)
    assert ran.code == 1
    assert "PermissionError" in ran.output or "ConnectionRefused" not in ran.output


SOCKETS = """
import socket
def told(what, do):
    try:
        do()
    except OSError as error:
        print(what, type(error).__name__)
    else:
        print(what, "made")
waiting = lambda kind: socket.socket(socket.AF_UNIX, kind).bind("")
told("stream", lambda: waiting(socket.SOCK_STREAM))
told("packets", lambda: waiting(socket.SOCK_SEQPACKET))
told("datagrams", lambda: waiting(socket.SOCK_DGRAM))
told("internet", lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM))
told("netlink", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW))
told("connected", lambda: socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).connect(PLACE))
"""


def test_sockets_can_be_waited_at_as_a_gpus_driver_does_and_connected_to_nothing(tmp_path: Path) -> None:
    place = tmp_path / "outside"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as outside:
        outside.bind(str(place))
        outside.listen()
        script = SOCKETS.replace("PLACE", repr(str(place)))
        ran = run_program(Path(sys.executable), arguments=["-c", script], deadline_s=20.0)
    if "seccomp" not in ran.isolation:
        pytest.skip("needs seccomp")
    assert dict(line.split() for line in ran.output.splitlines()) == {
        "stream": "made",
        "packets": "made",
        "datagrams": "PermissionError",
        "internet": "PermissionError",
        "netlink": "PermissionError",
        "connected": "PermissionError",
    }


def test_its_output_is_capped() -> None:
    ran = sh("yes flood | head -c 2000000")
    assert (ran.ended, ran.code, ran.cut, len(ran.output)) == ("exit", 0, True, OUTPUT_BYTES)


def test_it_ends_when_the_caller_is_killed() -> None:
    mark = f"sleep 323.{os.getpid()}"
    script = (
        "from pathlib import Path; from kforecast.bench.programs.run import run_program; "
        f"run_program(Path('/bin/sh'), arguments=['-c', 'echo; {mark}'], deadline_s=60)"
    )
    with subprocess.Popen([sys.executable, "-c", script]) as caller:
        until = time.monotonic() + 30.0
        while not running(mark.replace(" ", "\0")) and time.monotonic() < until:
            time.sleep(0.05)
        assert running(mark.replace(" ", "\0"))
        caller.kill()
    while running(mark.replace(" ", "\0")) and time.monotonic() < until:
        time.sleep(0.05)
    assert not running(mark.replace(" ", "\0"))


@pytest.fixture(scope="module")
def fake(tmp_path_factory: pytest.TempPathFactory) -> Cupti:
    real = find_cupti()
    if real is None:
        pytest.skip("needs CUPTI's headers")
    library = tmp_path_factory.mktemp("cupti") / "libcupti.so"
    includes = [f"-I{folder}" for folder in real.include_dirs]
    command = [find_compiler().path, "-shared", "-fPIC", *includes, str(HERE / "fake_cupti.c"), "-o", str(library)]
    subprocess.run(command, check=True)
    return Cupti(library, real.include_dirs)


INJECT = "import ctypes, os; library = ctypes.CDLL(os.environ['CUDA_INJECTION64_PATH']); library.InitializeInjection()"
"""What the driver does at a program's first CUDA call."""


def injected(fake: Cupti, tail: str = "", environment: dict[str, str] | None = None) -> Ran:
    return run_program(
        Path(sys.executable),
        arguments=["-c", f"{INJECT}; {tail}"],
        deadline_s=30.0,
        library=injection(fake, cache_dir()),
        readable=[fake.library.parent],
        environment=environment,
    )


def test_the_injected_library_writes_down_what_cupti_tells(fake: Cupti) -> None:
    ran = injected(fake)
    assert (ran.ended, ran.code) == ("exit", 0), ran.output
    found = read_activity(ran.activity)
    assert sorted((kind.launches, kind.total_us) for kind in found.kernels) == [(1, 3.0), (2, 3.0)]
    assert {kind.name for kind in found.kernels} <= {"scale<float>", "_Z5scaleIfEvPT_i", "plain"}
    assert [(kind.name, kind.bytes) for kind in found.copies] == [("copy, host to device", 4096), ("fill", 64)]
    assert (found.dropped, found.failures) == (2, ())


def test_a_refusal_of_cupti_is_told_and_the_program_goes_on(fake: Cupti) -> None:
    ran = injected(fake, "print('went on')", {"FAKE_REFUSES": "1"})
    assert ran.output == "went on\n"
    assert read_activity(ran.activity).failures == ("CUPTI: not allowed here",)


def test_the_library_builds_against_this_machines_own_cupti() -> None:
    real = find_cupti()
    if real is None:
        pytest.skip("needs CUPTI")
    path = injection(real, cache_dir())
    assert path.stat().st_size > 0
    assert injection(real, cache_dir()) == path
