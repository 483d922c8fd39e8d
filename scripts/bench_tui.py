"""`kforecast tui` under load, in a real terminal (tmux): 100,000 candidates, 1,000,000 events, and 200 more a second.

usage: python scripts/bench_tui.py [--minutes 30] [--nodes 100000] [--events 1000000] [--rate 200] [--out FILE.json]
       [--size 160x50] [--keep STORE.db]

Builds a store, starts a second process that writes, starts the tui, and for the time given scrolls, filters and goes
from page to page. Reported: seconds from the start of the process to the first frame with data, and what of them was
computing; the longest time in each second that the app's loop did not turn, by the clock and by what its thread
computed (on a busy machine the clock says more of the machine); from a key to the frame after it, inside of the app,
and to the changed screen, outside; the app's memory after the first minute, at the end, and its slope between.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from large_store import build, write_on
from on_this_machine import provenance

from kforecast.store import pages, searches
from kforecast.store.database import Store

AIMS = {"first_frame_s": 1.0, "loop_p95_ms": 50.0, "key_p95_ms": 100.0, "rss_mb": 300.0}


class Terminal:
    """A tmux server of its own with one window, spoken to in control mode: no process a look."""

    def __init__(self, columns: int, rows: int) -> None:
        self.socket = f"kforecast-bench-{os.getpid()}"
        self._columns, self._rows = columns, rows
        self._control: subprocess.Popen[str] | None = None
        self._server = 0

    def start(self, command: str) -> None:
        """Run a command in the window."""
        size = ["-x", str(self._columns), "-y", str(self._rows)]
        self._tmux("new-session", "-d", "-s", "bench", *size, command)
        self._tmux("set-option", "-g", "status", "off")
        self._tmux("set-option", "-g", "remain-on-exit", "on")
        self._control = subprocess.Popen(
            ["tmux", "-L", self.socket, "-C", "attach", "-t", "bench", "-f", "no-output"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self.ask(f"refresh-client -C {self._columns}x{self._rows}")
        self._server = int(self.ask("display-message -p '#{pid}'")[0])

    def _tmux(self, *arguments: str) -> None:
        subprocess.run(["tmux", "-L", self.socket, *arguments], check=True, capture_output=True)

    def ask(self, command: str) -> list[str]:
        """The answer of a tmux command."""
        control = self._control
        assert control is not None and control.stdin is not None and control.stdout is not None
        control.stdin.write(command + "\n")
        answer: list[str] = []
        inside = False
        for line in control.stdout:
            if line.startswith("%begin"):
                inside, answer = True, []
            elif line.startswith(("%end", "%error")):
                # The first answer is to the attaching itself.
                if inside and line.rstrip().endswith("1"):
                    return answer
                inside = False
            elif inside:
                answer.append(line.rstrip("\n"))
        raise RuntimeError("tmux has ended")

    def screen(self) -> list[str]:
        """What the window shows."""
        return self.ask("capture-pane -p -t bench")

    def press(self, *keys: str) -> None:
        """Press keys."""
        for key in keys:
            self.ask(f"send-keys -t bench {key!r}")

    def pid(self) -> int:
        """The process in the window."""
        return int(self.ask("display-message -p -t bench '#{pane_pid}'")[0])

    def close(self) -> None:
        """End the server and all in it. It waits for its client to read, so that goes first."""
        if self._control is not None:
            with suppress(RuntimeError, BrokenPipeError, ProcessLookupError, IndexError, ValueError):
                os.kill(self.pid(), signal.SIGTERM)
            self._control.kill()
            self._control.wait()
        if self._server:
            with suppress(ProcessLookupError):
                os.kill(self._server, signal.SIGKILL)


def wait_for(terminal: Terminal, ready: Callable[[list[str]], bool], seconds: float) -> float:
    """Seconds until the screen is as wanted. Raises AssertionError with the screen where it never is."""
    start = time.perf_counter()
    while time.perf_counter() - start < seconds:
        screen = terminal.screen()
        if ready(screen):
            return time.perf_counter() - start
        if any(line.startswith("Pane is dead") for line in screen):
            break
        time.sleep(0.004)
    raise AssertionError("never shown:\n" + "\n".join(terminal.screen()))


def cursor_row(screen: list[str]) -> int | None:
    """The row that the cursor's mark stands in."""
    return next((number for number, line in enumerate(screen) if line.startswith("▌")), None)


