"""The options that describe a kernel's launch and build, for every command that takes kernel files."""

from __future__ import annotations

from typing import Any

import click

from .output import Command

_BARE = "For a file without a kernel header"
_OPTIONS = (
    click.option(
        "--set", "settings", metavar="NAME=VALUE", multiple=True, help="Set a tunable of the header; repeatable."
    ),
    click.option(
        "--option", "options", metavar="FLAG", multiple=True, help="A compiler option, e.g. -ffast-math; repeatable."
    ),
    click.option("--entry", metavar="NAME", help=f"{_BARE}: the function to call."),
    click.option("--args", "arguments", metavar="LIST", help="Likewise: its arguments in order, e.g. 'x, y, R, C'."),
    click.option("--grid", metavar="LIST", help="Likewise, CUDA: blocks in x, y, z, e.g. 'cdiv(N, 256)'."),
    click.option("--block", metavar="LIST", help="Likewise, CUDA: threads in x, y, z."),
    click.option("--smem", metavar="BYTES", help="Likewise, CUDA: dynamic shared memory."),
    click.option("--override", is_flag=True, help="Let task and launch given here win over the file's header."),
)


def launch_options(command: Command) -> Command:
    """Add the options to a command; `read_launch` turns what they hold into keyword arguments of the tools."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def read_launch(given: dict[str, Any]) -> dict[str, Any]:
    """`geometry`, `settings`, `override` and `options` as the tools take them. Raises InputError for a bad setting."""
    from ..bench.header.configure import parse_settings
    from ..bench.header.geometry import Geometry

    geometry = Geometry(
        entry=given["entry"],
        args=split_list(given["arguments"]),
        grid=split_list(given["grid"]),
        block=split_list(given["block"]),
        smem=given["smem"],
    )
    return {
        "geometry": geometry or None,
        "settings": parse_settings(given["settings"]) or None,
        "override": given["override"],
        "options": given["options"],
    }


def split_list(text: str | None) -> tuple[str, ...]:
    """The parts between top-level commas: `cdiv(N, 256), M` is two. Empty for None."""
    if text is None:
        return ()
    parts, depth, start = [], 0, 0
    for index, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    return tuple(part.strip() for part in [*parts, text[start:]])
