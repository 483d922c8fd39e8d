"""`kforecast tasks`: the list, one in full, a kernel to start from, a check of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .exits import EPILOG
from .output import Column, Progress, bold, dim, json_option, paragraph, print_json, table

if TYPE_CHECKING:
    from ..tools.tasks import CaseLine, TaskDetail


def complete_task(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Built-in task names for the shell's completion."""
    del ctx, parameter
    from ..bench.tasks.builtin import builtin_names

    return [name for name in builtin_names() if name.startswith(incomplete)]


@click.group("tasks", epilog=EPILOG, invoke_without_command=True, short_help="List, show, copy, check tasks.")
@json_option
@click.pass_context
def tasks_command(ctx: click.Context, as_json: bool) -> None:
    """Tasks: what kernels must compute, on which cases. Without a subcommand: the list."""
    if ctx.invoked_subcommand is None:
        _list(as_json)


@tasks_command.command("list", epilog=EPILOG)
@json_option
def list_command(as_json: bool) -> None:
    """The built-in tasks."""
    _list(as_json)


def _list(as_json: bool) -> None:
    from ..tools.tasks import list_tasks

    lines = list_tasks()
    if as_json:
        print_json([line.model_dump(mode="json") for line in lines])
        return
    width = max(len(line.name) for line in lines)
    for line in lines:
        click.echo(f"{bold(line.name.ljust(width))}  {line.signature}")
        click.echo(dim(paragraph(line.title, indent=width + 2)))
    click.echo(f"\n{len(lines)} tasks. One in full: kforecast tasks show NAME. To start: kforecast tasks copy NAME")


@tasks_command.command("show", epilog=EPILOG)
@click.argument("name", metavar="NAME|PATH", shell_complete=complete_task)
@json_option
def show_command(name: str, as_json: bool) -> None:
    """One task in full: tensors, precision, checked and timed cases, the kernels that come with it."""
    from ..tools.tasks import show_task

    task = show_task(name)
    if as_json:
        print_json(task.model_dump(mode="json"))
    else:
        click.echo(_page(task))


@tasks_command.command("copy", epilog=EPILOG)
@click.argument("name", shell_complete=complete_task)
@click.argument("target", type=click.Path(path_type=Path), default=".", metavar="[FOLDER|FILE]")
@click.option("--language", "-l", type=click.Choice(["c", "cuda", "torch"]), default="c", show_default=True)
@click.option("--role", "-r", type=click.Choice(["seed", "tuned", "library"]), default="seed", show_default=True)
@json_option
def copy_command(*, name: str, target: Path, language: Any, role: Any, as_json: bool) -> None:
    """Copy a kernel that comes with a task, to start from. Overwrites nothing."""
    from ..tools.tasks import copy_kernel

    path = copy_kernel(name, target, language=language, role=role)
    if as_json:
        print_json({"path": str(path), "task": name, "language": language, "role": role})
        return
    click.echo(f"{path}: the {role} kernel of {name}")
    click.echo(paragraph(f"change it, then: kforecast measure {path}", label="next".ljust(12)))


@tasks_command.command("check", epilog=EPILOG)
@click.argument("name", metavar="NAME|PATH", shell_complete=complete_task)
@json_option
def check_command(name: str, as_json: bool) -> int:
    """Can the task tell right from wrong? Kernels that do nothing, or the wrong thing, have to fail on it.

    PATH: a task file, a folder with a task.toml, or a kernel file whose header says its task. Ends with 2 where one
    would pass.
    """
    from ..tools.tasks import check_task

    with Progress() as progress:
        check = check_task(name, on_progress=progress)
    if as_json:
        print_json(check.model_dump(mode="json"))
        return 0 if check.testable else 2
    click.echo(
        f"{bold(check.name)}  {'can tell right from wrong' if check.testable else 'cannot tell right from wrong'}\n"
    )
    click.echo(
        table(
            [
                Column("null kernel", [line.null for line in check.nulls]),
                Column("caught in", [f"{line.caught} of {line.cases} cases" for line in check.nulls], right=True),
                Column("", ["" if line.caught else "would pass as ok" for line in check.nulls]),
            ]
        )
    )
    if not check.testable:
        step = "add checked cases, or fills, for which the output of those that pass is wrong."
        click.echo("\n" + paragraph(step, label="next".ljust(12)))
    return 0 if check.testable else 2


def _page(task: TaskDetail) -> str:
    blocks = [f"{bold(task.name)}  {task.title}", f"  {task.signature}"]
    blocks.append(
        table(
            [
                Column("tensor", [tensor.name for tensor in task.tensors]),
                Column("role", [tensor.role for tensor in task.tensors]),
                Column("dtype", [tensor.dtype for tensor in task.tensors]),
                Column("shape", [f"[{', '.join(tensor.shape)}]" for tensor in task.tensors]),
                Column("filled with", ["" if tensor.role == "out" else tensor.fill for tensor in task.tensors]),
                Column("starts as", [_start(tensor.role, tensor.zero) for tensor in task.tensors]),
            ]
        )
    )
    facts = [("sizes", ", ".join(task.sizes)), ("reference", task.reference)]
    if task.precision is None:
        facts.append(("precision", "exact: compared bit by bit"))
    else:
        words = f"products in {task.precision.multiply} or better, sums in {task.precision.accumulate} or better"
        facts.append(("precision", words))
    if task.data_dependent:
        facts.append(("floor", "none: the necessary work depends on the values"))
    else:
        facts.append(("traffic", f"{task.bytes} bytes" if task.bytes else "every input once, every output once"))
        facts.append(("operations", task.flops or "not said"))
    blocks.append("\n".join(f"  {label.ljust(12)}{text}" for label, text in facts))
    for kind, cases in task.timed.items():
        where = "" if kind == "any" else f" on {kind}"
        blocks.append(f"{bold(f'timed{where}')}\n{_case_table(cases)}")
    blocks.append(f"{bold('checked')}\n" + "\n".join(f"  {case.name}" for case in task.checked))
    if task.kernels:
        shipped = [f"  {kernel.language.ljust(6)}{kernel.role.ljust(9)}{dim(kernel.path)}" for kernel in task.kernels]
        blocks.append("\n".join([bold("kernels that come with it"), *shipped]))
        blocks.append(f"  {'next'.ljust(12)}kforecast tasks copy {task.name}")
    return "\n\n".join(blocks)


def _start(role: str, zero: bool) -> str:
    return "" if role != "out" else "zeros" if zero else "poison"


def _case_table(cases: tuple[CaseLine, ...]) -> str:
    return table(
        [
            Column("case", [case.name for case in cases]),
            Column("compulsory traffic", [_bytes(case.bytes) for case in cases], right=True),
            Column("operations", [_count(case.operations) for case in cases], right=True),
        ]
    )


def _bytes(count: int) -> str:
    return f"{count / 2**20:.3g} MiB" if count >= 2**20 else f"{count / 2**10:.3g} KiB"


def _count(count: int | None) -> str:
    return "" if not count else f"{count:.3g}"
