"""An agent is told tools, not commands: of every text in the rooms whose errors and answers can reach it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import kforecast
from kforecast.tools.mcp.wording import for_agents, reworded

ROOT = Path(kforecast.__file__).parent
ROOMS = ("store", "bench", "surrogate", "tools")
OUT_OF_REACH = re.compile(
    r"tools/(evaluate|eval_\w+|learned|datasets|facts|doctor|tasks|mcp/(http|wording))\.py|tools/search/(folds|replay)\.py|"
    r"surrogate/learned/model\.py|bench/header/options\.py"
)
"""What no tool of the server calls: evaluation, training, replays; and what the compiler's own options are."""
INSTEAD_OF_A_TOOL = re.compile(r"kforecast (measure|forecast|facts|status|search (?!resume))")
OPTION = re.compile(r"(?<![\w-])--[a-z]")
HINT = "If an agent can read this, add a rule to tools/mcp/wording.py; if not, its module to OUT_OF_REACH."
ONLY_PEOPLE = re.compile(r"person|agree|doctor|kforecast gc|search resume|--extend")
"""What there is no tool for, on purpose."""


def texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every text of a module that is no docstring, what is filled in shown as in its source."""
    skipped: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(node.value)
        if isinstance(node, ast.JoinedStr):
            skipped.update(part for part in ast.walk(node) if part is not node)
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.JoinedStr):
            parts = [
                str(part.value) if isinstance(part, ast.Constant) else f"<{ast.unparse(part)[2:-1]}>"
                for part in node.values
            ]
            yield node.lineno, "".join(parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def reachable() -> Iterator[tuple[str, str]]:
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            place = path.relative_to(ROOT).as_posix()
            if not OUT_OF_REACH.fullmatch(place):
                for line, text in texts(ast.parse(path.read_text())):
                    yield f"{place}:{line}", text


def test_no_text_that_an_agent_may_read_names_a_command_where_there_is_a_tool() -> None:
    changed = 0
    for place, text in reachable():
        told = for_agents(text)
        changed += told != text
        assert not INSTEAD_OF_A_TOOL.search(told) or ONLY_PEOPLE.search(told), f"{place}: {told}. {HINT}"
        if " " in text and not ONLY_PEOPLE.search(told):
            assert not OPTION.search(told), f"{place}: {told}. {HINT}"
    assert changed > 10


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("`kforecast status` lists them.", "get_status (without an id) lists them."),
        ("See `kforecast search list`.", "See get_status (without an id)."),
        ("Measure something first: `kforecast measure FILE`.", "Measure something first: measure_kernel."),
        ("Compare with `--baseline tuned` or `--baseline seed`.", 'Compare with baseline="tuned" or baseline="seed".'),
        ("Measure on `--device cpu`, or not.", 'Measure on device="cpu", or not.'),
        ("Name one: --model openai/gpt-5, or else.", 'Name one: model="openai/gpt-5", or else.'),
        ("Leave the task out, or add --override to replace the header's.", "Leave the task out."),
        ("Run `kforecast doctor`.", "Run `kforecast doctor`."),
        (
            "`kforecast search resume s_1` first, with more budget if it is spent.",
            "Begin a new search from its best kernel, or let a person go on with this one: `kforecast search resume "
            "s_1`.",
        ),
    ],
)
def test_commands_become_tools(text: str, told: str) -> None:
    assert for_agents(text) == told


def test_only_our_own_words_are_changed() -> None:
    told = "`kforecast status`"
    answer = {
        "next": told,
        "source": told,
        "results": [{"error": told, "brief": told}],
        "mismatch": {"got": told},
        "notes": [told],
        "rejected": [{"why": told}],
        "count": 3,
    }
    ours = "get_status (without an id)"
    assert reworded(answer) == {
        "next": ours,
        "source": told,
        "results": [{"error": ours, "brief": told}],
        "mismatch": {"got": told},
        "notes": [ours],
        "rejected": [{"why": ours}],
        "count": 3,
    }
