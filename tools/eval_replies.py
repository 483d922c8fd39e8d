"""Replies from outside: what a model or agent without an API answered to exported prompts, by the prompts' ids."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..store.errors import InputError
from ..surrogate.contract import Reply
from ..surrogate.prompt import messages
from ..surrogate.reply import ReplyError, read
from .eval_held import Asked

_OURS = ("id", "batch", "forecaster")


@dataclass
class Given:
    """One forecaster's replies in the pairs' order, and for each the batch it was answered in; None: alone."""

    replies: list[Reply | None]
    batches: list[str | None] = field(default_factory=list)


def write_prompts(folder: Path, asked: Sequence[Asked]) -> Path:
    """Write each question without its truth to `prompts.jsonl`: id, batch and messages a line, in an order that tells
    nothing. The file's path.

    A question tells the times of its baseline and siblings, which is what another may ask. Those of one batch give
    nothing of each other away, so whoever remembers what they read is given one batch and no more.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "prompts.jsonl"
    ordered = sorted(asked, key=lambda one: one.example.id)
    with path.open("w", encoding="utf-8") as file:
        for one, batch in zip(ordered, batches(ordered), strict=True):
            line = {"id": one.example.id, "batch": batch, "messages": messages(one.query, by_tool=False)}
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
    return path


def batches(asked: Sequence[Asked]) -> list[int]:
    """A batch for each question, from 1, such that no question of a batch tells the time of another's candidate."""
    told: list[set[str]] = []
    wanted: list[set[str]] = []
    result = []
    for one in asked:
        says, asks = _told(one), one.example.candidate.kernel.source_id
        free = (n for n in range(len(told)) if asks not in told[n] and not says & wanted[n])
        number = next(free, len(told))
        if number == len(told):
            told.append(set())
            wanted.append(set())
        told[number] |= says
        wanted[number].add(asks)
        result.append(number + 1)
    return result


def given_away(asked: Sequence[Asked], batches: Sequence[str | None]) -> list[bool]:
    """Whether another question of the same batch told the time of the candidate, on whichever device."""
    told: dict[str, set[str]] = {}
    for one, batch in zip(asked, batches, strict=True):
        if batch is not None:
            told.setdefault(batch, set()).update(_told(one))
    return [
        batch is not None and one.example.candidate.kernel.source_id in told[batch]
        for one, batch in zip(asked, batches, strict=True)
    ]


def _told(one: Asked) -> set[str]:
    """The programs whose times a question tells."""
    siblings = {sibling.kernel.source_id for sibling in one.query.siblings if sibling.time_us}
    return {one.example.baseline.kernel.source_id, *siblings}


def append_reply(path: Path, forecaster: str, identity: str, reply: Reply | None) -> None:
    """Add one reply to a file that `read_replies` reads; None is kept as a reply that says nothing."""
    said = {"reply": ""} if reply is None else reply.model_dump(include={"p_correct", "p_bins", "reasoning"})
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"id": identity, "forecaster": forecaster, **said}, ensure_ascii=False) + "\n")


def read_replies(path: Path, asked: Sequence[Asked]) -> dict[str, Given]:
    """Replies by forecaster, in the pairs' order; a pair without a readable reply has None."""
    index = {one.example.id: number for number, one in enumerate(asked)}
    found: dict[str, Given] = {}
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the replies cannot be read ({error})", value=path, next_step="Give a text file.") from error
    strangers = 0
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            entry = None
        if not isinstance(entry, dict) or not isinstance(entry.get("id"), str):
            step = 'Each line is {"id", "p_correct", "p_bins"} with the id of its prompt.'
            raise InputError("this line is no reply", value=f"{path}:{number}", next_step=step)
        if entry["id"] not in index:
            strangers += 1
            continue
        name = str(entry.get("forecaster") or path.stem)
        given = found.setdefault(name, Given([None] * len(asked), [None] * len(asked)))
        place = index[entry["id"]]
        given.batches[place] = None if entry.get("batch") is None else str(entry["batch"])
        try:
            content = entry.get("reply", {key: value for key, value in entry.items() if key not in _OURS})
            given.replies[place] = read(content).get(0)
        except ReplyError:
            continue  # counts as missing
    if not found:
        step = "Export and import with the same --on, --split, --pairs, --seed."
        raise InputError("no reply is about one of these pairs", value=f"{strangers} others", next_step=step)
    return found
