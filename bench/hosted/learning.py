"""What an oracle learns of a case from the reference, and what tells right outputs of a content from wrong ones."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from typing import Any

from ...store.models import Case, Mismatch, Task
from ..correctness.gate import Expectation, expect
from ..correctness.place import on_host
from .judge import Gate, Reference, gate, lower_inputs, null_outputs
from .problems import CannotRun, Definition, GpuModeDefinition, TensorDefinition, array_module, array_of
from .trees import dense_clone, flatten, form, unflatten
from .wire import TensorForm


@dataclass
class Learned:
    """One case as its reference shows it. `mutable`: numbers of the inputs that the reference changes."""

    tree: Any
    forms: list[TensorForm]
    mutable: set[int]
    output_tree: Any
    output_forms: list[TensorForm]
    aliases: list[int | None]
    gate: Gate | None
    notes: list[str]
    passing: list[str]
    terms: float = 1.0


@dataclass
class Content:
    """One content of a case's inputs, and what is known of the right answer to it."""

    inputs: Any
    tensors: list[Any]
    gate: Gate | None = None
    expectation: Expectation | None = None
    """Instead of a gate, where the task is one of tensors."""


@dataclass
class Opened:
    """A task that was opened: how its reference runs, and what was learned of its cases and contents so far."""

    task: Task
    definition: Definition
    folder: tempfile.TemporaryDirectory[str]
    init: Any
    weight_seed: int
    learned: dict[str, Learned] = field(default_factory=dict)
    contents: dict[tuple[str, int], Content] = field(default_factory=dict)


def learn_case(opened: Opened, case: Case, seed: int, other_seed: int) -> Learned:
    """What a case's reference shows of it, and whether the case can tell right from wrong; raises CannotRun."""
    definition = opened.definition
    content = content_of(definition.inputs(case, seed))
    tree = flatten(content.inputs, [])
    forms = [form(tensor) for tensor in content.tensors]
    if isinstance(definition, TensorDefinition):
        return _learn_tensors(definition, case, tree, forms)
    used = copy_of(content)
    first = Reference.of(definition.run(used.inputs, opened.init, opened.weight_seed))
    mutable = {
        number
        for number, (before, after) in enumerate(zip(content.tensors, used.tensors, strict=True))
        if not _same(before, after)
    }
    aliases = [_shares(tensor, used.tensors) for tensor in first.tensors]
    found = Learned(tree, forms, mutable, first.tree, [form(t) for t in first.tensors], aliases, None, [], [])
    right = Reference(first.tree, tuple(dense_clone(tensor) for tensor in first.tensors))
    other = definition.inputs(case, other_seed)
    previous = Reference.of(definition.run(other, opened.init, opened.weight_seed))
    nulls = null_outputs(content.inputs, right, previous)
    if isinstance(definition, GpuModeDefinition):
        nulls["NaN everywhere"] = [_poisoned(tensor) for tensor in right.tensors]
        for name, tensors in nulls.items():
            if not wrong_by_check(definition, content, right.tree, tensors):
                found.passing.append(name)
        if text := wrong_by_check(definition, content, right.tree, list(right.tensors)):
            raise CannotRun(f"check_implementation refuses what the reference itself returned: {text[:200]}")
        return found
    found.terms = _terms(opened, content, right)
    found.gate, note = gate_of(opened, case, content, found.terms, right)
    found.notes += [note] if note else []
    for name, tensors in nulls.items():
        if found.gate.accepts(tensors):
            found.passing.append(name)
    rounded, bits = lower_inputs(content.inputs)
    if bits:
        lower = Reference.of(definition.run(rounded, opened.init, opened.weight_seed, bits=bits))
        if found.gate.accepts(lower.tensors):
            found.notes.append("its outputs do not tell the declared precision from the next lower one")
    return found


def gate_of(
    opened: Opened, case: Case, content: Content, terms: float, declared: Reference | None = None
) -> tuple[Gate, str]:
    """The gate of one content, by golden values where the reference can be had in float64, and a note where not.

    declared: the reference at the declared precision, where it was run already.
    """
    definition, init, seed = opened.definition, opened.init, opened.weight_seed
    if declared is None:
        declared = Reference.of(definition.run(copy_of(content).inputs, init, seed))
    golden, note = None, ""
    try:
        golden = Reference.of(definition.run(copy_of(content).inputs, init, seed, wide=True))
    except CannotRun as error:
        note = f"no float64 golden values, so the reference's own are the measure ({error})"
    rounded, bits = lower_inputs(content.inputs)
    lower = None
    if bits:
        lower = Reference.of(definition.run(copy_of(content_of(rounded)).inputs, init, seed, bits=bits))
    return gate(case.name, golden, declared, lower, terms=terms), note


