"""The frames between a compile worker and its client. No pickle: the other end is not trusted.

frame = 8-byte length of the rest | 4-byte length of the JSON | JSON {"header": …, "blobs": [[name, bytes], …]} | blobs.
Integers are big-endian.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

PREFIX = 8
_JSON_PREFIX = 4


class FrameError(ValueError):
    """Bytes that are no frame, or one that is larger than allowed."""


def encode(header: Mapping[str, Any], blobs: Mapping[str, bytes] | None = None) -> bytes:
    """The frame for a header and its blobs."""
    blobs = blobs or {}
    text = json.dumps({"header": header, "blobs": [[name, len(blob)] for name, blob in blobs.items()]}).encode()
    body = len(text).to_bytes(_JSON_PREFIX, "big") + text + b"".join(blobs.values())
    return len(body).to_bytes(PREFIX, "big") + body


def decode(body: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Header and blobs of a frame's body (the bytes after its length). Raises FrameError for anything malformed."""
    start = _JSON_PREFIX + int.from_bytes(body[:_JSON_PREFIX], "big")
    if len(body) < start:
        raise FrameError("truncated frame")
    try:
        content = json.loads(body[_JSON_PREFIX:start])
        header, sizes = content["header"], [(str(name), int(size)) for name, size in content["blobs"]]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FrameError(f"malformed frame: {error}") from error
    if not isinstance(header, dict) or any(size < 0 for _, size in sizes):
        raise FrameError("malformed frame")
    blobs: dict[str, bytes] = {}
    for name, size in sizes:
        blobs[name] = body[start : start + size]
        start += size
    if start != len(body):
        raise FrameError("a frame's blobs do not add up to its length")
    return header, blobs


def body_length(prefix: bytes, limit: int) -> int:
    """The body length that a frame's first 8 bytes announce. Raises FrameError above `limit` bytes."""
    length = int.from_bytes(prefix, "big")
    if length > limit:
        raise FrameError(f"a frame of {length} bytes, more than the {limit} allowed")
    return length


def read_frame(fd: int, limit: int) -> bytes | None:
    """The body of the next frame on a blocking descriptor; None at a clean end. Raises FrameError at any other."""
    prefix = _read(fd, PREFIX)
    if not prefix:
        return None
    if len(prefix) < PREFIX:
        raise FrameError("truncated frame")
    length = body_length(prefix, limit)
    body = _read(fd, length)
    if len(body) < length:
        raise FrameError("truncated frame")
    return body


def write_all(fd: int, data: bytes) -> None:
    """Write every byte to a blocking descriptor."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _read(fd: int, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        chunk = os.read(fd, min(count - len(parts), 1 << 20))
        if not chunk:
            break
        parts += chunk
    return bytes(parts)
