"""Nested values with tensors in them, as data: what a process of ours with torch says of inputs and outputs.

A tensor is `{"tensor": number}`, a list or tuple a list, a dict `{"dict": …}`, any other plain value `{"value": …}`.
"""

from __future__ import annotations

from typing import Any

from .wire import ALIGNMENT, ITEM_BYTES, MOST_DIMENSIONS, TensorForm

MOST_TENSORS = 64


def flatten(value: Any, tensors: list[Any]) -> Any:
    """The tree of a value; its tensors are appended to `tensors`. Raises TypeError for what cannot travel."""
    import torch

    if isinstance(value, torch.Tensor):
        if len(tensors) >= MOST_TENSORS:
            raise TypeError(f"more than {MOST_TENSORS} tensors")
        tensors.append(value)
        return {"tensor": len(tensors) - 1}
    if isinstance(value, list | tuple):
        return [flatten(entry, tensors) for entry in value]
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise TypeError("a dict whose keys are no strings")
        return {"dict": {key: flatten(entry, tensors) for key, entry in value.items()}}
    if value is None or isinstance(value, bool | int | float | str):
        return {"value": value}
    raise TypeError(f"a {type(value).__name__}, where only tensors, numbers, texts, and lists and dicts of these do")


def unflatten(tree: Any, tensors: list[Any], *, sequence: type[Any] = list) -> Any:
    """The value of a tree. Lists become `sequence`, as the tree does not tell lists from tuples."""
    if isinstance(tree, list):
        return sequence(unflatten(entry, tensors, sequence=sequence) for entry in tree)
    if "dict" in tree:
        return {key: unflatten(entry, tensors, sequence=sequence) for key, entry in tree["dict"].items()}
    return tensors[tree["tensor"]] if "tensor" in tree else tree["value"]


def form(tensor: Any) -> TensorForm:
    """The form of a torch tensor. Raises TypeError for sparse and other tensors without strides."""
    import torch

    if tensor.layout != torch.strided or tensor.is_quantized:
        raise TypeError(f"a tensor of layout {tensor.layout}")
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in ITEM_BYTES or tensor.dim() > MOST_DIMENSIONS:
        raise TypeError(f"a tensor of dtype {name} with {tensor.dim()} dimensions")
    return TensorForm(name, tuple(tensor.shape), tuple(tensor.stride()))


def dense_clone(tensor: Any) -> Any:
    """A copy with its own memory: strides kept where elements neither share memory nor leave gaps, else contiguous."""
    import torch

    kept = torch.preserve_format if form(tensor).dense else torch.contiguous_format
    return tensor.detach().clone(memory_format=kept)


def view_at(buffer: Any, offset: int, shape: TensorForm) -> Any:
    """A torch tensor on bytes of a buffer (an mmap, maybe read-only)."""
    import warnings

    import torch

    dtype = getattr(torch, shape.dtype)
    if shape.span_bytes == 0:
        return torch.empty(shape.shape, dtype=dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the memory of inputs is read-only on purpose
        count = shape.span_bytes // ITEM_BYTES[shape.dtype]
        flat = torch.frombuffer(buffer, dtype=dtype, count=count, offset=offset)
    return flat.as_strided(shape.shape, shape.strides)


def placed(forms: list[TensorForm], start: int = 0) -> tuple[list[int], int]:
    """Offsets for tensors one after another, and where the last one ends."""
    offsets = []
    for one in forms:
        offsets.append(start)
        start += -(-max(one.span_bytes, 1) // ALIGNMENT) * ALIGNMENT
    return offsets, start
