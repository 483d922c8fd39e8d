"""An agent's kernels, written and forecast blind, measured here: replays a transcript of agent_session.py against
`kforecast mcp`, as an agent would call it.

A search with generator `agent` begins from the naive kernel; its asks are answered with the transcript's kernels in
their order, each with the probabilities that its author gave before anybody ran it. At most about half are measured:
those that the search ranks highest. The best one is then measured again as a claim. With time left, what the search
skipped is measured, too (`--rest`): whether anything better was missed.

  scripts/gpu/run.sh agent_replay --transcript session/transcript.jsonl      results: $OUT/agent_replay.json
"""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from common import Clock, options, report, say, table
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from kforecast.store.bins import bin_of
from kforecast.surrogate import density

BATCH = 16
"""Proposals to one call, the most there may be: the search can rank only what it knows."""
BESIDE = (".py", ".toml", ".h", ".cuh", ".inc")
"""What a kernel may need beside it."""
CLAIM_S = 25.0
"""Kept for the claim at the end."""


@dataclass(frozen=True)
class Blind:
    """A kernel as its author proposed it. own: {p_correct, p_bins, forecaster}, given before it was run, of S against
    the source `against`.
    """

    name: str
    source: str
    own: dict[str, Any]
    idea: str
    against: str


@dataclass
class Transcript:
    """What `agent_session.py` kept: texts by the path or id that named them, the last text of each."""

    texts: dict[str, str] = field(default_factory=dict)
    blind: dict[str, Blind] = field(default_factory=dict)
    """By source, in the order of the last time each was forecast."""
    against: Counter[str] = field(default_factory=Counter)
    """Sources by how often something was compared with them."""
    nodes: dict[str, str] = field(default_factory=dict)
    """Sources by their place in a search."""

    @classmethod
    def read(cls, path: Path) -> Transcript:
        """The kernels with probabilities of their own, and what they were compared with."""
        found = cls()
        for line in path.read_text().splitlines():
            entry = json.loads(line)
            if "answer" in entry and entry["tool"] != "tools/list":
                found.texts |= entry["sources"]
                found._take(entry["tool"], entry["arguments"], entry["answer"])
        return found

    def text(self, named: str) -> str:
        """The source of whatever a call named."""
        return named if "\n" in named else self.texts.get(named, "")

    def _take(self, tool: str, arguments: dict[str, Any], answer: dict[str, Any]) -> None:
        for said, named in (("kernel_id", "kernel"), ("baseline_id", "baseline"), ("seed_id", "seed")):
            if answer.get(said) and self.text(arguments.get(named) or ""):
                self.texts[answer[said]] = self.text(arguments[named])
        if tool == "search":
            self.against[self.text(arguments["seed"])] += 1000  # whatever else was compared, this is where it began
        elif tool == "search_propose":
            for one in arguments["candidates"]:
                against = self.nodes.get(one["parent_id"], "")
                self._add(one["kernel"], one.get("own"), one.get("idea", ""), against)
        elif tool == "forecast_kernel":
            named, own = arguments["candidate"], arguments.get("own")
            names = named if isinstance(named, list) else [named]
            owns = own if isinstance(own, list) else [own] * len(names)
            for name, its, told in zip(names, owns, answer.get("results") or [answer], strict=True):
                if "candidate_id" in told:
                    self.texts[told["candidate_id"]] = self.text(name)
                    against = self.text(arguments.get("baseline") or "")
                    self._add(name, its, "", against)
                    self.against[against] += its is not None
        for one in (*answer.get("asks", ()), *answer.get("accepted", ())):
            self.nodes[one.get("parent_id") or one["node_id"]] = self.texts.get(one["kernel_id"], "")

    def _add(self, named: str, own: dict[str, Any] | None, idea: str, against: str) -> None:
        source = self.text(named)
        if own and source:
            called = Path(named).stem if "\n" not in named and not named.startswith("k_") else ""
            earlier = self.blind.pop(source, None)
            called = called or (earlier.name if earlier else f"kernel-{len(self.blind) + 1}")
            self.blind[source] = Blind(called, source, own, (idea or called)[:200], against)

    def write(self, folder: Path, suffix: str) -> tuple[str, list[str]]:
        """The naive kernel and the others as files, each in a folder with what it needs beside it; their paths."""
        seed = self.against.most_common(1)[0][0] if self.against else ""
        paths = []
        for number, (name, source) in enumerate([("naive", seed), *((b.name, b.source) for b in self.blind.values())]):
            place = folder / f"k{number:02d}"
            place.mkdir()
            for beside, text in self.texts.items():
                if Path(beside).suffix in BESIDE:
                    (place / Path(beside).name).write_text(text)
            (place / f"{name}{suffix}").write_text(source)
            paths.append(str(place / f"{name}{suffix}"))
        return paths[0], paths[1:]


