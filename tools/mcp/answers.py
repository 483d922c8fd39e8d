"""What clients get: the use cases' results as compact JSON, the same in structured content and in text.

Some clients show their model only the one, some only the other, so both carry everything.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mcp_types import CallToolResult, TextContent
from pydantic import BaseModel, ConfigDict, Field

from ..results import MeasureResult
from .wording import reworded

_DIGITS = 4
_DIAGNOSTICS = 600
_ONLY_IN_FULL = ("cases", "name", "isolation")


class Told(BaseModel):
    """What every answer says: what happened in one sentence, and what to do now. The rest depends on what was asked."""

    model_config = ConfigDict(extra="allow")

    summary: str
    next: str
    state: str | None = Field(default=None, description="working, input_required, completed, failed or cancelled")
    poll_after_s: float | None = Field(default=None, description="ask again after so many seconds")


class ForecastAnswer(Told):
    """One candidate's forecast; for a list of candidates `results`, in their order, each such a forecast without what
    is the same of all, which stands beside them."""

    results: list[dict[str, Any]] | None = None
    forecast_id: str | None = None
    candidate_id: str | None = None
    baseline_id: str | None = None
    decision: str | None = Field(default=None, description="trust, measure or drop")
    answer: str | None = Field(default=None, description="faster, slower or unsure")
    reason: str | None = None
    p_correct: float | None = None
    p_faster: float | None = Field(default=None, description="given that the kernel is correct")
    speedup_median: float | None = None
    speedup_p10: float | None = Field(
        default=None, description="lower end of the 80% interval of S; null: open, below 1/4 (p90: above 4)"
    )
    speedup_p90: float | None = None
    p_bins: list[float] | None = None
    alpha: float | None = None
    backend: str | None = Field(default=None, description="who forecast")
    cost_usd: float | None = None
    already_measured: str | None = Field(
        default=None, description="the measurement m_... of this pair, if there is one"
    )
    brief: str | None = None


class SearchAnswer(Told):
    """Where a search stands. S is against its seed."""

    search_id: str
    best: dict[str, Any] | None = Field(default=None, description="the fastest kernel that was measured")
    spent: dict[str, float] = Field(default_factory=dict)
    limits: dict[str, float] = Field(default_factory=dict)
    counts: dict[str, int] = Field(default_factory=dict)
    asks: list[dict[str, Any]] = Field(
        default_factory=list, description="parents worth improving, best first; source_path: a copy to read"
    )
    cursor: int
    candidates: list[dict[str, Any]] | None = Field(default=None, description="with detail=full: what came of each")


class ProposeAnswer(SearchAnswer):
    """What became of the candidates, and where the search stands."""

    accepted: list[dict[str, Any]]
    rejected: list[dict[str, Any]]


def reply(answer: BaseModel | Mapping[str, Any]) -> CallToolResult:
    """An answer as both kinds of content, in an agent's words, numbers to four digits."""
    plain = answer.model_dump(mode="json") if isinstance(answer, BaseModel) else dict(answer)
    rounded = _rounded(reworded(plain))
    text = json.dumps(rounded, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=rounded)


def concise(result: MeasureResult) -> dict[str, Any]:
    """A measurement without what only a closer look needs."""
    plain = result.model_dump(mode="json", exclude=set(_ONLY_IN_FULL))
    diagnostics = plain["diagnostics"]
    if diagnostics is not None and len(diagnostics) > _DIAGNOSTICS:
        plain["diagnostics"] = diagnostics[:_DIAGNOSTICS] + " ..."
    return plain


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, dict):
        return {name: _rounded(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(inner) for inner in value]
    return value


__all__ = ["ForecastAnswer", "MeasureResult", "ProposeAnswer", "SearchAnswer", "Told", "concise", "reply"]
