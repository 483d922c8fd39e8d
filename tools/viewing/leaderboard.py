"""Kernels by task, device and launch mode, fastest first; kernels that cannot be told apart share a place."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from ...store import measurements, pages
from ...store.database import Store
from ...store.models import Kernel, Measurement
from ..neighbours import kernel_of

MOST = 5000
"""Kernels of a board, the fastest."""
MOST_READINGS = 200
"""Of one kernel's history, the newest."""
RENEWED_S = 1.0
"""A board that changes all the time is read anew this often."""


@dataclass(frozen=True)
class Board:
    """What kernels compare on. key: unique; kernels: how many were measured; newest: when one was last."""

    key: str
    task: str
    task_id: str
    device: str
    device_id: str
    launch_mode: str
    kernels: int
    newest: str


@dataclass(frozen=True)
class Standing:
    """A kernel on a board. place: 1 is fastest, shared by kernels that cannot be told from the first of them; None:
    not ranked. Times in microseconds, cold caches; low and high: the time's interval. readings: how many there are."""

    place: int | None
    tied: bool
    id: str
    kernel_id: str
    name: str
    tunables: str
    language: str
    verdict: str
    comparison: str
    time_us: float | None
    low_us: float | None
    high_us: float | None
    log2: float | None
    log2_low: float | None
    log2_high: float | None
    percent_of_floor: float | None
    effort: str
    labels: tuple[str, ...]
    quarantine: str | None
    created_at: str
    readings: int


@dataclass(frozen=True)
class KernelsAsk:
    """board: the key of the one wanted, None for the one measured on last. kernel: an id to find, whatever its board.
    about: the measurement under the cursor. others: also what is not right or not believed."""

    board: str | None
    first: int
    count: int
    about: str | None = None
    kernel: str | None = None
    others: bool = False
    like: str = ""


@dataclass(frozen=True)
class Snapshot:
    """The answer. at: the number of the standing asked about; history: its kernel's readings here, newest first;
    baselines: the names of kernels that these were compared with, by id. stale: there is news already; ask again soon.
    """

    boards: tuple[Board, ...]
    board: Board | None
    total: int
    first: int
    standings: tuple[Standing, ...]
    at: int | None
    kernel: Kernel | None
    history: tuple[Measurement, ...]
    baselines: dict[str, str]
    stale: bool = False