class Agent:
    """Calls tools and keeps what was said. Raises RuntimeError for an answer that is an error."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.calls: list[dict[str, Any]] = []

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The answer of one call."""
        result = await self._client.call_tool(tool, arguments)
        text = "".join(part.text for part in result.content if part.type == "text")
        self.calls.append({"tool": tool, "error": text if result.is_error else None})
        if result.is_error:
            raise RuntimeError(f"{tool}: {text}")
        answer: dict[str, Any] = json.loads(text)
        say(f"{tool}: {answer['summary']}")
        return answer

    async def settled(self, identity: str, clock: Clock) -> dict[str, Any]:
        """A search or request once it rests, or as it stands when the time is over."""
        while True:
            answer = await self.call("get_status", id=identity, wait_s=5, **_FULL if identity.startswith("s_") else {})
            if answer["state"] not in ("working", "stopping") or clock.over:
                return answer

    async def measure(self, clock: Clock, **arguments: Any) -> dict[str, Any]:
        """A measurement, waited for."""
        answer = await self.call("measure_kernel", wait_s=5, **arguments)
        return await self.settled(answer["request_id"], clock) if answer["state"] == "working" else answer


_FULL = {"detail": "full"}


@dataclass(frozen=True)
class Clocks:
    """Time for the search and for everything. rest: whether what the search skipped is measured with what is left."""

    search: Clock
    whole: Clock
    rest: bool


async def play(
    blind: Sequence[Blind], seed: str, paths: Sequence[str], device: str, budget: dict[str, float], clocks: Clocks
) -> dict[str, Any]:
    """The whole loop. seed, paths: the files of the naive kernel and of the others."""
    clock, whole = clocks.search, clocks.whole
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "kforecast", "mcp", "--root", str(Path(seed).parents[1])],
        env=dict(os.environ),
    )
    async with Client(stdio_client(command)) as client:
        agent = Agent(client)
        now = await agent.call("search", seed=seed, device=device, generator="agent", budget=budget)
        identity = now["search_id"]
        now = await agent.settled(identity, clock)
        told: dict[str, dict[str, Any]] = {}
        rejected: list[dict[str, Any]] = []
        root = now["asks"][0]["parent_id"] if now["asks"] else None
        parents: dict[str, str] = {}
        left = dict(zip(paths, blind, strict=True))
        while left and root is not None and now["state"] in ("working", "input_required") and not clock.over:
            # After what they were compared with, where that is one of them.
            if parents:
                now = await agent.settled(identity, clock)  # so that they are measured, and forecasts are against them
                if now["state"] != "input_required":
                    break
            waits = {one.source for one in left.values()}
            ready = [path for path, one in left.items() if one.against not in waits - {one.source}] or list(left)
            ready = ready[:BATCH]
            batch = [left.pop(path) for path in ready]
            candidates = [
                {"parent_id": parents.get(one.against, root), "kernel": path, "idea": one.idea, "own": one.own}
                for one, path in zip(batch, ready, strict=True)
            ]
            now = await agent.call("search_propose", search_id=identity, candidates=candidates, wait_s=20)
            bad = {one["index"]: one["why"] for one in now["rejected"]}
            rejected += [{"name": batch[index].name, "why": why} for index, why in bad.items()]
            kept = [one for index, one in enumerate(batch) if index not in bad]
            told |= {its["kernel_id"]: {"blind": one, **its} for one, its in zip(kept, now["accepted"], strict=True)}
            parents |= {one.source: its["node_id"] for one, its in zip(kept, now["accepted"], strict=True)}
        now = await agent.settled(identity, clock)
        if now["state"] in ("working", "input_required"):
            await agent.call("stop", id=identity)
            now = await agent.settled(identity, whole)
        claim = None
        if now["best"] is not None:
            claim = await agent.measure(
                whole, kernel=now["best"]["kernel_id"], baseline=now["seed_id"], device=device, effort="claim"
            )
        came = {one["kernel_id"]: one for one in now.get("candidates") or []}
        skipped: dict[str, dict[str, Any]] = {}
        for kernel in told if clocks.rest else ():
            if came.get(kernel, {}).get("verdict") is None and not whole.over:
                skipped[kernel] = await agent.measure(
                    whole, kernel=kernel, baseline=now["seed_id"], device=device, effort="quick"
                )
    return {
        "search": now,
        "seed": Path(seed).read_text(),
        "claim": claim,
        "told": told,
        "came": came,
        "skipped": skipped,
        "rejected": rejected,
        "calls": agent.calls,
    }


def rows_of(played: dict[str, Any]) -> list[dict[str, Any]]:
    """One a proposal: what its author said, what was decided, what came."""
    rows = []
    for kernel, told in played["told"].items():
        blind: Blind = told["blind"]
        came, late = played["came"].get(kernel, {}), played["skipped"].get(kernel)
        by_search = came.get("verdict") is not None
        found = came if by_search else late or {}
        speedup = found.get("speedup")
        p_bins = [value / sum(blind.own["p_bins"]) for value in blind.own["p_bins"]]
        rows.append(
            {
                "kernel": blind.name,
                "kernel_id": kernel,
                "against_seed": blind.against == played["seed"],
                "p_correct": blind.own["p_correct"],
                "p_faster": float(density.p_faster(p_bins)),
                "median": 2.0 ** float(density.quantile(p_bins, 0.5)[0]),
                "decision": told["decision"],
                "by": "search" if by_search else "afterwards" if late else None,
                "verdict": found.get("verdict"),
                "speedup": speedup,
                "low": found.get("low", found.get("speedup_low")),
                "high": found.get("high", found.get("speedup_high")),
                "p_bin": None if speedup is None else p_bins[bin_of(speedup).number - 1],
                "forecaster": blind.own["forecaster"],
                "measurement_id": found.get("measurement_id"),
            }
        )
    return rows


