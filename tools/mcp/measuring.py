"""`measure_kernel`: the request is a row first; waiting for it holds no thread, and giving up frees the device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio
from mcp_types import CallToolResult

from ...bench.broker import processes_alive
from ...store import requests
from ...store.database import Store
from ...store.models import Effort, Request
from ..results import MeasureResult, pending_result
from ..waiting import eta_s
from .answers import concise, reply
from .held import open_store
from .progress import Progress
from .roots import Roots
from .threads import in_thread

if TYPE_CHECKING:
    from ...bench.broker.watch import Watch
    from ..measure import Begun

ENDED = ("completed", "failed", "cancelled")
_CONNECT_S = 1.0
_ROW_EVERY_S = 2.0
"""How often the row is read although no line came: a broker that died took its lines with it."""


@dataclass(frozen=True)
class Wanted:
    """What a client wants measured, as it named it."""

    kernel: str
    baseline: str | None
    task: str | None
    device: str | None
    effort: Effort | None
    request_key: str | None


async def measure(roots: Roots, wanted: Wanted, progress: Progress) -> CallToolResult:
    """Put the request into the queue and wait while the client does; see `descriptions.MEASURE`."""
    store = await in_thread(open_store)
    try:
        begun = await in_thread(_begin, store, roots, wanted)
        waiting = _Waiting(store, begun.request)
        try:
            row = await waiting.until_ended(progress)
            result = await in_thread(_answer, store, row, begun)
            if row.state not in ENDED:
                # Last: whoever gives up before it is answered still ends the work, nobody who was answered does.
                row = await in_thread(requests.detach, store, row.id)
            waiting.over = True
        finally:
            with anyio.CancelScope(shield=True):
                await waiting.end()
        if row.state in ENDED and result.state == "working":
            result = await in_thread(_answer, store, row, begun)
        return reply(concise(result))
    finally:
        store.close()


def _begin(store: Store, roots: Roots, wanted: Wanted) -> Begun:
    from ..config import load_config
    from ..measure import begin
    from .naming import admitted, admitted_baseline, task_of

    config = load_config()
    kernel = admitted(store, roots, wanted.kernel, wanted.task, task_of(store, wanted.baseline))
    return begin(
        store,
        kernel,
        baseline=admitted_baseline(store, roots, wanted.baseline, kernel),
        device=wanted.device or config.device,
        effort=wanted.effort or config.effort,
        request_key=wanted.request_key,
        client=processes_alive.owner_name("mcp"),
    )


def _answer(store: Store, row: Request, begun: Begun) -> MeasureResult:
    from ..measure import answer

    if row.state in ENDED:
        return answer(store, row, begun.candidate, begun.against)
    candidate = begun.candidate
    return still_working(store, row, candidate.called, candidate.kernel.id, candidate.task.name)


def still_working(
    store: Store, row: Request, name: str, kernel_id: str | None = None, task: str | None = None
) -> MeasureResult:
    """The answer for a request that goes on: its place, how long it will take, when to ask again."""
    place, eta = requests.position(store, row.id), eta_s(store, row)
    result = pending_result(row, name=name, kernel_id=kernel_id, task=task, queue_position=place, eta_s=eta)
    about = "" if eta is None or eta < 1 else f" About {eta:.0f} s to go."
    return result.model_copy(
        update={
            "summary": result.summary + about,
            "poll_after_s": min(max(eta or 1.0, 1.0), 30.0),
            "next": f'Call get_status(id="{row.id}", wait_s=40); the work goes on without you.',
        }
    )


def whereabouts(store: Store, row: Request) -> str:
    """How far a request is, for a line of progress."""
    place, eta = requests.position(store, row.id), eta_s(store, row)
    about = "" if eta is None or eta < 1 else f", about {eta:.0f} s"
    return f"position {place}{about}" if place is not None else f"{row.progress or 'working'}{about}"


class _Waiting:
    """One call's watch on a request. `over`: the caller has its answer, so nothing is to be cancelled."""

    def __init__(self, store: Store, request: Request) -> None:
        self.over = False
        self._store, self._request = store, request
        self._watch: Watch | None = None

    async def until_ended(self, progress: Progress) -> Request:
        """The row as it stands at its end, or when the time is over."""
        heard = ""
        while True:
            if self._watch is None and self._request.state not in ENDED:
                self._watch = await in_thread(_open_watch, self._store, self._request)
            row = requests.get(self._store, self._request.id)
            assert row is not None, "requests are never deleted while they are waited for"
            if row.state in ENDED or not progress.left_s:
                return row
            shown = row.model_copy(update={"progress": heard or row.progress})
            await progress.say(lambda row=shown: whereabouts(self._store, row))  # type: ignore[misc]
            if self._watch is not None:
                with anyio.move_on_after(min(progress.pause_s, _ROW_EVERY_S)):
                    await anyio.wait_readable(self._watch)
                heard = self._take() or heard

    def _take(self) -> str:
        """The newest word from the broker; forgets the watch where the broker is gone."""
        assert self._watch is not None
        lines = self._watch.take()
        if lines is None:
            self._watch.close()
            self._watch = None
        return next((line for line in reversed(lines or ()) if line != "done"), "")

    async def end(self) -> None:
        """Let go of the request: quietly where the call is over, else so that it ends unless somebody wants it."""
        if self.over:
            if self._watch is not None:
                self._watch.close()
        elif self._watch is not None:
            self._watch.leave()
        else:
            await in_thread(_leave, self._store, self._request)


def _open_watch(store: Store, request: Request) -> Watch | None:
    from ...bench.broker.watch import Watch

    return Watch.open(store, request, within_s=_CONNECT_S)


def _leave(store: Store, request: Request) -> None:
    """Leave a request that this call never came to watch. Without a broker nobody works on it or watches it."""
    from ...bench.broker.client import cancel
    from ...bench.broker.watch import Watch
    from ...store.errors import DeviceError

    try:
        watch = Watch.open(store, request, within_s=_CONNECT_S)
    except DeviceError:
        watch = None
    if watch is not None:
        watch.leave()
        return
    row = requests.get(store, request.id)
    if row is not None and not row.payload.get("detached"):
        cancel(store, request)
