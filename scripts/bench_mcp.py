"""How quick the MCP server is on this machine: its first answer beside a bare server's, forecasts over stdio of C and,
by the learned forecaster, of CUDA, a cancellation until the device is free, and a thousand calls of eight clients over
HTTP.

usage: python scripts/bench_mcp.py [OUT.json] [--only PART,...]     parts: starts forecasts learned cancellations http
"""

from __future__ import annotations

import argparse
import json
import os
import random
import secrets
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from on_this_machine import own_store, write

from kforecast.store import requests
from kforecast.store.database import Store
from kforecast.tools.tasks import copy_kernel

BARE = "from mcp.server import MCPServer\nMCPServer('bare').run('stdio')\n"
OURS = [sys.executable, "-m", "kforecast", "mcp"]
HELLO = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "bench", "version": "1"},
    },
}
STARTS = 15
FORECASTS = 300
NEW = 40
CANCELLATIONS = 20
CLIENTS, CALLS = 8, 1000
AIMS = {
    "first_answer_ratio": 1.3,
    "forecast_p50_ms": 30.0,
    "learned_p50_ms": 30.0,
    "learned_new_p50_ms": 200.0,
    "cancelled_s": 2.0,
}
SLOW = """/* kforecast 1
[task]
name = "copy"
in.x = { dtype = "f32", shape = ["N"] }
out.y = { dtype = "f32", shape = ["N"] }
reference = "einsum: n->n"
checked = [{ N = 37 }]
timed = [{ N = 512 }]
[[launch]]
entry = "copy"
args = ["x", "y", "N"]
*/
#include <unistd.h>
void copy(const float* x, float* y, int N) { for (;;) usleep(1000); }
"""


def first_answer_s(command: Sequence[str]) -> float:
    """Seconds from the start of the process to its answer to `initialize`."""
    begin = time.perf_counter()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(HELLO).encode() + b"\n")
        server.stdin.flush()
        server.stdout.readline()
        spent = time.perf_counter() - begin
        server.stdin.close()
        server.stdout.read()
    return spent


def starts() -> dict[str, Any]:
    """First answers of a bare server and of ours, by turns so that both meet the same machine."""
    bare, ours = [], []
    for _ in range(STARTS):
        bare.append(first_answer_s([sys.executable, "-c", BARE]))
        ours.append(first_answer_s(OURS))
    return {
        "bare_first_answer_s": statistics.median(bare),
        "first_answer_s": statistics.median(ours),
        "first_answer_ratio": statistics.median(b / a for a, b in zip(bare, ours, strict=True)),
    }


def stdio() -> Any:
    """A client's transport to a server of its own."""
    return stdio_client(StdioServerParameters(command=OURS[0], args=OURS[1:], env=dict(os.environ), cwd=os.getcwd()))  # noqa: PTH109


async def forecasts() -> dict[str, Any]:
    """Forecasts of one pair whose facts are known already."""
    async with Client(stdio()) as client:
        arguments = {"candidate": "softmax_rows.c", "baseline": "tuned"}
        await client.call_tool("forecast_kernel", arguments)
        spent = []
        for _ in range(FORECASTS):
            begin = time.perf_counter()
            result = await client.call_tool("forecast_kernel", arguments)
            spent.append(time.perf_counter() - begin)
            assert not result.is_error
    return {"forecast_p50_ms": quantile(spent, 0.5), "forecast_p99_ms": quantile(spent, 0.99)}


async def learned() -> dict[str, Any]:
    """Forecasts of CUDA kernels by the learned forecaster: of a pair whose facts are known, and of kernels that are new
    and have to be compiled first (NVRTC, no GPU)."""
    async with Client(stdio()) as client:
        source = Path("softmax_rows.cu").read_text()
        known = [await _forecast(client, source) for _ in range(FORECASTS + 1)][1:]
        # Never compiled before, by an earlier run either.
        more = [f"static __device__ int never_{secrets.token_hex(8)}(int a) {{ return a; }}\n" for _ in range(NEW)]
        new = [await _forecast(client, source + function) for function in more]
    return {
        "learned_p50_ms": quantile(known, 0.5),
        "learned_p99_ms": quantile(known, 0.99),
        "learned_new_p50_ms": quantile(new, 0.5),
        "learned_new_p99_ms": quantile(new, 0.99),
    }


