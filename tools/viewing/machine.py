"""Devices as people watch them: who holds each, what waits for it, its state now and as it was noted, its profile."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import PurePath
from typing import Any

from ...bench.devices.cpu import machine
from ...bench.devices.cuda.monitor import Monitor
from ...store import pages, profiles, requests
from ...store.database import Store
from ...store.models import Request
from ..neighbours import kernel_of
from ..probes import Gpu, gpus
from ..profile import profile_words
from ..status import Holder, holders
from ..waiting import eta_s

MOST_WAITING = 200
"""Requests listed, those begun first."""
RECENT = 120
"""Measurements whose recorded noise, clocks and temperatures are shown."""
SAMPLES = 120
"""Readings of the device kept while it is watched."""
RENEWED_S = 2.0
_DAY = timedelta(days=1)
_TOLD = 20
"""Requests whose place and end are told."""


@dataclass(frozen=True)
class DeviceLine:
    """A device in the list. here: this machine has it; holder: who uses it now; waiting: requests not begun yet."""

    key: str
    device: str
    device_id: str | None
    model: str
    here: bool
    holder: Holder | None
    working: int
    waiting: int
    measured: int
    newest: str | None


@dataclass(frozen=True)
class QueueLine:
    """A request that is not finished. kernel: the file's name; before: how many are begun before it, eta_s: seconds
    until it has probably ended; both are told of the first ones only."""

    id: str
    state: str
    client: str
    kernel: str
    effort: str
    progress: str
    before: int | None
    eta_s: float | None
    created_at: str


@dataclass(frozen=True)
class Sample:
    """The device's state at a moment; what is not known is left out. seconds: on a clock that only goes on."""

    seconds: float
    values: dict[str, float]


@dataclass(frozen=True)
class Recorded:
    """What the last measurements noted, oldest first: A/A noise in percent, SM clock in MHz, temperature in Celsius.
    throttled: how many said so; device_seconds, measurements: of the last day."""

    noise_pct: tuple[float, ...]
    sm_mhz: tuple[float, ...]
    temperature_c: tuple[float, ...]
    throttled: int
    device_seconds: float
    measurements: int


@dataclass(frozen=True)
class About:
    """All about one device. facts: what does not change; state: what does, now; profile: what it can do at best."""

    line: DeviceLine
    facts: tuple[tuple[str, str], ...]
    state: tuple[tuple[str, str], ...]
    samples: tuple[Sample, ...]
    recorded: Recorded
    profile: tuple[tuple[str, str], ...]
    profiled_at: str | None


@dataclass(frozen=True)
class Snapshot:
    """The answer: all devices, all about one, and its queue. looking: GPUs are still being looked for."""

    devices: tuple[DeviceLine, ...]
    about: About | None
    queue: tuple[QueueLine, ...]
    waiting: int
    looking: bool


