"""The compiler options a kernel may ask for, and the labels that results carry for them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ...store.errors import InputError
from ...store.models import Language

DEFAULT_CPP_STANDARD = "-std=c++17"
"""Stands in the options of every C++ file that names no standard, so that options alone tell C from C++."""

TRITON_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
"""Tunables of these names go to Triton's compiler, and to parameters of the same name as well."""

_C_STANDARDS = "c99|c11|c17|c23|gnu99|gnu11|gnu17|gnu23"
_CPP_STANDARDS = (
    "c\\+\\+11|c\\+\\+14|c\\+\\+17|c\\+\\+20|c\\+\\+23|gnu\\+\\+11|gnu\\+\\+14|gnu\\+\\+17|gnu\\+\\+20|gnu\\+\\+23"
)

_ALLOWED: dict[Language, tuple[tuple[str, str, str | None], ...]] = {
    # as people read it, pattern, label (None: the results are the same without it)
    "c": (
        ("-O0 … -O3", r"-O[0-3]", "O"),
        ("-march=native", r"-march=native", None),
        ("-ffast-math", r"-ffast-math", "fast-math"),
        ("-fopenmp", r"-fopenmp", "openmp"),
        ("-funroll-loops", r"-funroll-loops", "unroll-loops"),
        ("-std=c99 … c23, gnu99 … gnu23, c++11 … c++23", rf"-std=(?:{_C_STANDARDS}|{_CPP_STANDARDS})", None),
    ),
    "cuda": (
        ("--use_fast_math", r"--use_fast_math", "fast-math"),
        ("-O0 … -O3", r"-O[0-3]", "O"),
        (
            "--maxrregcount=N (16 to 255)",
            r"--maxrregcount=(?:1[6-9]|[2-9][0-9]|1[0-9][0-9]|2[0-4][0-9]|25[0-5])",
            "max",
        ),
        ("-std=c++11 … c++20", r"-std=c\+\+(?:11|14|17|20)", None),
        ("-lineinfo", r"-lineinfo", None),
    ),
    "triton": (),
    "torch": (),
}
_SPELLINGS = {
    "-use_fast_math": "--use_fast_math",
    "-maxrregcount": "--maxrregcount",
    "--std": "-std",
    "--generate-line-info": "-lineinfo",
}
_DEFAULT_LEVEL = "-O3"


def check_options(options: Iterable[str], language: Language) -> tuple[str, ...]:
    """The options in canonical spelling and order, each once.

    Raises InputError for one that is not allowed, with the list of those that are, and for two that contradict.
    """
    chosen: dict[str, str] = {}
    for option in options:
        name, equals, value = option.partition("=")
        canonical = _SPELLINGS.get(name, name) + equals + value
        if not any(re.fullmatch(pattern, canonical, re.ASCII) for _, pattern, _ in _ALLOWED[language]):
            allowed = "; ".join(text for text, _, _ in _ALLOWED[language])
            raise InputError(
                f"this compiler option is not allowed for {language}",
                value=option,
                next_step=f"Allowed: {allowed}." if allowed else f"A {language} kernel takes no compiler options.",
            )
        family = "-O" if re.fullmatch(r"-O[0-3]", canonical) else canonical.partition("=")[0]
        if chosen.setdefault(family, canonical) != canonical:
            raise InputError(
                "two compiler options contradict each other",
                value=f"{chosen[family]} and {option}",
                next_step="Keep one of them.",
            )
    return tuple(sorted(chosen.values()))


def labels(options: Iterable[str], language: Language) -> tuple[str, ...]:
    """What results say about the options, e.g. `fast-math`, `O1`, `maxrregcount=64`; nothing for the defaults."""
    found: list[str] = []
    for option in options:
        for _, pattern, label in _ALLOWED[language]:
            if label is None or option == _DEFAULT_LEVEL or not re.fullmatch(pattern, option, re.ASCII):
                continue
            found.append(option.lstrip("-") if label in ("O", "max") else label)
    return tuple(found)


def is_cpp(options: Iterable[str]) -> bool:
    """Whether a kernel of language `c` is C++: its options name a C++ standard."""
    return any(option.startswith("-std=") and "++" in option for option in options)
