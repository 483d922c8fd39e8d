"""GPU MODE problems: a folder with `task.yml`, `reference.py`, `task.py` and `utils.py`, taken as it is.

Submissions define `custom_kernel(data)`. The format is that of github.com/gpu-mode/reference-kernels. The seeds that
`task.yml` names are replaced: every measurement draws fresh ones, of the same size.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...store.errors import InputError, UnsupportedError
from ...store.models import Case, Problem, Task
from ..header.files import read_source

TASK_FILE = "task.yml"
REFERENCE_FILE = "reference.py"
REFERENCE_ENTRY = "ref_kernel"
NEEDED = ("generate_input", REFERENCE_ENTRY, "check_implementation")
"""What `eval.py` of the documented format takes from `reference.py`."""
CANDIDATE_ENTRY = "custom_kernel"
SEED = "seed"
_SUBMISSION = "@SUBMISSION@"
_LEAST_SEEDS = 10_000
_LISTS = ("files", "tests", "benchmarks")
_NOT_OURS = {"eval.py", "submission.py"}


def gpumode_task(folder: Path, admit: Callable[[Path], None] | None = None) -> Task:
    """The task of a problem's folder. Checked cases are the tests of its `task.yml`, timed ones its benchmarks.

    admit: asked before each file is read, raises InputError to refuse it. Raises InputError where a file is missing or
    `task.yml` is not what it must be, UnsupportedError for problems of several GPUs and for those that are judged
    otherwise.
    """
    ask = admit or (lambda path: None)
    ask(folder / TASK_FILE)
    spec = _yaml(folder / TASK_FILE)
    files = {}
    for entry in spec.get("files", []):
        name, source = str(entry.get("name")), str(entry.get("source"))
        if source != _SUBMISSION and name.endswith(".py") and name not in _NOT_OURS:
            ask(folder / source)
            files[name] = read_source(folder / source, "file of a GPU MODE problem")
    if REFERENCE_FILE not in files:
        raise _wrong(folder, f"its files hold no {REFERENCE_FILE}")
    if spec.get("multi_gpu"):
        raise UnsupportedError(
            "this GPU MODE problem needs several GPUs; a measurement has one",
            value=folder,
            next_step="Give a problem without `multi_gpu`.",
        )
    missing = [name for name in NEEDED if name not in _bound(files[REFERENCE_FILE])]
    if missing:
        raise UnsupportedError(
            "this GPU MODE problem is judged by a runner of its own, which is not run here",
            value=f"{folder}: {REFERENCE_FILE} lacks {', '.join(missing)}",
            next_step="Give a problem whose submissions are `custom_kernel(data)`, or write what this one computes as "
            "a task of your own: docs/kernel-header.md shows how.",
        )
    tests, benchmarks = (_cases(folder, spec, key) for key in ("tests", "benchmarks"))
    return Task(
        name=folder.resolve().name,
        title=str(spec.get("description", "")).strip().split("\n", 1)[0][:200],
        tensors=(),
        reference=REFERENCE_ENTRY,
        checked=tests or benchmarks,
        timed={"any": benchmarks or tests},
        problem=Problem(format="gpumode", files=dict(sorted(files.items())), most_seed=_most_seed(spec)),
    )


def _bound(source: str) -> set[str]:
    """Every name that a Python source gives a value to, anywhere. Of one that does not parse, or imports everything
    from somewhere, all that are needed: whoever runs it will see.
    """
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set(NEEDED)
    found = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    found |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    found |= {alias.asname or alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names}
    return found | set(NEEDED) if "*" in found else found


def arguments_of(case: Case) -> dict[str, Any]:
    """What `generate_input` gets for a case, all but the seed."""
    return {**case.sizes, **{name: json.loads(text) for name, text in case.fill.items()}}


def _cases(folder: Path, spec: dict[str, Any], key: str) -> tuple[Case, ...]:
    found = []
    for entry in spec.get(key) or []:
        if not isinstance(entry, dict):
            raise _wrong(folder, f"one of its {key} is no table")
        values = {name: value for name, value in entry.items() if name != SEED}
        sizes = {name: value for name, value in values.items() if type(value) is int}
        fill = {name: json.dumps(value) for name, value in values.items() if name not in sizes}
        case = Case(sizes=sizes, fill=fill)
        if case not in found:  # specs that differ in their seed only
            found.append(case)
    return tuple(found)


def _most_seed(spec: dict[str, Any]) -> int:
    seeds = [entry.get(SEED) for key in ("tests", "benchmarks") for entry in spec.get(key) or []]
    return max([_LEAST_SEEDS, *(seed for seed in seeds if type(seed) is int)])


def _yaml(path: Path) -> dict[str, Any]:
    text = read_source(path, "task.yml")
    try:
        import yaml
    except ImportError:
        return _without_yaml(path, text)
    try:
        spec = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InputError("task.yml is no YAML", value=f"{path}: {error}", next_step="Correct that line.") from error
    return _checked(path, spec)


def _checked(path: Path, spec: Any) -> dict[str, Any]:
    if not isinstance(spec, dict) or not (spec.get("tests") or spec.get("benchmarks")):
        raise _wrong(path.parent, "task.yml lists no tests and no benchmarks")
    return spec


def _without_yaml(path: Path, text: str) -> dict[str, Any]:
    """The lists of one mapping a line that these files consist of, for machines without PyYAML."""
    spec: dict[str, Any] = {}
    section = ""
    for line in text.splitlines():
        head = re.match(r"(\w+):\s*(\S*)", line)
        entry = re.match(r"\s*- (\{.*\})\s*(?:#.*)?$", line)
        if head is not None:
            section = head[1]
            spec[section] = [] if section in _LISTS else head[2] == "true"
        elif entry is not None and section in _LISTS:
            try:
                named = re.sub(r"([{,]\s*)(\w+)(\s*:)", r'\1"\2"\3', entry[1])
                spec[section].append(json.loads(re.sub(r"\b(True|False)\b", lambda word: word[1].lower(), named)))
            except ValueError:
                raise InputError(
                    "this task.yml needs PyYAML", value=f"{path}: {line.strip()}", next_step="pip install pyyaml"
                ) from None
    return _checked(path, spec)


def _wrong(folder: Path, why: str) -> InputError:
    return InputError(
        "this folder holds no GPU MODE problem that can be measured here",
        value=f"{folder}: {why}",
        next_step="Give a folder as in github.com/gpu-mode/reference-kernels, for one GPU.",
    )
