"""A forecaster's record on a device: verified pairs out of the store, and the calibration and promise they allow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..store.database import Store
from ..store.verified import Verified, forecaster_before, verified
from ..surrogate import density
from ..surrogate.backends.agent import track_record, worst_misses
from ..surrogate.calibration.drift import Drift, drift
from ..surrogate.calibration.fit import Calibration, fit
from ..surrogate.calibration.pairs import Pair, one_per_kernel, pair_of
from ..surrogate.calibration.promise import Promise, learn
from ..surrogate.metrics.calibration_error import ece
from .neighbours import kernel_of
from .places import Place

RECENT = 50
"""Verified pairs among which the worst misses are looked for."""
_CACHED = 64


@dataclass(frozen=True)
class Standing:
    """What a forecaster's verified pairs allow on a device."""

    calibration: Calibration
    promise: Promise
    drift: Drift
    record: tuple[str, ...]
    """How it did here, for the brief: a line in all, then its worst misses; empty without a verified forecast."""


_standings: dict[tuple[object, ...], Standing] = {}


def standing_of(store: Store, forecaster: str, place: Place, alpha: float) -> Standing:
    """Calibration, promise, drift and record of a forecaster on a device, from its verified pairs in the store."""
    # Only a measurement can verify a forecast, and its row is renewed when its quarantine changes.
    moment = store.read_one("SELECT max(seq), count(*) FROM measurements")
    key = (str(store.path), tuple(moment or ()), forecaster, place.device, place.device_id, alpha)
    if key not in _standings:
        found = verified(store, device=place.device, device_id=place.device_id, forecaster=forecaster)
        pairs = pairs_of(found)
        if len(_standings) >= _CACHED:
            _standings.clear()
        _standings[key] = Standing(fit(pairs), learn(pairs, alpha), drift(pairs), record_of(store, forecaster, found))
    return _standings[key]


def pairs_of(found: Sequence[Verified]) -> list[Pair]:
    """The verified pairs that calibration and promise may stand on, one a kernel, in time order.

    A forecast that was decided `trust` or `drop` counts only where the audit drew it: what else was measured of those
    was picked by somebody, with a probability that nobody knows. So does none without a decision.
    """
    pairs = []
    for one in found:
        decision = one.decision
        if decision is None or not (decision.kind == "measure" or decision.audited):
            continue
        pair = pair_of(one.forecast, one.measurement, decision.audit_probability or 1.0)
        if pair is not None:
            pairs.append(pair)
    return one_per_kernel(pairs)


def record_of(store: Store, forecaster: str, found: Sequence[Verified]) -> tuple[str, ...]:
    """What the brief tells a forecaster of its own record: how often right, how calibrated, the worst recent misses.

    All verified forecasts count here, whatever made somebody measure them.
    """
    known = {pair.kernel_id: pair for one in found if (pair := pair_of(one.forecast, one.measurement)) is not None}
    pairs = one_per_kernel(list(known.values()))
    if not pairs:
        return ()
    wins = np.array([pair.p_correct * float(density.p_faster(pair.p_bins)) for pair in pairs])
    won = np.array([pair.ok and (pair.log2_speedup or 0.0) > 0 for pair in pairs])
    error = ece(wins, won, bins=min(15, max(1, len(pairs) // 5)))
    head = f"{forecaster}: {track_record(pairs).line}, calibration error {error:.2f}"
    recent = [(pair, _tried(store, pair)) for pair in pairs[-RECENT:]]
    return (head, *worst_misses(recent))


def _tried(store: Store, pair: Pair) -> str:
    kernel = kernel_of(store, pair.kernel_id)
    if kernel is None:
        return pair.group
    tunables = " ".join(f"{name}={value}" for name, value in sorted(kernel.tunables.items()))
    return f"{pair.group} {Path(kernel.name).name} {tunables}".strip()


def newest_agent(store: Store, place: Place) -> str | None:
    """The agent that forecast last on a device: who is likely to read a brief that nobody signed. None without one."""
    return forecaster_before(store, device=place.device, prefix="agent:")
