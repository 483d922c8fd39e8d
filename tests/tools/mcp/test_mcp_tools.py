"""Every tool through the official client, in both eras of the protocol."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from brokers import Kernels, begun, candidates, free, until
from calls import answer_of, call, failed_call, with_client
from mcp.client.client import Client

from kforecast.tools.mcp.server import KforecastServer

OWN = {"p_correct": 0.9, "p_bins": [0, 0, 0, 0.1, 0.8, 0.1, 0, 0], "forecaster": "fable"}
NAMES = ["forecast_kernel", "measure_kernel", "search", "search_propose", "get_status", "stop"]
CONCISE = 1500
"""Characters of a measurement: about 500 tokens; a forecast has 1200, about 400."""


@pytest.fixture(scope="module")
def shared_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One store for all tests here: to start a broker takes longer than most of them."""
    return tmp_path_factory.mktemp("store") / "kforecast.db"


@pytest.fixture(autouse=True)
def nothing_left_behind(private_places: None, shared_store: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The broker lives from test to test; no candidate process does."""
    monkeypatch.setenv("KFORECAST_DB", str(shared_store))
    yield
    until(lambda: not candidates(), what="no candidate process is left")


def measured(server: KforecastServer, mode: str, kernel: str = "quick.c", **more: Any) -> dict[str, Any]:
    return call(server, mode, "measure_kernel", **{"kernel": kernel, "baseline": "none", "effort": "quick", **more})


def test_the_list_of_tools_is_stable_and_says_all_that_a_client_asks(server: KforecastServer, mode: str) -> None:
    tools = with_client(server, mode, lambda client: client.list_tools()).tools
    assert [tool.name for tool in tools] == NAMES
    for tool in tools:
        hints = tool.annotations
        told = (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint, hints.open_world_hint)
        assert all(isinstance(hint, bool) for hint in told)
        assert len(tool.description) > 150
        assert "$ref" not in str(tool.input_schema)
        assert tool.input_schema["additionalProperties"] is False
        assert tool.output_schema["type"] == "object"
        for name, argument in tool.input_schema["properties"].items():
            assert argument.get("description"), f"{tool.name}.{name}"


def test_measure_then_look_at_it_again(server: KforecastServer, mode: str) -> None:
    answer = measured(server, mode)
    assert (answer["state"], answer["verdict"], answer["comparison"]) == ("completed", "ok", "none")
    assert answer["time_us"] > 0
    assert answer["speedup"] is None
    assert len(str(answer)) < CONCISE
    again = call(server, mode, "get_status", id=answer["measurement_id"])
    assert {**again, "notes": answer["notes"]} == answer
    full = call(server, mode, "get_status", id=answer["measurement_id"], detail="full")
    assert [case["case"] for case in full["cases"]] == ["N=512"]


@pytest.mark.parametrize("mode", ["auto"])
def test_a_kernel_is_named_by_path_text_or_id(server: KforecastServer, kernels: Kernels, mode: str) -> None:
    text = kernels.quick.read_text().replace('reference = "double.py:reference"', 'reference = "einsum: n->n"')
    text = text.replace("2 * x[i]", "x[i]")
    by_text = measured(server, mode, text)
    assert by_text["verdict"] == "ok"
    assert measured(server, mode, by_text["kernel_id"])["kernel_id"] == by_text["kernel_id"]
    by_path = measured(server, mode, str(kernels.quick))
    against = measured(server, mode, "quick.c", baseline=by_path["kernel_id"])
    assert against["baseline_id"] == by_path["kernel_id"]
    assert against["speedup"] is not None


@pytest.mark.parametrize("mode", ["auto"])
def test_a_wrong_kernel_is_an_answer(server: KforecastServer, kernels: Kernels, mode: str) -> None:
    Path("wrong.c").write_text(kernels.quick.read_text().replace("i < N", "i < N - 1"))
    Path("broken.c").write_text(kernels.quick.read_text().replace("2 * x[i]", "z"))
    wrong, broken = measured(server, mode, "wrong.c"), measured(server, mode, "broken.c")
    assert (wrong["verdict"], wrong["mismatch"]["index"]) == ("incorrect", [36])
    assert broken["verdict"] == "compile_error"
    assert "broken.c:" in broken["diagnostics"]
    assert (broken["time_us"], broken["speedup"]) == (None, None)


def test_forecast_with_and_without_ones_own_probabilities(server: KforecastServer, kernels: Kernels, mode: str) -> None:
    base = measured(server, mode)["kernel_id"]
    Path("other.c").write_text(kernels.quick.read_text().replace("2 * x[i]", f"x[i] + x[i] + 0 * {len(mode)}"))
    built_in = call(server, mode, "forecast_kernel", candidate="other.c", baseline=base)
    assert built_in["backend"] == "base-rate"
    assert built_in["decision"] == "measure"
    assert built_in["brief"] is None
    assert len(str(built_in)) < 1200
    assert "own=" in built_in["next"]
    brief = call(server, mode, "forecast_kernel", candidate=built_in["candidate_id"], baseline=base, detail="brief")
    assert "double" in brief["brief"]
    own = call(server, mode, "forecast_kernel", candidate="other.c", baseline=base, own=OWN)
    assert (own["backend"], own["p_correct"]) == ("agent:fable", 0.9)
    measurement = measured(server, mode, "other.c", baseline=base)
    assert measurement["forecast_hit"] in (True, False)
    refused = failed_call(server, mode, "forecast_kernel", candidate="other.c", baseline=base, own=OWN)
    assert "measured already" in refused


@pytest.mark.parametrize("mode", ["auto"])
def test_forecasts_of_several_stand_in_their_order(server: KforecastServer, kernels: Kernels, mode: str) -> None:
    answer = call(
        server, mode, "forecast_kernel", candidate=["slow.c", "missing.c", "endless.c"], baseline="quick.c",
        detail="brief",
    )  # fmt: skip
    assert ["error" in one for one in answer["results"]] == [False, True, False]
    assert "missing.c" in answer["results"][1]["error"]
    assert "double" in answer["brief"]
    assert answer["summary"] == "3 candidates: 2 measure, 1 not readable."


def test_work_that_takes_longer_goes_on_without_the_client(server: KforecastServer, mode: str) -> None:
    working = measured(server, mode, "slow.c", wait_s=0, request_key=f"mine-{mode}")
    assert (working["state"], working["measurement_id"], working["verdict"]) == ("working", None, None)
    assert working["poll_after_s"] >= 1
    assert working["request_id"] in working["next"]
    again = measured(server, mode, "slow.c", wait_s=0, request_key=f"mine-{mode}")
    assert again["request_id"] == working["request_id"]
    done = call(server, mode, "get_status", id=working["request_id"], wait_s=45)
    assert (done["state"], done["verdict"]) == ("completed", "ok")
    assert done["request_id"] == working["request_id"]


def test_who_waits_is_told_its_place_and_the_time(server: KforecastServer, mode: str) -> None:
    measured(server, mode)
    first = measured(server, mode, "endless.c", wait_s=0)
    begun()
    second = measured(server, mode, "quick.c", wait_s=0)
    assert second["queue_position"] == 0
    assert second["eta_s"] > 0
    now = call(server, mode, "get_status")
    assert [one["request_id"] for one in now["unfinished"]] == [first["request_id"], second["request_id"]]
    assert now["holders"][0]["device"] == "cpu"
    for one in (second, first, first):  # stopping twice is no error
        assert call(server, mode, "stop", id=one["request_id"])["state"] == "cancelled"
    free()


@pytest.mark.parametrize("mode", ["auto"])
def test_progress_says_where_it_is(server: KforecastServer, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kforecast.tools.mcp.progress.EVERY_S", 0.1)
    heard: list[tuple[float, float | None, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))

    async def use(client: Client) -> Any:
        arguments = {"kernel": "slow.c", "baseline": "none", "effort": "quick"}
        return await client.call_tool("measure_kernel", arguments, progress_callback=hear)

    answer_of(with_client(server, mode, use))
    assert len(heard) >= 2
    assert [step for step, _, _ in heard] == sorted(step for step, _, _ in heard)
    assert any("timing block" in (text or "") for _, _, text in heard)


@pytest.mark.parametrize("mode", ["auto"])
def test_an_ended_measurement_can_be_stopped(server: KforecastServer, mode: str) -> None:
    done = measured(server, mode)
    assert call(server, mode, "stop", id=done["measurement_id"])["state"] == "completed"
    assert call(server, mode, "stop", id=done["request_id"])["state"] == "completed"


@pytest.mark.parametrize("mode", ["auto"])
def test_a_kernels_source_comes_only_when_asked_for(server: KforecastServer, kernels: Kernels, mode: str) -> None:
    identity = measured(server, mode)["kernel_id"]
    assert "source" not in call(server, mode, "get_status", id=identity)
    assert call(server, mode, "get_status", id=identity, detail="full")["source"] == kernels.quick.read_text()


def test_two_calls_with_one_key_at_once_are_one_request(server: KforecastServer, mode: str) -> None:
    arguments = {"kernel": "quick.c", "baseline": "none", "effort": "quick", "request_key": f"once-{mode}"}

    async def use(client: Client) -> list[dict[str, Any]]:
        answers: list[dict[str, Any]] = []

        async def one() -> None:
            answers.append(answer_of(await client.call_tool("measure_kernel", arguments)))

        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(one)
        return answers

    answers = with_client(server, mode, use)
    assert len({answer["measurement_id"] for answer in answers}) == 1
    assert len({answer["request_id"] for answer in answers}) == 1


def test_a_search_is_begun_fed_looked_at_and_stopped(server: KforecastServer, kernels: Kernels, mode: str) -> None:
    wanted = {"seed": "quick.c", "budget": {"measurements": 2}, "request_key": mode}
    identity = call(server, mode, "search", **wanted)["search_id"]
    assert call(server, mode, "search", **wanted)["search_id"] == identity
    asked = call(server, mode, "get_status", id=identity, wait_s=45)
    assert asked["state"] == "input_required"
    parent = asked["asks"][0]
    Path("sum.c").write_text(kernels.quick.read_text().replace("2 * x[i]", "x[i] + x[i]"))
    good = {"parent_id": parent["parent_id"], "kernel": "sum.c", "idea": "add instead", "own": OWN}
    bad = {"parent_id": parent["parent_id"], "kernel": "missing.c"}
    told = call(server, mode, "search_propose", search_id=identity, candidates=[bad, good])
    assert [one["index"] for one in told["rejected"]] == [0]
    assert told["accepted"][0]["decision"] in ("trust", "measure", "drop")
    done = call(server, mode, "get_status", id=identity, wait_s=45)
    assert done["counts"]["proposed"] == 1
    assert call(server, mode, "stop", id=identity)["search_id"] == identity
    until(lambda: call(server, mode, "get_status", id=identity)["state"] in ("completed", "cancelled"), what="it ends")
    assert call(server, mode, "get_status")["searches"][0]["search_id"] == identity
    free()
