"""Be an agent by hand: call the tools of `kforecast mcp` one at a time from a shell, through the official client over
standard input and output, with everything asked and answered appended to a transcript.

usage: python scripts/agent_session.py --store DIR tools                   what an agent's model reads
       python scripts/agent_session.py --store DIR call TOOL [ARGUMENTS]   JSON, @FILE, or - for standard input
       python scripts/agent_session.py --store DIR summary                 what the transcript says so far

DIR holds the store (kforecast.db) and transcript.jsonl; it is made. The server may read kernel files in the working
directory. Each call starts a server of its own: what an agent begins lives in the store and in processes of its own.
Ends with 0, with 1 where the tool answered an error, with 2 where the call could not be made.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

if TYPE_CHECKING:
    from mcp.client.client import Client

COMMAND = [sys.executable, "-m", "kforecast", "mcp"]
NAMES_KERNELS = ("kernel", "candidate", "seed", "baseline")
MOST_BYTES = 1 << 20


def client_of(store: Path, mode: str) -> Client:
    """A client with a server of its own, that works on the session's store."""
    from mcp.client.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    environment = {**os.environ, "KFORECAST_DB": str(store / "kforecast.db")}
    started = StdioServerParameters(command=COMMAND[0], args=COMMAND[1:], env=environment, cwd=str(Path.cwd()))
    return Client(stdio_client(started), mode=mode)


async def list_tools(store: Path, mode: str) -> dict[str, Any]:
    """The instructions and the tools."""
    async with client_of(store, mode) as client:
        listed = await client.list_tools()
        return {
            "instructions": client.instructions,
            "tools": [
                one.model_dump(mode="json", by_alias=True, exclude_none=True, include={"name", "description"})
                | {"inputSchema": one.input_schema}
                for one in listed.tools
            ],
        }


async def call_tool(store: Path, mode: str, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The answer as a client's model gets it; `error` where the tool answered one."""
    async with client_of(store, mode) as client:
        result = await client.call_tool(tool, arguments)
    text = "\n".join(part.text for part in result.content if part.type == "text")
    return {"error": text} if result.is_error else {"answer": result.structured_content or json.loads(text)}


def sources_of(arguments: Any) -> Iterator[tuple[str, str]]:
    """The files that arguments name as kernels, and what lies beside them and is named in them, with their texts: a
    transcript has to stand alone."""
    if isinstance(arguments, dict):
        for name, value in arguments.items():
            for one in value if isinstance(value, list) else [value]:
                if name in NAMES_KERNELS and isinstance(one, str) and "\n" not in one:
                    path = Path(one).expanduser()
                    if len(one) < 1000 and path.is_file() and path.stat().st_size < MOST_BYTES:
                        text = path.read_text(errors="replace")
                        yield one, text
                        for beside in re.findall(r"[\"<]([\w.-]+\.(?:py|toml|h|cuh|inc))\b", text):
                            if (path.parent / beside).is_file():
                                yield beside, (path.parent / beside).read_text(errors="replace")
                else:
                    yield from sources_of(one)
    elif isinstance(arguments, list):
        for one in arguments:
            yield from sources_of(one)


def keep(store: Path, entry: dict[str, Any]) -> None:
    """Append to the transcript."""
    with (store / "transcript.jsonl").open("a") as transcript:
        transcript.write(json.dumps(entry, ensure_ascii=False) + "\n")


def entries(store: Path) -> list[dict[str, Any]]:
    """The transcript so far."""
    path = store / "transcript.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def summary(store: Path) -> dict[str, Any]:
    """Calls by tool, errors, kernels proposed, forecast and measured, time and size."""
    calls = [one for one in entries(store) if one["tool"] != "tools/list"]
    answers = [one["answer"] for one in calls if "answer" in one]
    measured = [one for one in answers if one.get("measurement_id") is not None]
    searches = {one["search_id"]: one for one in answers if "search_id" in one}
    wins = [one for one in measured if one.get("comparison") == "faster"]
    best = max(wins, key=lambda one: one["speedup"] or 0.0, default=None)
    shown = ("summary", "kernel_id", "baseline_id", "speedup", "speedup_low", "speedup_high", "measurement_id")
    return {
        "calls": dict(Counter(one["tool"] for one in calls)),
        "errors": [one["error"][:200] for one in calls if "error" in one],
        "kernels_measured": len({one["kernel_id"] for one in measured}),
        "best_measured": None if best is None else {name: best[name] for name in shown},
        "searches": [
            {name: one[name] for name in ("search_id", "state", "best", "counts", "spent")} for one in searches.values()
        ],
        "seconds": round(sum(one["seconds"] for one in calls), 1),
        "characters_answered": sum(len(json.dumps(one.get("answer", one.get("error")))) for one in calls),
    }


def arguments_of(text: str) -> dict[str, Any]:
    """The arguments of a call: JSON, @FILE, or - for standard input."""
    if text == "-":
        text = sys.stdin.read()
    elif text.startswith("@"):
        text = Path(text[1:]).read_text()
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError("the arguments are a JSON object")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--mode", choices=("auto", "legacy"), default="auto", help="the era of the protocol")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("tools")
    commands.add_parser("summary")
    calling = commands.add_parser("call")
    calling.add_argument("tool")
    calling.add_argument("arguments", nargs="?", default="{}")
    given = parser.parse_args()
    store = given.store.absolute()
    store.mkdir(parents=True, exist_ok=True)
    if given.command == "summary":
        print(json.dumps(summary(store), indent=1, ensure_ascii=False))
        return 0
    entry: dict[str, Any] = {"at": datetime.now(UTC).isoformat(), "mode": given.mode}
    begin = time.perf_counter()
    if given.command == "tools":
        told = anyio.run(list_tools, store, given.mode)
        keep(store, {**entry, "tool": "tools/list", "seconds": round(time.perf_counter() - begin, 3), "answer": told})
        print(told["instructions"])
        for tool in told["tools"]:
            schema = json.dumps(tool["inputSchema"], indent=1, ensure_ascii=False)
            print(f"\n=== {tool['name']}\n{tool['description']}\n{schema}")
        return 0
    try:
        arguments = arguments_of(given.arguments)
    except (ValueError, OSError) as error:
        print(f"The arguments are no JSON object: {error}", file=sys.stderr)
        return 2
    entry |= {"tool": given.tool, "arguments": arguments, "sources": dict(sources_of(arguments))}
    result = anyio.run(call_tool, store, given.mode, given.tool, arguments)
    keep(store, {**entry, "seconds": round(time.perf_counter() - begin, 3), **result})
    print(result["error"] if "error" in result else json.dumps(result["answer"], indent=1, ensure_ascii=False))
    return int("error" in result)


if __name__ == "__main__":
    sys.exit(main())
