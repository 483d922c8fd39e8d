"""Profiles of physical devices: what was measured of one once (bandwidth, cache, launch gap, …), by kind of profile."""

from __future__ import annotations

from typing import Any

from .clock import utc_now
from .database import Store
from .identity import new_id
from .models import Noun
from .rows import Table

DEVICE = "device"
"""The kind of the profile that floors and briefs follow from."""


class Profile(Noun):
    """One reading of a physical device; `facts` carries its units in the names."""

    id: str
    device_id: str
    kind: str
    facts: dict[str, Any]
    created_at: str


TABLE = Table("profiles", Profile, ("device_id", "kind"))


def save(store: Store, device_id: str, kind: str, facts: dict[str, Any]) -> Profile:
    """Save a new profile of a device and return it; earlier ones stay."""
    profile = Profile(id=new_id("p"), device_id=device_id, kind=kind, facts=facts, created_at=utc_now())
    with store.write() as db:
        TABLE.insert(db, profile)
    return profile


def latest(store: Store, device_id: str, kind: str) -> Profile | None:
    """The newest profile of that kind of a device, or None."""
    found = TABLE.find(
        store, ["device_id = ?", "kind = ?"], [device_id, kind], order="created_at DESC, seq DESC", limit=1
    )
    return found[0] if found else None
