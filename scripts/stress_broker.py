"""Stress the broker: clients measure without a pause while clients and the broker are killed at random instants.

    python scripts/stress_broker.py [--kills 200] [--clients 4] [--seed 1] [--out FILE]

`kills` times, after a random pause, SIGKILL hits the broker or one of the clients, evenly by lot; a killed client is
replaced. A client acknowledges a measurement by writing its id to a file once `measure` has returned it. Wanted: every
acknowledged measurement is in the store, no request has more than one result, the integrity check is clean, no client
meets an error other than the one that says a request lost its broker three times, and in the end the next command works
and no process and no temporary file of a broker is left (a client that is killed while it asks the compiler for its
version may leave an empty folder). Everything happens in a store and in places of the script's own.

Takes about a second a kill. Exit status 0 if everything is as wanted, else 1.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kforecast.bench.broker.protocol import address, socket_path
from kforecast.store.database import Store

LONGEST_PAUSE_S = 1.5
KERNEL = """/* kforecast 1
[task]
name = "double"
in.x = { dtype = "f32", shape = ["N"], fill = "normal" }
out.y = { dtype = "f32", shape = ["N"] }
reference = "double.py:reference"
checked = [{ N = 37 }]
timed = [{ N = 512 }]
[[launch]]
entry = "twice"
args = ["x", "y", "N"]
*/
void twice(const float* x, float* y, int N) { for (int i = 0; i < N; i++) y[i] = 2 * x[i]; }
"""
REFERENCE = "def reference(xp, inputs, sizes):\n    return {'y': inputs['x'] * 2}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="write the results as JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kf-") as directory:
        place = Place(Path(directory))
        results = stress(place, options.kills, options.clients, random.Random(options.seed))
    if options.out is not None:
        options.out.write_text(json.dumps(results, indent=2) + "\n")
    for name, value in results.items():
        print(f"  {name:<28}{value:>12}")
    wanted_none = (
        "acknowledged_lost",
        "doubled",
        "damaged",
        "client_errors",
        "processes_left",
        "files_left_by_brokers",
        "unfinished",
    )
    good = (
        not any(results[name] for name in wanted_none) and results["next_command"] == 0 and results["acknowledged"] > 0
    )
    print("everything as wanted" if good else "NOT as wanted")
    return 0 if good else 1


class Place:
    """A store, a runtime directory, a cache and a temporary directory for this run, and the kernel to measure."""

    def __init__(self, root: Path) -> None:
        self.store = root / "kforecast.db"
        self.cache = root / "cache"
        self.temporary = root / "tmp"
        self.acknowledged = root / "acknowledged"
        self.errors = root / "errors"
        self.kernel = root / "double.c"
        self.temporary.mkdir()
        self.kernel.write_text(KERNEL)
        (root / "double.py").write_text(REFERENCE)
        os.environ.update(
            KFORECAST_DB=str(self.store),
            KFORECAST_RUNTIME_DIR=str(root / "run"),
            KFORECAST_CACHE_DIR=str(self.cache),
            KFORECAST_BROKER_IDLE_S="2",
            XDG_CONFIG_HOME=str(root / "config"),
            TMPDIR=str(self.temporary),
        )

    def command(self, *arguments: str) -> list[str]:
        """A command of kforecast on this run's kernel."""
        return [sys.executable, "-m", "kforecast", *arguments]


@dataclass
class Clients:
    """The clients that run, one file for what they acknowledge and one for the errors they meet."""

    place: Place
    count: int
    running: list[subprocess.Popen[str]] = field(default_factory=list)

    def fill_up(self) -> int:
        """Start as many as are missing. Returns how many had ended by themselves, which none should."""
        ended = [one for one in self.running if one.poll() is not None]
        self.running = [one for one in self.running if one.poll() is None]
        while len(self.running) < self.count:
            command = [sys.executable, __file__, "--client", str(self.place.kernel)]
            command += [str(self.place.acknowledged), str(self.place.errors)]
            self.running.append(subprocess.Popen(command, stdin=subprocess.PIPE, text=True))
        return len(ended)

    def kill(self, chance: random.Random) -> None:
        victim = self.running.pop(chance.randrange(len(self.running)))
        victim.kill()
        victim.communicate()

    def end(self) -> int:
        """Let all finish what they have begun. Returns how many did not end well."""
        for one in self.running:
            assert one.stdin is not None
            one.stdin.close()
        return sum(one.wait() != 0 for one in self.running)


