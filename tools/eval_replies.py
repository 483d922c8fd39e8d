"""Replies from outside: what a model or agent without an API answered to exported prompts, by the prompts' ids."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from ..store.errors import InputError
from ..surrogate.contract import Reply
from ..surrogate.prompt import messages
from ..surrogate.reply import ReplyError, read
from .eval_held import Asked


def write_prompts(folder: Path, asked: Sequence[Asked]) -> Path:
    """Write each question without its truth to `prompts.jsonl`: an id and the messages a line, in an order that tells
    nothing. The file's path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "prompts.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for one in sorted(asked, key=lambda one: one.example.id):
            line = {"id": one.example.id, "messages": messages(one.query, by_tool=False)}
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
    return path


def append_reply(path: Path, forecaster: str, identity: str, reply: Reply | None) -> None:
    """Add one reply to a file that `read_replies` reads; None is kept as a reply that says nothing."""
    said = {"reply": ""} if reply is None else reply.model_dump(include={"p_correct", "p_bins", "reasoning"})
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"id": identity, "forecaster": forecaster, **said}, ensure_ascii=False) + "\n")


def read_replies(path: Path, asked: Sequence[Asked]) -> dict[str, list[Reply | None]]:
    """Replies by forecaster, in the pairs' order; a pair without a readable reply has None."""
    index = {one.example.id: number for number, one in enumerate(asked)}
    found: dict[str, list[Reply | None]] = {}
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
        replies = found.setdefault(str(entry.get("forecaster") or path.stem), [None] * len(asked))
        try:
            content = entry.get(
                "reply", {key: value for key, value in entry.items() if key not in ("id", "forecaster")}
            )
            replies[index[entry["id"]]] = read(content).get(0)
        except ReplyError:
            continue  # counts as missing
    if not found:
        step = "Export and import with the same --on, --split, --pairs, --seed."
        raise InputError("no reply is about one of these pairs", value=f"{strangers} others", next_step=step)
    return found
