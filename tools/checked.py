"""A stored measurement in words: what was checked, what held the kernel, and what was not defended."""

from __future__ import annotations

from ..store.models import Measurement, Task

_UNCHECKED = frozenset({"compile_error", "launch_error", "unsupported"})


def checked(measurement: Measurement, task: Task) -> tuple[str, ...]:
    """What this measurement looked at, a sentence each. One that ended early says so first."""
    gpu = measurement.device.startswith("cuda")
    timed = task.timed_on("cuda" if gpu else "cpu")
    if measurement.verdict in _UNCHECKED:
        return (f"nothing was run: its verdict is {measurement.verdict}",)
    lines = []
    if measurement.verdict != "ok":
        lines.append(f"it ended with {measurement.verdict}: what follows was begun, not finished")
    what = "bit by bit" if task.precision is None else f"at the declared precision, {_precision(task)}"
    lines += [
        f"{len(task.checked)} checked cases, each twice at the same addresses with other contents",
        f"{len(timed)} timed {'case' if len(timed) == 1 else 'cases'}; the outputs of every timed call were compared",
        f"every element against float64 references from another process, {what}",
        "inputs from a fresh secret seed; outputs poisoned before each call; red zones behind every tensor",
    ]
    if measurement.blocks:
        against = "in turns with the baseline" if measurement.baseline_id else "alone"
        lines.append(f"{measurement.blocks} blocks of samples, {against}, on {_clock(gpu)}")
    if gpu:
        lines.append(
            "slots of no call between those that were called stayed as they were; the last inputs were compared"
        )
        if "stateful" in measurement.labels:
            lines.append("its device variables were set back before every timed sample, one launch a sample")
    if measurement.percent_of_floor is not None:
        lines.append(
            f"its time is above the floor: {measurement.percent_of_floor:.0f}% of the speed nothing can exceed"
        )
    elif measurement.verdict == "ok":
        lines.append("no floor is known for it here: a time that is too good would not be noticed")
    return tuple(lines)


def not_defended(measurement: Measurement) -> tuple[str, ...]:
    """What could have gone unnoticed at the level of isolation that was reached, a sentence each."""
    lines = ["a right answer on the checked and the timed cases alone: other sizes were not tried"]
    if measurement.device.startswith("cuda"):
        lines += [
            "device code shares the launcher's address space: it can read inputs of calls to come",
            "within one sample of several launches a kernel can keep what it computed",
        ]
    else:
        lines.append("the warm time: a warm call reads the inputs of the cold one before it")
        if "host-limited" in measurement.labels:
            lines.append("early answers: times this short leave room for some microseconds of overlap")
        if measurement.isolation.startswith("process"):
            lines.append("your files and your network: nothing held the kernel's process but limits and deadlines")
    return tuple(lines)


def _precision(task: Task) -> str:
    assert task.precision is not None
    return f"products {task.precision.multiply}, sums {task.precision.accumulate}"


def _clock(gpu: bool) -> str:
    return "the device's clock" if gpu else "the parent's clock"
