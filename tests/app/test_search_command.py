"""`kforecast search` on the command line, on recorded kernels: fast, and the same everywhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kforecast.app import main
from kforecast.app.search_report_page import search_report_page
from kforecast.app.search_view import view_lines
from kforecast.store import searches
from kforecast.store.database import Store
from kforecast.tools.search.report import report_of
from kforecast.tools.search.use import look

Capture = pytest.CaptureFixture[str]
POOL = f"replay:{Path(__file__).parents[2] / 'docs/results/h200_kernels.jsonl.gz'}"


def run(*arguments: str) -> int:
    return main.run(["search", *arguments])


@pytest.fixture
def search_id(capsys: Capture) -> str:
    code = run("run", "histogram", "--device", POOL, "--budget", "15m", "--foreground", "--no-verify", "--json")
    answer = json.loads(capsys.readouterr().out)
    assert (code, answer["state"]) == (0, "completed")
    assert answer["spent"]["measurements"] == 15
    found: str = answer["search_id"]
    return found


def test_a_search_is_told_on_a_page(capsys: Capture) -> None:
    assert run("run", "gemv", "--device", POOL, "--budget", "8m", "--foreground") == 0
    page = capsys.readouterr().out
    assert "8 of 8 measurements" in page and "next" in page
    assert page.isascii() and max(map(len, page.splitlines())) <= 80


def test_a_search_that_is_interrupted_in_the_foreground_names_itself(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def interrupted(store: Store, search_id: str) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("kforecast.tools.search.use.work_in", interrupted)
    assert run("run", "gemv", "--device", POOL, "--budget", "8m", "--foreground") == 130
    told = capsys.readouterr().err
    with Store.open_readonly() as store:
        (begun,) = searches.recent(store, 10)
    assert f"kforecast search resume {begun.id}" in told


def test_searches_are_listed(capsys: Capture, search_id: str) -> None:
    assert run("list") == 0
    assert search_id in capsys.readouterr().out
    assert run("list", "--json") == 0
    (one,) = json.loads(capsys.readouterr().out)["searches"]
    assert (one["id"], one["worker"]) == (search_id, False)


def test_stopping_what_has_ended_is_no_error(capsys: Capture, search_id: str) -> None:
    assert run("stop", search_id[:12], "--json") == 0
    assert json.loads(capsys.readouterr().out)["state"] == "completed"


def test_a_report_is_one_page_that_needs_nothing_else(tmp_path: Path, capsys: Capture, search_id: str) -> None:
    page, kernel = tmp_path / "page.html", tmp_path / "best.cu"
    assert run("report", search_id, "--out", str(page), "--save", str(kernel)) == 0
    text = page.read_text()
    for part in ("Best so far", "Forecast against measured", "Regret", "Candidates", "Configuration", "<svg"):
        assert part in text
    assert "<script" not in text and "src=" not in text and "http" not in text
    assert kernel.read_text().startswith("/* kforecast 1")
    capsys.readouterr()
    assert run("report", search_id, "--out", str(page)) == 2
    assert "exists already" in capsys.readouterr().err


def test_kernel_text_cannot_break_out_of_the_report(search_id: str) -> None:
    with Store.open_readonly() as store:
        report = report_of(store, search_id)
    evil = "</pre><script>alert(1)</script>"
    rows = [row.__class__(**{**row.__dict__, "idea": evil, "reason": '" onload="x'}) for row in report.rows]
    page = search_report_page(report.__class__(**{**report.__dict__, "rows": rows, "diff": evil}))
    assert "<script" not in page and 'onload="x' not in page


def test_the_view_shows_every_limit(search_id: str) -> None:
    lines = view_lines(look(search_id))
    assert any("15 of 15 measurements" in line and "[####" in line for line in lines)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["run", "histogram", "--budget", "5m", "--device", "replay:/nowhere.jsonl"], "no such file"),
        (["run", "histogram", "--budget", "lots"], "not a limit"),
        (["run", "histogram", "--budget", "5m", "--device", POOL, "--policy", "best"], "no such policy"),
        (["run", "nothing", "--budget", "5m", "--device", POOL], "no such seed"),
        (["resume", "s_unknown"], "no search"),
        (["report", "s_unknown"], "no store"),
    ],
)
def test_what_is_wrong_is_told_with_exit_code_2(capsys: Capture, arguments: list[str], told: str) -> None:
    code = run(*arguments)
    assert told in capsys.readouterr().err
    assert code == (3 if told == "no store" else 2)
