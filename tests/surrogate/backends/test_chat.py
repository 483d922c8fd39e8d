"""Conversations with a scripted model: repair, retries, samples, money, slots. No provider, no network."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from kforecast.surrogate.backends.chat import ChatBackend, ChatSettings, Completion, TransportFault
from kforecast.surrogate.backends.protocol import ForecasterError
from kforecast.surrogate.backends.slots import FileSlots
from kforecast.surrogate.backends.spend import BudgetSpent, ProcessLedger
from kforecast.surrogate.contract import Query
from kforecast.surrogate.prompt import TOOL_NAME, Message
from kforecast.surrogate.reply import P_BIN

MakeQuery = Callable[..., Query]


def arguments(p_correct: float = 0.9, **more: object) -> str:
    bins = dict(zip(P_BIN, (0, 0, 0, 0.2, 0.8, 0, 0, 0), strict=True))
    return json.dumps({"p_correct": p_correct, **bins, "reasoning": "r", **more})


def call(p_correct: float = 0.9, **more: object) -> Completion:
    return Completion(calls=((TOOL_NAME, arguments(p_correct, **more)),), usd=0.01, tokens=100)


class Scripted:
    """Answers with the script's entries in turn; an exception is raised."""

    name = "litellm:scripted"
    calls_tools = True

    def __init__(self, *script: Completion | Exception) -> None:
        self.script = list(script)
        self.seen: list[list[Message]] = []
        self._lock = threading.Lock()

    def price(self, conversation: Sequence[Message], max_tokens: int) -> float:
        return 0.05

    def complete(self, conversation: Sequence[Message], candidates: int, max_tokens: int) -> Completion:
        with self._lock:
            self.seen.append(list(conversation))
            entry = self.script.pop(0)
        if isinstance(entry, Exception):
            raise entry
        return entry


def backend(transport: Scripted, ledger: ProcessLedger | None = None, **settings: object) -> ChatBackend:
    waits: list[float] = []
    settings = {"sleep": waits.append, **settings}
    return ChatBackend(transport, ChatSettings(**settings), ledger)  # type: ignore[arg-type]


def test_a_good_call_is_the_forecast(make_query: MakeQuery) -> None:
    answer = backend(Scripted(call())).forecast(make_query())
    assert answer.replies[0] is not None and answer.replies[0].p_correct == 0.9
    assert (answer.forecaster, answer.usd, answer.tokens, answer.problems) == ("litellm:scripted", 0.01, 100, ())


@pytest.mark.parametrize(
    "bad",
    [
        Completion(text="I would rather not.", usd=0.01, tokens=10),
        Completion(text="", usd=0.01, tokens=10),
        Completion(calls=(("get_weather", arguments()),), usd=0.01, tokens=10),
        Completion(calls=((TOOL_NAME, "{not json"),), usd=0.01, tokens=10),
        Completion(calls=((TOOL_NAME, json.dumps({"p_correct": 1, **dict.fromkeys(P_BIN, 0)})),), usd=0.01, tokens=10),
    ],
)
def test_a_bad_reply_gets_one_repair_turn_and_no_more(make_query: MakeQuery, bad: Completion) -> None:
    mended = Scripted(bad, call())
    answer = backend(mended).forecast(make_query())
    assert answer.replies[0] is not None
    assert answer.problems[0].startswith("one repair turn")
    assert answer.usd == pytest.approx(0.02)
    assert [message["role"] for message in mended.seen[1]] == ["system", "user", "assistant", "user"]
    assert P_BIN[0] in mended.seen[1][3]["content"]

    hopeless = Scripted(bad, bad, call())
    answer = backend(hopeless).forecast(make_query())
    assert answer.replies == (None,)
    assert "no forecast for candidate 1" in answer.problems[-1]
    assert len(hopeless.seen) == 2


def test_only_the_missing_candidates_are_asked_again(make_query: MakeQuery, make_kernel: Callable[..., object]) -> None:
    query = make_query(make_kernel(BLOCK=32), make_kernel(BLOCK=64), make_kernel(BLOCK=128))
    first = Completion(
        calls=tuple((TOOL_NAME, arguments(p, candidate=n)) for p, n in ((0.1, 1), (0.3, 3))), usd=0.01, tokens=1
    )
    scripted = Scripted(first, call(0.2, candidate=2))
    answer = backend(scripted).forecast(query)
    assert [reply.p_correct for reply in answer.replies if reply] == [0.1, 0.2, 0.3]
    assert "candidate 2" in scripted.seen[1][3]["content"] and "candidate 3" not in scripted.seen[1][3]["content"]


def test_samples_are_averaged(make_query: MakeQuery) -> None:
    answer = backend(Scripted(call(0.2), call(0.4), call(0.6)), samples=3).forecast(make_query())
    assert answer.replies[0] is not None and answer.replies[0].p_correct == pytest.approx(0.4)
    assert sum(answer.replies[0].p_bins) == pytest.approx(1)
    assert (answer.usd, answer.tokens) == (pytest.approx(0.03), 300)


