"""A header to paste into a bare file: what its signatures say, filled in with the task where one is known."""

from __future__ import annotations

from collections.abc import Sequence

from ...store.models import Language, Task
from .block import C_OPENING, PYTHON_CLOSING, PYTHON_OPENING
from .ctype import holds
from .expression import is_name
from .signature import Parameter, Signature


def scaffold(
    language: Language,
    signatures: Sequence[Signature],
    task: Task | None = None,
    known_tasks: Sequence[Task] = (),
) -> str:
    """A header for the last kernel of the file that we understand, ready to paste; it parses with `find_header`.

    task: the task it is for; else the one of `known_tasks` whose tensors and sizes the parameters are named after; else
    a `[task]` table with inputs and outputs told apart by `const`, whose shapes are to be corrected.
    """
    usable = [entry for entry in signatures if entry.problem is None and not any(p.problem for p in entry.parameters)]
    tasks = known_tasks if task is None else (task,)
    matching = ((signature, known) for signature in usable for known in tasks if _matches(signature, known))
    fallback = usable[-1] if usable else Signature("kernel_name", ())
    signature, chosen = next(matching, (fallback, task))
    pointers, scalars = _runtime(signature)
    lines = [f'task = "{chosen.name}"'] if chosen is not None else _inline_task(pointers, scalars)
    lines += _launch(language, signature, chosen)
    tunables = [parameter.name for parameter in signature.template if not parameter.is_type]
    tunables += [parameter.name for parameter in signature.parameters if parameter.constant]
    if tunables:
        values = "[1024, 512]" if language == "triton" else "[128, 64]"
        lines += ["[tune]", *(f"{name} = {values}" for name in tunables if is_name(name))]
    if language in ("triton", "torch"):
        return "\n".join([PYTHON_OPENING, *(f"# {line}" for line in lines), PYTHON_CLOSING])
    return "\n".join([C_OPENING, *lines, "*/"])


def _runtime(signature: Signature) -> tuple[list[Parameter], list[Parameter]]:
    """The pointers and the scalars of a signature that have names; Triton's constants are neither."""
    named = [parameter for parameter in signature.parameters if is_name(parameter.name) and not parameter.constant]
    return [entry for entry in named if entry.pointer], [entry for entry in named if not entry.pointer]


def _matches(signature: Signature, task: Task) -> bool:
    """Whether the parameters are the task's tensors, of their dtypes, and sizes of it."""
    pointers, scalars = _runtime(signature)
    tensors = {tensor.name: tensor.dtype for tensor in task.tensors}
    return (
        {entry.name for entry in pointers} == set(tensors)
        and {entry.name for entry in scalars} <= set(task.size_names)
        and all(entry.dtype is None or holds(entry.dtype, tensors[entry.name]) for entry in pointers)
    )


def _launch(language: Language, signature: Signature, task: Task | None) -> list[str]:
    template = [
        "float" if parameter.is_type else parameter.name for parameter in signature.template if is_name(parameter.name)
    ]
    entry = f"{signature.name}<{', '.join(template)}>" if template else signature.name
    _, scalars = _runtime(signature)
    args = ", ".join(f'"{name}"' for name in _args(signature, task))
    lines = ["[[launch]]", f'entry = "{entry}"', f"args = [{args}]"]
    if language in ("cuda", "triton"):
        sizes = task.size_names if task is not None else tuple(entry.name for entry in scalars if _is_size(entry))
        blocks = (entry.name for entry in signature.parameters if entry.constant and is_name(entry.name))
        lines.append(f'grid = ["{f"cdiv({sizes[0]}, {next(blocks, 256)})" if sizes else "1"}"]')
    if language == "cuda":
        lines.append("block = [256]")
    return lines


def _args(signature: Signature, task: Task | None) -> list[str]:
    """Parameters by name; those the task has no name for take its next input, output or size in order."""
    pointers, scalars = _runtime(signature)
    names = [entry.name for entry in signature.parameters if entry in (*pointers, *scalars)]
    if task is None:
        return names
    free_tensors = [tensor for tensor in task.tensors if tensor.name not in names]
    free_sizes = [name for name in task.size_names if name not in names]
    known = {*(tensor.name for tensor in task.tensors), *task.size_names}
    args: list[str] = []
    for entry in (entry for entry in signature.parameters if entry in (*pointers, *scalars)):
        if entry.name in known:
            args.append(entry.name)
        elif entry.pointer:
            fitting = [tensor for tensor in free_tensors if (tensor.role == "in") == entry.const]
            fitting = [tensor for tensor in fitting if entry.dtype is None or holds(entry.dtype, tensor.dtype)]
            free_tensors = [tensor for tensor in free_tensors if tensor not in fitting[:1]]
            args.append(fitting[0].name if fitting else entry.name)
        else:
            args.append(free_sizes.pop(0) if free_sizes and _is_size(entry) else entry.name)
    return args


def _is_size(parameter: Parameter) -> bool:
    return parameter.dtype is None or parameter.dtype[0] in "iu"


def _inline_task(pointers: Sequence[Parameter], scalars: Sequence[Parameter]) -> list[str]:
    sizes = [entry.name for entry in scalars if _is_size(entry)] or ["N"]
    shape = ", ".join(f'"{name}"' for name in sizes[:2])
    lines = ["[task]", 'name = "my_task"']
    for entry in pointers:
        role = "in" if entry.const else "out"
        lines.append(f'{role}.{entry.name} = {{ dtype = "{entry.dtype or "f32"}", shape = [{shape}] }}')
    big, small = (", ".join(f"{name} = {size}" for name in sizes) for size in (1024, 33))
    return [
        *lines,
        'reference = "reference.py:reference"',
        'precision = { multiply = "f32", accumulate = "f32" }',
        f"timed = [{{ {big} }}]",
        f"checked = [{{ {small} }}]",
    ]
