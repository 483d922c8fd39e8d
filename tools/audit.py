"""The use case `audit`: what a kernel's source and compiled code give away, and what a stored measurement looked at.

Findings are telemetry: they say how a kernel computes, and never that it is wrong or cheats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from ..bench.header.block import find_header
from ..bench.header.files import language_of_file, read_includes, read_source
from ..bench.labels import Label, kernel_labels, labels
from ..store import kernels, measurements, programs, tasks
from ..store.database import Store
from ..store.errors import InputError, KforecastError
from ..store.models import Facts, Kernel, Language, Task
from .checked import checked, not_defended
from .facts import DEFAULT_ARCH, facts_of
from .kernels import Asked, find_kernel, load_file, task_named

Progress = Callable[[str], None]


class Finding(BaseModel):
    """What was found, once for all lines of the source where it was. policy: it is a label of measurements too."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    label: str
    finding: str
    lines: tuple[int, ...]
    policy: bool


class AuditResult(BaseModel):
    """Findings about one kernel, program or measurement. The last four are of measurements only."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    summary: str
    name: str
    language: Language
    task: str | None
    precision: str | None
    kernel_id: str | None
    findings: tuple[Finding, ...]
    labels: tuple[str, ...]
    notes: tuple[str, ...]
    measurement_id: str | None = None
    verdict: str | None = None
    checked: tuple[str, ...] = ()
    isolation: str | None = None
    not_defended: tuple[str, ...] = ()
    next: str


def audit(
    subject: str,
    *,
    task: str | None = None,
    compile_it: bool = True,
    arch: str | None = None,
    store: Store | None = None,
) -> AuditResult:
    """What can be said of a file, a kernel `k_…`, a measurement `m_…` or a program's run `x_…` without running it.

    task: for a file without a kernel header, whose precision policy and sizes then count. compile_it: False looks at
    the text alone. arch: CUDA and Triton. Raises InputError, StoreError. What does not compile is still looked at.
    """
    if subject.startswith(("k_", "m_", "x_")) and not Path(subject).exists():
        opened = store or Store.open_readonly()
        try:
            return _stored(opened, subject, compile_it, arch)
        finally:
            if store is None:
                opened.close()
    path = Path(subject)
    source, language = read_source(path), language_of_file(path)
    if find_header(source, language) is not None:
        named = load_file(path, Asked(task))
        return _of_kernel(named.called, named.kernel, named.task, compile_it, arch)
    chosen = None if task is None else task_named(task)
    found = [*labels(source, language, None, chosen)]
    for text in read_includes(source, (), path.parent).values() if language in ("c", "cuda") else ():
        found += labels(text, language, None, chosen)
    notes = ["it has no kernel header: only its text was looked at"]
    if chosen is None:
        notes.append("without a task nothing is said of precision and of sizes; --task names one")
    return _result(subject, language, chosen, None, found, notes)


def audit_many(
    subjects: Sequence[str], *, on_progress: Progress = lambda text: None, **same: object
) -> list[AuditResult | KforecastError]:
    """`audit` of several, in input order; what is wrong with one does not keep the others from answering."""
    answers: list[AuditResult | KforecastError] = []
    for number, subject in enumerate(subjects, 1):
        on_progress(f"{number} of {len(subjects)}: {subject}")
        try:
            answers.append(audit(subject, **same))  # type: ignore[arg-type]  # the keywords of audit
        except KforecastError as error:
            answers.append(error)
    return answers


def _stored(store: Store, subject: str, compile_it: bool, arch: str | None) -> AuditResult:
    if subject.startswith("k_"):
        named = find_kernel(store, subject)
        return _of_kernel(named.called, named.kernel, named.task, compile_it, arch)
    if subject.startswith("x_"):
        return _of_run(store, subject)
    measurement = measurements.get(store, subject)
    if measurement is None:
        step = "`kforecast status` lists the last ones with their ids."
        raise InputError("no measurement has this id", value=subject, next_step=step)
    kernel, task = kernels.get(store, measurement.kernel_id), tasks.get(store, measurement.task_id)
    assert kernel is not None and task is not None, "measurements refer to kernels and tasks that are there"
    found = _result(
        kernel.name, kernel.language, task, kernel.id, kernel_labels(kernel, measurement.facts, task), measurement.notes
    )
    level = measurement.isolation or "nothing: it was not run"
    quarantine = () if measurement.quarantine is None else (f"in quarantine: {measurement.quarantine}",)
    return found.model_copy(
        update={
            "summary": f"{kernel.name} was measured on {measurement.device}: {measurement.verdict}. {found.summary}",
            "labels": measurement.labels,
            "notes": (*quarantine, *found.notes),
            "measurement_id": measurement.id,
            "verdict": measurement.verdict,
            "checked": checked(measurement, task),
            "isolation": level,
            "not_defended": not_defended(measurement),
            "next": "What each defence holds, and what none does, is in docs/trust.md.",
        }
    )


def _of_run(store: Store, subject: str) -> AuditResult:
    run = programs.get(store, subject)
    if run is None:
        step = "`kforecast measure program.cu` prints it; `program_runs` in the store has them all."
        raise InputError("no run of a program has this id", value=subject, next_step=step)
    found = _result(run.name, "cuda", None, None, labels(run.source, "cuda"), run.notes)
    return found.model_copy(
        update={
            "summary": f"{run.name} is a program; on {run.device} it ended with {run.outcome}. {found.summary}",
            "checked": ("nothing: nobody said what it should compute",),
            "isolation": run.isolation or "nothing: it was not run",
            "not_defended": ("its kernels were timed inside its own process: the times are what it lets them be",),
            "next": "To have a kernel checked, give it a file and a kernel header of its own.",
        }
    )


def _of_kernel(called: str, kernel: Kernel, task: Task, compile_it: bool, arch: str | None) -> AuditResult:
    facts: Facts | None = None
    notes = []
    if compile_it:
        try:
            facts = _compiled(kernel, task, arch)
            if not facts.ok:
                notes.append(f"it does not compile, so only its text was looked at: {_first_line(facts.error)}")
        except KforecastError as error:
            notes.append(f"only its text was looked at: {error.what}")
    else:
        notes.append("it was not compiled: only its text was looked at")
    return _result(called, kernel.language, task, kernel.id, kernel_labels(kernel, facts, task), notes)


def _compiled(kernel: Kernel, task: Task, arch: str | None) -> Facts:
    """Facts of a kernel, without what only a device's launches tell."""
    if kernel.language == "cuda":
        from ..bench.languages.cuda.compile import compile_cuda

        return compile_cuda(kernel, arch=arch or DEFAULT_ARCH).facts
    return facts_of(kernel, task, arch)[0]


