"""Reading what a forecaster says: tool-call arguments, JSON in prose, code fences, percentages; strict about nonsense.

Bins that sum to 0.75 .. 1.10 are renormalised and kept (a strict check would lose 3% of good replies); all zeros,
negative, non-finite or non-numeric values are refused, and the message says what to mend: it is the repair turn's text.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence

from ..store.bins import BINS
from ..store.errors import InputError
from .contract import Reply

LEAST_SUM, MOST_SUM = 0.75, 1.10
_SLACK = 1e-9
_MOST_ATTEMPTS = 500
"""How many brackets that open no JSON are tried: garbage must not cost quadratic time."""
P_BIN = tuple(f"p_{entry.name}" for entry in BINS)
"""The reply's field of each bin, bin 1 first."""
_PERCENT = 100.0


class ReplyError(InputError):
    """A reply that cannot be used. `what` says what is wrong with it, in words for its author."""


def reply_from(p_correct: object, p_bins: Sequence[object], reasoning: str = "", signals: Sequence[str] = ()) -> Reply:
    """A reply from numbers as given. Percentages and percent strings are read as such. Raises ReplyError."""
    if len(p_bins) != len(BINS):
        raise _refused(f"There must be {len(BINS)} bin probabilities", len(p_bins))
    notes = list(signals)
    values = [_number(value, name) for value, name in zip(p_bins, P_BIN, strict=True)]
    total = math.fsum(values)
    if total == 0:
        raise _refused("All bin probabilities are zero", None)
    if LEAST_SUM * _PERCENT - _SLACK <= total <= MOST_SUM * _PERCENT + _SLACK:
        values = [value / _PERCENT for value in values]
        total /= _PERCENT
        notes.append("bins given in percent")
    if not LEAST_SUM - _SLACK <= total <= MOST_SUM + _SLACK:
        raise _refused("The bin probabilities must sum to 1; they sum to", f"{total:.4g}")
    correct = _number(p_correct, "p_correct")
    if 1 + _SLACK < correct <= _PERCENT:
        correct /= _PERCENT
        notes.append("p_correct given in percent")
    if correct > 1 + _SLACK:
        raise _refused("p_correct must be a probability from 0 to 1", correct)
    if abs(total - 1) > 0.005:
        notes.append(f"bins summed to {total:.3f}")
    exact = math.fsum(values)
    return Reply(
        p_correct=min(correct, 1.0),
        p_bins=tuple(value / exact for value in values),
        reasoning=reasoning,
        raw_sum=total,
        signals=tuple(notes),
    )


def read(content: str | Mapping[str, object] | Sequence[object] | None, count: int = 1) -> dict[int, Reply]:
    """The replies in a model's answer by candidate index (0-based). Raises ReplyError when none can be read.

    content: tool-call arguments as text or parsed, several of them as a list, or free text that holds JSON.
    count: how many candidates were asked about. An object's `candidate` (1-based) says which one it is; with one
    candidate it may be missing, and objects without it count in order. A later object for a candidate replaces the
    earlier one: models correct themselves.
    """
    objects = [entry for entry in _objects(content) if _is_forecast(entry)]
    if not objects:
        raise _refused("There was no forecast in the reply", _excerpt(content))
    replies: dict[int, Reply] = {}
    problem: ReplyError | None = None
    for order, entry in enumerate(objects):
        try:
            index = _index(entry, order, count)
            replies[index] = _reply(entry)
        except ReplyError as error:
            problem = error
    if not replies and problem is not None:
        raise problem
    return replies


def repair_message(problem: ReplyError, missing: Sequence[int], count: int) -> str:
    """The one repair turn: what was wrong, and what to send. `missing`: 0-based indices still unanswered."""
    which = "" if count == 1 else " for " + ", ".join(f"candidate {index + 1}" for index in missing)
    problem_text = problem.what + ("" if problem.value is None else f": {problem.value}")
    return (
        f"That could not be used. {problem_text}. Send the forecast{which} again, as one JSON object each and nothing "
        f"else, with the numbers {'' if count == 1 else 'candidate, '}p_correct, {', '.join(P_BIN)} "
        f"(the {len(BINS)} bins sum to 1) and the text reasoning."
    )


