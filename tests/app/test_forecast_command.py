"""`kforecast forecast` and `kforecast quarantine` end to end: a real compiler, a real store."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from kforecast.app.main import run
from kforecast.store import measurements
from kforecast.store.database import Store

Capture = pytest.CaptureFixture[str]
OWN = '{"p_correct": 0.9, "p_bins": [0, 0, 0, 0.1, 0.5, 0.3, 0.1, 0]}'
HEADER = """/* kforecast 1
[task]
name = "double"
in.x = { dtype = "f32", shape = ["N"], fill = "normal" }
out.y = { dtype = "f32", shape = ["N"] }
reference = "double.py:reference"
checked = [{ N = 37 }]
timed = [{ N = 4096 }]
[[launch]]
entry = "twice"
args = ["x", "y", "N"]
*/
"""


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "double.py").write_text("def reference(xp, inputs, sizes):\n    return {'y': inputs['x'] * 2}\n")
    for name, body in (("base", "y[i] = 2 * x[i];"), ("idea", "y[i] = x[i] + x[i];"), ("broken", "y[i] = z;")):
        loop = f"void twice(const float* x, float* y, int N) {{ for (int i = 0; i < N; i++) {body} }}\n"
        (tmp_path / f"{name}.c").write_text(HEADER + loop)
    return {name: str(tmp_path / f"{name}.c") for name in ("base", "idea", "broken")}


def answer(capsys: Capture) -> Any:
    return json.loads(capsys.readouterr().out)


def forecast(files: dict[str, str], *arguments: str) -> int:
    return run(["forecast", *(files.get(argument, argument) for argument in arguments), "--baseline", files["base"]])


def test_one_forecast_is_a_page_with_bars(files: dict[str, str], capsys: Capture) -> None:
    assert forecast(files, "idea", "--own", OWN, "--forecaster", "me") == 0
    page = capsys.readouterr().out
    for part in (
        "measure  idea.c against base.c",
        "agent:me, not calibrated, 0 verified pairs",
        "minor speedup",
        "50%",
    ):
        assert part in page
    assert page.count("####") >= 3
    assert max(map(len, page.splitlines()[1:])) <= 80  # the first line is the path, as long as it is
    assert page.isascii()


def test_json_holds_the_tool_s_fields(files: dict[str, str], capsys: Capture) -> None:
    assert forecast(files, "idea", "--json") == 0
    found = answer(capsys)
    assert found["file"] == files["idea"]
    assert (found["decision"], found["backend"], found["brief"]) == ("measure", "base-rate", None)
    assert found["calibration"] == {"state": "not_trained_for_this_device", "verified_pairs": 0}


def test_several_files_make_one_table_and_errors_do_not_stop_the_others(files: dict[str, str], capsys: Capture) -> None:
    assert forecast(files, "idea", "broken", "nowhere.c") == 2
    page = capsys.readouterr().out
    assert page.index("idea.c") < page.index("broken.c") < page.index("nowhere.c")
    assert "drop" in page
    assert max(map(len, page.splitlines())) <= 80
    assert forecast(files, "idea", "broken") == 1


def test_the_brief_is_printed(files: dict[str, str], capsys: Capture) -> None:
    assert forecast(files, "idea", "--detail", "brief") == 0
    page = capsys.readouterr().out
    assert "what is known" in page
    assert "task double: x[N] f32 -> y[N] f32" in page


def test_own_probabilities_from_stdin(files: dict[str, str], capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f'[{OWN[:-1]}, "forecaster": "you"}}]'))
    assert forecast(files, "idea", "--own", "-", "--json") == 0
    assert answer(capsys)["backend"] == "agent:you"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--own", "{"], "not JSON"),
        (["--own", "[1]"], "must hold objects"),
        (["--own", OWN], "need the name"),
        (["--forecaster", "me"], "whose own probabilities"),
        (["--backend", "nobody"], "no such backend"),
        (["--alpha", "2"], "alpha must lie"),
        (["--backend", "litellm:openai/x"], "would leave this machine"),
    ],
)
def test_bad_input_ends_with_2(files: dict[str, str], capsys: Capture, arguments: list[str], says: str) -> None:
    assert forecast(files, "idea", *arguments) == 2
    assert says in capsys.readouterr().err


def test_quarantine_is_listed_shown_and_cleared(files: dict[str, str], capsys: Capture) -> None:
    assert run(["quarantine", "list"]) == 0
    assert "nothing" in capsys.readouterr().out
    assert run(["measure", files["idea"], "-b", files["base"], "-e", "quick", "--no-broker", "--json"]) == 0
    measured = answer(capsys)["measurement_id"]
    assert run(["quarantine", "clear", measured]) == 2
    with Store.open() as store:
        measurements.set_quarantine(store, measured, "below the floor")
    assert run(["quarantine", "list", "--json"]) == 0
    (line,) = answer(capsys)["quarantined"]
    assert (line["measurement_id"], line["reason"], line["name"]) == (measured, "below the floor", "idea.c")
    assert run(["quarantine"]) == 0
    assert "below the floor" in capsys.readouterr().out
    assert run(["quarantine", "show", measured]) == 0
    assert "in quarantine" in " ".join(capsys.readouterr().out.split())
    assert run(["quarantine", "clear", measured]) == 0
    assert "below the floor" in capsys.readouterr().out
    assert run(["quarantine", "list", "--json"]) == 0
    assert answer(capsys)["quarantined"] == []
    assert run(["quarantine", "clear", "m_none"]) == 2


def test_a_measurement_says_whether_its_forecast_held(files: dict[str, str], capsys: Capture) -> None:
    sure = '{"p_correct": 1, "p_bins": [1, 0, 0, 0, 0, 0, 0, 0]}'
    assert forecast(files, "idea", "--own", sure, "--forecaster", "me", "--json") == 0
    capsys.readouterr()
    assert run(["measure", files["idea"], "-b", files["base"], "-e", "quick", "--no-broker", "--json"]) == 0
    found = answer(capsys)
    # The interval ends a tenth of an octave below 1/4; equal work is far above it, but for a moment of a busy machine.
    assert found["forecast_hit"] is (found["speedup"] <= 2.0**-2.1)
