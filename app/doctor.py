"""`kforecast doctor`: what this machine has, what is missing, what to do about it."""

from __future__ import annotations

from itertools import groupby

import click

from .exits import EPILOG
from .output import Progress, bold, dim, json_option, paragraph, print_json

_MARKS = {"ok": ("ok", "green"), "note": ("--", "yellow"), "problem": ("!!", "red")}


@click.command("doctor", epilog=EPILOG, short_help="What this machine has.")
@click.option("--profile", is_flag=True, help="First measure each GPU's profile and store it; a few seconds each.")
@json_option
def doctor_command(profile: bool, as_json: bool) -> int:
    """What this machine has, what is missing, and what to do about it. Reads only, but for --profile.

    Marks: ok; -- works without it, or worth knowing; !! something will fail. Exits with 4 where there is a !!.
    """
    from ..tools.doctor import doctor

    if profile:
        _measure_profiles()
    report = doctor()
    if as_json:
        print_json(report.model_dump(mode="json"))
        return 0 if report.ok else 4
    for group, checks in groupby(report.checks, key=lambda check: check.group):
        click.echo(bold(group))
        for check in checks:
            mark, colour = _MARKS[check.state]
            line = paragraph(check.value, label=f"{mark}  {check.name.ljust(16)}  ")
            click.echo(line.replace(mark, click.style(mark, fg=colour), 1))
            if check.next and check.state != "ok":
                click.echo(dim(paragraph(check.next, indent=24)))
        click.echo()
    usable = ", ".join(report.usable_devices) or "none"
    click.echo(f"devices that can measure now: {bold(usable)}")
    return 0 if report.ok else 4


def _measure_profiles() -> None:
    """Measure and store the profile of every GPU; where there is none, the error says so."""
    from ..store.database import Store
    from ..tools.probes import gpus
    from ..tools.profile import profile_device

    with Store.open() as store, Progress() as progress:
        for device in [f"cuda:{gpu.index}" for gpu in gpus()] or ["cuda:0"]:
            profile_device(device, store, progress)
