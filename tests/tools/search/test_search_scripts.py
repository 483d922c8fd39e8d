"""The scripts that searches are compared with, in small: they run to their end and say what they found."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from test_search_live import TINY

ROOT = Path(__file__).parents[3]


def run(*arguments: str) -> str:
    told = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=300, cwd=ROOT, check=False
    )
    assert told.returncode == 0, told.stderr
    return told.stdout


def test_live_searches_in_small(tmp_path: Path) -> None:
    """Each arm searches from the same seed, several at once, and stands in the result with its curve."""
    seed = tmp_path / "tiny.c"
    seed.write_text(TINY)
    run(
        *("scripts/gpu/live.py", "--dry", "--no-train", "--tasks", str(seed), "--seeds", "1", "--budget", "3m"),
        *("--at-once", "4", "--seconds", "1", "--claims", "0", "--out", str(tmp_path)),
    )
    found = json.loads((tmp_path / "live.json").read_text())
    rows = {row["arm"]: row for row in found["rows"]}
    assert rows.keys() == {"gain+learned-here", "puct+learned-here", "control-random", "control-all"}
    ends = {arm: (row.get("error") or row["reason"], row.get("state"), row.get("spent")) for arm, row in rows.items()}
    assert all(state == "completed" and spent["measurements"] == 3 for _, state, spent in ends.values()), ends
    assert all(row["curve"][0][3] == 1.0 for row in rows.values())
    assert len({row["seed_id"] for row in rows.values()}) == 1
    assert (tmp_path / "live.jsonl.gz").stat().st_size > 0


def test_a_replay_in_small(tmp_path: Path) -> None:
    """Both controls on one recorded task: regrets fall in a range that makes sense, and stand in the table."""
    out = tmp_path / "replay.json"
    told = run(
        *("scripts/replay_search.py", "docs/results/h200_pool.jsonl.gz", "--tasks", "sum_all", "--seeds", "1"),
        *("--processes", "1", "--arms", "control-random,control-all", "--out", str(out)),
    )
    rows = json.loads(out.read_text())["rows"]
    assert [row["arm"] for row in rows] == ["control-random", "control-all"]
    assert all(len(row["regrets"]) == 1 and all(0 <= one < 3 for one in row["regrets"]) for row in rows)
    assert all(row["proposed"] >= row["measured"] - 1 > 10 for row in rows)
    assert "| sum_all | control-all |" in told
