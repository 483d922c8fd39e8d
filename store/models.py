"""The nouns of kforecast as frozen models. Ratios are stored as log2 S, times in microseconds, moments as UTC text."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from .identity import content_id, normalise_source

Language = Literal["c", "cuda", "triton", "torch"]
Dtype = Literal["f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8"]
Role = Literal["in", "out", "inout"]
Verdict = Literal[
    "ok", "compile_error", "launch_error", "incorrect", "timeout", "crashed", "tampered", "impossible", "unsupported"
]
Comparison = Literal["faster", "slower", "tie", "unclear", "none"]
Effort = Literal["quick", "normal", "claim"]
Lane = Literal["device-only", "host-code"]
RequestState = Literal["queued", "working", "completed", "failed", "cancelled"]
DecisionKind = Literal["trust", "measure", "drop"]
Sizes = dict[str, int]


class Noun(BaseModel):
    """Base of every noun: immutable, and strict about unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


class Tensor(Noun):
    """One argument tensor of a task: contiguous, row-major, 256-byte aligned. `shape`: expressions over the sizes."""

    name: str
    role: Role
    dtype: Dtype
    shape: tuple[str, ...]
    fill: str = "normal"
    """Input generator (see `bench.tasks.inputs`); meaningless for role `out`."""
    zero: bool = False
    """Outputs are poisoned before every call unless `zero`, whose memset is timed."""


class Scratch(Noun):
    """Device memory a kernel needs besides the task's tensors; poisoned, unless `zero` adds a timed memset."""

    name: str
    dtype: Dtype
    shape: tuple[str, ...]
    zero: bool = False


class Precision(Noun):
    """The lowest precision a kernel may use: of the products' operands, and of the running sums."""

    multiply: Dtype
    accumulate: Dtype


class Case(Noun):
    """One instance of a task: its sizes, and the inputs' generators where they differ from the task's."""

    sizes: Sizes
    fill: dict[str, str] = Field(default_factory=dict)

    @property
    def name(self) -> str:
        """The case as results name it, e.g. `R=4096 C=1024` or `R=7 C=33 x=large`."""
        named = " ".join(f"{key}={value}" for key, value in {**self.sizes, **self.fill}.items())
        return named or "the problem's inputs"


class Problem(Noun):
    """A task in the files of another bench, which run unchanged: they make the inputs and hold the reference."""

    format: Literal["kernelbench", "gpumode"]
    files: dict[str, str]
    """Texts by file name: `problem.py`; or `reference.py`, `task.py` and whatever else `task.yml` lists."""
    most_seed: int = 2**31 - 1
    """The largest seed that the problem's own cases name: ours stay within, as some problems' values grow with it."""


class Task(Noun):
    """What a kernel must compute, on which cases, to which precision, and the facts its floor follows from."""

    name: str
    title: str = ""
    tensors: tuple[Tensor, ...]
    precision: Precision | None = None
    """None: the result is exact (data movement, integers) and compared bit by bit."""
    reference: str
    """`einsum: …` or the name of a function in `reference_source`."""
    reference_source: str = ""
    checked: tuple[Case, ...]
    timed: dict[str, tuple[Case, ...]]
    """Timed cases by device kind (`cpu`, `cuda`), or under `any`."""
    flops: str | None = None
    bytes: str | None = None
    """Compulsory traffic; None: every input once and every output once."""
    data_dependent: bool = False
    """The necessary work depends on the values, so there is no floor."""
    problem: Problem | None = None
    """Where another bench's files say what is computed; then there are no `tensors`, and the reference is theirs."""

    @property
    def id(self) -> str:
        # Without defaults: a field that a later version adds must not change the ids of the tasks there are.
        return content_id("t", self.model_dump(mode="json", exclude={"title"}, exclude_defaults=True))

    def timed_on(self, device_kind: str) -> tuple[Case, ...]:
        """The timed cases for a device kind (`cpu`, `cuda`)."""
        return self.timed.get(device_kind, self.timed.get("any", ()))

    def tensor(self, name: str) -> Tensor:
        return next(tensor for tensor in self.tensors if tensor.name == name)

    @property
    def size_names(self) -> tuple[str, ...]:
        return tuple(self.checked[0].sizes)


class Launch(Noun):
    """One launch of a kernel: expressions over sizes, tunables, device constants. On `cpu` entry and args count."""

    entry: str
    args: tuple[str, ...]
    grid: tuple[str, ...] = ("1",)
    block: tuple[str, ...] = ("1",)
    smem: str = "0"
    constexpr: dict[str, str] = Field(default_factory=dict)
    """Triton: constexprs that follow from a case's sizes."""


