"""What a kernel's entry points are called and what they take: read from the source, without a compiler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from ...store.models import Dtype, Language


@dataclass(frozen=True)
class Parameter:
    """One parameter. What could not be understood stands in `problem`, and nothing about it is guessed.

    ctype: the type as written, without qualifiers of the pointer itself; dtype: of the scalar or of the pointer's
    target, None where it is `void`, a type parameter of the template (then `template_type` names it), or unknown.
    const: the target of the pointer is const. constant: a Triton `constexpr`, given by value at compile time.
    default: it may be left out (Python).
    """

    name: str
    ctype: str
    pointer: bool = False
    const: bool = False
    dtype: Dtype | None = None
    template_type: str | None = None
    constant: bool = False
    default: bool = False
    problem: str | None = None

    def __str__(self) -> str:
        return f"{self.ctype} {self.name}".strip()


@dataclass(frozen=True)
class TemplateParameter:
    """One template parameter: a type (`typename T`) or a value (`int BM`), with or without a default."""

    name: str
    is_type: bool
    default: bool = False


@dataclass(frozen=True)
class Signature:
    """One entry point. `problem` says what of it could not be understood; `line` counts from 1 in its file."""

    name: str
    """Qualified by its namespaces: `detail::gemm_part`."""
    parameters: tuple[Parameter, ...]
    template: tuple[TemplateParameter, ...] = ()
    returns: str = "void"
    extern_c: bool = False
    line: int = 0
    problem: str | None = None

    def __str__(self) -> str:
        template = f"<{', '.join(parameter.name for parameter in self.template)}>" if self.template else ""
        return f"{self.name}{template}({', '.join(map(str, self.parameters))})"


def signatures(source: str, language: Language, includes: Mapping[str, str] | None = None) -> tuple[Signature, ...]:
    """The entry points of a source, in its order, those of its included files first.

    CUDA: definitions of `__global__` functions. C: function definitions that are neither `static`, `inline`, in an
    unnamed namespace, nor `main`. Triton: functions decorated with `jit`. torch: top-level functions and classes.
    Local `typedef`, `using` and object-like `#define` are followed, other macros are not. Never raises for bad source.
    """
    return _cached(source, language, tuple((includes or {}).values()))


def hidden_functions(source: str, language: Language, includes: Mapping[str, str] | None = None) -> dict[str, str]:
    """Functions of a C or CUDA source that are no entry points, by name: why they are none, as `it is static`."""
    if language not in ("c", "cuda"):
        return {}
    from .declarations import c_hidden

    return c_hidden((*(includes or {}).values(), source), cuda=language == "cuda")


@lru_cache(maxsize=512)  # kernels compiled ahead come again when they are measured
def _cached(source: str, language: Language, includes: tuple[str, ...]) -> tuple[Signature, ...]:
    if language in ("c", "cuda"):
        from .declarations import c_signatures

        return c_signatures((*includes, source), cuda=language == "cuda")
    from .python_signature import python_signatures

    return python_signatures(source, triton=language == "triton")
