"""What a kernel's text looks like: comment-free, as tokens, as shingles, as counts of what costs or saves time.

Everything here is blind to comments and layout, so nothing that a comment says can change a forecast; in C nor what a
string literal says.
"""

from __future__ import annotations

import io
import re
import tokenize
from functools import lru_cache

from ..store.identity import normalise_source
from ..store.models import Kernel
from .literals import without_literals

_TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|[A-Za-z_]\w*|\.?[0-9](?:[\w.])*|[^\s\w]')
_KEYWORDS = """
auto bool break case char const constexpr continue do double else enum extern float for goto if inline int long return
short signed sizeof static struct switch template typename unsigned using void volatile while float2 float4 int2 int4
uint4 half half2 bfloat16 uint16_t int32_t int64_t uint32_t restrict threadIdx blockIdx blockDim gridDim warpSize pragma
define include unroll omp simd parallel reduction import def tl lambda
"""
_KEPT = frozenset(_KEYWORDS.split())
"""Names that keep their text; other names become `v`, unless they are called or begin with two underscores."""

_TRAITS: tuple[tuple[str, str], ...] = (
    ("loops", r"\b(?:for|while)\b"),
    ("branches", r"\bif\b"),
    ("unroll", r"#\s*pragma unroll|static_range"),
    ("vector4", r"\b(?:float4|int4|uint4|double2|__m256\w*|__m512\w*)\b"),
    ("vector2", r"\b(?:float2|half2|__nv_bfloat162|__half2|__m128\w*)\b"),
    ("shared", r"\b__shared__\b"),
    ("barriers", r"\b__sync(?:threads|warp)\b|\bbarrier\b"),
    ("shuffles", r"\b__(?:shfl|reduce)_\w+|\bwarp_shuffle\b"),
    ("atomics", r"\batomic\w+|\batomic_\w+"),
    ("tensor_core", r"\bmma\b|\bwmma\b|\bmma_sync\b|\bwgmma\b|\btl\.dot\b|\b__hmma\w*"),
    ("async_copy", r"\bcp\.async|__pipeline_\w+|\bmemcpy_async\b|\bcuda::pipeline\b"),
    ("cache_hints", r"\b__(?:ldg|ldcs|ldcg|stcs|stcg|builtin_prefetch)\b|\beviction_policy\b"),
    ("exp_log", r"\b(?:__)?(?:exp|log|tanh|erf|pow|exp2|log2)f?\b"),
    ("divide_sqrt", r"\b(?:__)?(?:r?sqrt|frcp_rn|fdividef)f?\b|(?<=[^/*])/(?![/*=])"),
    ("restrict", r"__restrict__|\brestrict\b"),
    ("openmp", r"#\s*pragma omp"),
)
_NAMES = tuple(name for name, _ in _TRAITS)
_PATTERNS = tuple((name, re.compile(pattern)) for name, pattern in _TRAITS)
_MOST_SIMILARITIES = 1 << 17
_similarities: dict[tuple[str, str], float] = {}


def plain(kernel: Kernel) -> str:
    """What a forecaster reads: the source without comments, includes after it; C indented by its braces, and without
    what string literals say."""
    texts = [kernel.source, *(kernel.includes[name] for name in sorted(kernel.includes))]
    return "\n".join(_plain(text, kernel.language) for text in texts)


@lru_cache(maxsize=4096)
def _plain(source: str, language: str) -> str:
    if language in ("c", "cuda"):
        return _indented(without_literals(normalise_source(source, language)))
    return normalise_source(_without_remarks(source), language)


def _indented(source: str) -> str:
    """C lines indented by one blank a brace."""
    depth = 0
    lines = []
    for line in source.split("\n"):
        closing = line.startswith("}")
        lines.append(" " * max(0, depth - closing) + line)
        depth += line.count("{") - line.count("}")
    return "\n".join(lines)


def _without_remarks(source: str) -> str:
    """Python without `#` comments; as it stands where it does not tokenize."""
    lines = source.splitlines(keepends=True)
    try:
        remarks = [
            token for token in tokenize.generate_tokens(io.StringIO(source).readline) if token.type == tokenize.COMMENT
        ]
    except (tokenize.TokenError, SyntaxError):
        return source
    for remark in remarks:
        row, column = remark.start
        lines[row - 1] = lines[row - 1][:column].rstrip() + "\n"
    return "".join(lines)


@lru_cache(maxsize=4096)
def _tokens(text: str) -> tuple[str, ...]:
    found = _TOKEN.findall(text)
    result = []
    for index, token in enumerate(found):
        named = token[0].isalpha() or token[0] == "_"
        called = index + 1 < len(found) and found[index + 1] == "("
        keep = not named or token in _KEPT or called or token.startswith("__")
        result.append(token if keep else "v")
    return tuple(result)


def tokens(kernel: Kernel) -> tuple[str, ...]:
    """The source's tokens with the author's own names replaced by `v`."""
    return _tokens(plain(kernel))


@lru_cache(maxsize=4096)
def _shingles(text: str, length: int) -> frozenset[tuple[str, ...]]:
    parts = _tokens(text)
    return frozenset(parts[start : start + length] for start in range(max(1, len(parts) - length + 1)))


def shingles(kernel: Kernel, length: int = 5) -> frozenset[tuple[str, ...]]:
    """All runs of `length` tokens."""
    return _shingles(plain(kernel), length)


def traits(kernel: Kernel) -> dict[str, int]:
    """How often each construct occurs in the text, by name; the names are fixed, absent ones are 0."""
    return dict(zip(_NAMES, _counts(plain(kernel)), strict=True))


@lru_cache(maxsize=4096)
def _counts(text: str) -> tuple[int, ...]:
    return tuple(len(pattern.findall(text)) for _, pattern in _PATTERNS)


def similarity(one: Kernel, other: Kernel) -> float:
    """How alike two kernels of one task are, 0..1 and symmetric; 1 for the same program.

    Jaccard index of the shingles, agreement of the tunable values (in octaves), equal launches and options.
    """
    # Asked again and again of the same pairs: siblings against siblings, for every question about a task.
    key = (one.source_id, other.source_id) if one.source_id < other.source_id else (other.source_id, one.source_id)
    if key not in _similarities:
        if len(_similarities) >= _MOST_SIMILARITIES:
            _similarities.clear()
        _similarities[key] = _similarity(one, other)
    return _similarities[key]


def _similarity(one: Kernel, other: Kernel) -> float:
    a, b = shingles(one), shingles(other)
    shared = len(a & b)
    text = shared / (len(a) + len(b) - shared)
    names = one.tunables.keys() | other.tunables.keys()
    tunables = (
        sum(_near(one.tunables.get(name), other.tunables.get(name)) for name in names) / len(names) if names else 1.0
    )
    launches = float([_geometry(launch) for launch in one.launches] == [_geometry(launch) for launch in other.launches])
    options = float(set(one.options) == set(other.options) and one.language == other.language)
    return 0.65 * text + 0.2 * tunables + 0.1 * launches + 0.05 * options


def _geometry(launch: object) -> tuple[object, ...]:
    return tuple(getattr(launch, name) for name in ("grid", "block", "smem"))


def _near(one: int | None, other: int | None) -> float:
    """Agreement of one tunable's values: 1 when equal, 1/2 an octave apart."""
    if one is None or other is None:
        return 0.0
    if one == other:
        return 1.0
    if one <= 0 or other <= 0:
        return 0.0
    ratio = max(one, other) / min(one, other)
    return 1.0 / ratio
