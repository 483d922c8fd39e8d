"""Sudden deaths of brokers and clients, at an everyday size; `scripts/stress_broker.py` does the rest."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "stress_broker.py"


@pytest.mark.slow
def test_kills_of_broker_and_clients_lose_nothing(tmp_path: Path) -> None:
    out = tmp_path / "stress.json"
    done = subprocess.run(
        [sys.executable, "-W", "error", str(SCRIPT), "--kills", "6", "--clients", "3", "--out", str(out)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads(out.read_text())
    assert results["kills_of_broker"] + results["kills_of_clients"] == 6
    assert results["acknowledged"] > 0
    assert results["acknowledged_lost"] == results["doubled"] == results["damaged"] == 0
