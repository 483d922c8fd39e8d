"""The device variables of a cubin: memory of a module that outlives a launch, out of its symbol table.

(ELF-64 Object File Format; section names as CUDA Binary Utilities print them.)
"""

from __future__ import annotations

import struct

_HEADER = struct.Struct("<16xHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMTAB, _OBJECT = 2, 1


def device_variables(cubin: bytes) -> tuple[tuple[str, bool], ...]:
    """Name of each variable in global memory that a kernel may write, and whether it has an initial value (False: it
    begins as zeros). Raises ValueError for what is no ELF file."""
    try:
        return _variables(cubin)
    except (struct.error, IndexError) as error:
        raise ValueError("not a whole ELF file") from error


def _variables(cubin: bytes) -> tuple[tuple[str, bool], ...]:
    if cubin[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a little-endian 64-bit ELF file")
    _, _, _, _, _, table, _, _, _, _, size, count, names = _HEADER.unpack_from(cubin)
    sections = [_SECTION.unpack_from(cubin, table + size * number) for number in range(count)]
    titles = [_text(cubin, sections[names][4], section[0]) for section in sections]
    found = {}
    for section in sections:
        if section[1] != _SYMTAB:
            continue
        offset, length, strings = section[4], section[5], sections[section[6]][4]
        for at in range(offset, offset + length, _SYMBOL.size):
            name, info, _, home, _, bytes_held = _SYMBOL.unpack_from(cubin, at)
            if info & 15 != _OBJECT or not bytes_held or home >= count:
                continue
            title = titles[home]
            if title == ".nv.global" or title.startswith((".nv.global.", ".nv.global_")):
                found[_text(cubin, strings, name)] = ".init" in title
    return tuple(sorted(found.items()))


def _text(cubin: bytes, table: int, offset: int) -> str:
    start = table + offset
    return cubin[start : cubin.index(b"\0", start)].decode(errors="replace")
