"""Requests: the queue of work for the devices. Every step is one transaction, so a request is never lost or done twice.

    queued -> working -> completed | failed        queued or working -> cancelled        working -> queued (owner lost)

An owner is a broker's name for itself. Who asks for an id the store has not, gets InputError.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from typing import Any, Literal

from pydantic import ValidationError

from . import measurements
from .clock import utc_now
from .database import Store
from .errors import InputError
from .identity import new_id
from .models import Measurement, Request
from .rows import unreadable

MAX_ATTEMPTS = 3
"""How often a request is begun before the loss of its owner becomes its own failure."""

_NEXT_SEQ = "seq = (SELECT max(seq) + 1 FROM requests)"
_JSON_COLUMNS = ("payload", "error")


def enqueue(
    store: Store,
    *,
    device: str,
    payload: dict[str, Any],
    client: str,
    kind: Literal["measure"] = "measure",
    request_key: str | None = None,
) -> Request:
    """Put a request into the queue of a device and return it.

    request_key: asking again with the same key returns the first request as it stands now, whatever its state.
    Raises InputError where that request was for another device, kind or payload.
    """
    with store.write() as db:
        row = None
        if request_key is not None:
            row = db.execute("SELECT * FROM requests WHERE request_key = ?", (request_key,)).fetchone()
        if row is None:
            request_id = new_id("r")
            db.execute(
                """INSERT INTO requests (id, kind, device, client, state, progress, attempts, payload, request_key,
                                         created_at, ordinal, seq)
                   SELECT ?, ?, ?, ?, 'queued', '', 0, ?, ?, ?, coalesce(max(ordinal), 0) + 1, coalesce(max(seq), 0) + 1
                   FROM requests""",
                (request_id, kind, device, client, _as_json(payload), request_key, utc_now()),
            )
            return _get(db, request_id)
    first = _noun(row)
    if (first.kind, first.device, _work(first.payload)) != (kind, device, _work(json.loads(_as_json(payload)))):
        raise InputError(
            "The request key was used before, for another request",
            value=request_key,
            next_step="Use a new key for each request that differs, or none.",
        )
    return first


def queue(store: Store, device: str, *, limit: int) -> list[Request]:
    """What waits for a device, in the order of turns, at most `limit` of it.

    Fair: the client served longest ago comes first (who never was, before all others), its oldest request first; then
    the others one each, and so on in rounds.
    """
    rows = store.read(
        """WITH clients AS MATERIALIZED (
             SELECT client, min(ordinal) AS first,
               (SELECT coalesce(max(turn), 0) FROM requests WHERE device = ?1 AND client = waiting.client) AS turn
             FROM requests AS waiting WHERE state = 'queued' AND device = ?1 GROUP BY client),
           rounds AS (
             SELECT id, client, row_number() OVER (PARTITION BY client ORDER BY ordinal) AS round
             FROM requests WHERE state = 'queued' AND device = ?1)
           SELECT requests.* FROM rounds JOIN clients USING (client) JOIN requests USING (id)
           ORDER BY round, clients.turn, clients.first
           LIMIT ?2""",
        (device, limit),
    )
    return [_noun(row) for row in rows]


def claim(store: Store, request_id: str, owner: str) -> Request | None:
    """Begin this request: it is `working`, owned by `owner`, with one attempt more; its client had its turn. None where
    it is not queued (any more).
    """
    with store.write() as db:
        return _begin(db, request_id, owner) if _get(db, request_id).state == "queued" else None


def set_progress(store: Store, request_id: str, owner: str, progress: str) -> bool:
    """Say what is being done. False: the request is no longer this owner's to work on (cancelled, say)."""
    with store.write() as db:
        changed = db.execute(
            f"UPDATE requests SET progress = ?, {_NEXT_SEQ} WHERE id = ? AND state = 'working' AND owner = ?",
            (progress, request_id, owner),
        ).rowcount
        _get(db, request_id)
        return changed == 1