def _result(
    name: str,
    language: Language,
    task: Task | None,
    kernel_id: str | None,
    found: Iterable[Label],
    notes: Iterable[str],
) -> AuditResult:
    findings = _grouped(found)
    policy = tuple(dict.fromkeys(one.label for one in findings if one.policy))
    precision = None
    if task is not None:
        wanted = task.precision
        precision = "exact" if wanted is None else f"products {wanted.multiply}, sums {wanted.accumulate}"
    return AuditResult(
        summary=_summary(findings),
        name=name,
        language=language,
        task=None if task is None else task.name,
        precision=precision,
        kernel_id=kernel_id,
        findings=findings,
        labels=policy,
        notes=tuple(notes),
        next="Measure it: only what it does decides whether it is right and fast.",
    )


def _grouped(found: Iterable[Label]) -> tuple[Finding, ...]:
    groups: dict[tuple[str, str, bool], list[int]] = {}
    for label in found:
        groups.setdefault((label.name, label.finding, label.policy), []).extend([label.line] if label.line else [])
    return tuple(
        Finding(label=name, finding=text, lines=tuple(sorted(set(lines))), policy=policy)
        for (name, text, policy), lines in groups.items()
    )


def _summary(findings: Sequence[Finding]) -> str:
    names = list(dict.fromkeys(one.label for one in findings))
    return f"Noted: {', '.join(names)}." if names else "Nothing to note."


def _first_line(text: str | None) -> str:
    return next((line.strip() for line in (text or "").splitlines() if line.strip()), "the compiler says no more")
