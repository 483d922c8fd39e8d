"""The store under many processes and sudden deaths, at an everyday size; `scripts/stress_store.py` does the rest."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "stress_store.py"


@pytest.mark.slow
def test_eight_writers_a_reader_and_kills_lose_nothing(tmp_path: Path) -> None:
    out = tmp_path / "stress.json"
    options = ["--processes", "8", "--transactions", "200", "--kills", "8", "--out", str(out)]
    done = subprocess.run(
        [sys.executable, "-W", "error", str(SCRIPT), *options], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads(out.read_text())
    assert results["writing"]["stored"] == results["writing"]["seen_by_reader"] == 1600
    assert results["killing"]["kills"] == 8
    assert results["killing"]["acknowledged"] > 0
    assert results["killing"]["acknowledged_lost"] == results["killing"]["damaged"] == 0
