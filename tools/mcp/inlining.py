"""JSON schemas as clients take them: without references, which some providers refuse, and without needless titles."""

from __future__ import annotations

from typing import Any

_PREFIX = "#/$defs/"


def inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with every reference into its own `$defs` replaced by what it refers to; nothing may be recursive.

    The titles go, too: they are made from the names that stand beside them, and every session pays for them.
    """
    definitions = schema.get("$defs", {})

    def without(node: Any) -> Any:
        if isinstance(node, list):
            return [without(inner) for inner in node]
        if not isinstance(node, dict):
            return node
        reference = node.get("$ref")
        rest = {
            name: without(inner)
            for name, inner in node.items()
            if name not in ("$ref", "$defs") and not (name == "title" and isinstance(inner, str))
        }
        if isinstance(reference, str) and reference.startswith(_PREFIX):
            return {**without(definitions[reference.removeprefix(_PREFIX)]), **rest}
        return rest

    result: dict[str, Any] = without(schema)
    return result
