"""Command lines that pages and messages tell people to type: each command and each flag of them exists."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from kforecast.app.main import COMMANDS, cli

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
MODULES = [
    path for room in ("store", "bench", "surrogate", "tools", "app") for path in sorted((ROOT / room).rglob("*.py"))
]
LINE = re.compile(r"kforecast (?:--debug )?([a-z][^`|#;\n\"]*)")
FLAG = re.compile(r"--?[A-Za-z][A-Za-z-]*")


def flags_of(words: list[str]) -> tuple[list[str], set[str]]:
    """The command that words begin with, and its flags."""
    command: click.Command = cli
    context = click.Context(cli)
    path: list[str] = []
    for word in words:
        inner = command.get_command(context, word) if isinstance(command, click.Group) else None
        if inner is None:
            break
        command, path = inner, [*path, word]
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    return path, {flag for option in options for flag in (*option.opts, *option.secondary_opts)} | {"--help", "-h"}


def unknown(text: str) -> list[str]:
    found = []
    for line in LINE.findall(text):
        words = line.split()
        if words[0] not in COMMANDS:
            continue
        path, flags = flags_of(words)
        given = [match.group().rstrip("-") for word in words[len(path) :] if (match := FLAG.match(word))]
        found += [f"kforecast {' '.join(path)} {flag}" for flag in given if flag not in flags]
    return found


def test_the_search_finds_what_is_wrong() -> None:
    assert unknown("run `kforecast search run a.c --budgets 5m -e quick`") == ["kforecast search run --budgets"]
    assert unknown("`kforecast doctor --device cuda:0`") == ["kforecast doctor --device"]


@pytest.mark.parametrize("path", [*PAGES, *MODULES], ids=lambda path: str(path.relative_to(ROOT)))
def test_every_flag_exists(path: Path) -> None:
    assert unknown(path.read_text(encoding="utf-8")) == []
