"""The same server over HTTP: both eras, only for who is here or has the token."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import httpx2
import pytest
import uvicorn
from brokers import Kernels, begun, free, only_request, until
from calls import answer_of
from mcp.client.client import Client

from kforecast.app.main import run
from kforecast.tools.mcp.http import http_app
from kforecast.tools.mcp.server import make_server

TOKEN = "a-token-that-nobody-guesses"
HEADERS = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
DISCOVER = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


@contextmanager
def served(token: str | None = None) -> Iterator[str]:
    """The address of a server that runs in a thread."""
    config = uvicorn.Config(http_app(make_server(), host="127.0.0.1", token=token), log_level="error")
    server = uvicorn.Server(config)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        until(lambda: server.started, what="it serves")
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        finally:
            server.should_exit = True
            thread.join(20.0)


def test_a_client_measures_over_http(kernels: Kernels, mode: str) -> None:
    async def use(url: str) -> dict[str, Any]:
        async with Client(url, mode=mode) as client:
            assert len((await client.list_tools()).tools) == 6
            arguments = {"kernel": "quick.c", "baseline": "none", "effort": "quick"}
            return answer_of(await client.call_tool("measure_kernel", arguments))

    with served() as url:
        assert anyio.run(use, url)["verdict"] == "ok"


def test_a_client_that_vanishes_frees_the_device(kernels: Kernels) -> None:
    async def use(url: str) -> None:
        async with Client(url) as client, anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "measure_kernel", {"kernel": "endless.c", "baseline": "none"})
            await anyio.to_thread.run_sync(begun, "checking")
            group.cancel_scope.cancel()

    with served() as url:
        anyio.run(use, url)
        until(lambda: only_request().state == "cancelled", what="it is cancelled", within_s=5.0)
    free()


def test_without_the_token_nobody_comes_in(kernels: Kernels) -> None:
    with served(TOKEN) as url, httpx2.Client(headers=HEADERS) as client:
        assert client.post(url, json=DISCOVER).status_code == 401
        wrong = client.post(url, json=DISCOVER, headers={"authorization": "Bearer something-else"})
        assert (wrong.status_code, wrong.content) == (401, b"")
        assert client.post(url, json=DISCOVER, headers={"authorization": f"Bearer {TOKEN}"}).status_code != 401


def test_a_page_in_a_browser_cannot_reach_it(kernels: Kernels) -> None:
    with served() as url, httpx2.Client(headers=HEADERS) as client:
        assert client.post(url, json=DISCOVER, headers={"host": "evil.example"}).status_code == 421
        assert client.post(url, json=DISCOVER, headers={"origin": "http://evil.example"}).status_code == 403


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--host", "0.0.0.0"], "could run kernels here"),
        (["--host", "0.0.0.0", "--token", "short"], "at least 16 characters"),
        (["--root", "/no/such/folder"], "a root is no folder"),
    ],
)
def test_what_would_be_unsafe_is_refused(options: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mcp", "--http", *options]) == 2
    assert told in capsys.readouterr().err


def test_a_port_in_use_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert run(["mcp", "--http", "--port", str(taken.getsockname()[1])]) == 4
    assert "--port" in capsys.readouterr().err
