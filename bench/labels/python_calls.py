"""What calls in Python sources say: whose work it is, how exact, on which streams."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...store.models import Task
from .label import Label
from .precision import low_precision

_WORK = re.compile(
    r"(?:b?mm|addmm|addbmm|baddbmm|matmul|einsum|dot|vdot|mv|bilinear|conv\w+|linear|scaled_dot_product_attention"
    r"|(?:log_)?softmax|\w*_norm|layernorm|rms_norm|gelu|silu|relu|tanh|sigmoid|cross_entropy|nll_loss|cumsum|cumprod"
    r"|sum|mean|var|std|prod|amax|amin|argmax|argmin|sort|argsort|topk|kthvalue|histc|bincount|embedding|\w*pool\w*"
    r"|_scaled_mm|fft\w*|svd|eigh|qr|cholesky|solve|inv|logsumexp|norm|unique|scatter\w*|gather|index_select)"
)
"""Functions of torch that do work a kernel could be asked for; allocating and reshaping is none."""
_METHODS = re.compile(
    r"(?:b?mm|addmm|baddbmm|matmul|softmax|log_softmax|cumsum|logsumexp|sort|argsort|topk|argmax|argmin|bincount|histc)"
)
_TORCH_ROOTS = frozenset({"torch", "F"})
_LOW = {
    "float16": "f16", "half": "f16", "bfloat16": "bf16", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2",
    "float8e4nv": "e4m3", "float8e5": "e5m2",
}  # fmt: skip
_RUN_TIME = frozenset({"exec", "eval", "compile", "__import__"})
_STREAMS = re.compile(r"(?:torch\.cuda|cupy\.cuda)\.(?:Stream|ExternalStream|stream)|.*\.wait_stream|.*\.record_stream")
_GRAPHS = re.compile(r".*(?:\.CUDAGraph|\.make_graphed_callables|torch\.cuda\.graph)|torch\.cuda\.graph")
_FAST = re.compile(r"fast_(?:exp|log|divide|sin|cos|pow|tan)f")


def of_call(node: ast.Call, task: Task | None) -> Iterator[Label]:
    """The findings of one call."""
    name = dotted(node.func)
    said = name.lstrip("?.")
    last = name.rpartition(".")[2]
    if is_library(node):
        yield Label("library", f"calls {said}", node.lineno)
    elif name in _RUN_TIME:
        yield Label("run-time-code", f"calls {name}", node.lineno)
    elif _STREAMS.fullmatch(name):
        yield Label("streams", f"uses {said}", node.lineno)
    elif _GRAPHS.fullmatch(name):
        yield Label("graphs", f"uses {said}", node.lineno)
    elif _FAST.fullmatch(last):
        yield Label("fast-math", f"uses {last}", node.lineno)
    yield from _precision(node, name, task)
    for word in node.keywords:
        if word.arg in ("extra_cuda_cflags", "extra_cflags", "options") and _mentions_fast_math(word.value):
            yield Label("fast-math", "compiled with fast math", word.value.lineno)


def _precision(node: ast.Call, name: str, task: Task | None) -> Iterator[Label]:
    root, last, line = name.partition(".")[0], name.rpartition(".")[2], node.lineno
    if last == "set_float32_matmul_precision" and node.args:
        chosen = {"high": "tf32", "medium": "bf16"}.get(str(constant(node.args[0])), "f32")
        yield from low_precision(chosen, "products may be", task, line)
    elif last in ("half", "bfloat16") and not node.args and root != "torch":
        yield from low_precision(_LOW[last], "it converts to", task, line)
    elif last in ("to", "type"):
        for argument in node.args:
            yield from _cast(argument, task, line)
    for word in node.keywords:
        if word.arg == "input_precision" and constant(word.value) == "tf32":
            yield from low_precision("tf32", "products are", task, line)
        elif word.arg == "allow_tf32" and constant(word.value) is True:
            yield from low_precision("tf32", "products may be", task, line)
        elif word.arg == "dtype":
            yield from _cast(word.value, task, line)


def is_library(node: ast.expr) -> bool:
    """Whether an expression has torch do the work: torch.matmul(…), F.softmax(…), x.softmax(…), a @ b."""
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.MatMult)
    if not isinstance(node, ast.Call):
        return False
    name = dotted(node.func)
    root, last = name.partition(".")[0], name.rpartition(".")[2]
    if name == "torch.compile" or name.startswith("torch.ops."):
        return True
    if root in _TORCH_ROOTS and not name.startswith(("torch.cuda.", "torch.utils.", "torch.backends.")):
        return _WORK.fullmatch(last) is not None
    # Methods: of an expression that is no module we know (`tl.dot` is the kernel's own work).
    known = ("tl", "triton", "np", "numpy", "math", "libdevice", "os", "sys")
    return "." in name and root not in known and _METHODS.fullmatch(last) is not None


def _cast(node: ast.expr, task: Task | None, line: int) -> Iterator[Label]:
    name = dotted(node)
    if name.partition(".")[0] in ("torch", "tl") and name.rpartition(".")[2] in _LOW:
        yield from low_precision(_LOW[name.rpartition(".")[2]], "it converts to", task, line)


def dotted(node: ast.expr) -> str:
    """`torch.nn.functional.softmax` of such an expression; what is no name at its root is `?`."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    parts.append(node.id if isinstance(node, ast.Name) else "?")
    return ".".join(reversed(parts))


def constant(node: ast.expr) -> object:
    """The value of a literal, None of anything else."""
    return node.value if isinstance(node, ast.Constant) else None


def _mentions_fast_math(node: ast.expr) -> bool:
    texts = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    return any("fast_math" in text or "fast-math" in text or "Ofast" in text for text in texts)