def key_to_screen(terminal: Terminal) -> float | None:
    """Milliseconds from `j` to the moved cursor, as the terminal shows it; None where it did not move."""
    before = cursor_row(terminal.screen())
    if before is None:
        return None
    start = time.perf_counter()
    terminal.press("j")
    while time.perf_counter() - start < 1:
        if cursor_row(terminal.screen()) != before:
            return 1000 * (time.perf_counter() - start)
        time.sleep(0.003)  # tmux keeps a little of every answer for good
    return None


def use(terminal: Terminal, until: float, sample: Callable[[], None]) -> list[float]:
    """Work with it as a person does who is in a hurry, until then. Milliseconds from keys to screens."""
    rng = random.Random(3)
    waits: list[float] = []
    rounds: list[list[str]] = [
        ["2", *["j"] * 12, "PageDown", "PageDown", "G", "g", "v", "v", "v", "v", "v", "f", "f", "f"],
        ["2", "/", *"unroll", "Enter", *["j"] * 8, "PageDown", "Escape", "s", *["j"] * 8, "s", "G", "g"],
        ["1", *["j"] * 6, "k", "s", "s", "s", "s", "/", *"softmax", "Escape", "o", "o", "Tab", *["j"] * 6, "Tab"],
        ["4", *["j"] * 20, "PageDown", "v", "v", "a", "a", "/", *"T=4", "Escape", "]", "["],
        ["3", *["j"] * 12, "v", "v", "v", "v", "s", "s", "]", "["],
        ["5", "]", "[", "j", "k"],
        ["?", "Escape", "z", "z", "2", "L", "L"],
    ]
    while time.monotonic() < until:
        keys = rounds[rng.randrange(len(rounds))]
        for key in keys:
            if time.monotonic() > until:
                break
            if key == "j":
                waited = key_to_screen(terminal)
                waits += [] if waited is None else [waited]
            else:
                terminal.press(key)
            sample()
            time.sleep(rng.uniform(0.05, 0.25))
        time.sleep(0.5)
    return waits


def rss_mb(pid: int) -> float:
    """Resident memory of a process in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("the tui has ended")


def cpu_seconds(pid: int) -> float:
    """What a process has computed so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def percentiles(values: list[float]) -> dict[str, float]:
    """Of a list of numbers: p50, p95, p99, the largest, and how many there are."""
    if not values:
        return {"count": 0}
    found = np.percentile(values, [50, 95, 99])
    named = dict(zip(("p50", "p95", "p99"), (round(float(one), 2) for one in found), strict=True))
    return {**named, "max": round(max(values), 2), "count": len(values)}


@contextmanager
def writing(path: Path, search_id: str, rate: float, nodes: int) -> Iterator[None]:
    """The second process, while the block runs."""
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    process = context.Process(target=write_on, args=(path, search_id, rate, nodes, stop), daemon=True)
    process.start()
    try:
        yield
    finally:
        stop.set()
        process.join(20)
    if process.exitcode != 0:
        raise RuntimeError("the process that writes has failed")


