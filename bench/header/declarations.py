"""Function definitions in C, C++ and CUDA source, found by walking its tokens outside of function bodies."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from .parameter import TypeNames, parse_parameters, parse_template
from .signature import Signature
from .tokens import Token, scan, tokens

_OBJECT_MACRO = re.compile(r"#\s*define\s+([A-Za-z_]\w*)(?:\s+(.*))?$", re.DOTALL)
_CONDITIONAL = re.compile(r"#\s*(if|ifdef|ifndef|elif|elifdef|elifndef|else|endif)\b\s*(.*)", re.DOTALL)
_ATTRIBUTES = frozenset(
    ("__launch_bounds__", "__attribute__", "__cluster_dims__", "__block_size__", "__maxnreg__", "alignas", "_Pragma")
)
_INTERNAL = frozenset(("static", "inline", "__inline__", "__inline", "constexpr", "consteval", "::"))
_NO_FUNCTION = frozenset(("struct", "class", "union", "enum", "operator", "="))
_NO_TYPE = frozenset(("extern", "static", "inline", "__global__", "__host__", "__noinline__"))
_OPEN, _CLOSE = {"(": 1, "[": 1, "{": 1}, {")": 1, "]": 1, "}": 1}
_MAX_DECLARATION = 10_000
"""Tokens of one declaration outside of bodies; what a longer one says beyond them is not read."""
_MAX_MACRO_TOKENS = 64
_MAX_EXPANSIONS = 256
"""A macro longer than the one, or a name that expands in more steps than the other, stays as it is written."""


def c_signatures(sources: Iterable[str], *, cuda: bool) -> tuple[Signature, ...]:
    """The entry points of the sources in order; types and macros of earlier ones are known in later ones.

    Of several equal definitions (branches of `#if`) the first counts; `find_signature` reports unequal ones.
    """
    macros: dict[str, list[Token]] = {}
    types = TypeNames()
    found: dict[tuple[str, str], Signature] = {}
    for source in sources:
        stream = list(_expanded(_live_tokens(source), macros))
        for signature in _Walker(stream, types, cuda).walk():
            found.setdefault((str(signature), signature.returns), signature)
    return tuple(found.values())


def c_hidden(sources: Iterable[str], *, cuda: bool) -> dict[str, str]:
    """Functions that are defined but are no entry points, by name: why they are none, as `it is static`."""
    macros: dict[str, list[Token]] = {}
    types = TypeNames()
    found: dict[str, str] = {}
    for source in sources:
        walker = _Walker(list(_expanded(_live_tokens(source), macros)), types, cuda)
        for _ in walker.walk():
            pass
        found |= walker.hidden
    return found


def _live_tokens(source: str) -> Iterator[Token]:
    """Tokens without comments and without the branches that `#if 0` or `#if 1` rules out; all others stay."""
    # For every open #if: whether its current branch is dead, and whether one of its branches is known to be taken.
    branches: list[tuple[bool, bool]] = []
    for token in tokens(source):
        if token.kind == "comment":
            continue
        conditional = _CONDITIONAL.match(token.text) if token.kind == "directive" else None
        if conditional is None:
            if not any(dead for dead, _ in branches):
                yield token
            continue
        word, condition = conditional[1], conditional[2].strip()
        opens = word in ("if", "ifdef", "ifndef")
        if opens:
            branches.append((False, False))
        if not branches:
            continue
        if word == "endif":
            branches.pop()
            continue
        taken = branches[-1][1]
        false, true = (word in ("if", "elif") and condition in values for values in (("0", "false"), ("1", "true")))
        branches[-1] = (taken or false, taken or true)


def _expanded(stream: Iterable[Token], macros: dict[str, list[Token]]) -> Iterator[Token]:
    """Tokens without directives, with the object-like macros defined so far replaced; `macros` collects them."""
    for token in stream:
        if token.kind == "directive":
            definition = _OBJECT_MACRO.match(token.text)
            if definition is not None:
                body = [part for part in scan(definition[2] or "") if part.kind != "comment"]
                if len(body) <= _MAX_MACRO_TOKENS:
                    macros[definition[1]] = body
        elif token.text in macros:
            yield from _expand(token, macros)
        else:
            yield token


def _expand(token: Token, macros: dict[str, list[Token]]) -> list[Token]:
    """The token's full expansion, placed where the token stands; a macro does not expand within itself."""
    done: list[Token] = []
    pending: list[tuple[Token, frozenset[str]]] = [(token, frozenset())]
    for _ in range(_MAX_EXPANSIONS):
        if not pending:
            return done
        part, within = pending.pop()
        body = macros.get(part.text) if part.text not in within else None
        if body is None:
            done.append(replace(part, start=token.start, end=token.end, line=token.line))
        else:
            pending.extend((inner, within | {part.text}) for inner in reversed(body))
    return [token]


