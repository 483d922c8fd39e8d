"""What is wrong with a store is told in full above the keys, on a terminal of any size."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kforecast.app.tui.app import Viewer
from kforecast.store.database import Store


@pytest.mark.parametrize("size", [(80, 24), (200, 30)])
def test_the_whole_notice_is_seen_and_goes_again(tmp_path: Path, size: tuple[int, int]) -> None:
    path = tmp_path / "k.db"
    Store.open(path).close()

    def seen(app: Viewer) -> str:
        strips = app.screen._compositor.render_strips()
        return " ".join(" ".join("".join(segment.text for segment in strip) for strip in strips).split())

    async def run() -> None:
        app = Viewer(path)
        async with app.run_test(size=size) as pilot:
            for away in (True, False):
                path.rename(tmp_path / "aside.db") if away else (tmp_path / "aside.db").rename(path)
                for _ in range(300):
                    await pilot.pause(0.02)
                    if ("Measure something first: `kforecast measure FILE`." in seen(app)) == away:
                        break
                else:
                    raise AssertionError(seen(app))
                assert "Quit" in seen(app)

    asyncio.run(run())
