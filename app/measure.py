"""`kforecast measure`: one kernel in full, several as one ranked table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ..store.errors import KforecastError
from .exits import EPILOG
from .launch_options import launch_options, read_launch
from .output import Progress, json_option, print_json

if TYPE_CHECKING:
    from ..tools.results import MeasureResult


@click.command("measure", epilog=EPILOG, short_help="Measure kernels.")
@click.argument("files", nargs=-1, required=True, metavar="FILES...")
@click.option("--baseline", "-b", metavar="KERNEL", help="seed (default), tuned, library, none, a file or a kernel id.")
@click.option("--task", metavar="NAME", help="The task, where the header names none; `kforecast tasks` lists them.")
@click.option("--device", "-d", metavar="NAME", help="Where to measure, e.g. cpu. Default: the language decides.")
@click.option(
    "--effort",
    "-e",
    type=click.Choice(["quick", "normal", "claim"]),
    help="How sure to get; claim repeats in fresh processes. Default: normal.",
)
@launch_options
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Deadline of one call.",
)
@click.option("--profile", is_flag=True, help="Note what the GPU's counters say of the kernel (Nsight Compute).")
@click.option("--no-broker", is_flag=True, help="Measure in this process instead of through the broker.")
@json_option
def measure_command(
    *,
    files: tuple[str, ...],
    baseline: str | None,
    task: str | None,
    device: str | None,
    effort: Any,
    timeout_s: float | None,
    profile: bool,
    no_broker: bool,
    as_json: bool,
    **launch: Any,
) -> int:
    """Measure kernels: is each right, how fast is it, and how much faster than the baseline?

    S is the baseline's time over the kernel's: above 1 is faster. Several files make one ranked table, in which kernels
    that cannot be told apart share a rank. A CUDA file with a main() and no kernel header is a program: it is run, and
    its kernels are timed, without a verdict.

    \b
      kforecast measure softmax.c
      kforecast measure softmax.c --baseline tuned --effort claim
      kforecast measure ideas/*.c --json
    """
    from ..bench.programs.source import is_program
    from ..tools.ahead import start_ahead
    from ..tools.config import load_config

    config = load_config()
    if any(is_program(file) for file in files):
        asked = {"baseline": baseline, "device": device, "timeout_s": timeout_s}
        return _measure_program(files, asked, {**launch, "task": task, "effort": effort}, as_json)
    if not no_broker:
        start_ahead(files, device or config.device)
    from ..tools.measure import measure, measure_many  # the broker starts meanwhile

    common: dict[str, Any] = {
        "baseline": baseline,
        "task": task,
        "device": device or config.device,
        "effort": effort or config.effort,
        **read_launch(launch),
        "timeout_s": timeout_s,
        "profile": profile,
        "use_broker": not no_broker,
    }
    with Progress() as progress:
        if len(files) == 1:
            result = measure(files[0], **common, on_progress=progress)
            results: list[MeasureResult | KforecastError] = [result]
        else:
            results = measure_many(files, **common, on_progress=progress)
    _print(results, files, as_json)
    return _exit_code(results)


def _measure_program(files: tuple[str, ...], asked: dict[str, Any], of_kernels: dict[str, Any], as_json: bool) -> int:
    """A file with a `main()` of its own. of_kernels: the options that only kernels have, besides `options`."""
    from ..store.errors import InputError
    from ..tools.programs import measure_program
    from .program_page import program_page

    if len(files) > 1:
        raise InputError(
            "programs are measured one at a time",
            value=", ".join(files),
            next_step="Name one program; `--baseline OTHER.cu` compares it with another.",
        )
    options = of_kernels.pop("options")
    given = [name for name, value in of_kernels.items() if value]
    if given:
        raise InputError(
            "a program has no kernel header, so some options mean nothing for it",
            value=", ".join(f"--{name.replace('settings', 'set').replace('arguments', 'args')}" for name in given),
            next_step="Leave them out, or give the kernel a file and a header of its own.",
        )
    with Progress() as progress:
        result = measure_program(files[0], **asked, options=options, on_progress=progress)
    if as_json:
        print_json(result.model_dump(mode="json"))
    else:
        click.echo(program_page(result))
    return 0 if result.run.outcome == "ran" else 1


def _print(results: list[MeasureResult | KforecastError], files: tuple[str, ...], as_json: bool) -> None:
    from ..tools.results import rank
    from .measure_page import measurement_page, ranking_page

    if len(results) == 1 and not isinstance(results[0], KforecastError):
        only = results[0]
        if as_json:
            print_json(only.model_dump(mode="json"))
        else:
            click.echo(measurement_page(only))
    elif as_json:
        ranked = rank(results)
        print_json({"results": [{"rank": row.rank, "file": files[row.index], **_plain(row.result)} for row in ranked]})
    else:
        click.echo(ranking_page(results, files))


def _plain(result: MeasureResult | KforecastError) -> dict[str, Any]:
    return result.as_dict() if isinstance(result, KforecastError) else result.model_dump(mode="json")


def _exit_code(results: list[MeasureResult | KforecastError]) -> int:
    """An error's own code first, since it hides a verdict; then 4 for unfinished work; then 1 for a bad verdict."""
    for result in results:
        if isinstance(result, KforecastError):
            return result.exit_code
    finished = [result for result in results if not isinstance(result, KforecastError)]
    if any(result.state != "completed" for result in finished):
        return 4
    return 0 if all(result.ok for result in finished) else 1
