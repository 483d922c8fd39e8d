"""The policies by name."""

from __future__ import annotations

from ....store.errors import InputError
from .gain import Gain
from .halving import Halving
from .protocol import Policy
from .puct import Puct

POLICIES: dict[str, Policy] = {
    policy.name: policy
    for policy in (
        Gain(),
        Puct(),
        Halving(),
        Gain("control-all", "order", guided=False),
        Gain("control-random", "random", guided=False),
    )
}


def policy_named(name: str) -> Policy:
    """The policy of that name. Raises InputError."""
    if name not in POLICIES:
        raise InputError("there is no such policy", value=name, next_step=f"Choose one of: {', '.join(POLICIES)}.")
    return POLICIES[name]
