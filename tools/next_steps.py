"""What to do after a measurement, in a sentence or two: by how it ended, what effort it took, how quiet it was."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..store.models import Comparison, Measurement, Verdict
from .probes import is_busy


def next_step(measurement: Measurement) -> str:
    """What to do now. It never asks for what was just done."""
    if measurement.verdict != "ok":
        return _AFTER_FAILURE[measurement.verdict]
    if measurement.quarantine is not None:
        return "Measure again; if it repeats, look for work that the kernel skips. Only a person clears a quarantine."
    return _AFTER_OK[measurement.comparison](measurement)


def _after_win(measurement: Measurement) -> str:
    onward = f"Measure the next idea against it: {_as_baseline(measurement)}."
    if measurement.effort == "claim":
        return f"The win held in fresh processes. {onward}"
    return f"{onward} Before you publish the win, use effort claim."


def _after_loss(measurement: Measurement) -> str:
    """Of a parallel kernel that lost where other work held the cores, that may be why."""
    busy = _load(measurement)
    if "openmp" in measurement.labels and busy:
        return (
            f"It runs in parallel, and other work held the cores ({busy}), so its threads waited for each other: judge "
            "it on a quiet machine, or go on without threads."
        )
    return "Drop this idea, or find what it costs: compare the facts of both kernels."


def _after_tie(measurement: Measurement) -> str:
    del measurement  # how a tie was found changes nothing
    return "Keep whichever is simpler; the next idea has to change more."


def _without_ratio(measurement: Measurement) -> str:
    if measurement.baseline_id is not None:
        return "Measure again: no sample of both sides was complete, so there is no ratio."
    onward = _as_baseline(measurement)
    return f"For a ratio give a baseline; the next kernel can be compared with this one: {onward}."


def _as_baseline(measurement: Measurement) -> str:
    return f"baseline {measurement.kernel_id}"


def _after_unclear(measurement: Measurement) -> str:
    quiet = _quieter(measurement)
    low, high = measurement.log2_low, measurement.log2_high
    sided = (low is not None and low > 0) or (high is not None and high < 0)
    if measurement.effort == "claim":
        if sided:
            return (
                f"Its processes do not agree on a win, so it is none yet: try another idea, or claim it again {quiet}."
            )
        return f"They cannot be told apart here and now: keep whichever is simpler, or measure again {quiet}."
    if sided:
        return f"Measure again {quiet}: too many samples were disturbed to believe this ratio."
    more = "normal" if measurement.effort == "quick" else "claim"
    when = f", {quiet}" if _load(measurement) else ""
    return f"Measure again with effort {more}{when}: the interval holds both directions."


def _quieter(measurement: Measurement) -> str:
    """When to measure again: with what is known of why the machine was not quiet."""
    busy = _load(measurement)
    return f"once other work has left this machine ({busy})" if busy else "on a quieter machine"


def _load(measurement: Measurement) -> str:
    """`load 7.9 on 2 cores` where the machine was busy when the measurement began; else, or if unknown, empty."""
    before, cores = measurement.environment.get("before"), measurement.environment.get("cores")
    load = before.get("load_1m") if isinstance(before, Mapping) else None
    if not isinstance(load, int | float) or not isinstance(cores, int) or not is_busy(load, cores):
        return ""
    return f"load {load:.1f} on {cores} core{'' if cores == 1 else 's'}"


_AFTER_OK: dict[Comparison, Callable[[Measurement], str]] = {
    "faster": _after_win,
    "slower": _after_loss,
    "tie": _after_tie,
    "unclear": _after_unclear,
    "none": _without_ratio,
}

_AFTER_FAILURE: dict[Verdict, str] = {
    "compile_error": "Fix the first error in the diagnostics, then measure again.",
    "launch_error": "Check the launch in the kernel header: grid, block, dynamic shared memory, arguments.",
    "incorrect": "Fix the mismatch, then measure again; speed means nothing before that.",
    "timeout": "Look for an endless loop or a wait that nobody ends; for a slow but finite kernel raise the deadline.",
    "crashed": "Check the index arithmetic, above all in the last tile and for sizes that the tile does not divide.",
    "tampered": "Remove whatever reaches outside the kernel's own outputs, then measure again.",
    "impossible": "Look for work that the kernel skips: no machine of this kind computes the task in that time.",
    "unsupported": "See the reason for what is missing, and `kforecast doctor` for what this machine has.",
}
