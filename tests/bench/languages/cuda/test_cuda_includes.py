from __future__ import annotations

from pathlib import Path

import pytest

from kforecast.bench.languages.cuda.includes import refused_include


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('#include "/etc/passwd"\n', 1),
        ("int a;\n\n  #  include </etc/passwd>\n", 3),
        ('/* a */ #include "/etc/passwd"\n', 1),
        ('/* a\n b */ # /**/ include /**/ "/etc/passwd"\n', 2),
        ('#inc\\\nlude "/etc/passwd"\n', 1),
        ('int a; // \\\n\n#include "/etc/passwd"\n', 3),
        ('%:include "/etc/passwd"\n', 1),
        ('??=include "/etc/passwd"\n', 1),
        ('#include_next "/etc/passwd"\n', 1),
        ('#include "../secret.h"\n', 1),
        ('#include "a/../../secret.h"\n', 1),
        ('#include "~/secret.h"\n', 1),
        ('#define X "/etc/passwd"\n#include X\n', 2),
        ('#embed "/etc/passwd"\n', 1),
        ('#import "a.h"\n', 1),
        ('const char* s = "/*";\n#include "/etc/passwd"\n// */\n', 2),
        ('const char* s = R"(/*)";\n#include "/etc/passwd"\n// */\n', 2),
    ],
)
def test_what_could_read_the_machines_files_is_refused(text: str, line: int) -> None:
    refusal = refused_include("user.cu", text, [])
    assert refusal is not None
    assert refusal.startswith(f"user.cu({line}): error: ")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "#include <cuda_fp16.h>\n",
        '#include "mma_tile.cuh"\n#include "sub/tile.cuh"\n#include "sub/../tile.cuh"\n',
        '// see #include "/etc/passwd"\n',
        '__device__ const char* s = "#include";\n',
        "#define include_path 3\n",
        "#if __has_include(<cuda_fp16.h>)\n#endif\n",
    ],
)
def test_honest_includes_pass(text: str) -> None:
    assert refused_include("user.cu", text, []) is None


def test_an_absolute_include_may_point_into_a_root_of_the_user(tmp_path: Path) -> None:
    header = tmp_path / "inc" / "tile.cuh"
    text = f'#include "{header}"\n'
    assert refused_include("user.cu", text, [tmp_path / "inc"]) is None
    assert refused_include("user.cu", text, [tmp_path / "other"]) is not None
    assert refused_include("user.cu", f'#include "{tmp_path}/inc/../x"\n', [tmp_path / "inc"]) is not None
    assert refused_include("user.cu", f'#include "{tmp_path}/include/x"\n', [tmp_path / "inc"]) is not None