def complete(store: Store, request_id: str, owner: str, measurement: Measurement) -> bool:
    """Save the answer and complete its request, both or neither; whether it took.

    False, and nothing is saved, where the request was cancelled, failed or given to another owner meanwhile. Repeating
    a completion that took is no error and True. Task and kernels must be in the store.
    Raises InputError where the measurement names another request.
    """
    if measurement.request_id != request_id:
        raise InputError(
            f"The measurement answers another request ({measurement.request_id})",
            value=request_id,
            next_step="Set the measurement's request_id to the request it answers.",
        )
    with store.write() as db:
        request = _get(db, request_id)
        if request.state == "completed":
            return request.result_id == measurement.id
        if request.state != "working" or request.owner != owner:
            return False
        measurements.TABLE.insert(db, measurement)
        db.execute(
            f"""UPDATE requests SET state = 'completed', owner = NULL, progress = '', result_id = ?, finished_at = ?,
                  {_NEXT_SEQ} WHERE id = ?""",
            (measurement.id, utc_now(), request_id),
        )
        return True


def fail(store: Store, request_id: str, error: Mapping[str, Any], *, owner: str | None = None) -> bool:
    """End a request with an error as data (`KforecastError.as_dict`); whether it took.

    False where the request had ended already, or, with `owner`, is not that owner's.
    """
    with store.write() as db:
        request = _get(db, request_id)
        if request.state not in ("queued", "working") or (owner is not None and request.owner != owner):
            return False
        _set_failed(db, request_id, error)
        return True


def cancel(store: Store, request_id: str) -> Request:
    """Cancel a request and return it as it stands now. One that has ended stays what it is: that is no error."""
    with store.write() as db:
        db.execute(
            f"""UPDATE requests SET state = 'cancelled', owner = NULL, progress = '', finished_at = ?, {_NEXT_SEQ}
                WHERE id = ? AND state IN ('queued', 'working')""",
            (utc_now(), request_id),
        )
        return _get(db, request_id)


def detach(store: Store, request_id: str) -> Request:
    """Let a request go on without the client that asked; returns it as it stands now. One that has ended stays so."""
    with store.write() as db:
        db.execute(
            f"""UPDATE requests SET payload = json_set(payload, '$.detached', json('true')), {_NEXT_SEQ}
                WHERE id = ? AND state IN ('queued', 'working')""",
            (request_id,),
        )
        return _get(db, request_id)


def requeue_lost(store: Store, device: str, owner_is_alive: Callable[[str], bool]) -> list[Request]:
    """Give back what dead owners worked on: queued again, or after `MAX_ATTEMPTS` attempts failed. Returns those.

    owner_is_alive: called once for each owner that works on the device, outside any transaction.
    """
    owners = store.read("SELECT DISTINCT owner FROM requests WHERE device = ? AND state = 'working'", (device,))
    dead = [row["owner"] for row in owners if not owner_is_alive(row["owner"])]
    changed: list[Request] = []
    if not dead:
        return changed
    with store.write() as db:
        for owner in dead:
            rows = db.execute(
                "SELECT * FROM requests WHERE device = ? AND state = 'working' AND owner = ? ORDER BY ordinal",
                (device, owner),
            ).fetchall()
            for request in map(_noun, rows):
                if request.attempts >= MAX_ATTEMPTS:
                    _set_failed(db, request.id, _lost_error(request))
                else:
                    db.execute(
                        f"""UPDATE requests SET state = 'queued', owner = NULL, started_at = NULL, progress = '',
                              {_NEXT_SEQ} WHERE id = ?""",
                        (request.id,),
                    )
                changed.append(_get(db, request.id))
    return changed


def position(store: Store, request_id: str) -> int | None:
    """Its place in the `queue` of its device (0: it is next); None if it is not queued.

    A broker may begin requests of the same client in another order, and leaves those that wait for another broker.
    """
    with store.snapshot() as db:
        request = _get(db, request_id)
        if request.state != "queued":
            return None
        rows = db.execute(
            """SELECT client, count(*) AS waiting, min(ordinal) AS first,
                 count(*) FILTER (WHERE ordinal < (SELECT ordinal FROM requests WHERE id = :id)) AS older,
                 (SELECT coalesce(max(turn), 0) FROM requests AS served
                  WHERE served.device = :device AND served.client = requests.client) AS turn
               FROM requests WHERE state = 'queued' AND device = :device GROUP BY client""",
            {"id": request_id, "device": request.device},
        ).fetchall()
    own = next(row for row in rows if row["client"] == request.client)
    rounds: int = own["older"]
    ahead = rounds
    for row in rows:
        if row["client"] != request.client:
            earlier = (row["turn"], row["first"]) < (own["turn"], own["first"])
            ahead += min(row["waiting"], rounds + earlier)
    return ahead


