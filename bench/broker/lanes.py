"""Which of a device's lanes a request will be measured in."""

from __future__ import annotations

from ...store import kernels
from ...store.database import Store
from ...store.models import Request
from ..devices.catalogue import runs_hosted


def is_hosted(store: Store, request: Request) -> bool:
    """Whether it is the host-code lane for Python; False where the store does not know the request's kernels."""
    ids = [request.payload.get(side) for side in ("kernel_id", "baseline_id")]
    found = [kernels.get(store, str(identity)) for identity in ids if identity]
    return runs_hosted(*(kernel.language for kernel in found if kernel is not None))
