from __future__ import annotations

import pytest

from kforecast.app.output import Column, Progress, paragraph, print_json, shorten, table


def test_tables_align_and_leave_silent_columns_out() -> None:
    text = table([Column("a", ["x", "long"]), Column("empty", ["", "-"]), Column("n", ["1", "100"], right=True)])
    assert text.splitlines()[1:] == ["  x       1", "  long  100"]


def test_tables_drop_columns_rather_than_wrap() -> None:
    wide = "w" * 60
    text = table(
        [Column("keep", [wide]), Column("first to go", ["x" * 30], drop=2), Column("second", ["y" * 10], drop=1)]
    )
    assert "first to go" not in text
    assert "second" in text
    assert max(len(line) for line in text.splitlines()) <= 80


def test_paragraphs_hang_under_their_label() -> None:
    lines = paragraph("word " * 40, label="next  ").splitlines()
    assert lines[0].startswith("  next  word")
    assert all(line.startswith(" " * 8 + "word") for line in lines[1:])
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("width", [10, 11, 12, 25])
def test_shortened_text_keeps_its_end_and_its_width(width: int) -> None:
    text = shorten("some/very/long/path/kernel.c", width)
    assert len(text) <= width
    assert text.endswith("el.c")


def test_json_refuses_what_json_has_no_word_for() -> None:
    with pytest.raises(ValueError, match="Out of range"):
        print_json({"x": float("inf")})


def test_progress_is_silent_where_stderr_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress() as progress:
        progress("compiling")
    assert capsys.readouterr() == ("", "")