def measure(folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    """The whole run."""
    path = Path(given.keep).absolute() if given.keep else folder / "load.db"
    if path.exists():
        with Store.open_readonly(path) as store:
            search_id = min(searches.recent(store, 1000), key=lambda one: -one.events).id
    else:
        search_id = build(path, given.nodes, given.events)
    columns, rows = map(int, given.size.split("x"))
    terminal = Terminal(columns, rows)
    log = folder / "loop.jsonl"
    (folder / "config.toml").write_text("")
    places = {
        "KFORECAST_DB": path,
        "KFORECAST_RUNTIME_DIR": folder / "run",
        "KFORECAST_CONFIG": folder / "config.toml",
    }
    setting = " ".join(f"{name}={value}" for name, value in places.items())
    try:
        command = f"exec env {setting} {sys.executable} -m kforecast tui --watch-loop {log}"
        terminal.start("cat")
        started: list[float] = []
        computed: list[float] = []
        for _ in range(3):  # without load: the start alone
            terminal.ask(f"respawn-pane -k -t bench {command!r}")
            started.append(wait_for(terminal, lambda screen: any("softmax_rows" in line for line in screen), 60))
            computed.append(cpu_seconds(terminal.pid()))
        with writing(path, search_id, given.rate, given.nodes):
            time.sleep(5)
            terminal.ask(f"respawn-pane -k -t bench {command!r}")
            busy = wait_for(terminal, lambda screen: any("softmax_rows" in line for line in screen), 60)
            pid = terminal.pid()
            begun = time.monotonic()
            memory: list[tuple[float, float]] = []

            def sample() -> None:
                now = time.monotonic() - begun
                if not memory or now - memory[-1][0] >= 1:
                    memory.append((now, rss_mb(pid)))

            with Store.open_readonly(path) as store:
                before = pages.last_seq(store, "events")
            waits = use(terminal, begun + 60 * given.minutes, sample)
            with Store.open_readonly(path) as store:
                after = pages.last_seq(store, "events")
            terminal.press("q")
    finally:
        terminal.close()
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    seconds = [entry for entry in entries if "second" in entry]
    keys = [entry["painted_ms"] for entry in entries if "key" in entry]
    lasting = [(at, mb) for at, mb in memory if at >= min(60, 0.2 * memory[-1][0])]
    slope = float(np.polyfit([at / 60 for at, _ in lasting], [mb for _, mb in lasting], 1)[0])
    return {
        "minutes": round(memory[-1][0] / 60, 2),
        "size": given.size,
        "nodes": given.nodes,
        "events": before,
        "events_written_a_second": round((after - before) / memory[-1][0], 1),
        "load_average": os.getloadavg(),
        "first_frame_s": {
            "quiet": [round(one, 2) for one in started],
            "quiet_cpu": computed,
            "while_written_to": round(busy, 2),
        },
        "loop_worst_ms_each_second": percentiles([entry["worst_ms"] for entry in seconds]),
        "loop_worst_cpu_ms_each_second": percentiles([entry["worst_cpu_ms"] for entry in seconds]),
        "loop_cpu_ms_each_second": percentiles([entry["cpu_ms"] for entry in seconds]),
        "key_to_frame_ms": percentiles(keys),
        "key_to_screen_ms": percentiles(waits),
        "rss_mb": {
            "minute_1": round(min(memory, key=lambda one: abs(one[0] - 60))[1], 1),
            "end": round(memory[-1][1], 1),
            "largest": round(max(mb for _, mb in memory), 1),
            "slope_a_minute": round(slope, 3),
        },
        "aims": AIMS,
    }


def main() -> None:
    """Run it, print what came of it, and write it down."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rate", type=float, default=200)
    parser.add_argument("--size", default="160x50")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--keep", help="Build the store here, and use it again when it is there.")
    given = parser.parse_args()
    if shutil.which("tmux") is None:
        parser.error("tmux is needed")
    with tempfile.TemporaryDirectory(prefix="kforecast-bench-") as folder:
        result = measure(Path(folder).resolve(), given)
    print(json.dumps(result, indent=1))
    if given.out is not None:
        given.out.write_text(json.dumps({**provenance(), **result}, indent=1) + "\n")


if __name__ == "__main__":
    main()