class Kernel(Noun):
    """One source text with everything that decides what it compiles to and how it is launched. Use `Kernel.make`."""

    id: str
    source_id: str
    """As `id`, but without the toolchain: equal programs on different machines share it."""
    language: Language
    name: str
    """For people: the file's name or the search's label; not part of the identity."""
    source: str
    includes: dict[str, str] = Field(default_factory=dict)
    options: tuple[str, ...] = ()
    tunables: Sizes = Field(default_factory=dict)
    launches: tuple[Launch, ...]
    scratch: tuple[Scratch, ...] = ()
    task_id: str
    toolchain: str = ""

    @classmethod
    def make(
        cls,
        *,
        language: Language,
        name: str,
        source: str,
        launches: tuple[Launch, ...],
        task_id: str,
        includes: dict[str, str] | None = None,
        options: tuple[str, ...] = (),
        tunables: Sizes | None = None,
        scratch: tuple[Scratch, ...] = (),
        toolchain: str = "",
    ) -> Kernel:
        """The kernel with its ids computed from normalised content."""
        content: dict[str, Any] = {
            "language": language,
            "source": normalise_source(source, language),
            "includes": {key: normalise_source(text, language) for key, text in (includes or {}).items()},
            "options": options,
            "tunables": tunables or {},
            "launches": [launch.model_dump(exclude_defaults=True) for launch in launches],
            "scratch": [entry.model_dump(exclude_defaults=True) for entry in scratch],
            "task_id": task_id,
        }
        return cls(
            id=content_id("k", {**content, "toolchain": toolchain}),
            source_id=content_id("s", content),
            language=language,
            name=name,
            source=source,
            includes=includes or {},
            options=options,
            tunables=tunables or {},
            launches=launches,
            scratch=scratch,
            task_id=task_id,
            toolchain=toolchain,
        )


class EntryFacts(Noun):
    """What the compiler says of one entry point. None: this compiler does not say."""

    entry: str
    registers: int | None = None
    spill_bytes: int | None = None
    shared_bytes: int | None = None
    local_bytes: int | None = None
    occupancy: float | None = None
    """Resident warps over the most the architecture holds, 0..1."""


class Facts(Noun):
    """What is known of a kernel without running it."""

    ok: bool
    error: str | None = None
    """The compiler's message, in the user's line numbers, where `ok` is false."""
    toolchain: str = ""
    arch: str = ""
    """`sm_90`, or the CPU's instruction set."""
    code_bytes: int | None = None
    compile_ms: float | None = None
    entries: tuple[EntryFacts, ...] = ()
    instruction_mix: dict[str, int] = Field(default_factory=dict)
    labels: tuple[str, ...] = ()
    """What the compiled code gives away: `stateful`, `mma-tf32`, `approximate-math`, …"""
    warnings: str = ""


class Mismatch(Noun):
    """The first wrong element: where, what came, what was wanted, its scaled error and the limit it broke."""

    case: str
    tensor: str
    index: tuple[int, ...]
    got: str
    want: str
    error: float | None
    limit: float | None
    wrong: int
    """How many elements are wrong."""
    total: int
    explanation: str


class CaseResult(Noun):
    """One timed case of one measurement. Times in microseconds; cold caches unless `warm` is in the name."""

    case: str
    time_us: float | None
    """None: no block of this case was complete."""
    time_warm_us: float | None = None
    baseline_us: float | None = None
    baseline_warm_us: float | None = None
    log2_speedup: float | None = None
    log2_low: float | None = None
    log2_high: float | None = None
    floor_us: float | None = None
    percent_of_floor: float | None = None
    """100 × floor / time: 100 is the floor itself."""


