"""Programs and kernels are told apart by their text."""

from __future__ import annotations

import pytest

from kforecast.bench.programs.source import has_main


@pytest.mark.parametrize(
    "source",
    [
        "int main() { return 0; }",
        "int main(int argc, char** argv) { return argc; }",
        "auto main() -> int { return 0; }",
        "#include <cstdio>\n__global__ void k() { if (1) {} }\nint\nmain ( void )\n{ }",
    ],
)
def test_a_program(source: str) -> None:
    assert has_main(source)


@pytest.mark.parametrize(
    "source",
    [
        "int main();",
        "// int main() {}\n__global__ void k() {}",
        'const char* s = "int main() {}";',
        "void f() { int main = 3; }",
        "namespace x { int main() { return 0; } }",
        "int domain(int x) { return x; }",
        "",
    ],
)
def test_no_program(source: str) -> None:
    assert not has_main(source)
