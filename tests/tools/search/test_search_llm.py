"""The `llm` generator against a scripted model: good replies, diffs, garbage, duplicates, files that do not compile."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from landscape import Landscape

from kforecast.bench.tasks.builtin import builtin_kernel
from kforecast.store.database import Store
from kforecast.store.errors import InputError
from kforecast.surrogate.backends.chat import Completion, TransportFault
from kforecast.surrogate.backends.protocol import ForecasterError
from kforecast.surrogate.backends.spend import BudgetSpent, ProcessLedger
from kforecast.tools.kernels import Asked, Named, load_file
from kforecast.tools.search.beginning import begin_search
from kforecast.tools.search.bench import Job, Outcome
from kforecast.tools.search.budget import Budget
from kforecast.tools.search.events import Lost, Proposed, Refused, SearchConfig
from kforecast.tools.search.forecasting import BaseRateForecaster
from kforecast.tools.search.generators.diffs import DiffError, patched
from kforecast.tools.search.generators.llm import LlmGenerator, Reply, question, read_reply
from kforecast.tools.search.generators.llm_chat import PaidChat
from kforecast.tools.search.generators.protocol import Nothing, Proposal, ProposalAsk, Tried
from kforecast.tools.search.log import read_events
from kforecast.tools.search.worker import Parts, Worker

DIFF = """IDEA: keep the sum in single precision
```diff
--- softmax.c
+++ softmax.c
@@ -17,3 +17,3 @@
-        double sum = 0.0;
+        float sum = 0.0f;
         for (int c = 0; c < C; c++) {
```
"""


@pytest.fixture
def softmax() -> Named:
    path = builtin_kernel("softmax_rows", "c", "seed")
    assert path is not None
    return load_file(path, Asked())


def whole(named: Named, old: str, new: str, idea: str = "try it") -> str:
    return f"Sure!\nIDEA: {idea}\n```c\n{named.kernel.source.replace(old, new)}```\n"


@dataclass
class Script:
    """A model that says its lines in order, the last one again and again."""

    lines: list[str | Exception]
    heard: list[list[dict[str, str]]] = field(default_factory=list)

    def complete(self, messages: Sequence[dict[str, str]], most_tokens: int) -> Reply:
        line = self.lines[min(len(self.heard), len(self.lines) - 1)]
        self.heard.append(list(messages))
        if isinstance(line, Exception):
            raise line
        return Reply(line, usd=0.01, tokens=100)


def ask(named: Named, seen: set[str] | None = None) -> ProposalAsk:
    known = seen or set()
    tried = (Tried("unroll by 4", "ok", -0.2), Tried("threads", "incorrect", None, "y[3] is 0"))
    return ProposalAsk(named.kernel, named.task, "cpu", 0, 0, lambda source: source in known, tried, 0.1, 812.5, 12.0)


def test_a_whole_file_and_a_diff_become_kernels(softmax: Named) -> None:
    for reply in (whole(softmax, "double sum = 0.0", "float sum = 0.0f", "keep the sum in single precision"), DIFF):
        kernel, idea = read_reply(reply, softmax.kernel, softmax.task)
        assert idea == "keep the sum in single precision"
        assert "float sum = 0.0f" in kernel.source and kernel.launches == softmax.kernel.launches
        assert kernel.toolchain == softmax.kernel.toolchain


def test_a_file_without_its_header_gets_it_back(softmax: Named) -> None:
    code = softmax.kernel.source.partition("*/")[2].replace("double", "float")
    kernel, idea = read_reply(f"```c\n{code}```", softmax.kernel, softmax.task)
    assert kernel.launches == softmax.kernel.launches and idea == "no idea was told"


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "I would use shared memory.",
        "```c\nint main(void) { return 0; }\n```",
        "```diff\n@@ -1 +1 @@\n-not in the file\n+anything\n```",
        '```c\n/* kforecast 1\ntask = "softmax_rows"\n[[launch]]\nentry = "gone"\nargs = []\n*/\nvoid f(void) {}\n```',
    ],
)
def test_garbage_gets_one_repair_turn_and_costs_what_it_cost(softmax: Named, reply: str) -> None:
    chat = Script([reply])
    result = LlmGenerator(chat, "scripted").propose(ask(softmax))
    assert isinstance(result, Nothing) and result.why == "unusable"
    assert (len(chat.heard), result.usd, result.tokens) == (2, 0.02, 200)
    assert "cannot be used" in chat.heard[1][-1]["content"]


def test_a_repaired_answer_counts_with_both_turns(softmax: Named) -> None:
    result = LlmGenerator(Script(["nothing useful", DIFF]), "scripted").propose(ask(softmax))
    assert isinstance(result, Proposal) and result.usd == 0.02


def test_a_duplicate_is_told_so_and_may_be_mended(softmax: Named) -> None:
    first, _ = read_reply(DIFF, softmax.kernel, softmax.task)
    chat = Script([DIFF, whole(softmax, "double", "long double")])
    result = LlmGenerator(chat, "scripted").propose(ask(softmax, {first.source_id}))
    assert isinstance(result, Proposal) and result.kernel.source_id != first.source_id
    assert "proposed before" in chat.heard[1][-1]["content"]


def test_the_question_holds_measurement_floor_and_history(softmax: Named) -> None:
    text = question(ask(softmax))
    assert "812.5 us" in text and "12% of what" in text
    assert "unroll by 4: S = 0.812" in text and "threads: incorrect y[3] is 0" in text
    assert softmax.kernel.source.rstrip() in text


def test_hunks_are_found_by_their_lines_not_their_numbers() -> None:
    assert patched("a\nb\nc\n", "@@ -9,2 +9,2 @@\n a\n-b\n+B\n") == "a\nB\nc\n"
    with pytest.raises(DiffError, match="2 times"):
        patched("a\na\n", "@@ @@\n-a\n+b\n")
    with pytest.raises(DiffError, match="no hunks"):
        patched("a\n", "hello")


class Instant(Landscape):
    """Everything is right; the shorter the source, the faster."""

    async def measure(self, job: Job) -> Outcome:
        self.measured.append((job.kernel_id, job.effort))
        return Outcome("ok", 0.1, 0.05, 0.15, 0.5, 100.0)


def test_a_whole_search_with_a_model_that_is_often_useless(softmax: Named, tmp_path: Path) -> None:
    lines: list[str | Exception] = [
        whole(softmax, "double", "float", "first"),
        "no idea",
        "still none",
        whole(softmax, "double", "float", "the same again"),
        whole(softmax, "double", "float", "and again"),
        ForecasterError("the provider is down", next_step="Wait."),
        DIFF,
        *(whole(softmax, "double", f"float /* */ x{n};\n        double", f"idea {n}") for n in range(20)),
    ]
    chat = Script(lines)
    with Store.open(tmp_path / "a.db") as store:
        config = SearchConfig(
            task_id=softmax.task.id,
            task_name=softmax.task.name,
            seed_id=softmax.kernel.id,
            device="cpu",
            generator="llm",
            budget=Budget(usd=0.12, measurements=50),
            virtual=True,
            verify=False,
            speculate=2,
            proposing=1,
        )
        search = begin_search(store, softmax.kernel, softmax.task, config)
        parts = Parts(Instant(), LlmGenerator(chat, "scripted"), BaseRateForecaster())
        state = asyncio.run(Worker(store, search.id, parts, owner=None).run())
        events = read_events(store, search.id)
    assert state.outcome == "completed" and "usd" in state.reason
    assert state.spent.usd == pytest.approx(0.01 * (len(chat.heard) - 1))
    assert 0.12 <= state.spent.usd <= 0.14  # one conversation was in flight
    refused = [event for event in events if isinstance(event, Refused)]
    assert len(refused) >= 2 and all(event.usd > 0 for event in refused)
    assert sum(isinstance(event, Lost) for event in events) == 1
    proposed = [event for event in events if isinstance(event, Proposed)]
    assert len({event.source_id for event in proposed}) == len(proposed) >= 3


def test_llm_needs_a_model(tmp_path: Path) -> None:
    from kforecast.tools.search.parts import generator_named

    config = SearchConfig(task_id="t", task_name="t", seed_id="k", device="cpu", generator="llm", budget=Budget(usd=1))
    with Store.open(tmp_path / "a.db") as store, pytest.raises(InputError, match="needs a model"):
        generator_named(store, config)


@dataclass
class Wire:
    """A model behind a wire that may break: completions and faults in order."""

    ends: list[Completion | Exception]
    name: str = "litellm:scripted"

    def price(self, conversation: Sequence[dict[str, str]], max_tokens: int) -> float:
        return 0.5

    def say(self, conversation: Sequence[dict[str, str]], max_tokens: int) -> Completion:
        end = self.ends.pop(0)
        if isinstance(end, Exception):
            raise end
        return end


def test_generating_enters_the_ledger_try_by_try() -> None:
    ledger, slept = ProcessLedger(10.0), []
    faults = [TransportFault("timeout", billed=True), TransportFault("429", retry_after=3.0)]
    chat = PaidChat(Wire([*faults, Completion("hello", usd=0.25, tokens=70)]), ledger, sleep=slept.append)
    reply = chat.complete([{"role": "user", "content": "hi"}], 100)
    assert (reply.text, reply.usd, reply.tokens) == (
        "hello",
        0.75,
        70,
    )  # the call that timed out may be charged in full
    assert ledger.spent == pytest.approx(0.75) and slept == [1.0, 3.0]


def test_a_spent_budget_and_a_refusal_cost_nothing_more() -> None:
    ledger = ProcessLedger(0.4)
    with pytest.raises(BudgetSpent):
        PaidChat(Wire([]), ledger).complete([{"role": "user", "content": "hi"}], 100)
    ledger = ProcessLedger(1.0)
    with pytest.raises(ForecasterError, match="no key"):
        PaidChat(Wire([ForecasterError("no key", next_step="Set one.")]), ledger).complete(
            [{"role": "user", "content": "hi"}], 100
        )
    assert ledger.spent == 0.0
    ledger.settle(ledger.reserve(1.0), 0.0)  # nothing is left reserved
