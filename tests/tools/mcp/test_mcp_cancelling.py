"""Whoever gives up, or vanishes, frees the device; what was answered `working` goes on; nothing is left behind."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from brokers import Kernels, ask, begun, free, only_request, until
from calls import answer_of, stdio_of
from mcp.client.client import Client

from kforecast.bench.broker.client import cancel
from kforecast.store import requests
from kforecast.store.database import Store
from kforecast.store.models import Request
from kforecast.tools.mcp.server import make_server

ENDLESS = {"kernel": "endless.c", "baseline": "none", "effort": "quick"}
FREE_WITHIN_S = 2.0


def rows() -> list[Request]:
    with Store.open() as store:
        return requests.recent(store, 1000)


def unfinished() -> list[Request]:
    return [row for row in rows() if row.state in ("queued", "working")]


async def given_up_after(client: Client, seconds: float, **arguments: object) -> None:
    with anyio.move_on_after(seconds):
        await client.call_tool("measure_kernel", {**ENDLESS, **arguments})


async def many_give_up(client: Client, count: int, chance: random.Random) -> list[str]:
    """Calls at once, each given up at an instant of its own, some after they were answered; ids of the answered."""
    answered: list[str] = []

    async def one() -> None:
        with anyio.move_on_after(chance.uniform(0, 2.5)):
            if chance.random() < 0.2:
                result = await client.call_tool("measure_kernel", {**ENDLESS, "wait_s": 0.1})
                answered.append(answer_of(result)["request_id"])
            else:
                await client.call_tool("measure_kernel", ENDLESS)

    async with anyio.create_task_group() as group:
        for _ in range(count):
            group.start_soon(one)
            await anyio.sleep(chance.uniform(0, 0.05))
    return answered


def everything_is_as_it_was(answered: list[str]) -> None:
    """Only what was answered goes on (the client may have given up while the answer was under way), until it is
    stopped; the device is free then, and serves the next one.
    """
    until(lambda: all(row.payload["detached"] for row in unfinished()), what="the given up are over")
    assert set(answered) <= {row.id for row in rows() if row.payload["detached"]}
    with Store.open() as store:
        for row in unfinished():
            cancel(store, row)
    until(lambda: not unfinished(), what="all are over")
    assert {row.state for row in rows()} == {"cancelled"}
    assert ask(Path("quick.c")).verdict == "ok"
    free()


@pytest.mark.slow
def test_a_hundred_cancellations_over_stdio_leave_nothing_behind(kernels: Kernels) -> None:
    chance = random.Random(100)
    answered: list[str] = []

    async def of_era(era: str) -> None:
        async with stdio_of(era) as client:
            answered.extend(await many_give_up(client, 50, chance))

    async def run() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(of_era, "auto")
            group.start_soon(of_era, "legacy")

    anyio.run(run)
    everything_is_as_it_was(answered)


def test_giving_up_frees_the_device_in_two_seconds(kernels: Kernels) -> None:
    async def run() -> None:
        async with stdio_of("auto") as client, anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "measure_kernel", ENDLESS)
            await anyio.to_thread.run_sync(begun, "checking")
            group.cancel_scope.cancel()
        # The client is still connected while it ends; what counts is that nobody holds the device.

    anyio.run(run)
    until(lambda: only_request().state == "cancelled", what="it is cancelled", within_s=FREE_WITHIN_S)
    free()


def test_who_else_watches_keeps_it_alive(kernels: Kernels) -> None:
    async def run() -> str:
        async with Client(make_server()) as first, Client(make_server()) as second:
            slow = {"kernel": "slow.c", "baseline": "none", "effort": "quick", "request_key": "shared"}
            async with anyio.create_task_group() as group:
                group.start_soon(given_up_after, first, 0.8)
                group.start_soon(lambda: given_up_after(first, 1.0, kernel="slow.c", request_key="shared"))
                return str(answer_of(await second.call_tool("measure_kernel", slow))["state"])

    assert anyio.run(run) == "completed"
    assert sorted(row.state for row in rows()) == ["cancelled", "completed"]


@pytest.mark.parametrize("number", [signal.SIGKILL, None])
def test_a_server_that_dies_or_loses_its_client_frees_the_device(kernels: Kernels, number: int | None) -> None:
    server = subprocess.Popen(
        [sys.executable, "-m", "kforecast", "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert server.stdin is not None
    assert server.stdout is not None
    arguments = '{"kernel":"endless.c","baseline":"none","effort":"quick"}'
    about = '"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}'
    server.stdin.write(f'{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{{about}}}}}\n')
    server.stdin.flush()
    assert "kforecast" in server.stdout.readline()
    server.stdin.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
    call = f'"params":{{"name":"measure_kernel","arguments":{arguments}}}'
    server.stdin.write(f'{{"jsonrpc":"2.0","id":1,"method":"tools/call",{call}}}\n')
    server.stdin.flush()
    begun("checking")
    if number is None:
        server.stdin.close()
    else:
        os.kill(server.pid, number)
    until(lambda: only_request().state == "cancelled", what="it is cancelled", within_s=5.0)
    free()
    server.wait(10.0)
    server.stdin.close()
    server.stdout.close()
