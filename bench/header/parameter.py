"""Parameters of functions and templates, from tokens to names and types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from .ctype import BUILTIN_WORDS, element_dtype, scalar_dtype
from .signature import Parameter, TemplateParameter
from .tokens import Token

_POINTER_QUALIFIERS = frozenset(
    ("restrict", "__restrict", "__restrict__", "volatile", "register", "__grid_constant__", "__noalias__")
)
_KEYWORDS = frozenset(("struct", "class", "enum", "union", "typename"))
_TENSOR_MAPS = frozenset(("CUtensorMap", "CUtensorMap_st"))


@dataclass
class TypeNames:
    """Local names for types: `typedef float real;` and `using real = float;`, as the words they stand for."""

    known: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def learn(self, declaration: Sequence[Token]) -> None:
        """Remember what the declaration (without its `;`) names, where it is a plain alias."""
        words = _joined(declaration)
        if not all(word.replace("::", "").isidentifier() or word == "=" for word in words):
            return
        if len(words) >= 3 and words[0] == "typedef":
            self.known[words[-1]] = self.resolve(words[1:-1])
        elif len(words) >= 4 and words[0] == "using" and words[2] == "=":
            self.known[words[1]] = self.resolve(words[3:])

    def resolve(self, words: Sequence[str]) -> tuple[str, ...]:
        """The words with local names replaced."""
        resolved: list[str] = []
        for word in words:
            resolved.extend(self.known.get(word, (word,)))
        return tuple(resolved)


def parse_parameters(stream: Sequence[Token], types: TypeNames, type_parameters: set[str]) -> tuple[Parameter, ...]:
    """The parameters between the parentheses; none for `()` and `(void)`."""
    parts = _split(stream)
    if [_joined(part) for part in parts] in ([[]], [["void"]]):
        return ()
    return tuple(_parameter(part, types, type_parameters) for part in parts)


def parse_template(stream: Sequence[Token]) -> tuple[tuple[TemplateParameter, ...], str | None]:
    """The parameters between `template <` and `>`, and what could not be understood of them."""
    parameters: list[TemplateParameter] = []
    problem: str | None = None
    for part in _split(stream):
        default = next((i for i, token in enumerate(part) if token.text == "="), None)
        words = _joined(part[:default])
        if not words:
            continue
        is_type = words[0] in ("typename", "class")
        if "..." in words or words[0].startswith("template") or (is_type and len(words) != 2) or len(words) < 2:
            problem = f"template parameter `{' '.join(words)}` is not understood"
        parameters.append(TemplateParameter(words[-1], is_type, default is not None))
    if not parameters:
        problem = "it is an explicit specialisation of a template"
    return tuple(parameters), problem


def _parameter(part: Sequence[Token], types: TypeNames, type_parameters: set[str]) -> Parameter:
    default = next((i for i, token in enumerate(part) if token.text == "="), None)
    words = _joined(_without_brackets(part[:default]))
    written = " ".join(_joined(part[:default]))
    dimensions = sum(token.text == "[" for token in part[:default])
    stars = words.count("*") + dimensions
    problem = _shape_problem(words, written, stars)
    if problem is not None:
        name = words[-1] if len(words) > 1 and words[-1].isidentifier() else ""
        ctype = written.removesuffix(name).rstrip()
        return Parameter(name=name, ctype=ctype, pointer=stars > 0, problem=problem)
    first_star = words.index("*") if "*" in words else len(words)
    base = [word for word in words[:first_star] if word not in _POINTER_QUALIFIERS and word not in _KEYWORDS]
    after = [word for word in words[first_star:] if word not in {*_POINTER_QUALIFIERS, "*", "const"}]
    const = "const" in base
    base = [word for word in base if word != "const"]
    name = after[-1] if after else ""
    if not after and "*" not in words and len(base) > 1 and base[-1] not in BUILTIN_WORDS:
        name = base.pop()
    resolved = types.resolve(base)
    const = const or "const" in resolved
    resolved = tuple(word for word in resolved if word != "const")
    parameter = _typed(name, base, resolved, stars=stars, const=const, type_parameters=type_parameters)
    if len(after) > 1:
        return replace(parameter, problem="it has more names than a parameter has; an unknown macro?")
    return parameter


def _typed(
    name: str,
    base: Sequence[str],
    words: tuple[str, ...],
    *,
    stars: int,
    const: bool,
    type_parameters: set[str],
) -> Parameter:
    pointer = stars > 0
    spelled = " ".join(base)
    ctype = f"{'const ' if const and pointer else ''}{spelled}{'*' * pointer}"
    template_type = words[0] if len(words) == 1 and words[0] in type_parameters else None
    dtype = element_dtype(words) if pointer else scalar_dtype(words)
    problem: str | None = None
    if words and words[0] in _TENSOR_MAPS:
        problem = f"tensor maps ({words[0]}) are not supported"
    elif stars > 1:
        problem = "a pointer to a pointer"
    elif not words:
        problem = "its type is missing"
    elif pointer and dtype is None and template_type is None and words != ("void",):
        problem = f"a pointer to {' '.join(words)}, which is no type we know"
    elif not pointer and dtype is None and template_type is None:
        problem = f"{' '.join(words)} by value: structs and types we do not know cannot be passed"
    return Parameter(name, ctype, pointer, const and pointer, dtype, template_type, problem=problem)


def _shape_problem(words: Sequence[str], written: str, stars: int) -> str | None:
    if "..." in words:
        return "a variable number of arguments"
    if "(" in words:
        return "a function pointer, or an unknown macro"
    if "&" in words or "&&" in words:
        return "a reference"
    if stars > 1:
        return "a pointer to a pointer or an array of arrays"
    return None if written else "it is empty"


def _split(stream: Sequence[Token]) -> list[list[Token]]:
    """Split at commas outside of all brackets; `<` counts as a bracket until the part's `=`."""
    parts: list[list[Token]] = [[]]
    depth = angles = 0
    default = False
    for token in stream:
        text = token.text if token.kind == "sign" else ""
        depth += (text in ("(", "[", "{")) - (text in (")", "]", "}"))
        if not default:
            angles += (text == "<") - (text == ">")
        if text == "," and depth == 0 and angles <= 0:
            parts.append([])
            default, angles = False, 0
            continue
        default = default or (text == "=" and depth == 0)
        parts[-1].append(token)
    return parts


def _without_brackets(part: Sequence[Token]) -> list[Token]:
    """Without array dimensions and attributes in square brackets."""
    kept: list[Token] = []
    depth = 0
    for token in part:
        depth += token.text == "["
        if depth == 0:
            kept.append(token)
        depth -= token.text == "]"
    return kept


def _joined(part: Sequence[Token]) -> list[str]:
    """The words of a declaration, qualified names and template arguments joined: `std::array<float,4>` is one word."""
    words: list[str] = []
    glue = False
    angles = 0
    for token in part:
        text = token.text
        if text == "::" or (text == "<" and words) or angles:
            words[-1:] = [f"{words[-1] if words else ''}{text}"]
            angles += (text == "<") - (text == ">")
            glue = text == "::"
        elif glue:
            words[-1] += text
            glue = False
        else:
            words.append(text)
    return words
