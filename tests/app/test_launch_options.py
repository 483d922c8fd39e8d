from __future__ import annotations

import pytest

from kforecast.app.launch_options import split_list


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (None, ()),
        ("x, y, R, C", ("x", "y", "R", "C")),
        ("cdiv(N, 256), M", ("cdiv(N, 256)", "M")),
        ("max(1, cdiv(N, 2))", ("max(1, cdiv(N, 2))",)),
        ("256", ("256",)),
    ],
)
def test_lists_split_at_their_own_commas_only(text: str | None, parts: tuple[str, ...]) -> None:
    assert split_list(text) == parts
