"""The server itself: the tools by name and in their order, and the one seam that every call goes through."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, InputRequiredResult, ToolAnnotations

from ... import __version__
from ..config import load_config
from ..sources import sources_dir
from . import arguments as given
from . import descriptions
from .answers import ForecastAnswer, MeasureResult, ProposeAnswer, SearchAnswer, Told
from .faults import as_tool_error, log_to_file, unknown_argument
from .forecasting import forecast
from .held import while_serving
from .inlining import inlined
from .looking import look, stop
from .measuring import Wanted, measure
from .progress import Progress
from .roots import Roots
from .searching import Begin, propose, search

Ctx = Context[Any, Any]


class KforecastServer(MCPServer[None]):
    """An MCPServer whose every failed call says what happened, with which value, and what to do next."""

    def __init__(self, tools: list[Tool]) -> None:
        super().__init__(
            "kforecast",
            title="kforecast",
            description="Calibrated forecasts and hard-to-fool measurements of GPU and CPU kernels",
            instructions=descriptions.INSTRUCTIONS,
            version=__version__,
            tools=tools,
            lifespan=while_serving,
            subscriptions=False,
            log_level="WARNING",
        )
        self._needed = {tool.name: tuple(tool.parameters.get("required", ())) for tool in tools}
        self._arguments = {tool.name: tuple(tool.parameters["properties"]) for tool in tools}

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[None, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool. Raises ToolError with a text for the caller, whatever went wrong."""
        known = self._arguments.get(name)
        for argument in arguments if known is not None else ():
            if argument not in known:  # type: ignore[operator]
                raise unknown_argument(name, argument, known or ())
        # Some models fill in everything that they might leave out.
        needed = self._needed.get(name, ())
        arguments = {key: value for key, value in arguments.items() if key in needed or value not in (None, "")}
        try:
            return await super().call_tool(name, arguments, context)
        except MCPError:
            raise
        except ToolError as error:
            if error.__cause__ is None:
                raise  # no such tool
            raise as_tool_error(name, error.__cause__) from error


def make_server(roots: tuple[Path, ...] = ()) -> KforecastServer:
    """The server for clients that may name files in the working directory, in `roots`, in the configured roots, and
    the copies of sources that `asks` point to.

    Raises InputError for a root that is no folder and for a bad configuration, StoreError where log or copies have no
    place.
    """
    log_to_file()
    logging.getLogger("mcp").setLevel(logging.WARNING)
    allowed = Roots.of([*roots, *load_config().roots, sources_dir()])
    return KforecastServer(
        [
            _tool(_forecaster(allowed), "forecast_kernel", "Forecast kernels", descriptions.FORECAST, open_world=True),
            _tool(_measurer(allowed), "measure_kernel", "Measure a kernel", descriptions.MEASURE),
            _tool(_searcher(allowed), "search", "Begin a search", descriptions.SEARCH, open_world=True),
            _tool(_proposer(allowed), "search_propose", "Give a search candidates", descriptions.PROPOSE),
            _tool(get_status, "get_status", "Look at results and work", descriptions.STATUS, read_only=True),
            _tool(stop_work, "stop", "Stop a request or search", descriptions.STOP, destructive=True, idempotent=True),
        ]
    )


def _tool(
    run: Callable[..., Any],
    name: str,
    title: str,
    description: str,
    *,
    read_only: bool = False,
    destructive: bool = False,
    idempotent: bool = False,
    open_world: bool = False,
) -> Tool:
    hints = ToolAnnotations(
        title=title,
        read_only_hint=read_only,
        destructive_hint=destructive,
        idempotent_hint=idempotent or read_only,
        open_world_hint=open_world,
    )
    tool = Tool.from_function(run, name=name, title=title, description=description, annotations=hints)
    tool.parameters = {**inlined(tool.parameters), "additionalProperties": False}
    if tool.fn_metadata.output_schema is not None:
        tool.fn_metadata.output_schema = inlined(tool.fn_metadata.output_schema)
    return tool


def _forecaster(roots: Roots) -> Callable[..., Any]:
    async def forecast_kernel(
        candidate: given.Candidates,
        baseline: given.Baseline = None,
        task: given.Task = None,
        device: given.Device = None,
        own: given.Owns = None,
        alpha: given.Alpha = None,
        detail: given.Detail = "concise",
    ) -> Annotated[CallToolResult, ForecastAnswer]:
        return await forecast(roots, candidate, baseline, task, device, own, alpha, detail)

    return forecast_kernel


def _measurer(roots: Roots) -> Callable[..., Any]:
    async def measure_kernel(
        ctx: Ctx,
        kernel: given.Kernel,
        baseline: given.Baseline = None,
        task: given.Task = None,
        device: given.Device = None,
        effort: given.HowSure = None,
        wait_s: given.WaitS = 40,
        request_key: given.RequestKey = None,
    ) -> Annotated[CallToolResult, MeasureResult]:
        return await measure(roots, Wanted(kernel, baseline, task, device, effort, request_key), Progress(ctx, wait_s))

    return measure_kernel


def _searcher(roots: Roots) -> Callable[..., Any]:
    async def search_kernel(
        seed: given.Seed,
        budget: given.Limits,
        task: given.Task = None,
        device: given.Device = None,
        generator: given.Generator = "agent",
        policy: given.PolicyName = "gain",
        model: given.Model = None,
        request_key: given.RequestKey = None,
    ) -> Annotated[CallToolResult, SearchAnswer]:
        return await search(roots, Begin(seed, task, device, generator, policy, budget, model, request_key))

    return search_kernel


def _proposer(roots: Roots) -> Callable[..., Any]:
    async def search_propose(
        ctx: Ctx, search_id: given.SearchId, candidates: given.Proposals, wait_s: given.WaitS = 40
    ) -> Annotated[CallToolResult, ProposeAnswer]:
        return await propose(roots, search_id, candidates, Progress(ctx, wait_s))

    return search_propose


async def get_status(
    ctx: Ctx,
    id: given.StatusId = None,
    wait_s: given.WaitS = 0,
    cursor: given.Cursor = None,
    detail: given.StatusDetail = "concise",
) -> Annotated[CallToolResult, Told]:
    """Anything by its id, or the whole at a glance."""
    return await look(id, Progress(ctx, wait_s), cursor, detail)


async def stop_work(id: given.AnyId) -> Annotated[CallToolResult, Told]:
    """End a request or a search."""
    return await stop(id)


def plain_tools(server: KforecastServer) -> list[Mapping[str, Any]]:
    """What the server offers, as data: for people who want to read what a client's model reads."""
    import anyio

    tools = anyio.run(server.list_tools)
    return [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]
