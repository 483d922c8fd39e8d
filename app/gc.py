"""`kforecast gc`: forget what is old and needed by nothing."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from ..store.errors import InputError
from .exits import EPILOG
from .output import Column, dim, json_option, paragraph, print_json, table

if TYPE_CHECKING:
    from ..tools.gc import Collected

_UNITS = {"h": "hours", "d": "days", "w": "weeks"}
_LONGEST_DAYS = 36_500


@click.command("gc", epilog=EPILOG, short_help="Forget what is old and needed by nothing.")
@click.option("--older-than", default="90d", show_default=True, metavar="AGE", help="E.g. 12h, 30d, 8w.")
@click.option("--dry-run", is_flag=True, help="Say what would go, and touch nothing.")
@json_option
def gc_command(*, older_than: str, dry_run: bool, as_json: bool) -> None:
    """Drop old rows that nothing needs, give their space back, and clear compiled kernels that nobody used since.

    Kept whatever their age: searches with all they refer to, forecasts that were verified and what verified them, the
    newest readings of every kernel, what is in quarantine, and what still runs.
    """
    from ..tools.gc import collect

    found = collect(older_than=age_of(older_than), dry_run=dry_run, on_progress=_progress())
    if as_json:
        print_json(found.model_dump(mode="json"))
    else:
        click.echo(gc_page(found))


def age_of(text: str) -> timedelta:
    """`90d` as a time span. Raises InputError."""
    found = re.fullmatch(r"(\d{1,6})\s*([hdw])", text.strip().lower())
    age = timedelta(**{_UNITS[found[2]]: int(found[1])}) if found else None
    if age is None or age.days > _LONGEST_DAYS:
        raise InputError("this is no age", value=text, next_step="Write it as 12h, 30d or 8w.")
    return age


def gc_page(found: Collected) -> str:
    """What went, for people."""
    names = [name for name, count in found.rows.items() if count]
    lines = [paragraph(found.summary)]
    if names:
        counts = [f"{found.rows[name]:,}" for name in names]
        lines.append(table([Column("table", names), Column("rows", counts, right=True)]))
    word = "would free" if found.dry_run else "freed"
    saved = found.row_bytes if found.dry_run else max(0, found.store_bytes_before - found.store_bytes_after)
    about = "about " if found.dry_run else ""
    lines.append(f"  store  {about}{size_text(saved)} of {size_text(found.store_bytes_before)} {word}")
    if found.cache_entries:
        lines.append(f"  cache  {size_text(found.cache_bytes)} {word} in {found.cache_entries:,} entries")
    if found.logs:
        lines.append(f"  logs   {size_text(found.log_bytes)} {word} in {found.logs:,} worker logs")
    return "\n".join([*lines, dim(f"  {found.store}")])


def size_text(count: int) -> str:
    """Bytes in the unit that fits: `812 B`, `4.1 MiB`."""
    value = float(count)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"


def _progress() -> Callable[[str], None]:
    if not sys.stderr.isatty():
        return lambda text: None
    return lambda text: click.echo(dim(f"  {text}"), err=True)
