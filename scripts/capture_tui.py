"""What the pages of `kforecast tui` look like: the demo's recording is played for a while, held, and captured.

usage: python scripts/capture_tui.py FOLDER [--after SECONDS] [--size 130x40]     writes FOLDER/PAGE.svg and PAGE.txt
The text files are of 80x24.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import tempfile
import time
from pathlib import Path

from kforecast.app.tui.app import Viewer
from kforecast.app.tui.pages import PAGES
from kforecast.tools.demo.player import Player
from kforecast.tools.demo.recording import SHIPPED, read

SPEED = 8.0
KEYS = {"search": ("f",), "kernels": ("j",)}
"""What is pressed on a page before it is captured."""


async def capture(store: Path, search: str, folder: Path, size: tuple[int, int], kind: str) -> None:
    """Capture every page at one size as `svg` or `txt`."""
    app = Viewer(store, first=search)
    async with app.run_test(size=size) as pilot:
        for number, page in enumerate(PAGES, start=1):
            await pilot.press(str(number))
            await pilot.pause(2.5)
            for key in KEYS.get(page.name, ()):
                await pilot.press(key)
                await pilot.pause(1.0)
            svg = app.export_screenshot(title=f"kforecast tui: {page.title}")
            path = folder / f"{page.name}.{kind}"
            path.write_text(svg if kind == "svg" else as_text(svg), encoding="utf-8")
            print(path)


def as_text(svg: str) -> str:
    """The lines of a capture."""
    rows: dict[float, list[tuple[float, str]]] = {}
    for x, y, text in re.findall(
        r'<text class="[^"]*-r\d+" x="([\d.]+)" y="([\d.]+)"[^>]*>(.*?)</text>', svg, re.DOTALL
    ):
        rows.setdefault(float(y), []).append((float(x), text))
    lines = []
    for _, parts in sorted(rows.items()):
        line = ""
        for x, text in sorted(parts):
            line = line.ljust(round(x / CELL)) + unescaped(text)
        lines.append(line.rstrip())
    return "\n".join(lines) + "\n"


CELL = 12.2
"""Width of a column in Textual's SVG."""


def unescaped(text: str) -> str:
    """The text of an SVG element."""
    for entity, letter in (("&#160;", " "), ("&lt;", "<"), ("&gt;", ">"), ("&#x27;", "'"), ("&quot;", '"')):
        text = text.replace(entity, letter)
    return re.sub(r"&#(\d+);", lambda match: chr(int(match[1])), text).replace("&amp;", "&")


def main() -> None:
    """Play, hold, capture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--after", type=float, default=7.0)
    parser.add_argument("--size", default="130x40")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    width, height = (int(part) for part in given.size.split("x"))
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "kforecast.db"
        with Player(read(SHIPPED), store, speed=SPEED) as player:
            search = player.prepare()
            player.start()
            time.sleep(given.after)
            player.paused = True
            asyncio.run(capture(store, search, given.folder, (width, height), "svg"))
            asyncio.run(capture(store, search, given.folder, (80, 24), "txt"))


if __name__ == "__main__":
    main()
