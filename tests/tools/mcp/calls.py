"""Calling a server's tools from a test, in this process or over standard input and output."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.server.mcpserver import MCPServer
from mcp_types import CallToolResult

NO_TOOL = re.compile(r"kforecast (measure|forecast|facts|status|search (?!resume))")
"""Commands for which there is a tool: an agent is never sent to one."""


def with_client(server: MCPServer[Any], mode: str, use: Callable[[Client], Awaitable[Any]]) -> Any:
    """Run `use` with a client of the server in this process."""

    async def run() -> Any:
        async with Client(server, mode=mode) as client:
            return await use(client)

    return anyio.run(run)


@asynccontextmanager
async def stdio_of(mode: str, *options: str) -> AsyncIterator[Client]:
    """A client of `kforecast mcp` as a process of its own."""
    command = [sys.executable, "-m", "kforecast", "mcp", *options]
    started = StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ), cwd=os.getcwd())  # noqa: PTH109
    async with Client(stdio_client(started), mode=mode) as client:
        yield client


def answer_of(result: CallToolResult) -> dict[str, Any]:
    """The answer of a call that succeeded; text and structured content say the same."""
    (content,) = result.content
    assert content.type == "text"
    assert not result.is_error, content.text
    answer: dict[str, Any] = json.loads(content.text)
    assert answer == result.structured_content
    assert answer["summary"]
    assert answer["next"]
    assert not NO_TOOL.search(answer["next"]), answer["next"]
    return answer


def error_of(result: CallToolResult) -> str:
    """The text of a call that failed."""
    (content,) = result.content
    assert content.type == "text"
    assert result.is_error, content.text
    assert not NO_TOOL.search(content.text), content.text
    return content.text


def call(server: MCPServer[Any], mode: str, tool: str, **arguments: Any) -> dict[str, Any]:
    """The answer of one call."""
    result = with_client(server, mode, lambda client: client.call_tool(tool, arguments))
    return answer_of(result)


def failed_call(server: MCPServer[Any], mode: str, tool: str, **arguments: Any) -> str:
    """The error's text of one call."""
    result = with_client(server, mode, lambda client: client.call_tool(tool, arguments))
    return error_of(result)