def wrong_by_check(definition: GpuModeDefinition, content: Content, tree: Any, tensors: list[Any]) -> str:
    """What the problem's own check says against outputs; empty where it accepts them."""
    outputs = unflatten(tree, [tensor.clone() for tensor in tensors], sequence=tuple)
    try:
        return definition.verdict(copy_of(content).inputs, outputs)
    except CannotRun as error:
        return str(error)


def content_of(inputs: Any) -> Content:
    """Inputs as made, each tensor with memory of its own and no gaps, and these tensors in the order of their tree."""
    return copy_of(Content(inputs, []))


def copy_of(content: Content) -> Content:
    """The same values in memory of their own, for code that may change them; tuples and lists as they were."""
    tensors: list[Any] = []
    copied = _copied(content.inputs, tensors)
    return Content(copied, tensors)


def _copied(value: Any, tensors: list[Any]) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        tensors.append(dense_clone(value))
        return tensors[-1]
    if isinstance(value, list | tuple):
        return type(value)(_copied(entry, tensors) for entry in value)
    if isinstance(value, dict):
        return {key: _copied(entry, tensors) for key, entry in value.items()}
    return value


def _same(one: Any, other: Any) -> bool:
    """Whether two tensors of one form hold the same bits, compared where they lie."""
    import torch

    return bool(torch.equal(_raw(one), _raw(other)))


def _raw(tensor: Any) -> Any:
    import torch

    flat = tensor.detach().contiguous().reshape(-1)
    flat = torch.view_as_real(flat).reshape(-1) if flat.is_complex() else flat
    return flat.view(torch.uint8)


def _shares(tensor: Any, inputs: list[Any]) -> int | None:
    """The number of the input whose memory a tensor shares."""
    mine = tensor.untyped_storage().data_ptr()
    for number, other in enumerate(inputs):
        if mine and other.untyped_storage().data_ptr() == mine:
            return number
    return None


def _poisoned(tensor: Any) -> Any:
    import torch

    return torch.full_like(tensor, float("nan")) if tensor.is_floating_point() else torch.full_like(tensor, 85)


def _terms(opened: Opened, content: Content, right: Reference) -> float:
    """Terms of the longest sum behind an output element, as far as counting tells."""
    from torch.utils.flop_counter import FlopCounterMode

    given = sum(tensor.numel() for tensor in content.tensors)
    made = max(sum(tensor.numel() for tensor in right.tensors), 1)
    counter = FlopCounterMode(display=False)
    with counter:
        opened.definition.run(copy_of(content).inputs, opened.init, opened.weight_seed)
    return max(1.0, float(given / made), float(counter.get_total_flops() / (2 * made)))


def _learn_tensors(definition: TensorDefinition, case: Case, tree: Any, forms: list[TensorForm]) -> Learned:
    roles = [tensor.role for tensor in definition.task.tensors]
    outputs = [number for number, role in enumerate(roles) if role != "in"]
    tensors: Any = [{"tensor": place} for place in range(len(outputs))]
    output_tree = tensors if len(outputs) > 1 else tensors[0]
    aliases: list[int | None] = [*outputs]
    output_forms = [forms[number] for number in outputs]
    return Learned(tree, forms, set(outputs), output_tree, output_forms, aliases, None, [], [])


def judge_tensors(definition: TensorDefinition, case: Case, content: Content, tensors: list[Any]) -> Mismatch | None:
    """Whether outputs of a task of ours are right, by the gate that all lanes have."""
    import numpy as np

    task = definition.task
    if content.expectation is None:
        xp = np if on_host(task, case) else array_module(content.tensors[0])
        given = zip(task.tensors, content.tensors, strict=True)
        arrays = {tensor.name: array_of(value, xp) for tensor, value in given if tensor.role != "out"}
        content.expectation = expect(task, case, arrays, xp)
    xp = content.expectation.xp
    outputs = zip([tensor for tensor in task.tensors if tensor.role != "in"], tensors, strict=True)
    return content.expectation.check({tensor.name: array_of(value, xp) for tensor, value in outputs})