def test_a_sample_without_a_reply_leaves_the_others(make_query: MakeQuery) -> None:
    no = Completion(text="no", usd=0.01, tokens=10)
    answer = backend(Scripted(no, no, call(0.4)), samples=2, threads=1).forecast(make_query())
    assert answer.replies[0] is not None and answer.replies[0].p_correct == 0.4


def test_transport_faults_are_tried_again_with_growing_waits(make_query: MakeQuery) -> None:
    waits: list[float] = []
    scripted = Scripted(TransportFault("503"), TransportFault("429", retry_after=7.0), TransportFault("reset"), call())
    answer = backend(scripted, sleep=waits.append).forecast(make_query())
    assert answer.replies[0] is not None
    assert len(answer.problems) == 3 and "429" in answer.problems[1]
    assert 0.5 <= waits[0] <= 1.5 and waits[1] == 7.0 and 2 <= waits[2] <= 6
    assert all(seen == scripted.seen[0] for seen in scripted.seen)  # the same question, no repair


def test_a_dead_server_is_an_error_and_the_next_question_asks_it_again(make_query: MakeQuery) -> None:
    scripted = Scripted(*[TransportFault("connection refused")] * 4, call())
    asked = backend(scripted)
    with pytest.raises(ForecasterError, match="did not answer in 4 tries"):
        asked.forecast(make_query())
    assert asked.forecast(make_query()).replies[0] is not None


def test_a_refused_request_is_not_tried_again(make_query: MakeQuery) -> None:
    scripted = Scripted(ForecasterError("no such key", next_step="Set it."), call())
    with pytest.raises(ForecasterError, match="no such key"):
        backend(scripted).forecast(make_query())
    assert len(scripted.seen) == 1


def test_a_server_that_dies_in_the_repair_turn_costs_only_what_was_missing(
    make_query: MakeQuery, make_kernel: Callable[..., object]
) -> None:
    query = make_query(make_kernel(BLOCK=32), make_kernel(BLOCK=64))
    scripted = Scripted(call(0.1, candidate=1), *[TransportFault("gone")] * 4)
    answer = backend(scripted).forecast(query)
    assert answer.replies[0] is not None and answer.replies[1] is None
    assert any("did not answer" in problem for problem in answer.problems)


@pytest.mark.parametrize(
    ("script", "spent"),
    [
        ([call()], 0.01),
        ([TransportFault("refused"), call()], 0.01),
        ([TransportFault("died in the middle", billed=True), call()], 0.06),
        ([Completion(calls=((TOOL_NAME, arguments()),))], 0.05),  # no price said: the reservation stands
    ],
)
def test_every_try_is_settled(make_query: MakeQuery, script: list[Completion | Exception], spent: float) -> None:
    ledger = ProcessLedger(1.0)
    backend(Scripted(*script), ledger).forecast(make_query())
    assert ledger.spent == pytest.approx(spent)
    assert ledger.tokens > 0
    ledger.reserve(1.0 - spent - 1e-9)  # nothing is left reserved


def test_a_spent_budget_asks_nobody(make_query: MakeQuery) -> None:
    scripted = Scripted(call())
    with pytest.raises(BudgetSpent, match=r"0\.05.*0\.04"):
        backend(scripted, ProcessLedger(0.04)).forecast(make_query())
    assert scripted.seen == []


def test_slots_limit_the_holders_and_free_themselves(tmp_path: Path) -> None:
    slots = FileSlots(tmp_path / "slots", 2, timeout_s=0.05)
    others = FileSlots(tmp_path / "slots", 2, timeout_s=0.05)
    with slots(), slots(), pytest.raises(ForecasterError, match="slots"), others():
        pass
    with slots(), slots():
        pass


def test_a_dead_holder_frees_its_slot(tmp_path: Path) -> None:
    code = (
        "import sys, os; from pathlib import Path; from kforecast.surrogate.backends.slots import FileSlots\n"
        "with FileSlots(Path(sys.argv[1]), 1)(): print('held', flush=True); os.read(0, 1); os._exit(1)"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None and holder.stdin is not None
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(ForecasterError), FileSlots(tmp_path, 1, timeout_s=0.05)():
        pass
    holder.kill()
    holder.wait()
    holder.stdout.close()
    holder.stdin.close()
    with FileSlots(tmp_path, 1, timeout_s=5)():
        pass


def test_the_repair_turn_changes_no_candidate_that_was_answered(
    make_query: MakeQuery, make_kernel: Callable[..., object]
) -> None:
    query = make_query(make_kernel(BLOCK=32), make_kernel(BLOCK=64))
    both = Completion(calls=tuple((TOOL_NAME, arguments(0.7, candidate=n)) for n in (1, 2)), usd=0.01, tokens=1)
    answer = backend(Scripted(call(0.1, candidate=1), both)).forecast(query)
    assert [reply.p_correct for reply in answer.replies if reply] == [0.1, 0.7]
