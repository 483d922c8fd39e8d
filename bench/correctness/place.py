"""Where a case is answered on a machine with a GPU: by numpy, or where its tensors lie."""

from __future__ import annotations

from ...store.models import Case, Task
from ..tasks.floor import operations
from ..tasks.shapes import bytes_of

HOST_BYTES = 32 << 20
HOST_OPERATIONS = 4e9
"""Cases up to these sizes get inputs and answers from numpy: cupy compiles a kernel for each new operation, which takes
seconds in all where its cache is empty."""


def on_host(task: Task, case: Case) -> bool:
    """Whether numpy is the faster one, its start included."""
    size = sum(bytes_of(tensor, case) for tensor in task.tensors)
    return size <= HOST_BYTES and operations(task, case) <= HOST_OPERATIONS