@dataclass
class DeviceReader:
    """Reads devices. For one thread; a store that was not seen before starts anew.

    probe, monitor: how GPUs are found and read; found ones are looked for once, beside, since drivers take their time.
    """

    probe: Callable[[], list[Gpu]] = gpus
    monitor: Callable[[int], Monitor] = Monitor
    _store: Store | None = None
    _gpus: list[Gpu] | None = None
    _looker: threading.Thread | None = None
    _monitors: dict[int, Monitor] = field(default_factory=dict)
    _samples: dict[str, deque[Sample]] = field(default_factory=dict)
    _seen: tuple[int, float, list[dict[str, Any]]] | None = None
    _recorded: dict[str, tuple[int, float, Recorded]] = field(default_factory=dict)

    def look(self, store: Store, key: str | None) -> Snapshot:
        """The devices, and all about the one with that key (None: the first that is in use, else the first)."""
        if store is not self._store:
            self._store, self._seen, self._recorded = store, None, {}
        if self._looker is None:
            self._looker = threading.Thread(target=self._find, name="gpu-probe", daemon=True)
            self._looker.start()
        devices = self._devices(store)
        chosen = next((one for one in devices if one.key == key), None)
        busy = [one for one in devices if one.holder is not None or one.working or one.waiting]
        chosen = chosen or (busy or list(devices))[0]
        found = requests.unfinished(store, device=chosen.device) if chosen.here or chosen.waiting else []
        queue = tuple(_queue_line(store, one, number) for number, one in enumerate(found[:MOST_WAITING]))
        return Snapshot(devices, self._about(store, chosen), queue, len(found), self._gpus is None)

    def _find(self) -> None:
        self._gpus = self.probe()

    def _devices(self, store: Store) -> tuple[DeviceLine, ...]:
        held = {one.device: one for one in holders()}
        waits: dict[tuple[str, str], int] = {}
        for state in ("queued", "working"):
            tally = store.read(f"SELECT device, count(*) FROM requests WHERE state = '{state}' GROUP BY device")
            waits |= {(device, state): times for device, times in tally}
        rows = self._measured(store)
        here: list[tuple[str, str | None, str]] = [("cpu", machine.device_id(), machine.model_name())]
        here += [(f"cuda:{gpu.index}", gpu.uuid, gpu.name) for gpu in self._gpus or []]
        lines = []
        for device, device_id, model in here:
            own = next((row for row in rows if row["device_id"] == device_id), None)
            lines.append(
                DeviceLine(
                    key=f"{device} {device_id}",
                    device=device,
                    device_id=device_id,
                    model=model,
                    here=True,
                    holder=held.get(device),
                    working=waits.get((device, "working"), 0),
                    waiting=waits.get((device, "queued"), 0),
                    measured=0 if own is None else own["measured"],
                    newest=None if own is None else own["newest"],
                )
            )
        known = {one.device_id for one in lines}
        for row in rows:
            if row["device_id"] not in known:
                key = f"{row['device']} {row['device_id']}"
                lines.append(
                    DeviceLine(
                        key=key,
                        device=row["device"],
                        device_id=row["device_id"],
                        model=row["model"] or "",
                        here=False,
                        holder=None,
                        working=0,
                        waiting=0,
                        measured=row["measured"],
                        newest=row["newest"],
                    )
                )
        return tuple(lines)

    def _measured(self, store: Store) -> list[dict[str, Any]]:
        """Devices that the store has measurements of."""
        seq, now = pages.last_seq(store, "measurements"), time.monotonic()
        if self._seen is None or (self._seen[0] != seq and now - self._seen[1] >= RENEWED_S):
            rows = store.read(
                """SELECT device, device_id, count(*) AS measured, max(created_at) AS newest,
                     json_extract(json, '$.environment.gpu') AS model
                   FROM measurements GROUP BY device_id ORDER BY newest DESC"""
            )
            self._seen = (seq, now, [dict(row) for row in rows])
        return self._seen[2]

    def _about(self, store: Store, line: DeviceLine) -> About:
        facts, state = self._now(line)
        profile = None if line.device_id is None else profiles.latest(store, line.device_id, profiles.DEVICE)
        return About(
            line=line,
            facts=facts,
            state=state,
            samples=tuple(self._samples.get(line.key, ())),
            recorded=self._recorded_of(store, line),
            profile=() if profile is None else tuple(profile_words(profile.facts)),
            profiled_at=None if profile is None else profile.created_at,
        )

    def _now(self, line: DeviceLine) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:
        """What a device of this machine is, and its state now, kept as a sample."""
        if not line.here:
            return (), ()
        if line.device == "cpu":
            facts = {"cores": machine.describe()["cores"], "governor": machine.describe()["governor"]}
            values = {"load_1m": float(machine.snapshot()["load_1m"])}
            state = {"load_1m": f"{values['load_1m']:.2f} in the last minute"}
        else:
            monitor = self._monitor(int(line.device.partition(":")[2]))
            facts = {key: value for key, value in monitor.describe().items() if key not in ("gpu", "uuid")}
            read = monitor.read()
            values = {name: float(read[name]) for name in _SAMPLED if isinstance(read.get(name), int | float)}
            state = {name: _state_text(name, value) for name, value in read.items()}
            if monitor.available:
                state["processes"] = ", ".join(map(str, monitor.processes())) or "none"
        samples = self._samples.setdefault(line.key, deque(maxlen=SAMPLES))
        moment = time.monotonic()
        if values and (not samples or moment - samples[-1].seconds >= RENEWED_S / 2):
            samples.append(Sample(moment, values))
        told = [(name.replace("_", " "), str(value)) for name, value in facts.items() if value is not None]
        return tuple(told), tuple(state.items())

    def _monitor(self, ordinal: int) -> Monitor:
        if ordinal not in self._monitors:
            self._monitors[ordinal] = self.monitor(ordinal)
        return self._monitors[ordinal]

    def _recorded_of(self, store: Store, line: DeviceLine) -> Recorded:
        seq, now = pages.last_seq(store, "measurements"), time.monotonic()
        known = self._recorded.get(line.key)
        if known is None or (known[0] != seq and now - known[1] >= RENEWED_S):
            known = self._recorded[line.key] = (seq, now, recorded(store, line.device_id))
        return known[2]


