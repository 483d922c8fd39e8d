"""The published rows of "GPU Forecasters" (arXiv 2605.31464), binned anew from the raw speedup.

Three files of pairs (evaluation set, training pool, discovery pairs) and one of forecasts, as JSON lines. The bins they
carry are not read: its code computes them as floor(2 · log2 S) + 4, one bin lower than the table its models were shown
for almost every S between 0.25 and 2.83. The forecasts answer the table shown: their probabilities are read as given.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..store.bins import BINS
from ..store.errors import InputError
from ..store.exchange import read_lines
from ..store.models import Kernel, Language
from .contract import Reply
from .metrics.rows import Truth
from .reply import ReplyError, reply_from

_PAIR_FIELDS: tuple[tuple[str, str, str, str, str], ...] = (
    ("comparison_id", "pack", "anchor_code", "candidate_code", "aggregated_speedup"),
    ("row_id", "pack", "anchor_code", "candidate_code", "aggregated_speedup"),
    ("pair_id", "problem_id", "parent_code", "child_code", "g_speedup"),
)
"""Of each file: the row's id, the task, the baseline's and the candidate's text, S."""


@dataclass(frozen=True)
class PaperPair:
    """One published pair. All of them are correct kernels: those that failed were never published."""

    id: str
    task: str
    anchor: str
    candidate: str
    hardware: str
    log2_speedup: float

    @property
    def truth(self) -> Truth:
        """The pair as the metrics take it; its anchor stands for the baseline."""
        return Truth(self.task, self.kernel(self.anchor).source_id, self.id, True, self.log2_speedup)

    def kernel(self, source: str) -> Kernel:
        """One of its texts as a kernel: whole modules in Python, which launch themselves."""
        language: Language = "triton" if "triton" in source else "torch"
        return Kernel.make(language=language, name=self.task, source=source, launches=(), task_id=self.task)


def read_pairs(path: Path) -> list[PaperPair]:
    """The pairs of a file, whichever of the three it is. Raises InputError with the line of the first bad row."""
    return [_pair(row, f"{path}:{number}") for number, row in _lines(path)]


def read_predictions(path: Path) -> dict[str, dict[str, list[Reply | None]]]:
    """Published forecasts: by forecaster, then by the pair's id, one entry a repeat; None where parsing failed."""
    found: dict[str, dict[str, list[Reply | None]]] = {}
    for number, row in _lines(path):
        where = f"{path}:{number}"
        label, pair = str(_field(row, "surrogate_label", where)), str(_field(row, "comparison_id", where))
        found.setdefault(label, {}).setdefault(pair, []).append(_reply(row, where))
    return found


def _reply(row: Mapping[str, Any], where: str) -> Reply | None:
    if _field(row, "parse_failed", where):
        return None
    values = [0.0] * len(BINS)
    for entry in _field(row, "bin_probabilities", where):
        number = int(_field(entry, "bin", where))
        if not 1 <= number <= len(BINS):
            raise _bad("A bin must be 1 to 8", f"{where}: {number}")
        values[number - 1] = float(_field(entry, "p", where))
    try:
        return reply_from(1.0, values, str(row.get("reasoning") or ""))
    except ReplyError:
        return None  # it would not have been accepted here either, and scores as uniform


def _pair(row: Mapping[str, Any], where: str) -> PaperPair:
    for fields in _PAIR_FIELDS:
        if fields[0] in row:
            name, task, anchor, candidate, speedup = (_field(row, field, where) for field in fields)
            if not isinstance(speedup, int | float) or not 0 < speedup < math.inf:
                raise _bad("The speedup must be a positive number", f"{where}: {speedup}")
            hardware = str(_field(row, "hardware", where))
            return PaperPair(str(name), str(task), str(anchor), str(candidate), hardware, math.log2(speedup))
    raise _bad("This row is none of the published kinds", where)


def _lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise _bad("This line is no JSON", f"{path}:{number}") from error
        if not isinstance(row, dict):
            raise _bad("This line is no JSON object", f"{path}:{number}")
        yield number, row


def _field(row: Mapping[str, Any], name: str, where: str) -> Any:
    if name not in row:
        raise _bad(f"The row has no {name}", where)
    return row[name]


def _bad(what: str, value: str) -> InputError:
    return InputError(what, value=value, next_step="Give a published file as JSON lines, unchanged.")
