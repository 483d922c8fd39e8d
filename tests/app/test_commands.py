"""Commands end to end over a real store that holds one measurement; measuring itself is in test_measure_command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kforecast.app.main import run
from kforecast.bench.tasks.builtin import builtin_task
from kforecast.store import kernels, measurements, requests, tasks
from kforecast.store.clock import utc_now
from kforecast.store.database import Store
from kforecast.store.models import Kernel, Launch, Measurement

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def stored() -> Measurement:
    """A store with one measurement of softmax_rows and one request that waits."""
    task = builtin_task("softmax_rows")
    launch = Launch(entry="softmax_rows", args=("x", "y", "R", "C"))
    kernel = Kernel.make(language="c", name="fast.c", source="int x;", launches=(launch,), task_id=task.id)
    measurement = Measurement(
        id="m_0123456789abcdef0123",
        kernel_id=kernel.id,
        task_id=task.id,
        task_name=task.name,
        device="cpu",
        device_id="cpu-1",
        lane="host-code",
        launch_mode="process",
        effort="normal",
        verdict="ok",
        reason="",
        time_us=41.2,
        created_at=utc_now(),
    )
    with Store.open() as store:
        tasks.save(store, task)
        kernels.save(store, kernel)
        measurements.save(store, measurement)
        requests.enqueue(store, kind="measure", device="cpu", payload={}, client="cli:1")
    return measurement


def answer(capsys: Capture) -> object:
    return json.loads(capsys.readouterr().out)


def test_status_before_anything_was_measured(capsys: Capture) -> None:
    assert run(["status"]) == 0
    page = capsys.readouterr().out
    assert "not made yet" in page
    assert "none yet: kforecast measure FILE" in page


def test_status_shows_measurements_and_what_waits(stored: Measurement, capsys: Capture) -> None:
    assert run(["status"]) == 0
    page = capsys.readouterr().out
    for part in ("fast.c", "softmax_rows", "41.2 us", stored.id, "queued", "cli:1"):
        assert part in page
    # A store's path is as long as it is.
    assert max(len(line) for line in page.splitlines() if not line.startswith("store")) <= 80


def test_status_is_data_after_json(stored: Measurement, capsys: Capture) -> None:
    assert run(["status", "--json"]) == 0
    now = answer(capsys)
    assert isinstance(now, dict)
    assert [row["measurement_id"] for row in now["measurements"]] == [stored.id]
    assert now["measurements"][0]["speedup"] is None


def test_status_filters(stored: Measurement, capsys: Capture) -> None:
    assert run(["status", "--task", "scan", "--json"]) == 0
    now = answer(capsys)
    assert isinstance(now, dict)
    assert now["measurements"] == []


@pytest.mark.parametrize("command", ["status", "status --follow", "quarantine list", "export rows.jsonl"])
def test_a_filter_for_a_task_that_there_is_not_is_bad_input(
    stored: Measurement, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run([*command.split(), "--task", "sofmax_row"]) == 2
    told = capsys.readouterr().err
    assert "no such task, built in or in the store: sofmax_row" in told
    assert "Did you mean softmax_rows" in told
    assert list(tmp_path.glob("*.jsonl")) == []


def test_status_of_one_measurement_is_its_answer(stored: Measurement, capsys: Capture) -> None:
    assert run(["status", stored.id]) == 0
    page = capsys.readouterr().out
    assert "fast.c is correct: 41.2 us cold on cpu" in page


def test_status_of_an_unknown_id_is_bad_input(stored: Measurement, capsys: Capture) -> None:
    assert run(["status", "m_none"]) == 2
    assert "m_none" in capsys.readouterr().err


@pytest.mark.parametrize("suffix", ["jsonl", "db"])
def test_what_is_exported_can_be_imported_elsewhere(
    stored: Measurement, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    path = tmp_path / f"runs.{suffix}"
    assert run(["export", str(path)]) == 0
    assert "1 measurement" in capsys.readouterr().out
    monkeypatch.setenv("KFORECAST_DB", str(tmp_path / "other.db"))
    assert run(["import", str(path), "--json"]) == 0
    counts = answer(capsys)
    assert isinstance(counts, dict)
    assert counts["added"]["measurement"] == 1
    assert run(["import", str(path), "--json"]) == 0
    again = answer(capsys)
    assert isinstance(again, dict)
    assert again["skipped"]["measurement"] == 1


def test_export_overwrites_only_when_told(stored: Measurement, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "runs.csv"
    assert run(["export", str(path)]) == 0
    assert run(["export", str(path)]) == 2
    assert run(["export", str(path), "--overwrite"]) == 0
    assert "exists already" in capsys.readouterr().err


def test_since_is_a_moment(stored: Measurement, tmp_path: Path, capsys: Capture) -> None:
    assert run(["export", str(tmp_path / "a.csv"), "--since", "yesterday"]) == 2
    assert "2026-11-30" in capsys.readouterr().err
    assert run(["export", str(tmp_path / "b.jsonl"), "--since", "2999-01-01", "--json"]) == 0
    written = answer(capsys)
    assert isinstance(written, dict)
    assert written["written"].get("measurement", 0) == 0


def test_doctor_names_what_it_looked_at(capsys: Capture) -> None:
    code = run(["doctor"])
    page = capsys.readouterr().out
    for part in ("SQLite", "configuration", "user namespaces", "Landlock", "devices that can measure now"):
        assert part in page
    assert code in (0, 4)


def test_doctor_shows_a_broken_configuration_instead_of_failing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    path = tmp_path / "config.toml"
    path.write_text("devise = 1")
    monkeypatch.setenv("KFORECAST_CONFIG", str(path))
    assert run(["doctor", "--json"]) == 4
    report = answer(capsys)
    assert isinstance(report, dict)
    (check,) = [check for check in report["checks"] if check["name"] == "configuration"]
    assert check["state"] == "problem"
    assert "Did you mean device" in check["next"]


def test_doctor_sees_the_store(stored: Measurement, capsys: Capture) -> None:
    run(["doctor"])
    page = capsys.readouterr().out
    assert "1 measurement" in page
    assert "journal mode wal" in page


def test_doctor_without_a_compiler_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    from kforecast.bench.languages import c

    c.find_compiler.cache_clear()
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CC", raising=False)
    try:
        assert run(["doctor"]) == 4
    finally:
        c.find_compiler.cache_clear()
    page = capsys.readouterr().out
    assert "not usable: no C compiler" in page
    assert "devices that can measure now: none" in page


def test_a_variable_that_names_no_compiler_is_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    from kforecast.bench.languages import c

    kernel = tmp_path / "softmax.c"
    run(["tasks", "copy", "softmax_rows", str(kernel)])
    capsys.readouterr()
    c.find_compiler.cache_clear()
    monkeypatch.setenv("CC", "no-such-gcc -O3")
    try:
        assert run(["facts", str(kernel)]) == 2
        assert "$CC names no C compiler that runs here: no-such-gcc -O3" in capsys.readouterr().err
        assert run(["doctor"]) == 4
        assert "$CC names no C compiler that runs here: no-such-gcc -O3" in capsys.readouterr().out
    finally:
        c.find_compiler.cache_clear()


def test_doctor_says_which_place_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("KFORECAST_CACHE_DIR", str(tmp_path / "file"))
    assert run(["doctor", "--json"]) == 4
    found = {
        check["name"]: check for check in json.loads(capsys.readouterr().out)["checks"] if check["group"] == "places"
    }
    assert {name: check["state"] for name, check in found.items()} == {
        "cache": "problem", "runtime": "ok", "temporary": "ok",
    }  # fmt: skip
    assert found["cache"]["value"] == f"{tmp_path / 'file'} cannot be written"
    assert "KFORECAST_CACHE_DIR" in found["cache"]["next"]
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_tasks_lists_all(capsys: Capture) -> None:
    assert run(["tasks"]) == 0
    page = capsys.readouterr().out
    assert "softmax_rows" in page
    assert "x[R, C] f32 -> y[R, C] f32" in page


def test_task_in_full(capsys: Capture) -> None:
    assert run(["tasks", "show", "softmax_rows"]) == 0
    page = capsys.readouterr().out
    for part in ("timed on cpu", "checked", "seed", "kforecast tasks copy softmax_rows"):
        assert part in page


def test_copying_a_kernel_says_what_to_do_with_it(tmp_path: Path, capsys: Capture) -> None:
    assert run(["tasks", "copy", "softmax_rows", str(tmp_path)]) == 0
    assert f"kforecast measure {tmp_path / 'softmax_rows.c'}" in " ".join(capsys.readouterr().out.split())


def test_a_task_that_can_be_tested(capsys: Capture) -> None:
    assert run(["tasks", "check", "vector_add", "--json"]) == 0
    check = answer(capsys)
    assert isinstance(check, dict)
    assert check["testable"] is True


def test_a_task_that_null_kernels_pass(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "task.toml"
    path.write_text(
        'name = "nothing"\n'
        'in.a = { dtype = "f32", shape = ["N"], fill = "zeros" }\n'
        'out.b = { dtype = "f32", shape = ["N"] }\n'
        'reference = "einsum: n->n"\n'
        "checked = [{ N = 4 }]\n"
        "timed = [{ N = 4 }]\n"
    )
    assert run(["tasks", "check", str(path)]) == 2
    page = capsys.readouterr().out
    assert "cannot tell right from wrong" in page
    assert "would pass as ok" in page


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_name_the_program(shell: str, capsys: Capture) -> None:
    assert run(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "kforecast" in script
    assert f"_KFORECAST_COMPLETE={shell}_complete" in script
