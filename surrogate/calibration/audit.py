"""The audit: measuring, with a logged probability, something that was decided `trust` or `drop`.

Without it calibration sees only what looked doubtful, and regret is invisible.
"""

from __future__ import annotations

import hashlib

from ...store.errors import InputError
from ...store.models import DecisionKind

RATE = 0.05
_BITS = 53


def audit_probability(kind: DecisionKind, rate: float = RATE) -> float:
    """The probability with which a decision leads to a measurement: its pair's propensity. Raises InputError."""
    if not 0 < rate <= 1:
        raise InputError("The audit rate must be above 0 and at most 1", value=rate, next_step="The default is 0.05.")
    return 1.0 if kind == "measure" else rate


def drawn(decision_id: str, seed: str, probability: float) -> bool:
    """Whether a decision is audited: a draw that anyone can repeat from the decision's id and the seed.

    The seed must be unknown to whoever proposes kernels, or they could choose what is looked at.
    """
    digest = hashlib.sha256(f"{seed}\n{decision_id}".encode()).digest()
    return (int.from_bytes(digest[:8], "big") >> (64 - _BITS)) < probability * (1 << _BITS)