def _refused(what: str, value: object) -> ReplyError:
    return ReplyError(what, value=value, next_step="Give p_correct and 8 bin probabilities that sum to 1.")


def _number(value: object, name: str) -> float:
    """A finite, non-negative number out of a number or a text like `0.25` or `25%`."""
    if isinstance(value, str):
        match = re.fullmatch(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(%?)\s*", value)
        if match is None:
            raise _refused(f"{name} is not a number", value[:40])
        number = float(match[1]) / (_PERCENT if match[2] else 1.0)
    elif isinstance(value, bool) or not isinstance(value, int | float):
        raise _refused(f"{name} is not a number", str(value)[:40])
    else:
        number = float(value)
    if not math.isfinite(number) or number < 0:
        raise _refused(f"{name} must be a finite number, 0 or more", number)
    return number


def _key(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def _keyed(entry: Mapping[str, object]) -> dict[str, object]:
    """The object with folded keys, and a nested `p_bins` / `bins` object lifted to the top."""
    folded = {_key(str(name)): value for name, value in entry.items()}
    for nest in ("p_bins", "bins", "probabilities"):
        inner = folded.get(nest)
        if isinstance(inner, Mapping):
            folded |= {_key(str(name)): value for name, value in inner.items()}
    return folded


def _is_forecast(entry: Mapping[str, object]) -> bool:
    keys = _keyed(entry)
    return "p_correct" in keys or any(_bin_value(keys, name) is not None for name in P_BIN)


def _bin_value(keys: Mapping[str, object], name: str) -> object:
    return keys.get(name, keys.get(name.removeprefix("p_")))


def _reply(entry: Mapping[str, object]) -> Reply:
    keys = _keyed(entry)
    if keys.get("p_correct") is None:
        raise _refused("p_correct is missing", None)
    listed = keys.get("p_bins")
    signals = []
    if isinstance(listed, Sequence) and not isinstance(listed, str):
        values: list[object] = list(listed)
    else:
        values = [_bin_value(keys, name) for name in P_BIN]
        missing = [name for name, value in zip(P_BIN, values, strict=True) if value is None]
        if missing:
            signals.append(f"missing bins read as 0: {', '.join(missing)}")
        values = [0.0 if value is None else value for value in values]
    reasoning = keys.get("reasoning")
    return reply_from(keys["p_correct"], values, reasoning if isinstance(reasoning, str) else "", signals)


def _index(entry: Mapping[str, object], order: int, count: int) -> int:
    if count == 1:
        return 0
    given = _keyed(entry).get("candidate")
    if given is None:
        index = order
    else:
        match = re.search(r"\d+", str(given))
        if match is None:
            raise _refused("candidate must be a candidate's number", str(given)[:40])
        index = int(match[0]) - 1
    if not 0 <= index < count:
        raise _refused(f"There is no such candidate; they are 1 to {count}", index + 1)
    return index


def _objects(content: object) -> Iterator[Mapping[str, object]]:
    """Every JSON object in the content, outermost first; lists and wrappers are opened."""
    if isinstance(content, Mapping):
        if _is_forecast(content):
            yield content
        else:
            for value in content.values():
                if isinstance(value, Mapping | list):
                    yield from _objects(value)
    elif isinstance(content, Sequence) and not isinstance(content, str):
        for value in content:
            yield from _objects(value)
    elif isinstance(content, str):
        for value in _json_in(content):
            yield from _objects(value)


def _json_in(text: str) -> Iterator[object]:
    """The JSON values in free text, left to right. Trailing commas are forgiven; NaN is read, to be refused later."""
    decoder = json.JSONDecoder()
    position = 0
    attempts = 0
    text = re.sub(r",(\s*[}\]])", r"\1", text)
    while attempts < _MOST_ATTEMPTS and (start := _opening(text, position)) >= 0:
        try:
            value, position = decoder.raw_decode(text, start)
        except (json.JSONDecodeError, RecursionError):
            position = start + 1
            attempts += 1
        else:
            yield value


def _opening(text: str, position: int) -> int:
    match = re.compile(r"[{\[]").search(text, position)
    return -1 if match is None else match.start()


def _excerpt(content: object) -> str:
    text = str(content or "(nothing)").strip()
    return text if len(text) <= 120 else text[:117] + "…"