def summary_of(played: dict[str, Any], rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The figures that a claim needs."""
    search, claim = played["search"], played["claim"] or {}
    right = [one for one in rows if one["speedup"] is not None and one["verdict"] == "ok"]
    # S is against the naive kernel, so only forecasts against that are judged by it.
    judged = [one for one in right if one["against_seed"]]
    by_search = [one for one in rows if one["by"] == "search"]
    best_of_search = max((one["speedup"] for one in right if one["by"] == "search"), default=None)
    best_of_all = max((one["speedup"] for one in right), default=None)
    # A tie has no direction.
    sided = [one for one in judged if one["low"] is not None and (one["low"] > 1 or (one["high"] or math.inf) < 1)]
    told = [one for one in rows if one["verdict"] is not None]
    return {
        "proposed": len(rows),
        "rejected": len(played["rejected"]),
        "measured": len(by_search),
        "measured_share": len(by_search) / len(rows) if rows else None,
        "search_state": search["state"],
        "search_reason": search["reason"],
        "best": search["best"],
        "claim": {name: claim.get(name) for name in _CLAIM} if claim else None,
        "best_skipped_over_best": None
        if best_of_all is None or best_of_search is None
        else max(1.0, best_of_all / best_of_search),
        "direction_right": sum((one["p_faster"] > 0.5) == (one["speedup"] > 1) for one in sided),
        "direction_of": len(sided),
        "mean_p_of_true_bin": sum(one["p_bin"] for one in judged) / len(judged) if judged else None,
        "brier_correct": sum((one["p_correct"] - (one["verdict"] == "ok")) ** 2 for one in told) / len(told)
        if told
        else None,
        "gpu_seconds": search["spent"].get("gpu_seconds"),
        "tool_calls": dict(Counter(one["tool"] for one in played["calls"])),
    }


_CLAIM = ("state", "verdict", "comparison", "speedup", "speedup_low", "speedup_high", "time_us", "baseline_us", "notes")


def main() -> int:
    parser = options(__doc__, seconds=80.0)
    parser.add_argument("--transcript", type=Path, required=True)
    parser.add_argument(
        "--seed",
        type=Path,
        help="the naive kernel, what it needs beside it; default: what the transcript compared with",
    )
    parser.add_argument("--share", type=float, default=0.5, help="of the proposals, how many may be measured")
    parser.add_argument("--rest", action="store_true", help="measure what the search skipped, while there is time")
    given = parser.parse_args()
    device = "cpu" if given.dry else given.device
    transcript = Transcript.read(given.transcript)
    blind = list(transcript.blind.values())
    if given.seed:
        transcript.against = Counter([given.seed.read_text()])
        near = [path for path in given.seed.absolute().parent.iterdir() if path.suffix in BESIDE]
        transcript.texts |= {path.name: path.read_text() for path in near}
    if not blind or not transcript.against:
        say(f"{given.transcript}: {len(blind)} kernels with probabilities of their own, or nothing to compare with")
        return 2
    os.environ.setdefault("KFORECAST_BROKER_IDLE_S", "5")
    whole = Clock(given.seconds)
    clocks = Clocks(Clock(max(10.0, given.seconds - CLAIM_S)), whole, given.rest)
    # The naive kernel is measured as well; the best is measured again below, outside of the search.
    budget = {
        "measurements": max(1, int(given.share * len(blind))) + 1,
        "candidates": len(blind),
        "wall_s": max(10.0, given.seconds - CLAIM_S),
    }
    with tempfile.TemporaryDirectory(prefix="kforecast-replay-") as folder:
        seed, paths = transcript.write(Path(folder), ".c" if device == "cpu" else ".cu")
        played = anyio.run(play, blind, seed, paths, device, budget, clocks)
    rows = rows_of(played)
    summary = {"seconds": whole.elapsed, "share_allowed": given.share, **summary_of(played, rows)}
    shown = ("kernel", "p_correct", "p_faster", "median", "decision", "by", "verdict", "speedup", "low", "high")
    lines = [table(shown, [[row[name] for name in shown] for row in rows]), ""]
    lines += [f"{name}: {value}" for name, value in summary.items()]
    report(given.out, "agent_replay", device, summary, [*rows, *played["rejected"]], "\n".join(lines))
    return 0 if (summary["claim"] or {}).get("comparison") == "faster" else 1


if __name__ == "__main__":
    sys.exit(main())