def stress(place: Place, kills: int, count: int, chance: random.Random) -> dict[str, Any]:
    started = time.monotonic()
    killed = {"broker": 0, "client": 0}
    clients = Clients(place, count)
    client_errors = damaged = 0
    while sum(killed.values()) < kills:
        client_errors += clients.fill_up()
        time.sleep(chance.uniform(0, LONGEST_PAUSE_S))
        if chance.random() < 0.5:
            pid = broker_pid(place)
            if pid is None:
                continue  # it starts just now: nobody to kill
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            killed["broker"] += 1
        else:
            clients.kill(chance)
            killed["client"] += 1
        if sum(killed.values()) % 20 == 0:
            print(f"{sum(killed.values())} of {kills} kills, {time.monotonic() - started:.0f} s", file=sys.stderr)
            damaged += integrity(place) != "ok"
    client_errors += clients.end()
    next_command = subprocess.run(
        place.command("measure", str(place.kernel), "--baseline", "none", "--effort", "quick", "--json"),
        stdout=subprocess.DEVNULL,
        check=False,
    ).returncode
    until_gone(lambda: unfinished(place) == 0)
    until_gone(lambda: not socket_path("cpu", place.store).exists())
    until_gone(lambda: not processes_of(place))
    damaged += integrity(place) != "ok"
    errors = [json.loads(line) for line in read_lines(place.errors)]
    given_up = sum("was lost" in error["what"] for error in errors)
    with Store.open(place.store) as store:
        stored = {row["id"] for row in store.read("SELECT id FROM measurements")}
        doubled = store.read("SELECT count(*) - count(DISTINCT request_id) AS n FROM measurements")[0]["n"]
        states = {
            row["state"]: row["n"] for row in store.read("SELECT state, count(*) AS n FROM requests GROUP BY state")
        }
        again = store.read("SELECT count(*) AS n FROM requests WHERE attempts > 1")[0]["n"]
    acknowledged = set(read_lines(place.acknowledged))
    return {
        "kills_of_broker": killed["broker"],
        "kills_of_clients": killed["client"],
        "acknowledged": len(acknowledged),
        "acknowledged_lost": len(acknowledged - stored),
        "stored": len(stored),
        "doubled": doubled,
        "damaged": damaged,
        "client_errors": client_errors + len(errors) - given_up,
        "lost_broker_three_times": given_up,
        "requests_begun_again": again,
        **{f"requests_{state}": states.get(state, 0) for state in ("completed", "cancelled", "failed")},
        "unfinished": unfinished(place),
        "next_command": next_command,
        "processes_left": len(processes_of(place)),
        "files_left_by_brokers": len(list(place.temporary.glob("kforecast-broker-*"))),
        "files_left_by_clients": len([one for one in place.temporary.iterdir() if "broker" not in one.name]),
        "wall_s": round(time.monotonic() - started),
    }


def read_lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def integrity(place: Place) -> str:
    with Store.open(place.store) as store:
        return str(store.read("PRAGMA integrity_check")[0][0])


def unfinished(place: Place) -> int:
    with Store.open(place.store) as store:
        return int(store.read("SELECT count(*) AS n FROM requests WHERE state IN ('queued', 'working')")[0]["n"])


def until_gone(condition: Any) -> None:
    """Give what should end 30 seconds to end; whether it did shows in the results."""
    deadline = time.monotonic() + 30.0
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)


def broker_pid(place: Place) -> int | None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.settimeout(10.0)
        try:
            with address(socket_path("cpu", place.store)) as name:
                line.connect(name)
            hello = line.recv(4096).decode().split()
        except OSError:
            return None
    return int(hello[2]) if len(hello) == 3 else None


def processes_of(place: Place) -> list[int]:
    """Processes that this run began, directly or not, and that still live: brokers, candidates, compilers."""
    mark = f"KFORECAST_DB={place.store}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            ours = mark in (entry / "environ").read_bytes().split(b"\0")
            ours |= (entry / "cmdline").read_bytes().startswith(os.fsencode(place.cache))
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue  # gone meanwhile, or somebody else's
        if ours and int(entry.name) != os.getpid():
            found.append(int(entry.name))
    return found


def client(kernel: str, acknowledged: str, errors: str) -> None:
    """One client: measures until its input ends. A line is one write to a file opened for appending: it stays whole."""
    from kforecast.store.errors import KforecastError
    from kforecast.tools.measure import measure

    os.set_blocking(0, False)
    with Path(acknowledged).open("ab", buffering=0) as good, Path(errors).open("ab", buffering=0) as bad:
        while not input_ended():
            try:
                result = measure(kernel, baseline="none", effort="quick")
            except KforecastError as error:
                bad.write(json.dumps(error.as_dict()).encode() + b"\n")
                continue
            if result.state != "completed":
                bad.write(json.dumps({"what": f"the request ended {result.state}"}).encode() + b"\n")
            else:
                good.write(f"{result.measurement_id}\n".encode())


def input_ended() -> bool:
    try:
        return os.read(0, 100) == b""
    except BlockingIOError:
        return False


if __name__ == "__main__":
    if sys.argv[1:2] == ["--client"]:
        client(*sys.argv[2:5])
    else:
        sys.exit(main())
