"""Workers as processes: detached from their client, one a search, told apart by lease and heartbeat."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
import traceback
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ...bench.broker import processes_alive
from ...store import kernels, searches, tasks
from ...store.database import Store
from ...store.errors import KforecastError, StoreError
from ...store.paths import runtime_dir
from ...store.searches import LeaseLost, LogMoved
from .events import Finished
from .log import SearchLog
from .parts import parts_for
from .worker import BEAT_S, Worker

STALE_S = 12 * BEAT_S
"""Age of a heartbeat from which on its worker counts as hung."""
STARTING_S = 20.0
"""How long a worker may take to come up, on a busy machine."""


def is_worked_on(store: Store, search_id: str) -> bool:
    """Whether a living worker with a fresh heartbeat has the search."""
    found = searches.lease(store, search_id)
    return found is not None and processes_alive.is_alive(found[0]) and found[1] >= _stale_before()


_started: dict[str, tuple[subprocess.Popen[bytes], float]] = {}
"""The worker that this process started last for a search, and when (`time.monotonic`)."""


def is_starting(search_id: str) -> bool:
    """Whether this process has just started a worker that may not have taken the search up yet."""
    process, since = _started.get(search_id, (None, 0.0))
    return process is not None and process.poll() is None and time.monotonic() - since < STARTING_S


def ensure_worker(store: Store, search_id: str) -> None:
    """Start a worker unless one has the search. Two started at once are no harm: one gets the lease."""
    if is_worked_on(store, search_id):
        return
    with log_path(search_id).open("ab") as sink:
        process = subprocess.Popen(
            [sys.executable, "-m", "kforecast.tools.search", search_id],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            cwd="/",
            env={**os.environ, "KFORECAST_DB": str(store.path)},
            start_new_session=True,
        )
    _started[search_id] = (process, time.monotonic())
    # It outlives this client, or this client it: then somebody must reap it.
    threading.Thread(target=process.wait, name="kforecast-reaper", daemon=True).start()


def log_path(search_id: str) -> Path:
    """Where a search's workers write what goes wrong."""
    return runtime_dir() / f"search-{search_id}.log"


def work(search_id: str) -> int:
    """Work on a search until it ends; the process's exit code. What goes wrong stands in the search's log, too."""
    with Store.open() as store:
        return work_in(store, search_id)


def work_in(store: Store, search_id: str) -> int:
    """As `work`, on an open store and in this process.

    Who resumes a search while its worker is about to leave sees the lease and starts no other one: so whoever has given
    the lease back looks once more.
    """
    while True:
        code = _work_once(store, search_id)
        found = searches.get(store, search_id)
        wanted = found is not None and found.state in ("working", "stopping")
        if code != 0 or not wanted or is_worked_on(store, search_id):
            return code


def _work_once(store: Store, search_id: str) -> int:
    owner = processes_alive.owner_name("worker")
    holder = searches.take_lease(store, search_id, owner, processes_alive.is_alive, stale_before=_stale_before())
    if holder is not None:
        return 0
    try:
        log = SearchLog(store, search_id)
        config = log.state.config
        task, seed = tasks.get(store, config.task_id), kernels.get(store, config.seed_id)
        assert task is not None and seed is not None, "a search's task and seed are saved before it"
        parts = parts_for(store, config, task, seed)
        asyncio.run(Worker(store, search_id, parts, owner=owner).run())
    except LeaseLost:
        return 0
    except StoreError:
        raise
    except KforecastError as error:
        return _fail(store, search_id, owner, str(error), error.exit_code)
    except Exception as error:  # noqa: BLE001 -- the outermost frame: the search's log tells what ended it
        traceback.print_exc()
        return _fail(store, search_id, owner, f"A fault in kforecast: {type(error).__name__}: {error}", 70)
    finally:
        searches.drop_lease(store, search_id, owner)
    return 0


def _fail(store: Store, search_id: str, owner: str, reason: str, code: int) -> int:
    for _ in range(5):
        log = SearchLog(store, search_id, owner)
        if log.state.phase == "ended":
            break
        try:
            log.append([Finished(clock=log.state.clock, outcome="failed", reason=reason[:1000])])
            break
        except LogMoved:
            continue
    print(reason, file=sys.stderr)  # noqa: T201 -- stderr is the worker's log file
    return code


def _stale_before() -> str:
    moment = datetime.now(UTC) - timedelta(seconds=STALE_S)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
