"""`kforecast audit`: what a kernel gives away about how it computes; what a measurement looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ..store.errors import KforecastError
from .exits import EPILOG
from .output import Progress, bold, dim, json_option, paragraph, print_json

if TYPE_CHECKING:
    from ..tools.audit import AuditResult, Finding

_LABEL = 14
_LINES_SHOWN = 4


@click.command("audit", epilog=EPILOG, short_help="How a kernel computes; what was checked.")
@click.argument("subjects", nargs=-1, required=True, metavar="FILES_OR_IDS...")
@click.option("--task", metavar="NAME", help="The task of a file without a kernel header.")
@click.option("--arch", metavar="ARCH", help="CUDA and Triton: the architecture to compile for. Default: sm_90.")
@click.option("--no-compile", is_flag=True, help="Look at the text alone.")
@json_option
def audit_command(
    *, subjects: tuple[str, ...], task: str | None, arch: str | None, no_compile: bool, as_json: bool
) -> int:
    """What kernels give away about how they compute: library calls, fallbacks, precision, state, sizes treated apart.

    It takes files, kernels k_..., measurements m_... and runs of programs x_...; of a measurement it also says what was
    checked, what held the kernel, and what was not defended. Findings are no verdicts: the exit code is 0 all the same.

    \b
      kforecast audit kernel.cu
      kforecast audit ideas/*.py --json
      kforecast audit m_4d43c9bf55efd9c3c1e9
    """
    from ..tools.audit import audit_many

    with Progress() as progress:
        answers = audit_many(subjects, task=task, arch=arch, compile_it=not no_compile, on_progress=progress)
    if len(answers) == 1 and isinstance(answers[0], KforecastError):
        raise answers[0]
    if as_json:
        plain = [{"subject": subject, **_plain(answer)} for subject, answer in zip(subjects, answers, strict=True)]
        print_json(plain[0] if len(plain) == 1 else {"results": plain})
    else:
        click.echo("\n\n".join(_page(subject, answer) for subject, answer in zip(subjects, answers, strict=True)))
    return next((answer.exit_code for answer in answers if isinstance(answer, KforecastError)), 0)


def _plain(answer: AuditResult | KforecastError) -> dict[str, Any]:
    return answer.as_dict() if isinstance(answer, KforecastError) else answer.model_dump(mode="json")


def _page(subject: str, answer: AuditResult | KforecastError) -> str:
    if isinstance(answer, KforecastError):
        return f"{bold(subject)}\n\n{paragraph(str(answer), label=click.style('error', fg='red') + '  ')}"
    about = [answer.task or "no task", answer.language, *([answer.precision] if answer.precision else [])]
    lines = [f"{bold(answer.name)}  {dim(', '.join(about))}", "", paragraph(answer.summary)]
    if answer.findings:
        lines += ["", *_findings(answer.findings)]
    for title, sentences in (("checked", answer.checked), ("not defended", answer.not_defended)):
        if sentences:
            lines += ["", *_sentences(title, sentences)]
    rows = [
        *(("note", note) for note in answer.notes),
        ("isolation", answer.isolation or ""),
        ("labels", ", ".join(answer.labels)),
        ("kernel", answer.kernel_id or ""),
        ("measurement", answer.measurement_id or ""),
    ]
    shown = [paragraph(text, label=label.ljust(_LABEL)) for label, text in rows if text]
    return "\n".join([*lines, *([""] if shown else []), *shown, "", paragraph(answer.next, label="next".ljust(_LABEL))])


def _findings(findings: tuple[Finding, ...]) -> list[str]:
    width = max(_LABEL, 2 + max(len(one.label) for one in findings))
    lines, told = [], ""
    for one in findings:
        label, told = ("" if one.label == told else one.label), one.label
        lines.append(paragraph(one.finding + _where(one.lines), label=label.ljust(width)))
    return lines


def _where(lines: tuple[int, ...]) -> str:
    if not lines:
        return ""
    shown = ", ".join(map(str, lines[:_LINES_SHOWN])) + (" .." if len(lines) > _LINES_SHOWN else "")
    return f" (line{'s' if len(lines) > 1 else ''} {shown})"


def _sentences(title: str, sentences: tuple[str, ...]) -> list[str]:
    return [paragraph(text, label=(title if not number else "").ljust(_LABEL)) for number, text in enumerate(sentences)]
