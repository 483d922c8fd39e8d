"""What a request needs of the hand that measures it."""

from __future__ import annotations

from typing import NamedTuple

from ...store import kernels
from ...store.database import Store
from ...store.models import Request
from ..devices.catalogue import runs_hosted


class Needs(NamedTuple):
    """task_id: of its kernel, "" where the store does not know that; hosted: the host-code lane for Python."""

    task_id: str = ""
    hosted: bool = False


def needs_of(store: Store, request: Request) -> Needs:
    """Read from the request's kernels."""
    ids = [request.payload.get(side) for side in ("kernel_id", "baseline_id")]
    found = [kernel for identity in ids if identity if (kernel := kernels.get(store, str(identity))) is not None]
    if not found:
        return Needs()
    return Needs(found[0].task_id, runs_hosted(*(kernel.language for kernel in found)))