class Measurement(Noun):
    """A verdict on a candidate; where it is `ok`, its times; where there is a baseline, the ratio with its interval."""

    id: str
    request_id: str | None = None
    kernel_id: str
    baseline_id: str | None = None
    task_id: str
    task_name: str
    device: str
    """As the user names it: `cpu`, `cuda:0`."""
    device_id: str
    """The physical device: a GPU's UUID, or a hash of the CPU's model and the host."""
    lane: Lane
    launch_mode: str
    """Only measurements of one launch mode compare: `process` on cpu, `stream` or `graph` on cuda."""
    effort: Effort
    verdict: Verdict
    reason: str
    comparison: Comparison = "none"
    log2_speedup: float | None = None
    log2_low: float | None = None
    log2_high: float | None = None
    confidence: float | None = None
    interval_method: str | None = None
    blocks: int = 0
    censored: bool = False
    """Stopped early because clearly slower: the ratio is a rough reading, not a 1% number."""
    cases: tuple[CaseResult, ...] = ()
    time_us: float | None = None
    """Geometric mean over the timed cases, as are the three below."""
    time_warm_us: float | None = None
    baseline_us: float | None = None
    percent_of_floor: float | None = None
    noise_pct: float | None = None
    """A/A noise of this measurement's own blocks, in percent."""
    mismatch: Mismatch | None = None
    diagnostics: str = ""
    labels: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """What a reader of the numbers should know: ended at the time cap, noisy machine, host-limited clock."""
    isolation: str = ""
    facts: Facts | None = None
    environment: dict[str, Any] = Field(default_factory=dict)
    device_seconds: float = 0.0
    """Wall time for which the device's lock was held."""
    quarantine: str | None = None
    """Why nobody should believe it until a person clears it; None: believed."""
    created_at: str

    @property
    def speedup(self) -> float | None:
        return None if self.log2_speedup is None else float(2.0**self.log2_speedup)


ProgramOutcome = Literal["ran", "failed", "crashed", "timeout", "compile_error"]
"""`ran`: to its end, with exit code 0. That says nothing of whether it is right: nobody said what it should compute."""


class DeviceWork(Noun):
    """All launches of one kernel of a program, or all its copies of one kind. Microseconds of the device's clock."""

    name: str
    launches: int
    total_us: float
    mean_us: float
    least_us: float
    most_us: float
    spread_us: float | None
    """Standard deviation over the launches."""
    bytes: int = 0


class ProgramRun(Noun):
    """One run of a program with a `main()` of its own: how it ended and what it did on the device. No verdict."""

    id: str
    name: str
    source: str
    source_id: str
    device: str
    device_id: str
    outcome: ProgramOutcome
    reason: str
    exit_code: int | None
    """Of the program; negative: the signal that ended it; None where it did not run or was ended at its deadline."""
    kernels: tuple[DeviceWork, ...] = ()
    copies: tuple[DeviceWork, ...] = ()
    kernel_us: float | None
    """Sum over all launches of all kernels; None: nothing counted them."""
    wall_s: float | None
    """From the program's start to its end, on this machine's clock."""
    output: str = ""
    """What it printed on stdout and stderr, capped."""
    diagnostics: str = ""
    """What its compiler printed."""
    labels: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    isolation: str = ""
    toolchain: str = ""
    environment: dict[str, Any] = Field(default_factory=dict)
    device_seconds: float = 0.0
    created_at: str


class Request(Noun):
    """Work for a device: a row first, then an answer row. The socket only wakes."""

    id: str
    kind: Literal["measure"]
    device: str
    payload: dict[str, Any]
    state: RequestState
    client: str
    """Who asked, for the fair queue and for people: `cli:1234`, `mcp:…`, `search:s_…`."""
    attempts: int = 0
    owner: str | None = None
    """The broker that works on it."""
    result_id: str | None = None
    error: dict[str, Any] | None = None
    """A KforecastError as data, where the state is `failed`."""
    progress: str = ""
    request_key: str | None = None
    """The client's own key: asking twice with the same key is asking once."""
    created_at: str
    started_at: str | None = None
    finished_at: str | None = None


class Forecast(Noun):
    """P(correct), the 8 bin probabilities of S given correct, median and 80% interval, who said it, what it cost."""

    id: str
    kernel_id: str
    baseline_id: str
    task_id: str
    device: str
    forecaster: str
    """`agent:<name>`, `litellm:<model>`, `learned`, `base-rate`, …"""
    p_correct: float = Field(ge=0, le=1)
    p_bins: tuple[float, ...] = Field(min_length=8, max_length=8)
    log2_median: float
    log2_p10: float
    log2_p90: float
    raw_sum: float | None = None
    """Sum of the bin probabilities as given, before renormalising: a health signal."""
    reasoning: str = ""
    cost_usd: float | None = None
    tokens: int | None = None
    created_at: str


class Decision(Noun):
    """`trust`, `measure` (defer to the GPU) or `drop`, with the reason and the numbers."""

    id: str
    forecast_id: str
    kind: DecisionKind
    reason: str
    numbers: dict[str, float] = Field(default_factory=dict)
    audit_probability: float | None = None
    audited: bool = False
    created_at: str