_SAMPLED = ("sm_mhz", "temperature_c", "power_w")
_UNITS = {
    "load_1m": ("load", "{:.2f}"),
    "sm_mhz": ("SM clock", "{:.0f} MHz"),
    "mem_mhz": ("memory clock", "{:.0f} MHz"),
    "temperature_c": ("temperature", "{:.0f} C"),
    "power_w": ("power", "{:.0f} W"),
}


def _state_text(name: str, value: Any) -> str:
    if name in _UNITS and isinstance(value, int | float):
        return _UNITS[name][1].format(value)
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "no"
    return str(value)


def state_name(name: str) -> str:
    """What people call a reading."""
    return _UNITS[name][0] if name in _UNITS else name.replace("_", " ")


def recorded(store: Store, device_id: str | None) -> Recorded:
    """What the last measurements on a physical device noted of it."""
    rows = store.read(
        """SELECT noise_pct, json_extract(json, '$.environment.states') AS states FROM (
             SELECT noise_pct, json, seq FROM measurements WHERE device_id = ?
             ORDER BY created_at DESC, seq DESC LIMIT ?
           ) ORDER BY seq""",
        (device_id, RECENT),
    )
    since = (datetime.now(UTC) - _DAY).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    day = store.read(
        "SELECT coalesce(sum(device_seconds), 0.0) AS seconds, count(*) AS times FROM measurements "
        "WHERE created_at >= ? AND device_id = ?",
        (since, device_id),
    )[0]
    states = [state for row in rows for state in json.loads(row["states"] or "[]") if isinstance(state, dict)]
    return Recorded(
        noise_pct=tuple(row["noise_pct"] for row in rows if row["noise_pct"] is not None),
        sm_mhz=tuple(float(state["sm_mhz"]) for state in states if "sm_mhz" in state),
        temperature_c=tuple(float(state["temperature_c"]) for state in states if "temperature_c" in state),
        throttled=sum(bool(state.get("throttled")) for state in states),
        device_seconds=float(day["seconds"]),
        measurements=int(day["times"]),
    )


def _queue_line(store: Store, request: Request, number: int) -> QueueLine:
    kernel = kernel_of(store, str(request.payload.get("kernel_id", "")))
    return QueueLine(
        id=request.id,
        state=request.state,
        client=request.client,
        kernel="?" if kernel is None else PurePath(kernel.name).name or kernel.id,
        effort=str(request.payload.get("effort", "")),
        progress=request.progress,
        before=requests.position(store, request.id) if number < _TOLD else None,
        eta_s=eta_s(store, request) if number < _TOLD else None,
        created_at=request.created_at,
    )
