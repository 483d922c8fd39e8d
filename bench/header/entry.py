"""Launch entries: `softmax_rows`, or `gemm_part<BM, BN, 32>` with template arguments, and what they instantiate to."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...store.errors import InputError
from ...store.models import Dtype, Kernel
from .ctype import scalar_dtype
from .expression import evaluate
from .names import suggestion
from .signature import Signature

_ENTRY = re.compile(r"\s*(?P<base>[A-Za-z_]\w*(?:(?:::|\.)[A-Za-z_]\w*)*)\s*(?:<(?P<arguments>[^<>]*)>)?\s*", re.ASCII)


@dataclass(frozen=True)
class Instance:
    """An entry with its template arguments known.

    expression: what to ask the compiler for (an NVRTC name expression), e.g. `gemm_part<128, 64, 32>`;
    types: the dtypes that type parameters of the template stand for.
    """

    expression: str
    signature: Signature
    types: dict[str, Dtype] = field(default_factory=dict)


def split_entry(entry: str) -> tuple[str, tuple[str, ...]]:
    """`gemm_part<BM, min(BN, 64)>` as `("gemm_part", ("BM", "min(BN, 64)"))`; no arguments for a plain name.

    Raises InputError where the entry is no name with at most one list of template arguments.
    """
    match = _ENTRY.fullmatch(entry)
    if match is None:
        raise InputError(
            "a launch's entry is no kernel name",
            value=entry,
            next_step="Write the name alone, or name<arguments> for a template; arguments are expressions or types.",
        )
    if match["arguments"] is None:
        return match["base"], ()
    arguments: list[str] = [""]
    depth = 0
    for character in match["arguments"]:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            arguments.append("")
        else:
            arguments[-1] += character
    return match["base"], tuple(argument.strip() for argument in arguments if argument.strip())


def is_type(argument: str) -> bool:
    """Whether a template argument is a type (`float`, `unsigned int`) rather than an expression."""
    return scalar_dtype(argument.split()) is not None


def find_signature(base: str, signatures: Sequence[Signature]) -> Signature:
    """The signature called `base`: the whole qualified name, or its last part where only one has it.

    Raises InputError with the nearest name where there is none, or the choices where there are several.
    """
    exact = [signature for signature in signatures if signature.name == base]
    found = exact or [signature for signature in signatures if signature.name.rpartition("::")[2] == base]
    if not found:
        raise InputError(
            "the file has no such kernel", value=base, next_step=suggestion(base, {entry.name for entry in signatures})
        )
    if len(found) > 1:
        listed = "; ".join(f"line {signature.line}: {signature}" for signature in found)
        raise InputError(
            "several kernels of the file have this name", value=base, next_step=f"Rename all but one. Found: {listed}."
        )
    return found[0]


def instantiate(entry: str, signatures: Sequence[Signature], values: Mapping[str, int]) -> Instance:
    """The kernel an entry names, its template arguments evaluated with `values` (tunables and device constants).

    Raises InputError for an unknown kernel, template arguments that do not match its parameters, or a bad expression.
    """
    base, arguments = split_entry(entry)
    signature = find_signature(base, signatures)
    parameters = signature.template
    required = sum(not parameter.default for parameter in parameters)
    if not required <= len(arguments) <= len(parameters) or (parameters and "<" not in entry):
        wanted = f"{signature.name}<{', '.join(parameter.name for parameter in parameters)}>"
        raise InputError(
            f"the entry's template arguments do not match the kernel on line {signature.line}",
            value=entry,
            next_step=f"Write {wanted if parameters else signature.name}, with tunables or numbers as arguments.",
        )
    written: list[str] = []
    types: dict[str, Dtype] = {}
    for position, (argument, parameter) in enumerate(zip(arguments, parameters, strict=False), 1):
        what = f"template argument {position} of launch {entry}"
        dtype = scalar_dtype(argument.split())
        if parameter.is_type != (dtype is not None):
            kind = "a type" if parameter.is_type else "an integer"
            raise InputError(f"{what} must be {kind}", value=argument, next_step=f"Give {kind} for {parameter.name}.")
        if dtype is not None:
            types[parameter.name] = dtype
            written.append(" ".join(argument.split()))
        else:
            written.append(str(evaluate(argument, values, what=what)))
    expression = f"{signature.name}<{', '.join(written)}>" if parameters else signature.name
    return Instance(expression, signature, types)


def name_expressions(
    kernel: Kernel, signatures: Sequence[Signature], constants: Mapping[str, int] | None = None
) -> dict[str, str]:
    """For each launch entry as the header writes it, what to ask the compiler for: `{"scan<BLOCK>": "scan<256>"}`."""
    values = {**(constants or {}), **kernel.tunables}
    return {launch.entry: instantiate(launch.entry, signatures, values).expression for launch in kernel.launches}
