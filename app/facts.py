"""`kforecast facts`: what is known of a kernel without running it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ..store.errors import KforecastError
from .exits import EPILOG
from .launch_options import launch_options, read_launch
from .output import Column, Progress, bold, dim, json_option, paragraph, print_json, shorten, table

if TYPE_CHECKING:
    from ..tools.facts import FactsResult

_LABEL = 14
_MIX_SHOWN = 8


@click.command("facts", epilog=EPILOG, short_help="What is known without running.")
@click.argument("files", nargs=-1, required=True, metavar="FILES...")
@click.option("--arch", metavar="ARCH", help="CUDA and Triton: the architecture to compile for. Default: sm_90.")
@click.option("--task", metavar="NAME", help="The task, where the header names none.")
@launch_options
@json_option
def facts_command(*, files: tuple[str, ...], arch: str | None, task: str | None, as_json: bool, **launch: Any) -> int:
    """What is known of a kernel without running it: compile verdict, registers, spills, shared memory, occupancy.

    Needs no GPU. CUDA kernels need NVRTC (pip install 'kforecast[cuda-compile]'), Triton files 'kforecast[triton]'.

    \b
      kforecast facts kernel.cu --arch sm_90
      kforecast facts ideas/*.cu --json
    """
    from ..tools.facts import facts_many

    common = read_launch(launch)
    with Progress() as progress:
        answers = facts_many(files, task=task, arch=arch, **common, on_progress=progress)
    if len(answers) == 1 and isinstance(answers[0], KforecastError):
        raise answers[0]
    if as_json:
        plain = [{"file": file, **_plain(answer)} for file, answer in zip(files, answers, strict=True)]
        print_json(plain[0] if len(plain) == 1 else {"results": plain})
    elif len(answers) == 1 and not isinstance(answers[0], KforecastError):
        click.echo(_page(answers[0]))
    else:
        click.echo(_table(files, answers))
    errors = [answer.exit_code for answer in answers if isinstance(answer, KforecastError)]
    if errors:
        return errors[0]
    return 0 if all(not isinstance(answer, KforecastError) and answer.ok for answer in answers) else 1


def _plain(answer: FactsResult | KforecastError) -> dict[str, Any]:
    return answer.as_dict() if isinstance(answer, KforecastError) else answer.model_dump(mode="json")


def _page(answer: FactsResult) -> str:
    word = (
        click.style("compiles", fg="green", bold=True)
        if answer.ok
        else click.style("compile error", fg="red", bold=True)
    )
    lines = [
        f"{bold(answer.name)}  {dim(f'{answer.task}, {answer.language} for {answer.arch}, {answer.toolchain}')}",
        "",
    ]
    lines.append(f"  {word}" + ("" if answer.ok else f"  {answer.error}"))
    if answer.diagnostics:
        lines += ["", *(f"  | {line}".rstrip() for line in answer.diagnostics.rstrip().splitlines()[:40])]
    if answer.ok and any(entry.registers is not None for entry in answer.entries):
        lines += ["", _entries(answer)]
    rows = [
        ("code", "" if answer.code_bytes is None else f"{answer.code_bytes:,} bytes"),
        ("compiled in", "" if answer.compile_ms is None else f"{answer.compile_ms:.0f} ms"),
        ("instructions", _mix(answer.instruction_mix)),
        ("labels", ", ".join(answer.labels)),
        ("kernel", answer.kernel_id),
    ]
    lines += ["", *(paragraph(text, label=label.ljust(_LABEL)) for label, text in rows if text)]
    for warning in answer.warnings:
        lines += ["", *(f"  | {line}".rstrip() for line in warning.splitlines()[:20])]
    return "\n".join([*lines, "", paragraph(answer.next, label="next".ljust(_LABEL))])


def _entries(answer: FactsResult) -> str:
    entries = answer.entries
    return table(
        [
            Column("entry", [shorten(entry.entry, 30) for entry in entries]),
            Column("registers", [_number(entry.registers) for entry in entries], right=True),
            Column("spills", [_bytes(entry.spill_bytes) for entry in entries], right=True),
            Column("shared", [_bytes(entry.shared_bytes) for entry in entries], right=True),
            Column("local", [_bytes(entry.local_bytes) for entry in entries], right=True, drop=1),
            Column("occupancy", ["" if e.occupancy is None else f"{e.occupancy:.0%}" for e in entries], right=True),
        ]
    )


def _table(files: tuple[str, ...], answers: list[FactsResult | KforecastError]) -> str:
    rows = list(zip(files, answers, strict=True))
    good = [(file, a) for file, a in rows if not isinstance(a, KforecastError) and a.ok]
    blocks = []
    if good:
        blocks.append(
            table(
                [
                    Column("kernel", [shorten(file, 32) for file, _ in good]),
                    Column("registers", [_worst(a, "registers") for _, a in good], right=True),
                    Column("spills", [_worst(a, "spill_bytes") for _, a in good], right=True),
                    Column("shared", [_worst(a, "shared_bytes") for _, a in good], right=True),
                    Column("code", [_number(a.code_bytes) for _, a in good], right=True),
                    Column("kernel id", [a.kernel_id for _, a in good], drop=1),
                ]
            )
        )
    for file, answer in rows:
        if isinstance(answer, KforecastError):
            blocks.append(
                f"  {shorten(file, 40)}  {click.style('error', fg='red')}\n{paragraph(str(answer), indent=4)}"
            )
        elif not answer.ok:
            text = paragraph(answer.error or "", indent=4)
            blocks.append(f"  {shorten(file, 40)}  {click.style('compile error', fg='red')}\n{text}")
    return "\n\n".join(blocks)


def _worst(answer: FactsResult, field: str) -> str:
    values = [value for entry in answer.entries if (value := getattr(entry, field)) is not None]
    return _number(max(values, default=None))


def _mix(mix: dict[str, int]) -> str:
    most = sorted(mix.items(), key=lambda item: -item[1])[:_MIX_SHOWN]
    more = len(mix) - len(most)
    return ", ".join(f"{count} {name}" for name, count in most) + (f", {more} other kinds" if more > 0 else "")


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _bytes(value: int | None) -> str:
    return "" if value is None else f"{value:,} B"