class KernelsReader:
    """Reads boards. For one thread; a store that was not seen before starts anew."""

    def __init__(self) -> None:
        self._store: Store | None = None
        self._boards: tuple[int, float, tuple[Board, ...]] | None = None
        self._ranked: tuple[tuple[object, ...], float, list[Standing]] | None = None

    def look(self, store: Store, ask: KernelsAsk) -> Snapshot:
        """The boards, a page of one of them, and all about one of its kernels."""
        if store is not self._store:
            self._store, self._boards, self._ranked = store, None, None
        seq = pages.last_seq(store, "measurements")
        boards = self._all_boards(store, seq)
        board = next((one for one in boards if one.key == ask.board), boards[0] if boards else None)
        others = ask.others
        if ask.kernel is not None:
            home = _home(store, ask.kernel)
            board = next((one for one in boards if home and one.key == home[0]), board)
            others = others or (home is not None and not home[1])
        if board is None:
            return Snapshot((), None, 0, 0, (), None, None, (), {})
        found = self._standings(store, seq, board, others, ask.like)
        at = _place_of(found, ask)
        first = ask.first
        if at is not None and not first <= at < first + ask.count:
            first = max(0, at - ask.count // 2)
        shown = found[first : first + ask.count]
        chosen = found[at] if at is not None else (found[0] if found else None)
        kernel = None if chosen is None else kernel_of(store, chosen.kernel_id)
        history = () if chosen is None else _history(store, board, chosen.kernel_id)
        names = {one.baseline_id: _name(store, one.baseline_id) for one in history if one.baseline_id is not None}
        stale = any(read is not None and read != seq for read in (self._boards_of, self._ranked_of))
        return Snapshot(boards, board, len(found), first, tuple(shown), at, kernel, history, names, stale)

    @property
    def _boards_of(self) -> object:
        return None if self._boards is None else self._boards[0]

    @property
    def _ranked_of(self) -> object:
        return None if self._ranked is None else self._ranked[0][0]

    def _all_boards(self, store: Store, seq: int) -> tuple[Board, ...]:
        now = time.monotonic()
        if self._boards is not None and (self._boards[0] == seq or now - self._boards[1] < RENEWED_S):
            return self._boards[2]
        rows = store.read(
            """SELECT task_name, task_id, device, device_id, launch_mode, count(DISTINCT kernel_id) AS kernels,
                 max(created_at) AS newest
               FROM measurements GROUP BY task_id, device_id, launch_mode ORDER BY newest DESC"""
        )
        boards = tuple(
            Board(_key(row["task_id"], row["device_id"], row["launch_mode"]), row["task_name"], row["task_id"],
                  row["device"], row["device_id"], row["launch_mode"], row["kernels"], row["newest"])
            for row in rows
        )  # fmt: skip
        self._boards = (seq, now, boards)
        return boards

    def _standings(self, store: Store, seq: int, board: Board, others: bool, like: str) -> list[Standing]:
        now = time.monotonic()
        about = (board.key, others, like)
        if self._ranked is not None and self._ranked[0][1:] == about:
            known, read_at = self._ranked[0][0], self._ranked[1]
            if known == seq or now - read_at < RENEWED_S:
                return self._ranked[2]
        found = ranked(_read(store, board, others, like))
        self._ranked = ((seq, *about), now, found)
        return found


def ranked(found: Sequence[Standing]) -> list[Standing]:
    """Places by time. Who cannot be told from the first of a place shares it: their intervals overlap. Places count as
    in sport: 1, 2, 2, 4. What is not right, censored or not believed has none and comes last."""
    timed = sorted((one for one in found if _ranks(one)), key=lambda one: (one.time_us or math.inf, one.id))
    groups: list[list[Standing]] = []
    for one in timed:
        if groups and (one.low_us or 0.0) <= (groups[-1][0].high_us or 0.0):
            groups[-1].append(one)
        else:
            groups.append([one])
    placed: list[Standing] = []
    for group in groups:
        place = len(placed) + 1
        placed += [_placed(one, place, tied=len(group) > 1) for one in group]
    rest = [one for one in found if not _ranks(one)]
    rest.sort(key=lambda one: (one.verdict != "ok", one.quarantine is not None, one.time_us or math.inf, one.id))
    return placed + rest


def _ranks(one: Standing) -> bool:
    right = one.verdict == "ok" and one.quarantine is None and one.time_us is not None
    return right and "censored" not in one.labels


def _placed(one: Standing, place: int, *, tied: bool) -> Standing:
    return Standing(**{**vars(one), "place": place, "tied": tied})


def _read(store: Store, board: Board, others: bool, like: str) -> list[Standing]:
    """The newest believed reading of each kernel; with `others` also quarantined ones and those that are not right."""
    rows = store.read(
        f"""SELECT m.*, kernels.name, kernels.language, json_extract(kernels.json, '$.tunables') AS tunables FROM (
              SELECT id, kernel_id, verdict, comparison, time_us, noise_pct, log2_speedup, log2_low, log2_high,
                percent_of_floor, effort, quarantine, censored, created_at, json_extract(json, '$.labels') AS labels,
                row_number() OVER (
                  PARTITION BY kernel_id, quarantine IS NULL ORDER BY created_at DESC, seq DESC
                ) AS age,
                count(*) OVER (PARTITION BY kernel_id) AS readings
              FROM measurements WHERE task_id = ? AND device_id = ? AND launch_mode = ?
            ) AS m JOIN kernels ON kernels.id = m.kernel_id
            WHERE age = 1 AND {"true" if others else "quarantine IS NULL AND verdict = 'ok'"}
              AND (? = '' OR instr(lower(kernels.name || ' ' || m.kernel_id || ' ' || coalesce(labels, '') || ' '
                || replace(replace(coalesce(json_extract(kernels.json, '$.tunables'), ''), '"', ''), ':', '=')),
                lower(?)) > 0)
            ORDER BY verdict <> 'ok', quarantine IS NOT NULL, time_us LIMIT ?""",
        (board.task_id, board.device_id, board.launch_mode, like, like, MOST),
    )
    return [_standing(dict(row)) for row in rows]


def _standing(row: dict[str, object]) -> Standing:
    def number(name: str) -> float | None:
        value = row[name]
        return float(value) if isinstance(value, int | float) else None

    spread = time_spread(number("noise_pct"), number("log2_low"), number("log2_high"))
    time_us = number("time_us")
    labels = json.loads(str(row["labels"] or "[]")) + (["censored"] if row["censored"] else [])
    return Standing(
        place=None,
        tied=False,
        id=str(row["id"]),
        kernel_id=str(row["kernel_id"]),
        name=PurePath(str(row["name"])).name or str(row["kernel_id"]),
        tunables=" ".join(f"{name}={value}" for name, value in json.loads(str(row["tunables"] or "{}")).items()),
        language=str(row["language"]),
        verdict=str(row["verdict"]),
        comparison=str(row["comparison"]),
        time_us=time_us,
        low_us=None if time_us is None else time_us * 2.0**-spread,
        high_us=None if time_us is None else time_us * 2.0**spread,
        log2=number("log2_speedup"),
        log2_low=number("log2_low"),
        log2_high=number("log2_high"),
        percent_of_floor=number("percent_of_floor"),
        effort=str(row["effort"]),
        labels=tuple(labels),
        quarantine=None if row["quarantine"] is None else str(row["quarantine"]),
        created_at=str(row["created_at"]),
        readings=int(str(row["readings"])),
    )


def time_spread(noise_pct: float | None, log2_low: float | None, log2_high: float | None) -> float:
    """Half the width of a time's interval, in octaves: the A/A noise of its blocks, or half the interval of its ratio
    where that is wider; 0 where neither is known."""
    noise = 0.0 if noise_pct is None else math.log2(1 + noise_pct / 100)
    finite = log2_low is not None and log2_high is not None and math.isfinite(log2_low) and math.isfinite(log2_high)
    half = ((log2_high or 0.0) - (log2_low or 0.0)) / 2 if finite else 0.0
    return max(noise, half, 0.0)


def _home(store: Store, kernel_id: str) -> tuple[str, bool] | None:
    """The board where a kernel was measured last, and whether it is ranked there."""
    row = store.read_one(
        "SELECT task_id, device_id, launch_mode, verdict = 'ok' AND quarantine IS NULL AS ranks FROM measurements "
        "WHERE kernel_id = ? ORDER BY created_at DESC, seq DESC LIMIT 1",
        (kernel_id,),
    )
    return None if row is None else (_key(row["task_id"], row["device_id"], row["launch_mode"]), bool(row["ranks"]))


def _key(*parts: str) -> str:
    return " ".join(parts)


def _place_of(found: Sequence[Standing], ask: KernelsAsk) -> int | None:
    for number, one in enumerate(found):
        if one.kernel_id == ask.kernel or (ask.kernel is None and one.id == ask.about):
            return number
    return None


def _history(store: Store, board: Board, kernel_id: str) -> tuple[Measurement, ...]:
    found = measurements.TABLE.find(
        store,
        ["kernel_id = ?", "device_id = ?", "launch_mode = ?"],
        [kernel_id, board.device_id, board.launch_mode],
        order="created_at DESC, seq DESC",
        limit=MOST_READINGS,
    )
    return tuple(found)


def _name(store: Store, kernel_id: str) -> str:
    kernel = kernel_of(store, kernel_id)
    return kernel_id if kernel is None else PurePath(kernel.name).name or kernel_id
