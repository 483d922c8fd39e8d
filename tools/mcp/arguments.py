"""What clients give: one annotated type an argument, described for a model that has never heard of kforecast."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from ...store.bins import BINS
from ...store.models import Effort

_ONE_STRING = (
    "ONE string: a kernel id (k_...) from an earlier answer; else the source text itself, if it contains a newline; "
    "else the path of a .c, .cu or .py (Triton, PyTorch) file. "
)
_HEADER = """The source begins with a header comment that says what it computes and how it is launched:
/* kforecast 1
task = "softmax_rows"
options = ["-fopenmp"]  # optional; C is compiled with -O3 -march=native already; -ffast-math and a few more are allowed
[[launch]]
entry = "softmax_rows"
args = ["x", "y", "R", "C"]
grid = ["R"]      # CUDA, Triton
block = ["256"]   # CUDA only
*/
In Python it is the lines from `# /// kforecast 1` to `# ///`, with `# ` before each. Without a header, the error
proposes one to paste."""
_SHORT = _ONE_STRING + "The source begins with a kernel header; the error for one without proposes it."
_BASELINE = (
    "What to compare with: an id, path or source text as above, or `seed` (the task's plain kernel, the default), "
    "`tuned` (a fast one that comes with the task), `library`, or `none`."
)
_TASK = "Name of the task the kernel computes (e.g. softmax_rows); only needed where the source has no header."
_DEVICE = "cpu, cuda:0, ... Default: the language decides (C: cpu, CUDA and Triton: cuda:0)."
_KEY = (
    "Any string of yours that names this request. Asking again with the same key is the same request, so a retry "
    "after a timeout never does the work twice."
)
_BINS = "Eight probabilities that sum to 1, of the speedup S given that the kernel is correct: " + "; ".join(
    f"{bin.title} ({bin.range_text})" for bin in BINS
)


class _Given(BaseModel):
    """Base of the tables that clients give: an unknown key is an error, not ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Own(_Given):
    """Your own forecast of one candidate."""

    p_correct: float = Field(ge=0, le=1, description="Probability that the kernel compiles and every output is right.")
    p_bins: tuple[float, ...] = Field(min_length=8, max_length=8, description=_BINS)
    forecaster: str = Field(
        min_length=1,
        max_length=80,
        description="Your model's name, e.g. claude-opus-4. Your record and calibration are kept under it.",
    )


class Limits(_Given):
    """What a search may spend; at least one limit."""

    gpu_seconds: float | None = Field(default=None, gt=0, description="Seconds for which the device is held.")
    measurements: int | None = Field(
        default=None, gt=0, description="Measurements, those of the seed and to confirm the best included."
    )
    usd: float | None = Field(default=None, gt=0, description="US dollars spent on hosted models.")
    tokens: int | None = Field(default=None, gt=0, description="Tokens of hosted models.")
    wall_s: float | None = Field(default=None, gt=0, description="Seconds since the search began.")
    candidates: int | None = Field(default=None, gt=0, description="Candidates proposed.")


class Proposal(_Given):
    """One candidate for a search."""

    parent_id: str = Field(max_length=100, description="Which node it improves: parent_id of one of `asks`.")
    kernel: str = Field(min_length=1, description=f"The candidate. {_SHORT}")
    idea: str = Field(default="", max_length=500, description="What you changed and why, in one sentence.")
    own: Own | None = Field(
        default=None,
        description="Your own forecast against the kernel `forecast_against` of the ask: the parent, once that is "
        "measured; orders the measuring.",
    )


Kernel = Annotated[str, Field(min_length=1, description=_ONE_STRING + _HEADER)]
Seed = Annotated[str, Field(min_length=1, description=f"The kernel to start from, right but slow. {_SHORT}")]
Candidates = Annotated[
    str | Annotated[list[str], Field(min_length=1, max_length=16)],
    Field(
        description=f"The kernel to forecast, or a list of up to 16 that share the other arguments. Each is {_SHORT}"
    ),
]
Baseline = Annotated[str | None, Field(description=_BASELINE)]
Task = Annotated[str | None, Field(description=_TASK)]
Device = Annotated[str | None, Field(max_length=200, description=_DEVICE)]
Owns = Annotated[
    Own | list[Own] | None,
    Field(description="Your own probabilities, which then are the forecast; a list, one a candidate, for a list."),
]
Alpha = Annotated[
    float | None, Field(gt=0, lt=0.5, description="Share of answers told to `trust` that may be wrong. Default 0.1.")
]
Detail = Annotated[
    Literal["concise", "brief", "full"],
    Field(
        description="brief adds what is known of this pair (measured siblings, floor, device); full the sources too."
    ),
]
StatusDetail = Annotated[
    Literal["concise", "full"], Field(description="full adds every timed case, all diagnostics, a kernel's source.")
]
HowSure = Annotated[
    Effort | None,
    Field(
        description="quick: a rough ratio in about a second; normal (default): a few seconds; claim: repeated in fresh "
        "processes, before you tell anybody of a win."
    ),
]
WaitS = Annotated[
    float, Field(ge=0, le=45, description="Seconds to wait for the answer before it is `working`; the work goes on.")
]
RequestKey = Annotated[str | None, Field(min_length=1, max_length=200, description=_KEY)]
Generator = Annotated[
    Literal["agent", "tune", "edits", "llm"],
    Field(
        description="Who proposes candidates. agent: you do, through search_propose. tune: the values of the header's "
        "[tune] table. edits: rule-based source edits. llm: a hosted model that a person has configured."
    ),
]
PolicyName = Annotated[
    str, Field(max_length=40, description="How the tree grows: gain (default), puct, or halving for generator tune.")
]
Model = Annotated[
    str | None, Field(max_length=200, description="The hosted model of generator llm; else leave it out.")
]
Proposals = Annotated[list[Proposal], Field(min_length=1, max_length=16, description="1 to 16 candidates.")]
SearchId = Annotated[str, Field(max_length=100, description="The search: s_...")]
AnyId = Annotated[
    str, Field(min_length=1, max_length=100, description="An id from an earlier answer: r_..., m_... or s_...")
]
StatusId = Annotated[
    str | None,
    Field(
        max_length=100,
        description="A request r_..., measurement m_..., search s_..., kernel k_... or forecast f_...; left out: what "
        "was measured last, what waits, who holds the devices.",
    ),
]
Cursor = Annotated[
    int | None, Field(ge=0, description="A search's `cursor` as you know it: waits only until something is new.")
]
