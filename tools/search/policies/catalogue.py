"""The policies by name."""

from __future__ import annotations

from ....store.errors import InputError
from .halving import Halving
from .protocol import Policy
from .puct import Puct

POLICIES: dict[str, Policy] = {
    policy.name: policy
    for policy in (
        Puct(),
        Halving(),
        Puct("control-all", "order", guided=False),
        Puct("control-random", "random", guided=False),
    )
}


def policy_named(name: str) -> Policy:
    """The policy of that name. Raises InputError."""
    if name not in POLICIES:
        raise InputError("there is no such policy", value=name, next_step=f"Choose one of: {', '.join(POLICIES)}.")
    return POLICIES[name]
