"""Tools called by hand keep a transcript, and what was forecast in it can be measured elsewhere."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from brokers import Kernels

import kforecast

SCRIPTS = Path(kforecast.__file__).parent / "scripts"
OWN = {"p_correct": 0.9, "p_bins": [0, 0, 0, 0.1, 0.8, 0.1, 0, 0], "forecaster": "fable"}


def session(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPTS / "agent_session.py"), "--store", "kept", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_session_is_kept_and_can_be_replayed(kernels: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("own.json").write_text(json.dumps({"candidate": "slow.c", "baseline": "quick.c", "own": OWN}))
    told = session("call", "forecast_kernel", "@own.json")
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)["backend"] == "agent:fable"
    wrong = session("call", "get_status", '{"id": "m_ffff"}')
    assert (wrong.returncode, "m_ffff" in wrong.stdout) == (1, True)
    assert session("call", "get_status", "[1]").returncode == 2
    summary = json.loads(session("summary").stdout)
    assert summary["calls"] == {"forecast_kernel": 1, "get_status": 1}
    assert len(summary["errors"]) == 1

    monkeypatch.syspath_prepend(str(SCRIPTS / "gpu"))
    from agent_replay import Transcript

    transcript = Transcript.read(Path("kept/transcript.jsonl"))
    (blind,) = transcript.blind.values()
    assert (blind.name, blind.own, blind.against) == ("slow", OWN, kernels.quick.read_text())
    Path("written").mkdir()
    seed, (other,) = transcript.write(Path("written"), ".c")
    assert Path(seed).read_text() == kernels.quick.read_text()
    assert Path(other).read_text() == kernels.slow.read_text()
    assert (Path(other).parent / "double.py").read_text() == Path("double.py").read_text()
