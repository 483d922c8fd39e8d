"""Searches on this machine's CPU: real workers, real brokers, real kernels. Short, and blind to how fast it all is."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from kforecast.app.search import search_command
from kforecast.bench.broker import processes_alive
from kforecast.bench.tasks.builtin import builtin_kernel
from kforecast.store import requests, searches
from kforecast.store.database import Store
from kforecast.store.errors import InputError
from kforecast.tools.kernels import Asked, load_file
from kforecast.tools.search.events import Measured, OwnForecast
from kforecast.tools.search.log import folded, read_events
from kforecast.tools.search.use import Candidate, look, propose, search, tell

TINY = """/* kforecast 1
[task]
name = "tiny_scale"
in.x = { dtype = "f32", shape = ["N"], fill = "normal" }
out.y = { dtype = "f32", shape = ["N"] }
reference = "einsum: n->n"
timed = [{ N = 4096 }]
checked = [{ N = 17 }]
[[launch]]
entry = "tiny_scale"
args = ["x", "y", "N"]
[tune]
STEP = [1, 2, 4, 8]
*/
void tiny_scale(const float* x, float* y, int N) {
    int i = 0;
    for (; i + STEP <= N; i += STEP) {
        for (int j = 0; j < STEP; j++) y[i + j] = x[i + j];
    }
    for (; i < N; i++) y[i] = x[i];
}
"""


@pytest.fixture
def seed(tmp_path: Path) -> str:
    path = tmp_path / "tiny.c"
    path.write_text(TINY)
    return str(path)


def wait_for_rest(search_id: str) -> None:
    result = look(search_id, wait_s=120)
    assert result.state not in ("working", "stopping"), result.summary


def test_a_search_from_the_softmax_seed(tmp_path: Path) -> None:
    path = builtin_kernel("softmax_rows", "c", "seed")
    result = search(str(path), budget="3m,120s", generator="edits+tune", verify=False, speculate=2)
    wait_for_rest(result.search_id)
    result = look(result.search_id)
    assert result.state == "completed", result.reason
    assert result.spent["measurements"] == 3 or "wall_s" in (result.reason or "")
    with Store.open_readonly() as store:
        state = folded(store, result.search_id)
        measured = [event for event in read_events(store, result.search_id) if isinstance(event, Measured)]
        assert state.nodes[0].verdict == "ok"
        assert all(event.measurement_id for event in measured)
        assert sum(event.seconds for event in measured) == pytest.approx(state.spent.gpu_seconds)
    runner = CliRunner()
    page, kernel = tmp_path / "report.html", tmp_path / "best.c"
    told = runner.invoke(search_command, ["report", result.search_id, "-o", str(page), "--save", str(kernel)])
    assert told.exit_code == 0, told.output
    text = page.read_text()
    assert text.startswith("<!doctype html>") and "<svg" in text and "http" not in text and "<script" not in text
    assert load_file(kernel, Asked()).task.name == "softmax_rows"
    assert result.search_id in runner.invoke(search_command, ["list"]).output


def test_a_killed_worker_loses_and_repeats_nothing(seed: str) -> None:
    result = search(seed, budget="6m,120s", generator="tune", verify=False, forecaster="base-rate", request_key="once")
    again = search(seed, budget="6m,120s", generator="tune", verify=False, forecaster="base-rate", request_key="once")
    assert again.search_id == result.search_id
    with Store.open_readonly() as store:
        for _ in range(3):
            _kill_once_it_measures(store, result.search_id)
            tell(result.search_id, "resume")
        wait_for_rest(result.search_id)
        state = folded(store, result.search_id)
        assert state.outcome == "completed"
        events = [event for event in read_events(store, result.search_id) if isinstance(event, Measured)]
        assert len({event.node for event in events}) == len(events) == 4
        answered = [one for one in requests.recent(store, 100) if one.client == f"search:{result.search_id}"]
        assert len({one.result_id for one in answered if one.state == "completed"}) == len(events)


def _kill_once_it_measures(store: Store, search_id: str) -> None:
    for _ in range(600):
        lease = searches.lease(store, search_id)
        found = searches.get(store, search_id)
        if found is not None and found.state == "completed":
            return
        living = lease is not None and processes_alive.is_alive(lease[0])
        if lease is not None and living and found is not None and found.events > 2:
            os.kill(int(lease[0].split(":")[1]), signal.SIGKILL)
            while processes_alive.is_alive(lease[0]):
                time.sleep(0.01)
            return
        time.sleep(0.1)
    raise AssertionError("no worker came")


def test_an_agent_is_asked_proposes_and_is_told(seed: str, tmp_path: Path) -> None:
    result = search(seed, budget="4m,120s", generator="agent", verify=False)
    result = look(result.search_id, wait_s=60)
    assert result.state == "input_required", result.summary
    ask = result.asks[0]
    assert "seed" in ask.why and not ask.tried
    faster = tmp_path / "faster.c"
    body = "    __builtin_memcpy(y, x, sizeof(float) * (unsigned long)N + 0 * STEP);\n}\n"
    faster.write_text(TINY[: TINY.index("    int i = 0;")] + body)
    own = OwnForecast(forecaster="tester", p_correct=0.95, p_bins=(0, 0, 0.1, 0.2, 0.4, 0.3, 0, 0))
    told = propose(
        result.search_id,
        [
            Candidate(parent_id=ask.parent_id, kernel=str(faster), idea="one copy", own=own),
            Candidate(parent_id=ask.parent_id, kernel=seed, idea="nothing new"),
            Candidate(parent_id="n_unknown", kernel=str(faster), idea="an orphan"),
        ],
        wait_s=60,
    )
    assert [one.decision for one in told.accepted] == ["measure"]
    assert [one.index for one in told.rejected] == [1, 2]
    after = look(result.search_id, wait_s=60)
    assert after.counts["measured"] == 2 and after.state == "input_required"
    assert [one.idea for one in after.asks[0].tried] == ["one copy"] or after.asks[0].parent_id != ask.parent_id
    stopped = tell(result.search_id, "stop")
    stopped = look(stopped.search_id, wait_s=30)
    assert stopped.state == "cancelled"
    assert tell(result.search_id, "stop").state == "cancelled"
    with pytest.raises(InputError, match="cancelled"):
        propose(result.search_id, [Candidate(parent_id=ask.parent_id, kernel=seed)])


def test_what_cannot_be_is_told_at_once(seed: str) -> None:
    with pytest.raises(InputError, match="policy"):
        search(seed, budget="5m", policy="best-first")
    with pytest.raises(InputError, match="generator"):
        search(seed, budget="5m", generator="magic")
    with pytest.raises(InputError, match="replays"):
        search(seed, budget="5m", generator="atlas")
    with pytest.raises(InputError, match="configuration"):
        search(seed, budget="5m", audit_rate=3.0)
    with pytest.raises(InputError, match="no search"):
        look("s_nothing")


def test_a_search_that_was_just_begun_or_resumed_has_a_worker_and_a_paused_one_can_be_stopped(seed: str) -> None:
    begun = search(seed, budget="40m", effort="quick")
    assert "gone" not in begun.next
    tell(begun.search_id, "pause")
    wait_for_rest(begun.search_id)
    assert look(begun.search_id).state == "paused"
    stopped = tell(begun.search_id, "stop")
    assert (stopped.state, stopped.reason) == ("cancelled", "It was stopped.")
    with Store.open_readonly() as store:
        row = searches.get(store, begun.search_id)
        assert row is not None and row.state == "cancelled"
    resumed = tell(begun.search_id, "resume")
    assert resumed.state == "working" and "gone" not in resumed.next
    tell(begun.search_id, "stop")
    wait_for_rest(begun.search_id)