@dataclass
class _Walker:
    """Walks declarations at file and namespace level; function and class bodies are skipped as a whole."""

    stream: Sequence[Token]
    types: TypeNames
    cuda: bool
    position: int = 0
    scopes: list[str] = field(default_factory=list)
    """Open namespaces and `extern "C"` blocks, the latter as `extern`."""
    hidden: dict[str, str] = field(default_factory=dict)
    """Functions that were passed, by name, and why they are no entry points."""

    def walk(self) -> Iterator[Signature]:
        declaration: list[Token] = []
        depth = 0
        has_body = False  # the declaration's class or initialiser was passed, only its `;` is missing
        while self.position < len(self.stream):
            token = self.stream[self.position]
            self.position += 1
            sign = token.text if token.kind == "sign" else ""
            if depth or sign not in (";", "{", "}"):
                depth = max(0, depth + _OPEN.get(sign, 0) - _CLOSE.get(sign, 0))
                if len(declaration) < _MAX_DECLARATION:
                    declaration.append(token)
                continue
            if sign == "{":
                scope = None if has_body else _scope(declaration)
                if scope is not None:
                    self.scopes.append(scope)
                else:
                    head = None if has_body else _function_head(declaration)
                    self._skip_body()
                    if head is None and declaration:
                        has_body = True
                        continue
                    why = None if head is None else self._why_hidden(head)
                    if head is not None and why is None:
                        yield self._signature(head)
                    elif head is not None and why:
                        self.hidden[head.name.text] = why
            elif sign == "}" and self.scopes:
                self.scopes.pop()
            elif sign == ";" and not has_body:
                self.types.learn(declaration)
            declaration, has_body = [], False

    def _skip_body(self) -> None:
        depth = 1
        while self.position < len(self.stream) and depth:
            token = self.stream[self.position]
            if token.kind == "sign":
                depth += (token.text == "{") - (token.text == "}")
            self.position += 1

    def _why_hidden(self, head: _Head) -> str | None:
        """Why a function is no entry point; empty where it may not even be a function. None: it is one."""
        if self.cuda:
            return None if "__global__" in head.specifiers else "it is not __global__"
        internal = sorted(_INTERNAL.intersection(head.specifiers) - {"::"})
        if internal:
            return f"it is {internal[-1]}"
        if "" in self.scopes:
            return "it is in an unnamed namespace"
        if head.template is not None:
            return "it is a template"
        return None if head.specifiers and "::" not in head.specifiers and head.name.text != "main" else ""

    def _signature(self, head: _Head) -> Signature:
        problems: list[str] = []
        template, template_problem = parse_template(head.template) if head.template is not None else ((), None)
        if template_problem:
            problems.append(template_problem)
        if head.specifiers[-1:] == ("::",):
            problems.append("its name is qualified where it is defined")
        if any(token.text == "(" for token in head.after):
            problems.append("what follows its parameter list looks like a macro")
        type_parameters = {parameter.name for parameter in template if parameter.is_type}
        trailing = [token.text for token in head.after]
        result = trailing[trailing.index("->") + 1 :] if "->" in trailing else head.specifiers
        returns = [word for word in result if word not in _NO_TYPE and not word.startswith('"')]
        return Signature(
            name="::".join([*(scope for scope in self.scopes if scope not in ("extern", "")), head.name.text]),
            parameters=parse_parameters(head.parameters, self.types, type_parameters),
            template=template,
            returns=" ".join(returns),
            extern_c="extern" in head.specifiers or "extern" in self.scopes,
            line=head.name.line,
            problem="; ".join(problems) or None,
        )


