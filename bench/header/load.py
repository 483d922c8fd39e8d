"""From a path or a source text to a kernel that is ready to compile, its task, and what is to be said about it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ...store.errors import InputError
from ...store.models import Kernel, Language, Launch, Scratch, Task
from .block import find_header
from .configure import Tune, configure
from .entry import find_signature, split_entry
from .files import CPP_SUFFIXES, check_source, language_of_file, read_includes, read_source
from .geometry import Geometry, bare_launch, replace_launch
from .header import Header, check_launch_names, parse_header, unused_tunables
from .options import DEFAULT_CPP_STANDARD, TRITON_OPTIONS, check_options, is_cpp, labels
from .python_signature import check_python
from .scaffold import scaffold
from .signature import Signature, hidden_functions, signatures
from .tokens import tokens

__all__ = ["Geometry", "LoadedKernel", "load_kernel"]

_Hidden = Callable[[], Mapping[str, str]]
"""See `hidden_functions`: asked for only where it may explain something."""


@dataclass(frozen=True)
class LoadedKernel:
    """A kernel with one configuration of its tunables. `header` is None for a bare file.

    warnings: what is odd but no error, one sentence each; labels: what results say of the options (`fast-math`).
    """

    kernel: Kernel
    task: Task
    signatures: tuple[Signature, ...]
    header: Header | None
    tune: Tune
    warnings: tuple[str, ...]
    labels: tuple[str, ...]
    is_cpp: bool

    def configured(self, settings: Mapping[str, int], constants: Mapping[str, int] | None = None) -> Kernel:
        """The same kernel with other tunable values; see `configure` for what is refused."""
        old = self.kernel
        return Kernel.make(
            language=old.language,
            name=old.name,
            source=old.source,
            launches=old.launches,
            task_id=old.task_id,
            includes=old.includes,
            options=old.options,
            tunables=configure(self.tune, settings, constants),
            scratch=old.scratch,
            toolchain=old.toolchain,
        )


def load_kernel(
    path_or_text: str | Path,
    *,
    resolve_task: Callable[[str | dict[str, Any], Path | None], Task],
    language: Language | None = None,
    task: Task | None = None,
    geometry: Geometry | None = None,
    override: bool = False,
    settings: Mapping[str, int] | None = None,
    options: Sequence[str] = (),
    constants: Mapping[str, int] | None = None,
    roots: Sequence[Path] = (),
    known_tasks: Callable[[], Sequence[Task]] | None = None,
) -> LoadedKernel:
    """Read, check and assemble a kernel. A string with a newline is source text, any other a path.

    resolve_task: makes the Task of the header's `task` (a name, or the inline table), given the kernel file's folder.
    task: for a file whose header names none; with `override` it replaces the header's. geometry: the launch of a bare
    file, or with `override` the replacement of a header's. settings, options: values of tunables and further compiler
    options. constants: SMEM_MAX, SM_COUNT, WARP as far as known. roots: further folders includes may come from.
    known_tasks: the tasks to choose from when a header is suggested for a bare file.
    Raises InputError for everything that is wrong with the file, its header or the arguments, with what to do.
    """
    source, name, folder, language = _read(path_or_text, language)
    block = find_header(source, language)
    header = None if block is None else parse_header(block)
    includes = read_includes(source, header.include if header else (), folder, roots) if _is_c(language) else {}
    found = signatures(source, language, includes)
    if not _is_c(language):
        check_python(source, name)
    if language == "torch" and _is_triton(header, source):
        language = "triton"
        found = signatures(source, language, includes)
    if header is not None and language == "triton":
        includes = read_includes("", header.include, folder, roots)
    hidden = partial(hidden_functions, source, language, includes)
    # A bare C function of a known task may need no launch at all: entry and args follow from its names.
    guessed = header is None and not geometry
    if guessed and not (language == "c" and task is not None):
        raise _bare(name, language, found, hidden, task, known_tasks)
    asked = [launch.entry for launch in header.launches] if header is not None else []
    asked += [geometry.entry] if geometry is not None and geometry.entry is not None else []
    _check_hidden(asked, found, hidden)
    try:
        launches = _launches(header, geometry or Geometry(), found, override=override, task=task, language=language)
    except InputError as error:
        raise (_bare(name, language, found, hidden, task, known_tasks) if guessed else error) from None
    chosen = _task(header, task, override, resolve_task, folder)
    tune = header.tune if header is not None else Tune()
    scratch = header.scratch if header is not None else ()
    check_launch_names(chosen, launches, scratch, tuple(tune.values))
    for launch in launches:
        find_signature(split_entry(launch.entry)[0], found)
    cpp_file = folder is not None and Path(name).suffix.lower() in CPP_SUFFIXES
    chosen_options = _options(language, header, options, cpp_file)
    cpp = language == "c" and is_cpp(chosen_options)
    if cpp:
        _check_linkage(launches, found)
    configure(tune)  # the default holds on its own, whatever the settings are
    kernel = Kernel.make(
        language=language,
        name=name if folder is not None else split_entry(launches[0].entry)[0],
        source=source,
        launches=launches,
        task_id=chosen.id,
        includes=includes,
        options=chosen_options,
        tunables=configure(tune, settings, constants),
        scratch=scratch,
    )
    warnings = (
        *_unused(tune, launches, scratch, _code_names((source, *includes.values()), found, language)),
        *(() if language == "torch" else _unwritten(chosen, launches)),  # which may return its outputs
    )
    return LoadedKernel(kernel, chosen, found, header, tune, warnings, labels(chosen_options, language), cpp)


def _is_c(language: Language) -> bool:
    return language in ("c", "cuda")


def _read(path_or_text: str | Path, language: Language | None) -> tuple[str, str, Path | None, Language]:
    """Source, name, folder (None for text) and language."""
    if isinstance(path_or_text, Path) or "\n" not in path_or_text:
        try:
            path = Path(path_or_text).expanduser()
        except RuntimeError:
            raise InputError("no such user's folder", value=path_or_text, next_step="Write the path in full.") from None
        source = read_source(path)
        return source, path.name, path.absolute().parent, language or language_of_file(path)
    source = check_source(path_or_text.encode("utf-8", "surrogatepass"), "source text", "the text given")
    return source, "source text", None, language or _language_of_text(source)


def _language_of_text(source: str) -> Language:
    """CUDA where a token says `__global__`, Python where a line says `import`, `def` or the like, else C."""
    names = {token.text for token in tokens(source) if token.kind == "name"}
    if "__global__" in names:
        return "cuda"
    starts = [line.split(maxsplit=1)[0] for line in source.splitlines() if line.strip()]
    if starts[0] == "#" or any(start in ("import", "from", "def", "class") for start in starts):
        return "torch"
    return "c"


def _is_triton(header: Header | None, source: str) -> bool:
    """Whether a Python file is for the device alone: it launches a `jit` function, or has one and says no launch."""
    jitted = {entry.name for entry in signatures(source, "triton")}
    return bool(jitted) if header is None else any(split_entry(e.entry)[0] in jitted for e in header.launches)


def _bare(
    name: str,
    language: Language,
    found: Sequence[Signature],
    hidden: _Hidden,
    task: Task | None,
    known_tasks: Callable[[], Sequence[Task]] | None,
) -> InputError:
    others = "".join(f"; not {function}: {why}" for function, why in ({} if found else hidden()).items())
    listed = "; ".join(f"line {entry.line}: {entry}" for entry in found) or f"none that we understand{others}"
    triton = language == "triton"
    proposal = scaffold(language, found, task, known_tasks() if known_tasks is not None and task is None else ())
    return InputError(
        "the file has no kernel header, so its launch is unknown",
        value=name,
        next_step=f"Give entry, args{' and grid' if triton else ', grid and block'}, or paste this at its top and "
        f"correct it:\n{proposal}\nKernels found: {listed}"
        + ("\nOr give it a PyTorch side: a `ModelNew` or `custom_kernel` is measured as a program." if triton else ""),
    )


def _launches(
    header: Header | None,
    geometry: Geometry,
    found: Sequence[Signature],
    *,
    override: bool,
    task: Task | None,
    language: Language,
) -> tuple[Launch, ...]:
    if header is None:
        return bare_launch(geometry, found, task, language)
    if not geometry:
        return header.launches
    if not override:
        raise InputError(
            "the file has a kernel header, and a launch was given as well",
            value=geometry.entry or "grid, block, args or smem",
            next_step="Change the header, leave the launch out, or add --override to replace the header's.",
        )
    return replace_launch(header.launches, geometry)


def _task(
    header: Header | None,
    task: Task | None,
    override: bool,
    resolve_task: Callable[[str | dict[str, Any], Path | None], Task],
    folder: Path | None,
) -> Task:
    declared = header.task if header is not None else None
    if declared is None:
        if task is None:
            raise InputError(
                "the task is unknown",
                value="no task in a header, none given",
                next_step='Name one: task = "softmax_rows" in the header, or the task option.',
            )
        return task
    if task is None:
        return resolve_task(declared, folder)
    own_name = declared if isinstance(declared, str) else declared.get("name")
    if own_name != task.name and not override:
        raise InputError(
            "the header names one task, and another was given",
            value=f"{own_name} and {task.name}",
            next_step="Leave the task out, or add --override to replace the header's.",
        )
    return task if override or not isinstance(declared, dict) else resolve_task(declared, folder)


def _options(language: Language, header: Header | None, further: Sequence[str], cpp_file: bool) -> tuple[str, ...]:
    chosen = check_options([*(header.options if header is not None else ()), *further], language)
    if not cpp_file:
        return chosen
    if any(option.startswith("-std=") for option in chosen):
        if not is_cpp(chosen):
            raise InputError(
                "a C++ file asks for a C standard",
                value=next(option for option in chosen if option.startswith("-std=")),
                next_step="Choose a C++ standard, or rename the file to .c.",
            )
        return chosen
    return check_options([*chosen, DEFAULT_CPP_STANDARD], language)


def _check_hidden(entries: Sequence[str], found: Sequence[Signature], hidden: _Hidden) -> None:
    for entry in entries:
        base = split_entry(entry)[0]
        known = any(base in (signature.name, signature.name.rpartition("::")[2]) for signature in found)
        why = None if known else hidden().get(base)
        if why is not None:
            raise InputError(
                f"the entry cannot be launched by its name: {why}",
                value=base,
                next_step="Change that in the file, or launch another function.",
            )


def _check_linkage(launches: Sequence[Launch], found: Sequence[Signature]) -> None:
    for launch in launches:
        signature = find_signature(split_entry(launch.entry)[0], found)
        if not signature.extern_c:
            raise InputError(
                f"the C++ function on line {signature.line} has no C name to call it by",
                value=str(signature),
                next_step='Write extern "C" before it.',
            )


def _code_names(sources: Sequence[str], found: Sequence[Signature], language: Language) -> set[str]:
    """The identifiers in code and directives; for Python the parameters, since only they receive tunables."""
    if not _is_c(language):
        parameters = {parameter.name for signature in found for parameter in signature.parameters}
        return parameters | set(TRITON_OPTIONS) if language == "triton" else parameters
    code = (token for source in sources for token in tokens(source))
    return {name for token in code if token.kind in ("name", "directive") for name in re.findall(r"\w+", token.text)}


def _unused(
    tune: Tune, launches: Sequence[Launch], scratch: Sequence[Scratch], code_names: set[str]
) -> tuple[str, ...]:
    return tuple(
        f"Tunable {name} is used by no launch and not by the code."
        for name in unused_tunables(tune.values, launches, scratch, code_names)
    )


def _unwritten(task: Task, launches: Sequence[Launch]) -> tuple[str, ...]:
    passed = {text.strip() for launch in launches for text in launch.args}
    return tuple(
        f"Tensor {tensor.name} is an output of the task, but no launch takes it."
        for tensor in task.tensors
        if tensor.role != "in" and tensor.name not in passed
    )
