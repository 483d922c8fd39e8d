"""Measuring a kernel file in this process, for the tests of the devices."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

from kforecast.bench.lane import Lane
from kforecast.bench.measuring import Job, measure
from kforecast.store.models import Effort, Measurement
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


def expectation(path: Path) -> set[str]:
    """The verdicts that an exhibit's second comment allows: `expect: VERDICT[|VERDICT]: why`."""
    line = next(line for line in path.read_text().splitlines() if "expect:" in line)
    return set(line.split("expect:")[1].split(":")[0].strip().split("|"))
