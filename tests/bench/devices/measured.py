"""Measuring a kernel file in this process, for the tests of the devices."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from kforecast.bench.faults import KernelFault
from kforecast.bench.header.signature import signatures
from kforecast.bench.lane import Lane, Program
from kforecast.bench.measuring import Job, measure
from kforecast.store.models import Effort, Measurement, Task
from kforecast.tools.kernels import Asked, Named, load_file


def measured(
    path: Path | str,
    lane: Lane,
    *,
    baseline: Path | str | None = None,
    effort: Effort = "quick",
    deadline_s: float = 3.0,
    settings: dict[str, int] | None = None,
) -> Measurement:
    """The measurement of a file on a lane, against `baseline` if given. The caller owns the device."""
    candidate = load_file(path, Asked(settings=settings))
    against: Named | None = None if baseline is None else load_file(baseline, Asked())
    job = Job(
        candidate.task,
        candidate.kernel,
        None if against is None else against.kernel,
        effort,
        call_deadline_s=deadline_s,
    )
    return measure(job, lane, device_lock=nullcontext)


def judged(
    path: Path | str, lane: Lane, *, deadline_s: float = 3.0, of_task: Callable[[Task], Task] = lambda task: task
) -> tuple[str, str]:
    """Verdict and reason as `measured` gives them, from the checks and one block, with the task that `of_task` makes of
    the file's: what a measurement adds is more blocks.
    """
    named = load_file(path, Asked())
    parsed = signatures(named.kernel.source, named.kernel.language, named.kernel.includes)
    task = of_task(named.task)
    build = lane.compile(named.kernel, parsed, task)
    if not build.ok:
        return "compile_error", build.facts.error or ""
    try:
        with lane.session(task, call_deadline_s=deadline_s, cancelled=lambda: False) as session:
            session.add("candidate", Program(named.kernel, parsed, build))
            mismatch = session.check("candidate", task.checked, lambda text: None)
            mismatch = mismatch or session.prepare("candidate", lambda text: None)
            if mismatch is not None:
                return "incorrect", mismatch.explanation
            session.blocks(["BB"], 0, 0, 1)
    except KernelFault as fault:
        return fault.verdict, fault.reason
    return "ok", ""


def expectation(path: Path) -> set[str]:
    """The verdicts that an exhibit's second comment allows: `expect: VERDICT[|VERDICT]: why`."""
    line = next(line for line in path.read_text().splitlines() if "expect:" in line)
    return set(line.split("expect:")[1].split(":")[0].strip().split("|"))
