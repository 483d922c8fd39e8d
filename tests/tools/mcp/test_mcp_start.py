"""A starting server: light, and nothing but the protocol on standard output."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from brokers import Kernels

HEAVY = ("torch", "triton", "cupy", "cuda", "litellm", "textual", "ray", "transformers", "sklearn", "scipy", "numpy")
START = """
import sys, anyio
from kforecast.tools.mcp.server import make_server
from mcp.client.client import Client
async def first_answer():
    async with Client(make_server()) as client:
        await client.list_tools()
anyio.run(first_answer)
print("\\n--", *sys.modules, sep="\\n")
"""
ABOUT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
OLD = [
    {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": ABOUT},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
]
NEW = [
    {"jsonrpc": "2.0", "id": 0, "method": "server/discover", "params": {"_meta": META}},
    {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}},
]


def test_a_server_that_has_listed_its_tools_has_loaded_nothing_heavy() -> None:
    output = subprocess.run([sys.executable, "-c", START], check=True, capture_output=True, text=True).stdout
    loaded = set(output.split("\n--\n")[1].split())
    assert loaded.isdisjoint(HEAVY)


def called(number: int, tool: str, **arguments: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


@pytest.mark.parametrize("opening", [OLD, NEW], ids=["2025-11-25", "2026-07-28"])
def test_standard_output_is_the_protocol_and_nothing_else(kernels: Kernels, opening: list[dict[str, Any]]) -> None:
    """With a call that fails, one that compiles and measures, and a line that is no JSON."""
    wanted = [
        *opening,
        called(2, "get_status", id="m_1"),
        called(3, "measure_kernel", kernel="quick.c", effort="quick"),
    ]
    if opening is NEW:
        wanted[2:] = [{**one, "params": {**one["params"], "_meta": META}} for one in wanted[2:]]
    with subprocess.Popen(
        [sys.executable, "-m", "kforecast", "mcp"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        for message in wanted:
            server.stdin.write(json.dumps(message) + "\n")
        server.stdin.write("this is no JSON\n")
        server.stdin.flush()
        answers: dict[Any, dict[str, Any]] = {}
        while 3 not in answers:
            line = json.loads(server.stdout.readline())
            assert line["jsonrpc"] == "2.0"
            if "id" in line:
                answers[line["id"]] = line
        server.stdin.close()
        rest = server.stdout.read()
        assert server.wait(20) == 0
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in rest.splitlines())
    assert answers[0]["result"]["serverInfo" if opening is OLD else "supportedVersions"]
    assert len(answers[1]["result"]["tools"]) == 6
    assert answers[2]["result"]["isError"] is True
    assert answers[3]["result"]["structuredContent"]["verdict"] == "ok"
