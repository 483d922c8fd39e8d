"""One budget for models, whoever spends: several processes, a process that is killed, the commands."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kforecast.app.main import run
from kforecast.store import spend
from kforecast.store.database import Store
from kforecast.store.models import Case, Kernel, Launch, Task
from kforecast.store.paths import store_path
from kforecast.store.spend import Cap
from kforecast.surrogate.backends.spend import BudgetSpent
from kforecast.surrogate.contract import Query, Side
from kforecast.tools.backends import choose_backend
from kforecast.tools.config import load_config
from kforecast.tools.places import Place
from kforecast.tools.spending import StoreLedger, today

WORKER = """
import sys
from pathlib import Path
from kforecast.store.spend import Cap
from kforecast.surrogate.backends.chat import ChatBackend, ChatSettings, Completion
from kforecast.surrogate.backends.spend import BudgetSpent
from kforecast.surrogate.contract import Query
from kforecast.surrogate.prompt import TOOL_NAME
from kforecast.surrogate.reply import P_BIN
from kforecast.tools.spending import StoreLedger
import json

path, log, mode = sys.argv[1:]
REPLY = json.dumps({"p_correct": 0.9, **dict(zip(P_BIN, (0, 0, 0, 0.5, 0.5, 0, 0, 0)))})

class Model:
    name, calls_tools = "litellm:scripted", True
    def price(self, conversation, max_tokens): return 0.02
    def complete(self, conversation, candidates, max_tokens):
        with open(log, "a") as file: file.write("x\\n")
        if mode == "hang":
            print("called", flush=True)
            sys.stdin.read()
        return Completion(calls=((TOOL_NAME, REPLY),), usd=0.025, tokens=7)  # dearer than was said

query = Query.model_validate_json(sys.stdin.readline())
backend = ChatBackend(Model(), ChatSettings(), StoreLedger(Path(path), "litellm:scripted", Cap(usd=1.0)))
try:
    while True: backend.forecast(query)
except BudgetSpent: pass
"""


def question() -> Query:
    task = Task(name="scale", tensors=(), reference="", checked=(Case(sizes={}),), timed={})
    kernels = [
        Kernel.make(
            language="c", name=name, source=f"void {name}(void) {{}}", launches=(Launch(entry=name, args=()),),
            task_id=task.id,
        )
        for name in ("one", "two")
    ]  # fmt: skip
    return Query(
        task=task, device="cpu", device_kind="cpu", baseline=Side(kernel=kernels[0]),
        candidates=(Side(kernel=kernels[1]),),
    )  # fmt: skip


def worker(log: Path, mode: str = "spend") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WORKER, str(store_path()), str(log), mode]
    started = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert started.stdin is not None
    started.stdin.write(question().model_dump_json() + "\n")
    started.stdin.flush()
    return started


def test_four_processes_pass_the_cap_by_no_more_than_the_calls_in_flight(store: Store, tmp_path: Path) -> None:
    workers = [worker(tmp_path / "calls") for _ in range(4)]
    for one in workers:
        one.communicate(timeout=120)
    assert [one.returncode for one in workers] == [0] * 4
    calls = len((tmp_path / "calls").read_text().splitlines())
    told = spend.spent(store, today())
    assert (told.calls, told.open, told.tokens) == (calls, 0, 7 * calls)
    assert told.usd == pytest.approx(0.025 * calls)
    assert 1.0 - 0.02 < told.usd <= 1.0 + 4 * 0.005 + 1e-9


def test_what_a_killed_process_had_reserved_stays_spent(store: Store, tmp_path: Path) -> None:
    killed = worker(tmp_path / "calls", "hang")
    assert killed.stdout is not None and killed.stdin is not None
    assert killed.stdout.readline() == "called\n"
    killed.send_signal(signal.SIGKILL)
    killed.wait(30)
    killed.stdout.close()
    killed.stdin.close()
    told = spend.spent(store, today())
    assert (told.usd, told.calls, told.open) == (0.02, 1, 1)
    ledger = StoreLedger(store.path, "m", Cap(usd=0.03))
    with pytest.raises(BudgetSpent, match=r"0\.010000 USD are left"):
        ledger.reserve(0.02)


def test_tokens_have_a_cap_too(store: Store) -> None:
    ledger = StoreLedger(store.path, "m", Cap(tokens=100))
    ledger.settle(ledger.reserve(0.0, 90), 0.0, 70)
    with pytest.raises(BudgetSpent, match="40 tokens, 30 are left"):
        ledger.reserve(0.0, 40)


@pytest.mark.llm
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_configured_cap_reaches_the_backend(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KFORECAST_MAX_USD", "0.000001")
    backend = choose_backend(
        store, "litellm:gpt-4o-mini", place=Place("cpu", "cpu"), languages=["c"], config=load_config(), consent=True
    ).backend
    with pytest.raises(BudgetSpent, match=r"0\.000001 USD are left"):
        backend.forecast(question())
    assert spend.spent(store, today()).calls == 0


@pytest.mark.llm
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_flag_caps_the_commands(sources: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    model = ["--backend", "litellm:gpt-4o-mini", "--yes", "--max-usd", "0"]
    assert run(["forecast", sources["sum"], "--baseline", sources["base"], *model]) == 4
    assert "0.000000 USD are left" in capsys.readouterr().err
    assert run(["forecast", sources["sum"], "--max-usd", "-1"]) == 2
