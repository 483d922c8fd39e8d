"""How many tokens a text is, by the tokenizer that litellm carries along (cl100k): a model of another maker differs by
a tenth or two."""

from __future__ import annotations

import importlib.util
import os
from functools import cache
from pathlib import Path
from typing import Any


def tokens(text: str) -> int:
    """Length in tokens, without a network."""
    return len(_encoding().encode(text))


@cache
def _encoding() -> Any:
    spec = importlib.util.find_spec("litellm")
    assert spec is not None
    assert spec.origin is not None
    os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(Path(spec.origin).parent / "litellm_core_utils" / "tokenizers"))
    import tiktoken

    return tiktoken.get_encoding("cl100k_base")