async def _forecast(client: Client, source: str) -> float:
    """Seconds that one forecast against the task's tuned kernel takes."""
    begin = time.perf_counter()
    result = await client.call_tool("forecast_kernel", {"candidate": source, "baseline": "tuned"})
    spent = time.perf_counter() - begin
    told = result.structured_content or {}
    assert told.get("backend") == "learned", told or result
    assert told["compile"]["ok"], told
    return spent


async def cancellations() -> dict[str, Any]:
    """From giving up, at random instants, until no request is left for the device."""
    chance = random.Random(1)
    Path("endless.c").write_text(SLOW)
    spent = []
    async with Client(stdio()) as client:
        for _ in range(CANCELLATIONS):
            with anyio.move_on_after(chance.uniform(0.2, 1.5)):
                await client.call_tool("measure_kernel", {"kernel": "endless.c", "effort": "quick"})
            begin = time.perf_counter()
            with Store.open() as store:
                while requests.unfinished(store):
                    await anyio.sleep(0.01)
            spent.append(time.perf_counter() - begin)
    return {"cancelled_p50_s": statistics.median(spent), "cancelled_s": max(spent)}


async def over_http(url: str) -> dict[str, Any]:
    """Forecasts and looks of several clients at once; every error counts."""
    spent: list[float] = []
    failed = 0

    async def one(number: int) -> None:
        nonlocal failed
        async with Client(url, mode="auto" if number % 2 else "legacy") as client:
            for call in range(CALLS // CLIENTS):
                forecast = call % 2 == 0
                tool = "forecast_kernel" if forecast else "get_status"
                begin = time.perf_counter()
                result = await client.call_tool(
                    tool, {"candidate": "softmax_rows.c", "baseline": "tuned"} if forecast else {}
                )
                spent.append(time.perf_counter() - begin)
                failed += bool(result.is_error)

    begin = time.perf_counter()
    async with anyio.create_task_group() as group:
        for number in range(CLIENTS):
            group.start_soon(one, number)
    return {
        "http_calls": len(spent),
        "http_clients": CLIENTS,
        "http_failed": failed,
        "http_p50_ms": quantile(spent, 0.5),
        "http_p99_ms": quantile(spent, 0.99),
        "http_calls_a_second": len(spent) / (time.perf_counter() - begin),
    }


def http() -> dict[str, Any]:
    """As `over_http`, against a server of its own process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with subprocess.Popen([*OURS, "--http", "--port", str(port)]) as server:
        while server.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.05)
        try:
            return anyio.run(over_http, f"http://127.0.0.1:{port}/mcp")
        finally:
            server.terminate()


def quantile(seconds: Sequence[float], level: float) -> float:
    """In milliseconds."""
    return 1e3 * sorted(seconds)[min(int(level * len(seconds)), len(seconds) - 1)]


PARTS: dict[str, Callable[[], dict[str, Any]]] = {
    "starts": starts,
    "forecasts": lambda: anyio.run(forecasts),
    "learned": lambda: anyio.run(learned),
    "cancellations": lambda: anyio.run(cancellations),
    "http": http,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="?", type=Path)
    parser.add_argument("--only", default=",".join(PARTS))
    given = parser.parse_args()
    out = None if given.out is None else given.out.absolute()
    found: dict[str, Any] = {}
    with own_store(), tempfile.TemporaryDirectory(prefix="kforecast-mcp-") as folder:
        os.chdir(folder)
        for language in ("c", "cuda"):
            copy_kernel("softmax_rows", Path(folder), language=language)
        for part in given.only.split(","):
            found |= PARTS[part]()
    found = {name: round(value, 4) if isinstance(value, float) else value for name, value in found.items()}
    found["load_average"] = round(os.getloadavg()[0], 1)
    for name, value in found.items():
        aim = f"   aim {AIMS[name]:g}" if name in AIMS else ""
        print(f"{name:24} {value}{aim}")
    write(out, found, [])
    return int(bool(found.get("http_failed")) or any(found[name] > aim for name, aim in AIMS.items() if name in found))


if __name__ == "__main__":
    sys.exit(main())