@dataclass(frozen=True)
class _Head:
    """A function definition up to its body, attributes removed."""

    template: list[Token] | None
    specifiers: tuple[str, ...]
    """Everything before the name: storage, attributes of CUDA, the type it returns."""
    name: Token
    parameters: list[Token]
    after: list[Token]


def _function_head(declaration: list[Token]) -> _Head | None:
    """The declaration before a `{` as a function's head; None where it is a class, an initialiser or anything else."""
    template, rest = _split_template(declaration)
    rest = _without_attributes(rest)
    opening = next((i for i, token in enumerate(rest) if token.text == "("), 0)
    closing = _matching(rest, opening) if opening else None
    if closing is None or rest[opening - 1].kind != "name":
        return None
    specifiers = tuple(token.text for token in rest[: opening - 1])
    if not _NO_FUNCTION.isdisjoint((*specifiers, rest[opening - 1].text)):
        return None
    return _Head(template, specifiers, rest[opening - 1], rest[opening + 1 : closing], rest[closing + 1 :])


def _scope(declaration: Sequence[Token]) -> str | None:
    """What a `{` opens: `extern`, a namespace's name (empty for an unnamed one), or None for a body."""
    words = [token.text for token in declaration]
    if words == ["extern", '"C"']:
        return "extern"
    if "namespace" in words and "(" not in words and "=" not in words:
        return "".join(word for word in words[words.index("namespace") + 1 :] if word != "inline")
    return None


def _split_template(declaration: list[Token]) -> tuple[list[Token] | None, list[Token]]:
    """The tokens between a leading `template <` and its `>`, and the declaration after it; None where there is none."""
    start = next((i for i, token in enumerate(declaration) if token.text == "template"), None)
    if start is None or start + 1 >= len(declaration) or declaration[start + 1].text != "<":
        return None, declaration
    depth = parentheses = 0
    for i in range(start + 1, len(declaration)):
        text = declaration[i].text
        parentheses += (text == "(") - (text == ")")
        if parentheses == 0:
            depth += (text == "<") - (text == ">")
        if depth == 0:
            return declaration[start + 2 : i], declaration[:start] + declaration[i + 1 :]
    return None, declaration


def _without_attributes(declaration: list[Token]) -> list[Token]:
    """The declaration without `[[…]]`, `__launch_bounds__(…)` and their like."""
    kept: list[Token] = []
    i = 0
    while i < len(declaration):
        token = declaration[i]
        following = declaration[i + 1].text if i + 1 < len(declaration) else ""
        end: int | None = None
        if token.text in _ATTRIBUTES and following == "(":
            end = _matching(declaration, i + 1)
        elif token.text == "[" and following == "[":
            end = _matching(declaration, i)
        if end is None:
            kept.append(token)
        i = i + 1 if end is None else end + 1
    return kept


def _matching(stream: Sequence[Token], opening: int) -> int | None:
    """The index of the bracket that closes the one at `opening`."""
    depth = 0
    for i in range(opening, len(stream)):
        if stream[i].kind == "sign":
            depth += _OPEN.get(stream[i].text, 0) - _CLOSE.get(stream[i].text, 0)
        if depth == 0:
            return i
    return None
