"""Loading kernels: what is assembled from a good file, and a clear error for every bad one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforecast.bench.header.geometry import Geometry
from kforecast.bench.header.load import LoadedKernel, load_kernel
from kforecast.bench.tasks.load import load_task, resolve_task
from kforecast.store.errors import InputError, KforecastError
from kforecast.store.models import Launch, Task

Load = Callable[..., LoadedKernel]
C_KERNEL = "void softmax_rows(const float* x, float* y, int R, int C) { }\n"
C_FILE = '/* kforecast 1\ntask = "softmax_rows"\n[[launch]]\nentry = "softmax_rows"\nargs = ["x", "y", "R", "C"]\n*/\n'
BARE_CUDA = "__global__ void rows(const float* x, float* y, int R, int C) { }\n"


def test_first_example(load: Load, softmax_source: str) -> None:
    loaded = load(softmax_source)
    assert loaded.kernel.language == "cuda"
    assert loaded.kernel.tunables == {"BLOCK": 256, "VEC": 4}
    assert loaded.kernel.task_id == loaded.task.id
    assert [str(entry) for entry in loaded.signatures] == ["softmax_rows(const float* x, float* y, int R, int C)"]
    assert (loaded.warnings, loaded.labels, loaded.is_cpp) == ((), (), False)


def test_second_example(load: Load, gemm_file: Path) -> None:
    loaded = load(gemm_file)
    assert loaded.kernel.name == "gemm.cu"
    assert loaded.kernel.tunables == {"BM": 128, "BN": 128, "BK": 32, "SPLIT": 1}
    assert list(loaded.kernel.includes) == ["mma_tile.cuh"]
    assert loaded.kernel.scratch[0].name == "W"
    assert loaded.warnings == ()
    (gemm_file.parent / "mma_tile.cuh").write_text("// changed\nint tile;\n")
    assert load(gemm_file).kernel.id != loaded.kernel.id


def test_identity_is_of_what_counts(load: Load, softmax_source: str) -> None:
    base = load(softmax_source).kernel
    assert load(softmax_source.replace("# in parameter order", "")).kernel.id == base.id
    assert load("\ufeff" + softmax_source.replace("\n", "\r\n")).kernel.id == base.id
    assert load(softmax_source, settings={"VEC": 1}).kernel.id != base.id
    assert load(softmax_source, options=["--use_fast_math"]).kernel.id != base.id
    loaded = load(softmax_source, settings={"BLOCK": 512})
    assert loaded.configured({}).id == base.id
    assert loaded.configured({"BLOCK": 512}).id == loaded.kernel.id


def test_settings_and_options(load: Load, softmax_source: str) -> None:
    loaded = load(softmax_source, settings={"BLOCK": 512, "VEC": 2}, options=["--use_fast_math"])
    assert loaded.kernel.tunables == {"BLOCK": 512, "VEC": 2}
    assert loaded.labels == ("fast-math",)
    with pytest.raises(InputError, match="does not list this value: 100"):
        load(softmax_source, settings={"BLOCK": 100})
    with pytest.raises(InputError, match="not allowed for cuda: -DX"):
        load(softmax_source, options=["-DX"])


def test_the_default_configuration_must_be_allowed(load: Load, softmax_source: str) -> None:
    source = softmax_source.replace("<= 4096", "<= 512")
    with pytest.raises(InputError, match="default configuration"):
        load(source, settings={"VEC": 1})


@pytest.mark.parametrize(
    ("suffix", "language", "cpp"), [(".c", "c", False), (".cc", "c", True), (".cpp", "c", True), (".cxx", "c", True)]
)
def test_languages_by_suffix(load: Load, tmp_path: Path, suffix: str, language: str, cpp: bool) -> None:
    path = tmp_path / f"k{suffix}"
    path.write_text(C_FILE + ('extern "C" ' if cpp else "") + C_KERNEL)
    loaded = load(str(path))
    assert (loaded.kernel.language, loaded.is_cpp) == (language, cpp)
    assert ("-std=c++17" in loaded.kernel.options) is cpp


def test_cpp_needs_c_linkage_and_a_cpp_standard(load: Load, tmp_path: Path) -> None:
    path = tmp_path / "k.cpp"
    path.write_text(C_FILE + C_KERNEL)
    with pytest.raises(InputError, match='Write extern "C"'):
        load(path)
    path.write_text(C_FILE + 'extern "C" ' + C_KERNEL)
    with pytest.raises(InputError, match="C standard: -std=c11"):
        load(path, options=["-std=c11"])
    assert load(path, options=["-std=c++20"]).kernel.options == ("-std=c++20",)


def test_python_files_are_triton_where_a_jitted_function_is_launched(load: Load, tmp_path: Path) -> None:
    header = '# /// kforecast 1\n# task = "softmax_rows"\n# [[launch]]\n# entry = "k"\n# args = ["x", "y"]\n# ///\n'
    path = tmp_path / "k.py"
    path.write_text(header + "def k(x, y): ...\n")
    assert load(path).kernel.language == "torch"
    path.write_text(header + "import triton\n@triton.jit\ndef k(x, y): ...\n")
    assert load(path).kernel.language == "triton"
    assert load(path.read_text()).kernel.language == "triton"


def test_languages_of_texts(load: Load, softmax_source: str) -> None:
    assert load(C_FILE + C_KERNEL).kernel.language == "c"
    assert load(C_FILE.strip() + "\n// __global__\n" + C_KERNEL).kernel.language == "c"
    assert load(C_FILE + C_KERNEL.replace("void", "__global__ void")).kernel.language == "cuda"
    assert load(softmax_source).kernel.name == "softmax_rows"


def test_bad_files(load: Load, tmp_path: Path) -> None:
    def wrong(name: str, content: bytes | None, says: str) -> None:
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(InputError) as caught:
            load(path)
        assert says in str(caught.value)

    (tmp_path / "folder.cu").mkdir()
    os.mkfifo(tmp_path / "pipe.cu")
    wrong("good.cu", b"int x;", "no kernel header")
    wrong("god.cu", None, f"does not exist: {tmp_path / 'god.cu'}. Did you mean {tmp_path / 'good.cu'}?")
    wrong("none/x.cu", None, "There is no folder")
    wrong("folder.cu", None, "is a folder")
    wrong("pipe.cu", None, "no regular file")
    wrong("good.cu/x.cu", None, "cannot be read")
    wrong("x" * 300 + ".cu", None, "cannot be read")
    wrong("x\0.cu", None, "cannot be read")
    wrong("binary.cu", b"\x7fELF\0\0", "binary")
    wrong("latin.cu", b"// caf\xe9\n", "not UTF-8 text (byte 6)")
    wrong("empty.cu", b"", "empty")
    wrong("blank.cu", b"\xef\xbb\xbf \n\n", "empty")
    wrong("large.cu", b"/" * 1_000_001, "too large: 1000001 bytes")
    wrong("kernel.txt", b"int x;", "suffix: kernel.txt")
    wrong("kernel", b"int x;", ".cu")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file(load: Load, tmp_path: Path) -> None:
    path = tmp_path / "secret.cu"
    path.write_text(BARE_CUDA)
    path.chmod(0)
    with pytest.raises(InputError, match="may not be read"):
        load(path)


@pytest.mark.parametrize("text", ["\n", "\0\n", "\n" * 1_000_001, "\ud800\n"])
def test_bad_texts(load: Load, text: str) -> None:
    with pytest.raises(InputError, match="source text"):
        load(text)


class TestIncludes:
    def write(self, folder: Path, include: str, code: str = "") -> Path:
        path = folder / "k.cu"
        path.write_text(
            f'/* kforecast 1\ntask = "softmax_rows"\ninclude = [{include}]\n[[launch]]\nentry = "rows"\n'
            f'args = ["x", "y", "R", "C"]\n*/\n{code}\n{BARE_CUDA}'
        )
        return path

    def test_quoted_includes_are_followed(self, load: Load, tmp_path: Path) -> None:
        (tmp_path / "sub").mkdir()
        (tmp_path / "a.cuh").write_text('#include "sub/b.cuh"\n#include <vector>\n')
        (tmp_path / "sub/b.cuh").write_text('# include "c.cuh"  // "d.cuh"\n#include "../a.cuh"\n')
        (tmp_path / "sub/c.cuh").write_text("int c;\n")
        (tmp_path / "d.cuh").write_text("int d;\n")
        code = '#include "a.cuh"\n#include "cuda_fp16.h"\n// #include "d.cuh"\nconst char* s = "#include \\"d.cuh\\"";'
        loaded = load(self.write(tmp_path, "", code))
        assert list(loaded.kernel.includes) == ["a.cuh", "sub/b.cuh", "sub/c.cuh"]

    def test_outside_is_refused(self, load: Load, tmp_path: Path) -> None:
        inside = tmp_path / "inside"
        inside.mkdir()
        (tmp_path / "outside.cuh").write_text("int o;\n")
        (inside / "link.cuh").symlink_to(tmp_path / "outside.cuh")
        (inside / "loop.cuh").symlink_to(inside / "loop.cuh")
        for name in ("../outside.cuh", "/etc/passwd", "link.cuh", "a/../../outside.cuh"):
            with pytest.raises(InputError, match="outside the kernel's folder"):
                load(self.write(inside, f"'{name}'"))
        with pytest.raises(InputError, match="outside"):
            load(self.write(inside, "", '#include "/etc/passwd"'))
        with pytest.raises(InputError):
            load(self.write(inside, "'loop.cuh'"))
        allowed = load(self.write(inside, "'../outside.cuh'"), roots=[tmp_path])
        assert list(allowed.kernel.includes) == ["../outside.cuh"]

    def test_declared_files_must_be_good(self, load: Load, tmp_path: Path) -> None:
        for name, says in (("no.cuh", "included file does not exist"), (".", "is a folder"), ("", "is a folder")):
            with pytest.raises(InputError, match=says):
                load(self.write(tmp_path, f"'{name}'"))
        with pytest.raises(InputError, match="has no folder"):
            load(self.write(tmp_path, "'a.cuh'").read_text())

    def test_too_many(self, load: Load, tmp_path: Path) -> None:
        for i in range(65):
            (tmp_path / f"{i}.cuh").write_text("int x;\n")
        with pytest.raises(InputError, match="too many includes"):
            load(self.write(tmp_path, "", "\n".join(f'#include "{i}.cuh"' for i in range(65))))


class TestGeometry:
    def test_a_bare_file_takes_it(self, load: Load, tasks: dict[str, Task]) -> None:
        given_launch = Geometry(entry="rows", args=("x", "y", "R", "C"), grid=("R",), block=("256",), smem="64")
        loaded = load(BARE_CUDA, task=tasks["softmax_rows"], geometry=given_launch)
        assert loaded.header is None
        assert loaded.kernel.launches == (
            Launch(entry="rows", args=("x", "y", "R", "C"), grid=("R",), block=("256",), smem="64"),
        )

    def test_entry_and_args_follow_from_names(self, load: Load, tasks: dict[str, Task]) -> None:
        loaded = load(BARE_CUDA, task=tasks["softmax_rows"], geometry=Geometry(grid=("R",), block=("32",)))
        assert loaded.kernel.launches[0].entry == "rows"
        assert loaded.kernel.launches[0].args == ("x", "y", "R", "C")

    @pytest.mark.parametrize(
        ("source", "geometry", "says"),
        [
            (BARE_CUDA, Geometry(grid=("R",)), "grid or block is missing"),
            (BARE_CUDA + BARE_CUDA.replace("rows", "other"), Geometry(grid=("R",), block=("1",)), "entry is missing"),
            (BARE_CUDA, Geometry(entry="row", grid=("R",), block=("1",)), "Did you mean rows?"),
            (
                BARE_CUDA.replace("int C", "int cols"),
                Geometry(grid=("R",), block=("1",)),
                "not named after.*: cols",
            ),
            (BARE_CUDA, Geometry(grid=("Q",), block=("1",)), "unknown name: Q"),
            (BARE_CUDA, Geometry(grid=("R / 2",), block=("1",)), "grid x of launch rows"),
            (BARE_CUDA, Geometry(grid=("1", "1", "1", "1"), block=("1",)), "more than three axes"),
        ],
    )
    def test_what_is_missing(
        self, load: Load, tasks: dict[str, Task], source: str, geometry: Geometry, says: str
    ) -> None:
        with pytest.raises(InputError, match=says):
            load(source, task=tasks["softmax_rows"], geometry=geometry)

    def test_a_header_needs_override(self, load: Load, softmax_source: str) -> None:
        with pytest.raises(InputError, match="--override"):
            load(softmax_source, geometry=Geometry(grid=("1",)))
        loaded = load(softmax_source, geometry=Geometry(grid=("R", "2")), override=True)
        assert loaded.kernel.launches[0].grid == ("R", "2")
        assert loaded.kernel.launches[0].block == ("BLOCK",)

    def test_one_of_several_launches(self, load: Load, gemm_file: Path) -> None:
        with pytest.raises(InputError, match="several launches"):
            load(gemm_file, geometry=Geometry(block=("128",)), override=True)
        loaded = load(gemm_file, geometry=Geometry(entry="sum_parts", block=("128",)), override=True)
        assert [launch.block for launch in loaded.kernel.launches] == [("256",), ("128",)]

    def test_bare_task_must_be_given(self, load: Load) -> None:
        with pytest.raises(InputError, match="task is unknown"):
            load(BARE_CUDA, geometry=Geometry(args=("1", "1", "1", "1"), grid=("1",), block=("1",)))


def test_task_of_header_and_task_given(load: Load, softmax_source: str, tasks: dict[str, Task]) -> None:
    assert load(softmax_source, task=tasks["softmax_rows"]).task.name == "softmax_rows"
    with pytest.raises(InputError, match="softmax_rows and gemm_bf16_nt"):
        load(softmax_source, task=tasks["gemm_bf16_nt"])
    without = softmax_source.replace('task = "softmax_rows"', "")
    assert load(without, task=tasks["softmax_rows"]).task.name == "softmax_rows"
    with pytest.raises(InputError, match="task is unknown"):
        load(without)
    with pytest.raises(InputError, match="no such task: softmax_row"):
        load(softmax_source.replace('"softmax_rows"  ', '"softmax_row"  '))


def test_entries_must_be_in_the_file(load: Load, softmax_source: str) -> None:
    with pytest.raises(InputError, match=r"no such kernel: softmax_rows\. Did you mean softmax_row\?"):
        load(softmax_source.replace("(BLOCK) softmax_rows", "(BLOCK) softmax_row"))


def test_a_function_that_cannot_be_launched_by_its_name_says_why(load: Load, softmax_source: str) -> None:
    with pytest.raises(InputError, match=r"cannot be launched by its name: it is not __global__: softmax_rows"):
        load(softmax_source.replace("__global__", "__device__"), language="cuda")
    static = C_FILE + C_KERNEL.replace("void", "static void")
    with pytest.raises(InputError, match=r"cannot be launched by its name: it is static: "):
        load(static)
    with pytest.raises(InputError, match=r"Kernels found: none that we understand; not \w+: it is static"):
        load(C_KERNEL.replace("void", "static void"), language="c")


def test_warnings(load: Load, softmax_source: str) -> None:
    unused = softmax_source.replace("VEC;", "1;").replace("* VEC) y", ") y")
    assert load(unused).warnings == ("Tunable VEC is used by no launch and not by the code.",)
    in_directive = unused.replace("extern __shared__", "#if VEC > 1\n#endif\nextern __shared__")
    assert load(in_directive).warnings == ()
    unwritten = softmax_source.replace('"x", "y", "R", "C"', '"x", "x", "R", "C"')
    assert load(unwritten).warnings == ("Tensor y is an output of the task, but no launch takes it.",)


@given(st.text(max_size=60), st.sampled_from(["c", "cuda", "triton", "torch", None]))
def test_any_text_is_an_error_that_helps(text: str, language: str | None) -> None:
    for source in (f"{text}\n", f"{C_FILE}{text}", f"/* kforecast 1\n{text}\n*/ {C_KERNEL}"):
        try:
            loaded = load_kernel(source, language=language, resolve_task=refuse)  # type: ignore[arg-type]
        except KforecastError as error:
            assert error.what
            assert error.next_step
        else:
            raise AssertionError(f"no task, and yet loaded: {loaded.kernel.name}")


def refuse(declared: object, _folder: Path | None) -> Task:
    raise InputError("no such task", value=declared, next_step="Name one that exists.")


def test_a_bare_c_function_of_a_known_task_needs_no_launch(tmp_path: Path) -> None:
    """Entry and args follow from the names; where they do not, the error says which name is missing."""
    task = load_task("softmax_rows")
    path = tmp_path / "bare.c"
    path.write_text("void mine(const float* x, float* y, int R, int C) { y[0] = x[0]; }\n")
    found = load_kernel(path, resolve_task=resolve_task, task=task)
    assert [(launch.entry, launch.args) for launch in found.kernel.launches] == [("mine", ("x", "y", "R", "C"))]
    path.write_text("void mine(const float* q, float* y, int R, int C) { y[0] = q[0]; }\n")
    with pytest.raises(InputError, match="q"):
        load_kernel(path, resolve_task=resolve_task, task=task)
