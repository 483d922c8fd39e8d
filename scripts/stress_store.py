"""Stress the store: many writing processes with a reader, then writers killed at random instants.

    python scripts/stress_store.py [--processes 8] [--transactions 2000] [--kills 200] [--seed 1] [--out FILE]

Part 1: every process asks for `transactions` requests, each in a transaction of its own that reads and writes, while a
reader follows the change feed. Wanted: no error, every request in the store and seen by the reader.
Part 2: `kills` times, a few writers are started, one of them is killed with SIGKILL at a random instant (every fourth
round on a store that does not exist yet), and the store is opened again. Wanted: every acknowledged request is there,
the integrity check is clean. Logs are copied back often, so that kills meet checkpoints too.

Exit status 0 if everything is as wanted, else 1.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, Any

from kforecast.store import requests
from kforecast.store.database import Store
from kforecast.store.errors import KforecastError
from kforecast.store.feed import Feed

WRITERS_PER_KILL = 2
LONGEST_LIFE_S = 0.3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--transactions", type=int, default=2000, help="per process")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="write the results as JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kforecast-stress-") as directory:
        results: dict[str, Any] = {
            "sqlite": sqlite3.sqlite_version,
            "writing": write_together(Path(directory), options.processes, options.transactions),
            "killing": kill_writers(Path(directory), options.kills, random.Random(options.seed)),
        }
    if options.out is not None:
        options.out.write_text(json.dumps(results, indent=2) + "\n")
    for part in ("writing", "killing"):
        print(part)
        for name, value in results[part].items():
            print(f"  {name:<28}{value:>12}")
    writing, killing = results["writing"], results["killing"]
    wanted = writing["transactions_wanted"] == writing["stored"] == writing["seen_by_reader"]
    bad = (
        writing["errors"],
        killing["acknowledged_lost"],
        killing["damaged"],
        killing["failed_opens"],
        killing["errors"],
    )
    good = wanted and not any(bad) and writing["integrity"] == "ok"
    print("everything as wanted" if good else "NOT as wanted")
    return 0 if good else 1


def write_together(directory: Path, processes: int, transactions: int) -> dict[str, Any]:
    path = directory / "together" / "kforecast.db"
    started = time.monotonic()
    # Files, not pipes: nobody reads while they write, and a full pipe would stop them.
    logs = [directory / f"writer-{number}.txt" for number in range(processes)]
    writers = []
    for log in logs:
        with log.open("w") as file:
            writers.append(start_writer(path, str(transactions), stdout=file))
    seen: set[str] = set()
    with Feed(path) as feed:
        longest_log = 0
        while any(writer.poll() is None for writer in writers):
            follow(feed, seen)
            longest_log = max(longest_log, log_length(path))
            time.sleep(0.01)
        follow(feed, seen)
    wall_s = time.monotonic() - started
    latencies_ms: list[float] = []
    errors = 0
    for writer, log in zip(writers, logs, strict=True):
        writer.communicate()
        errors += writer.returncode != 0
        latencies_ms += [float(line.split()[1]) for line in log.read_text().splitlines()]
    latencies_ms.sort()
    with Store.open(path) as store:
        ids = {row["id"] for row in store.read("SELECT id FROM requests")}
        integrity = store.read("PRAGMA integrity_check")[0][0]
    return {
        "processes": processes,
        "transactions_wanted": processes * transactions,
        "stored": len(ids),
        "seen_by_reader": len(seen & ids),
        "errors": errors,
        "integrity": integrity,
        "wall_s": round(wall_s, 1),
        "transactions_per_s": round(processes * transactions / wall_s),
        "p50_ms": round(latencies_ms[len(latencies_ms) // 2], 2),
        "p99_ms": round(latencies_ms[len(latencies_ms) * 99 // 100], 2),
        "max_ms": round(latencies_ms[-1], 1),
        "longest_log_mb": round(longest_log / 1e6, 1),
    }


def follow(feed: Feed, seen: set[str]) -> None:
    while (changes := feed.poll()).state == "changed":
        seen.update(request.id for request in changes.rows.get("requests", ()))


def log_length(path: Path) -> int:
    try:
        return path.with_name(path.name + "-wal").stat().st_size
    except FileNotFoundError:
        return 0


def kill_writers(directory: Path, kills: int, chance: random.Random) -> dict[str, Any]:
    counts = dict.fromkeys(
        ("kills", "acknowledged", "acknowledged_lost", "unacknowledged_kept", "failed_opens", "damaged", "errors"), 0
    )
    lasting = directory / "killed" / "kforecast.db"
    acknowledged: dict[Path, set[str]] = {lasting: set()}
    for number in range(kills):
        path = directory / f"killed-{number}" / "kforecast.db" if number % 4 == 3 else lasting
        known = acknowledged.setdefault(path, set())
        writers = [start_writer(path, "forever") for _ in range(WRITERS_PER_KILL)]
        for writer in writers:
            assert writer.stdout is not None
            writer.stdout.readline()
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write("go\n")
            writer.stdin.flush()
        time.sleep(chance.uniform(0, LONGEST_LIFE_S))
        writers[0].send_signal(signal.SIGKILL)
        counts["kills"] += 1
        # The survivors must get on by themselves; they end when their input does.
        for index, writer in enumerate(writers):
            output, _ = writer.communicate()
            # A line cut short was not read as an acknowledgement by anybody.
            known.update(line.split()[0] for line in output.splitlines(keepends=True) if line.endswith("\n"))
            counts["errors"] += index > 0 and writer.returncode != 0
        try:
            with Store.open(path, timeout_s=10) as store:
                kept = {row["id"] for row in store.read("SELECT id FROM requests")}
                counts["damaged"] += store.read("PRAGMA integrity_check")[0][0] != "ok"
        except KforecastError as error:
            print(f"after kill {number + 1}: {error}", file=sys.stderr)
            counts["failed_opens"] += 1
            continue
        counts["acknowledged_lost"] += len(known - kept)
        counts["unacknowledged_kept"] += len(kept - known)
        known |= kept
    counts["acknowledged"] = sum(len(known) for known in acknowledged.values()) - counts["unacknowledged_kept"]
    return counts


def start_writer(path: Path, transactions: str, stdout: int | IO[str] = subprocess.PIPE) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, __file__, "--writer", str(path), transactions],
        stdin=subprocess.PIPE,
        stdout=stdout,
        text=True,
    )


def writer(path: Path, transactions: str) -> None:
    """One writing process: prints `id milliseconds` after each commit, unbuffered: that is the acknowledgement.

    A number: that many transactions. `forever`: from the first line of its input to the end of it.
    """
    forever = transactions == "forever"
    if forever:
        Store.checkpoint_bytes = 64 << 10
        os.write(1, b"ready\n")
        sys.stdin.readline()
        os.set_blocking(0, False)
    client = f"stress:{os.getpid()}"
    with Store.open(path) as store:
        number = 0
        while (not input_ended()) if forever else (number < int(transactions)):
            began = time.perf_counter()
            request = requests.enqueue(store, device="cpu", payload={"number": number, "pad": "x" * 200}, client=client)
            elapsed_ms = 1000 * (time.perf_counter() - began)
            os.write(1, f"{request.id} {elapsed_ms:.3f}\n".encode())
            number += 1


def input_ended() -> bool:
    try:
        return os.read(0, 100) == b""
    except BlockingIOError:
        return False


if __name__ == "__main__":
    if sys.argv[1:2] == ["--writer"]:
        writer(Path(sys.argv[2]), sys.argv[3])
    else:
        sys.exit(main())
