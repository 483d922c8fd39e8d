"""What a client reads when a call fails: what happened, which value, what to do next; in both eras the same."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
from brokers import Kernels
from calls import call, failed_call, with_client

from kforecast.store import schema
from kforecast.store.database import Store
from kforecast.store.errors import DeviceError
from kforecast.tools.mcp.faults import log_path
from kforecast.tools.mcp.server import KforecastServer, make_server

OWN = {"p_correct": 0.5, "p_bins": [0.125] * 8, "forecaster": "fable"}
BARE = "void f(const float* x, float* y, int N) { y[0] = x[0]; }\n"
ERRORS: list[tuple[str, dict[str, Any], str, str]] = [
    ("measure_kernel", {"kernel": "missing.c"}, "does not exist", "missing.c"),
    ("measure_kernel", {"kernel": "k_ffff"}, "k_ffff", ""),
    ("measure_kernel", {"kernel": "k_" + "f" * 300}, "no kernel", "k_f"),
    ("measure_kernel", {"kernel": "/etc/hostname"}, "outside the folders", "--root"),
    ("measure_kernel", {"kernel": "outside.c"}, "outside the folders", "outside.c"),
    ("measure_kernel", {"kernel": "a\0b"}, "cannot be followed", "path"),
    ("measure_kernel", {"kernel": BARE}, "no kernel header", "/* kforecast 1"),
    ("measure_kernel", {"kernel": "quick.c", "task": "/etc/task.toml"}, "outside the folders", "/etc/task.toml"),
    ("measure_kernel", {"kernel": "quick.c", "task": "x" * 300}, "cannot be followed", "Give a path"),
    ("measure_kernel", {"kernel": "away.c"}, "outside the folders", "/etc/task.toml"),
    ("measure_kernel", {"kernel": "quick.c", "baseline": "tuned"}, "no tuned kernel", "It has"),
    ("measure_kernel", {"kernel": "quick.c", "device": "cuda:0"}, "does not run on cuda:0", "Leave the device out"),
    ("measure_kernel", {"kernel": "quick.c", "wait_s": 46}, "wait_s", "45"),
    ("measure_kernel", {"kernel": "quick.c", "wait": 4}, "no such argument: wait", "Did you mean wait_s"),
    ("measure_kernel", {}, "kernel", "Field required"),
    ("measure_kernel", {"kernel": "x" * (3 << 20) + "\n"}, "too large", "at most"),
    ("forecast_kernel", {"candidate": "quick.c"}, "needs a baseline", "Give a baseline"),
    ("forecast_kernel", {"candidate": []}, "candidate", "at least 1"),
    ("forecast_kernel", {"candidate": "quick.c", "own": {"p_correct": 2}}, "own", "less than or equal to 1"),
    ("measure_kernel", {"kernel": "m_123456"}, "something else than a kernel", 'get_status(id="m_123456")'),
    ("measure_kernel", {"kernel": "quick.c", "baseline": "Seed"}, "no such baseline", "`tuned`"),
    ("measure_kernel", {"kernel": "quick.c", "baseline": ["seed", "tuned"]}, "baseline", "valid string"),
    ("forecast_kernel", {"candidate": "quick.c", "own": {**OWN, "p_bins": [1]}}, "own.p_bins: The list", "8 items"),
    ("forecast_kernel", {"candidate": ["quick.c"] * 17}, "candidate: List should have at most 16", "17"),
    ("search", {"seed": "quick.c", "budget": {}}, "limit in its budget", "measurements"),
    ("search", {"seed": "quick.c", "budget": 30}, "budget: should be an object with gpu_seconds", "30"),
    ("search", {"seed": "quick.c", "budget": {"usd": 1}, "device": "replay:/etc/passwd"}, "in a replay", "person"),
    ("search", {"seed": "quick.c", "budget": {"euros": 3}}, "budget.euros", "Extra inputs"),
    ("search", {"seed": "quick.c", "budget": {"measurements": 1}, "policy": "best"}, "no such policy", "puct"),
    ("search_propose", {"search_id": "s_ffff", "candidates": [{"parent_id": "n", "kernel": "k"}]}, "s_ffff", ""),
    ("get_status", {"id": "m_ffff"}, "m_ffff", ""),
    ("get_status", {"id": "what is this"}, "no measurement and no request", "get_status (without an id)"),
    ("get_status", {"id": "s_ffff"}, "s_ffff", ""),
    ("get_status", {"id": "f_ffff"}, "no forecast", "forecast_kernel"),
    ("stop", {"id": "r_ffff"}, "could be stopped", "get_status"),
    ("stop", {}, "id", "Field required"),
    ("sing", {}, "sing", ""),
]


@pytest.fixture(autouse=True)
def files(kernels: Kernels) -> None:
    Path("outside.c").symlink_to("/etc/hostname")
    away = kernels.quick.read_text().replace("[task]", 'task = "/etc/task.toml"\n[unused]')
    header, _, rest = away.partition("[unused]")
    Path("away.c").write_text(header + rest[rest.index("[[launch]]") :])


def test_every_error_says_what_and_what_next(server: KforecastServer, mode: str) -> None:
    async def all_of_them(client: Any) -> list[Any]:
        return [await client.call_tool(tool, arguments) for tool, arguments, _, _ in ERRORS]

    failed_call(server, mode, "get_status", id="m_1")  # before there is a store
    results = with_client(server, mode, all_of_them)
    for (tool, arguments, what, step), result in zip(ERRORS, results, strict=True):
        shown = f"{tool} {str(arguments)[:80]}: {result.content[0].text}"
        assert result.is_error, shown
        assert what in result.content[0].text, shown
        assert step in result.content[0].text, shown
        assert "Error executing tool" not in shown
        assert "instance of" not in shown
        assert len(result.content[0].text) < 1500, shown


def test_the_machinerys_failure_is_told_with_its_next_step(
    server: KforecastServer, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_broker(*_: object, **__: object) -> None:
        raise DeviceError("the broker of cpu ended", value="out of luck", next_step="Run `kforecast doctor`.")

    monkeypatch.setattr("kforecast.bench.broker.watch.connect", no_broker)
    text = failed_call(server, mode, "measure_kernel", kernel="quick.c", baseline="none")
    assert text == "the broker of cpu ended: out of luck. Run `kforecast doctor`."


def test_a_store_of_an_older_version_is_read_all_the_same(server: KforecastServer, monkeypatch: Any) -> None:
    Store.open().close()
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, "CREATE TABLE later (id TEXT) STRICT;\n"))
    monkeypatch.setattr(schema, "LATEST", schema.LATEST + 1)
    assert "no kernel" in failed_call(server, "auto", "get_status", id="k_ffffff")
    assert call(server, "auto", "get_status")["measurements"] == []


def test_a_store_of_a_newer_version_means_a_restart(server: KforecastServer) -> None:
    with Store.open() as store:
        store.read("PRAGMA user_version = 99")
    assert "restart the server" in failed_call(server, "auto", "get_status")


def test_a_fault_of_ours_says_so_and_where_the_traceback_is(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def surprise() -> None:
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr("kforecast.tools.mcp.looking._overview", surprise)
    text = failed_call(make_server(), mode, "get_status")
    assert "A fault in kforecast" in text
    assert "ZeroDivisionError" in text
    assert "secret detail" not in text
    assert str(log_path()) in text
    log = log_path().read_text()
    assert "Traceback" in log
    assert "secret detail" in log


def test_a_full_disk_is_told_as_one(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/place")

    monkeypatch.setattr("kforecast.tools.mcp.looking._overview", refuse)
    text = failed_call(make_server(), mode, "get_status")
    assert "the system refused (No space left on device): /place. Free some space there" in text
    assert "fault in kforecast" not in text
