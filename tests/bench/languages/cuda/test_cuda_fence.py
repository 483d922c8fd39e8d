"""The second wall around CUDA's compilers: what a source asks of NVRTC and nvcc, the include rule left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from kforecast.bench.landlock import landlock_version
from kforecast.bench.languages.cuda import nvcc
from kforecast.bench.languages.cuda.pool import CompilePool, Outcome

KERNEL = "\n__global__ void k() {}\n"
SECRETS = [
    '#include "{secret}"',
    '#define HIDDEN "{secret}"\n#include HIDDEN',
    '#if __has_include("{secret}")\n#error found it\n#endif',
    '#line 1 "{secret}"\n#error shown from it',
    'asm(".file 7 \\"{secret}\\"");\n#include "{secret}"',
]

pytestmark = pytest.mark.skipif(not landlock_version(), reason="needs Landlock")


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret.h"
    path.write_text("the word is hush\n")
    return path


def by_nvrtc(pool: CompilePool, source: str) -> Outcome:
    options = ["--gpu-architecture=sm_90"]
    return pool.compile(source, name="a.cu", options=options, headers={}, entries=["k"], deadline_s=60)


def by_nvcc(pool: CompilePool, source: str) -> Outcome:
    if not nvcc.usable(pool):
        pytest.skip("needs nvcc and g++")
    return nvcc.compile_nvcc(pool, source, arch="sm_90", flags=[], headers={}, entries=["k"], deadline_s=120)


@pytest.mark.parametrize("text", SECRETS)
def test_no_word_of_a_file_of_the_users_gets_out_of_nvrtc(text: str, pool: CompilePool, secret: Path) -> None:
    outcome = by_nvrtc(pool, text.format(secret=secret) + KERNEL)
    assert "hush" not in outcome.log
    assert "found it" not in outcome.log


@pytest.mark.parametrize("text", SECRETS[:3])
def test_no_word_of_a_file_of_the_users_gets_out_of_nvcc(text: str, pool: CompilePool, secret: Path) -> None:
    outcome = by_nvcc(pool, "#include <vector>\n" + text.format(secret=secret) + KERNEL)
    assert "hush" not in outcome.log
    assert "found it" not in outcome.log


def test_neither_is_kept_from_what_it_needs(pool: CompilePool) -> None:
    assert by_nvrtc(pool, KERNEL).ok
    assert by_nvcc(pool, "#include <vector>\n#include <cstdio>" + KERNEL).ok


@pytest.mark.gpu
def test_a_compiler_cannot_reach_the_gpu(pool: CompilePool) -> None:
    devices = [path for path in Path("/dev").glob("nvidia*") if path.is_char_device()]
    assert devices
    for device in devices:
        device.open("rb").close()  # we may
        job = ["/bin/sh", "-c", f"exec 3< {device}"]
        assert not pool.run([job], files={}, outputs=(), deadline_s=20).ok
