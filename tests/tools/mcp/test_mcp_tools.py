"""Every tool through the official client, in both eras of the protocol."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from brokers import Kernels, begun, candidates, free, until
from calls import answer_of, call, failed_call, with_client
from mcp.client.client import Client
from tokens import tokens

from kforecast.tools.mcp.server import KforecastServer

BINS = [0, 0, 0, 0.1, 0.8, 0.1, 0, 0]
OWN = {"p_correct": 0.9, "p_bins": BINS, "forecaster": "fable"}
NAMES = ["forecast_kernel", "measure_kernel", "search", "search_propose", "get_status", "stop"]
FORECAST_TOKENS, MEASUREMENT_TOKENS = 400, 500
"""The most that a concise answer takes."""
TOOLS_TOKENS = 9000
"""The most that the list of tools takes of every session."""


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


def size(answer: dict[str, Any]) -> int:
    """Tokens of an answer as it is sent."""
    return tokens(json.dumps(answer, ensure_ascii=False, separators=(",", ":")))


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
            assert "title" not in argument
        for told in ("Returns", "Cost") if tool.name not in ("get_status", "stop") else ():
            assert told in tool.description, tool.name
    whole = json.dumps([tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools])
    assert tokens(whole) < TOOLS_TOKENS


def test_measure_then_look_at_it_again(server: KforecastServer, mode: str) -> None:
    answer = measured(server, mode, task="", device=None, request_key="")  # as some models fill in what they leave out
    assert (answer["state"], answer["verdict"], answer["comparison"]) == ("completed", "ok", "none")
    assert answer["time_us"] > 0
    assert answer["speedup"] is None
    assert size(answer) < MEASUREMENT_TOKENS
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
    without_its_files = kernels.quick.read_text().replace("2 * x[i]", "x[i] + x[i]")
    as_text = call(server, mode, "forecast_kernel", candidate=without_its_files, baseline=by_path["kernel_id"])
    assert as_text["baseline_id"] == by_path["kernel_id"]
    refused = failed_call(server, mode, "forecast_kernel", candidate=without_its_files, baseline=by_text["kernel_id"])
    assert "no folder to look in" in refused


@pytest.mark.parametrize("mode", ["auto"])
def test_a_wrong_kernel_is_an_answer(server: KforecastServer, kernels: Kernels, mode: str) -> None:
    Path("wrong.c").write_text(kernels.quick.read_text().replace("i < N", "i < N - 1"))
    Path("broken.c").write_text(kernels.quick.read_text().replace("2 * x[i]", "z"))
    wrong, broken = measured(server, mode, "wrong.c"), measured(server, mode, "broken.c")
    assert (wrong["verdict"], wrong["mismatch"]["index"]) == ("incorrect", [36])
    assert broken["verdict"] == "compile_error"
    assert "broken.c:" in broken["diagnostics"]
    without = ("speedup", "speedup_low", "speedup_high", "time_us", "time_warm_l2_us", "baseline_us", "worst_case")
    for one in (wrong, broken):
        assert [one[name] for name in without] == [None] * len(without)
        assert one["percent_of_floor"] is one["noise_pct"] is one["queue_position"] is one["eta_s"] is None
        assert size(one) < MEASUREMENT_TOKENS
    errors = "".join(f"  thing_that_is_not_there_{number} += {number};\n" for number in range(40))
    Path("long.c").write_text(kernels.quick.read_text().replace(" for (", f"\n{errors} for ("))
    many = measured(server, mode, "long.c")
    assert many["verdict"] == "compile_error"
    assert size(many) < MEASUREMENT_TOKENS
    unfit = call(server, mode, "forecast_kernel", candidate="long.c", baseline="quick.c")
    assert unfit["compile"]["ok"] is False
    assert unfit["decision"] == "drop"
    assert size(unfit) < FORECAST_TOKENS


def test_forecast_with_and_without_ones_own_probabilities(server: KforecastServer, kernels: Kernels, mode: str) -> None:
    base = measured(server, mode)["kernel_id"]
    Path("other.c").write_text(kernels.quick.read_text().replace("2 * x[i]", f"x[i] + x[i] + 0 * {len(mode)}"))
    built_in = call(server, mode, "forecast_kernel", candidate="other.c", baseline=base)
    assert built_in["backend"] == "base-rate"
    assert built_in["decision"] == "measure"
    assert built_in["brief"] is None
    assert size(built_in) < FORECAST_TOKENS
    assert "own=" in built_in["next"]
    brief = call(server, mode, "forecast_kernel", candidate=built_in["candidate_id"], baseline=base, detail="brief")
    assert "double" in brief["brief"]
    own = call(server, mode, "forecast_kernel", candidate="other.c", baseline=base, own=OWN)
    assert (own["backend"], own["p_correct"]) == ("agent:fable", 0.9)
    again = call(server, mode, "get_status", id=own["forecast_id"])
    assert (again["candidate_id"], again["p_bins"], again["measurement_id"]) == (own["candidate_id"], BINS, None)
    measurement = measured(server, mode, "other.c", baseline=base)
    assert measurement["forecast_hit"] in (True, False)
    since = call(server, mode, "get_status", id=own["forecast_id"])
    assert since["measurement_id"] == measurement["measurement_id"]
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


@pytest.mark.parametrize("mode", ["auto"])
def test_what_is_the_same_of_all_is_said_once(server: KforecastServer, kernels: Kernels, mode: str) -> None:
    names = ["slow.c", "endless.c"]
    answer = call(server, mode, "forecast_kernel", candidate=names, baseline="quick.c")
    alone = [call(server, mode, "forecast_kernel", candidate=name, baseline="quick.c") for name in names]
    for told, single in zip(answer["results"], alone, strict=True):
        whole = {**answer, **told}
        for name in ("baseline_id", "backend", "alpha", "reason", "calibration", "candidate_id", "p_bins", "p_correct"):
            assert whole[name] == single[name], name
        assert "backend" not in told and "next" not in told
        assert all(len(str(p)) <= 5 for p in told["p_bins"])
        assert tokens(json.dumps(told, separators=(",", ":"))) <= 240


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
    holders = until(lambda: call(server, mode, "get_status")["holders"], what="the device is held")
    assert holders[0]["device"] == "cpu"
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
    assert Path(parent["source_path"]).read_text() == kernels.quick.read_text()
    seed = call(server, mode, "forecast_kernel", candidate="slow.c", baseline=parent["source_path"])
    assert seed["baseline_id"] == parent["kernel_id"]
    text = kernels.quick.read_text().replace("2 * x[i]", f"x[i] + x[i] + 0 * {2 * len(mode)}")
    good = {"parent_id": parent["parent_id"], "kernel": text, "idea": "add instead", "own": OWN}
    bad = {"parent_id": parent["parent_id"], "kernel": "missing.c"}
    broken = {"parent_id": parent["parent_id"], "kernel": text.replace("x[i] + x[i]", f"zz{mode}"), "idea": "nonsense"}
    assert parent["forecast_against"] == parent["kernel_id"]
    told = call(server, mode, "search_propose", search_id=identity, candidates=[bad, good, broken])
    assert [one["index"] for one in told["rejected"]] == [0]
    accepted, dropped = told["accepted"]
    assert dropped["decision"] == "drop"
    assert "does not compile" in dropped["reason"]
    assert dropped["p_faster"] is dropped["forecast_speedup"] is None
    assert accepted["decision"] in ("trust", "measure", "drop")
    assert 0.5 < accepted["p_faster"] <= 1
    again = call(server, mode, "search_propose", search_id=identity, candidates=[good])
    assert [one["kernel_id"] for one in again["accepted"]] == [accepted["kernel_id"]]
    done = call(server, mode, "get_status", id=identity, wait_s=45, detail="full")
    assert (done["counts"]["proposed"], done["counts"]["refused"]) == (2, 0)
    ids = [parent["kernel_id"], accepted["kernel_id"], dropped["kernel_id"]]
    assert [one["kernel_id"] for one in done["candidates"]] == ids
    assert done["candidates"][1]["idea"] == "add instead"
    assert call(server, mode, "stop", id=identity)["search_id"] == identity
    until(lambda: call(server, mode, "get_status", id=identity)["state"] in ("completed", "cancelled"), what="it ends")
    assert call(server, mode, "get_status")["searches"][0]["search_id"] == identity
    free()