def get(store: Store, request_id: str) -> Request | None:
    """The request with that id, or None."""
    row = store.read_one("SELECT * FROM requests WHERE id = ?", (request_id,))
    return None if row is None else _noun(row)


def recent(store: Store, limit: int = 10, *, device: str | None = None) -> list[Request]:
    """The requests asked for last, newest first, of one device if given."""
    rows = store.read(
        "SELECT * FROM requests WHERE ?1 IS NULL OR device = ?1 ORDER BY ordinal DESC LIMIT ?2", (device, limit)
    )
    return [_noun(row) for row in rows]


def unfinished(store: Store, *, device: str | None = None) -> list[Request]:
    """What is being worked on, then what waits, each in the order of asking; of one device if given."""
    rows = store.read(
        """SELECT * FROM requests WHERE state IN ('queued', 'working') AND (?1 IS NULL OR device = ?1)
           ORDER BY state = 'queued', ordinal""",
        (device,),
    )
    return [_noun(row) for row in rows]


def of_row(row: sqlite3.Row) -> Request:
    """The request of a row of the table. Raises StoreError for a row that is none."""
    return _noun(row)


def _get(db: sqlite3.Connection, request_id: str) -> Request:
    row = db.execute("SELECT * FROM requests WHERE id = ?", (request_id,)).fetchone()
    if row is None:
        raise InputError(
            "The store has no request with that id",
            value=request_id,
            next_step="`kforecast status` lists the recent ones.",
        )
    return _noun(row)


def _noun(row: sqlite3.Row) -> Request:
    try:
        fields = {name: row[name] for name in Request.model_fields}
        for name in _JSON_COLUMNS:
            fields[name] = None if fields[name] is None else json.loads(fields[name])
        return Request.model_validate(fields)
    except (ValidationError, ValueError) as error:
        raise unreadable("requests", row["id"], error) from error


def _work(payload: Mapping[str, Any]) -> dict[str, Any]:
    """What is to be done, whoever waits for it."""
    return {name: value for name, value in payload.items() if name not in ("detached", "broker")}


def _begin(db: sqlite3.Connection, request_id: str, owner: str) -> Request:
    db.execute(
        f"""UPDATE requests SET state = 'working', owner = ?, attempts = attempts + 1, started_at = ?, progress = '',
              turn = (SELECT coalesce(max(turn), 0) + 1 FROM requests AS served
                      WHERE served.device = requests.device), {_NEXT_SEQ}
            WHERE id = ?""",
        (owner, utc_now(), request_id),
    )
    return _get(db, request_id)


def _set_failed(db: sqlite3.Connection, request_id: str, error: Mapping[str, Any]) -> None:
    db.execute(
        f"""UPDATE requests SET state = 'failed', owner = NULL, progress = '', error = ?, finished_at = ?, {_NEXT_SEQ}
            WHERE id = ?""",
        (_as_json(error), utc_now(), request_id),
    )


def _lost_error(request: Request) -> dict[str, Any]:
    return {
        "error": "DeviceError",
        "what": f"The broker was lost {request.attempts} times while it worked on this request",
        "value": request.id,
        "next": f"Nothing was measured: the kernel may take the broker of {request.device} down. `--no-broker` shows "
        "how; `kforecast doctor` checks the machine.",
        "exit_code": 4,
    }


def _as_json(value: Mapping[str, Any]) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        text.encode()
    except (TypeError, ValueError) as error:
        raise InputError(
            f"What goes with a request must be plain JSON data ({error})",
            value=type(value).__name__,
            next_step="Give dicts with text keys, lists, text, finite numbers, booleans and None.",
        ) from error
    return text
