"""Whatever a client gives, within the schemas or nearly: it gets an answer with `next` or an error worth reading."""

from __future__ import annotations

import json
from typing import Any

import pytest
from calls import with_client
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from mcp.client.client import Client

from kforecast.store.database import Store
from kforecast.tools.mcp.faults import log_path
from kforecast.tools.mcp.server import KforecastServer, plain_tools

NAMES = ["forecast_kernel", "measure_kernel", "search", "search_propose", "get_status", "stop"]
SHORT: dict[str, dict[str, Any]] = {"measure_kernel": {"wait_s": 0}, "get_status": {"wait_s": 0}}
TEXTS = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        ["k_1", "s_1", "m_1", "r_1", "", "\n", "a\0", "double.py", "..", "/", "seed", "none", "int x;\n", "[1]", "null"]
    ),
    st.just("x" * 300),
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def fitting(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that the schema describes, bounds included, and now and then something else."""
    if "anyOf" in schema:
        return st.one_of([fitting(one) for one in schema["anyOf"]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    kind = schema.get("type")
    if kind in ("integer", "number"):
        return st.integers(-5, 10**6) | st.floats(0, 0.2) | st.sampled_from([schema.get("maximum", 1), 10**400])
    if kind == "array":
        least, most = schema.get("minItems", 0), schema.get("maxItems", 3)
        return st.lists(fitting(schema["items"]), min_size=least, max_size=max(least, min(most, 3)))
    if kind == "object" and "properties" in schema:
        return objects(schema)
    return {"string": TEXTS, "null": st.none()}.get(str(kind), ANYTHING)


def objects(schema: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    wanted = schema.get("required", [])
    known = {name: fitting(one) | ANYTHING for name, one in schema["properties"].items()}
    return st.fixed_dictionaries(
        {name: known[name] for name in wanted},
        optional={name: one for name, one in known.items() if name not in wanted},
    )


def tools_of(server: KforecastServer) -> dict[str, dict[str, Any]]:
    return {tool["name"]: tool["inputSchema"] for tool in plain_tools(server)}


@settings(
    max_examples=12,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(data=st.data())
@pytest.mark.parametrize("name", NAMES)
def test_every_reply_parses_and_says_what_next(name: str, server: KforecastServer, data: st.DataObject) -> None:
    Store.open().close()
    schema = tools_of(server)[name]
    several = data.draw(st.lists(objects(schema), min_size=1, max_size=6))

    async def call_all(client: Client) -> list[Any]:
        return [await client.call_tool(name, {**arguments, **SHORT.get(name, {})}) for arguments in several]

    for result in with_client(server, "auto", call_all):
        (content,) = result.content
        if result.is_error:
            assert len(content.text) > 20
            assert content.text.endswith((".", ")", "?")) or "\n" in content.text, content.text
            assert "fault in kforecast" not in content.text, (several, content.text, log_path().read_text()[-3000:])
        else:
            assert json.loads(content.text)["next"]
