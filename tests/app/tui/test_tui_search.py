"""The page Search: tree, candidate, forecast, diffs, decisions, following, comparing, acting."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path

import pytest
from driving import Seat, drive
from grown import TASK, Grown, kernel

from kforecast.app.tui.search_parts import TreeTable
from kforecast.store import measurements
from kforecast.store.clock import utc_now
from kforecast.store.identity import new_id
from kforecast.store.models import Measurement
from kforecast.tools import measure as measuring
from kforecast.tools.search.events import Measured


def test_the_tree_grows_while_it_is_watched(grown: Grown) -> None:
    async def act(seat: Seat) -> None:
        await seat.press("2")
        await seat.rows("#tree", 1)
        child = grown.child(log2=0.5, idea="Vectorised loads")
        await seat.rows("#tree", 2)
        assert "Vectorised loads" in seat.text("#tree") and "1.41" in seat.text("#tree")
        grown.decide(grown.propose(child, "tiled"))
        await seat.rows("#tree", 3)
        await seat.until(lambda: "~1.15" in seat.text("#tree"), "the forecast")
        head = seat.text("#head")
        assert "of 40 measurements" in head and "S 1.41  1.32 .. 1.52" in head and "deferred 100% of 2" in head

    drive(act, grown.path)


def test_the_candidate_shows_forecast_decision_and_measurement(grown: Grown) -> None:
    grown.child(log2=0.7, idea="Vectorised loads")

    async def act(seat: Seat) -> None:
        await seat.press("2")
        await seat.rows("#tree", 2)
        await seat.press("j")
        await seat.until(lambda: "Vectorised loads" in seat.text("#detail"), "the candidate")
        text = seat.text("#detail")
        assert "because of measure" in text and "◀ measured 1.62" in text and "√2 < S <= 2" in text
        await seat.press("v")
        await seat.until(lambda: "variant 1" in seat.text("#detail"), "its source")
        await seat.press("v")
        await seat.until(lambda: "-// variant 0" in seat.text("#detail"), "what changed")
        assert "because of measure" in seat.text("#log")

    drive(act, grown.path)


def test_pruned_candidates_are_folded_and_enter_unfolds_them(grown: Grown) -> None:
    for _ in range(3):
        grown.decide(grown.propose(), "drop")
    grown.child(log2=0.1)

    async def act(seat: Seat) -> None:
        await seat.press("2")
        await seat.rows("#tree", 3)
        assert "3 dropped" in seat.text("#tree")
        await seat.press("G", "enter")
        await seat.rows("#tree", 5)
        await seat.press("g", "h")
        await seat.rows("#tree", 1)
        assert "4 below" in seat.text("#tree")
        await seat.press("space")
        await seat.until(lambda: seat.table("#tree").rows.total > 1, "the tree unfolded")

    drive(act, grown.path)


def test_following_the_best_and_the_newest_until_the_user_steers(grown: Grown) -> None:
    for index in range(4):
        grown.child(log2=0.1 * index)

    async def act(seat: Seat) -> None:
        await seat.press("2")
        tree = await seat.rows("#tree", 5)
        await seat.press("f")
        await seat.until(lambda: tree.cursor == 4, "the best")
        best = grown.child(log2=2.0)
        await seat.until(lambda: tree.key == best, "the new best")
        grown.child(log2=0.0)
        await seat.press("f")
        await seat.until(lambda: tree.cursor == 6, "the newest")
        await seat.press("k")
        grown.child(log2=0.0)
        await seat.rows("#tree", 8)
        assert tree.cursor == 5

    drive(act, grown.path)


def test_two_candidates_are_compared(grown: Grown) -> None:
    grown.child(log2=0.5)
    grown.child(log2=0.7)

    async def act(seat: Seat) -> None:
        await seat.press("2")
        await seat.rows("#tree", 3)
        await seat.press("j")
        await seat.until(lambda: "candidate 1" in seat.text("#detail"), "the first")
        await seat.press("c", "j")
        await seat.until(lambda: "+// variant 2" in seat.text("#detail"), "the difference")
        assert "marked: 1" in seat.text("#detail") and "1.62" in seat.text("#detail")

    drive(act, grown.path)


def test_on_a_small_terminal_enter_zooms_and_esc_goes_back_one_level_at_a_time(grown: Grown) -> None:
    grown.child(log2=0.5)

    async def act(seat: Seat) -> None:
        await seat.press("2")
        await seat.rows("#tree", 2)
        await seat.press("enter")
        page = seat.app.screen
        assert page.has_class("-zoom") and not seat.table("#tree").region.height
        await seat.press("escape")
        assert not page.has_class("-zoom") and seat.table("#tree").has_focus
        await seat.press("slash", *"idea", "enter")
        await seat.rows("#tree", 1)
        await seat.press("escape")
        await seat.rows("#tree", 2)
        assert seat.app.current_mode == "search"
        await seat.press("L")
        await seat.until(lambda: seat.table("#log").has_focus, "the decisions")
        await seat.press("escape", "escape")
        assert seat.app.current_mode == "searches"

    drive(act, grown.path, size=(80, 24))


def test_a_decision_leads_to_its_candidate(grown: Grown) -> None:
    nodes = [grown.child(log2=0.1 * index) for index in range(3)]

    async def act(seat: Seat) -> None:
        await seat.press("2")
        await seat.rows("#tree", 4)
        await seat.press("tab", "tab")
        await seat.rows("#log", 3)
        await seat.press("G", "enter")
        await seat.until(lambda: seat.table("#tree").key == nodes[0], "the candidate of the oldest decision")

    drive(act, grown.path)


def with_measurement(grown: Grown) -> Measurement:
    """A candidate whose measurement stands in the store."""
    made = kernel(50)
    node = grown.propose(made=made)
    grown.decide(node)
    found = Measurement(
        id=new_id("m"), kernel_id=made.id, task_id=TASK.id, task_name=TASK.name, device="cpu", device_id="d",
        lane="host-code", launch_mode="process", effort="quick", verdict="ok", reason="", log2_speedup=0.5,
        log2_low=0.4, log2_high=0.6, time_us=5.0, environment={"cpu": "a cpu"}, created_at=utc_now(),
    )  # fmt: skip
    measurements.save(grown.store, found)
    grown.say(Measured(node=node, effort="quick", purpose="explore", verdict="ok", log2=0.5, measurement_id=found.id))
    return found


def test_a_measurement_is_put_into_quarantine_with_a_reason_and_cleared(grown: Grown) -> None:
    found = with_measurement(grown)

    def quarantine() -> str | None:
        now = measurements.get(grown.store, found.id)
        assert now is not None
        return now.quarantine

    async def act(seat: Seat) -> None:
        await seat.press("2")
        await seat.rows("#tree", 2)
        await seat.press("j")
        await seat.until(lambda: "a cpu" in seat.text("#detail"), "its environment")
        await seat.press("exclamation_mark", *"odd", "enter")
        await seat.until(lambda: quarantine() == "odd", "the quarantine")
        await seat.until(lambda: "Quarantine" in seat.text("#detail"), "it on the page")
        await seat.press("exclamation_mark", "y")
        await seat.until(lambda: quarantine() is None, "its end")

    drive(act, grown.path)


def test_measuring_goes_through_the_use_case(grown: Grown, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, object]] = []

    class Told:
        summary = "queued"

    def measure(named: str, **options: object) -> Told:
        asked.append({"kernel": named, **options})
        return Told()

    monkeypatch.setattr(measuring, "measure", measure)
    grown.child(log2=0.5)

    async def act(seat: Seat) -> None:
        await seat.press("2")
        await seat.rows("#tree", 2)
        await seat.press("j")
        await seat.until(lambda: "candidate 1" in seat.text("#detail"), "the candidate")
        await seat.press("m")
        await seat.until(lambda: asked, "the request")

    drive(act, grown.path)
    (one,) = asked
    assert one["kernel"] == kernel(1).id and one["baseline"] == kernel(0).id
    assert (one["device"], one["wait_s"]) == ("cpu", 0.0) and str(one["client"]).startswith("tui:")


def test_source_and_id_are_copied(grown: Grown) -> None:
    async def act(seat: Seat) -> None:
        await seat.press("2")
        await seat.rows("#tree", 1)
        await seat.until(lambda: "candidate 0" in seat.text("#detail"), "the seed")
        await seat.press("y")
        assert seat.app.clipboard == kernel(0).id
        await seat.press("Y")
        assert "variant 0" in seat.app.clipboard

    drive(act, grown.path)


def test_text_is_selected_with_the_mouse(grown: Grown) -> None:
    async def act(seat: Seat) -> None:
        await seat.press("2")
        await seat.rows("#tree", 1)
        await seat.until(lambda: "the seed" in seat.text("#detail"), "the seed")
        await seat.press("v")
        await seat.until(lambda: "variant 0" in seat.text("#detail"), "its source")
        await seat.pilot.mouse_down("#detail", offset=(3, 1))
        await seat.pilot.hover("#detail", offset=(15, 1))
        await seat.pilot.mouse_up("#detail", offset=(15, 1))
        assert "variant" in (seat.app.screen.get_selected_text() or "")
        assert "variant 0" in seat.seen()

    drive(act, grown.path)


def test_the_editor_gets_a_copy_and_a_changed_one_is_kept(
    grown: Grown, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "editor.sh"
    script.write_text('#!/bin/sh\ncp "$2" "$1"\necho "// mine" >> "$2"\n')
    script.chmod(0o755)
    monkeypatch.setenv("VISUAL", f"{script} {tmp_path / 'seen.c'}")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("kforecast.app.tui.app.Viewer.suspend", suspended)

    async def act(seat: Seat) -> None:
        await seat.press("2")
        await seat.rows("#tree", 1)
        await seat.until(lambda: "candidate 0" in seat.text("#detail"), "the seed")
        await seat.press("e")
        await seat.until(lambda: "Your copy" in seat.seen(), "where the copy is")

    drive(act, grown.path, size=(160, 40))
    assert "variant 0" in (tmp_path / "seen.c").read_text()
    (copy,) = tmp_path.glob("kforecast-*/candidate_0.c")
    assert copy.read_text().endswith("// mine\n")
    assert os.environ["VISUAL"]


@contextmanager
def suspended(self: object):  # type: ignore[no-untyped-def]
    yield


def test_what_a_kernel_says_cannot_reach_the_terminal(grown: Grown) -> None:
    evil = kernel(66, source="int x; // \x1b]0;owned\x07 \u202e\n")
    grown.propose(idea="\x1b[2Jboo\nsecond line", made=evil)

    async def act(seat: Seat) -> None:
        await seat.press("2")
        await seat.rows("#tree", 2)
        await seat.press("j", "v")
        await seat.until(lambda: "int x" in seat.text("#detail"), "the source")
        await seat.until(lambda: "boo" in seat.seen(), "the idea")
        assert "\x1b" not in seat.seen() and "\u202e" not in seat.seen() and "\x07" not in seat.seen()

    drive(act, grown.path)


def test_the_tree_says_what_its_glyphs_mean(grown: Grown) -> None:
    assert all(glyph in TreeTable.HELP for glyph in "★●▶◔○–✗◎◆")
