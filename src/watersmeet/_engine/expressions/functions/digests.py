"""Bytes as texts of digits or letters, and digests of them; and texts that are put together by a pattern."""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from watersmeet._engine.expressions.functions.texts import constant
from watersmeet._engine.expressions.kernel import Kernel, LazyKernel
from watersmeet._engine.expressions.rowwise import by_row, by_whole_row
from watersmeet._engine.expressions.tree import Call, type_of
from watersmeet._engine.expressions.vectors import INTEGERS

_BITS = {0: "sha256", 224: "sha224", 256: "sha256", 384: "sha384", 512: "sha512"}
_LINE = 76
_TOKENS = re.compile(r"%[sd%]|[^%]+")


def fits(call: Call) -> bool:
    """See `kernel`."""
    kinds = [type_of(each) for each in call.arguments]
    if call.function == "FormatString":
        return _formats(call, kinds[1:])
    if call.function in ("StringTranslate", "SubstringIndex"):
        known = all(constant(each) is not None for each in call.arguments[1:])
        return kinds[0] == pa.string() and known
    if call.function == "SplitPart":
        between, part = (constant(each) for each in call.arguments[1:])
        return kinds[0] == pa.string() and isinstance(between, str) and part not in (None, 0)
    if call.function == "Hex":
        return bool(pt.is_string(kinds[0]) or pt.is_binary(kinds[0]) or kinds[0] == pa.int64())
    if call.function == "Sha2" and constant(call.arguments[1]) not in _BITS:
        return False
    return bool(pt.is_binary(kinds[0]))


def _formats(call: Call, kinds: list[pa.DataType]) -> bool:
    """Whether a pattern has `%s` for texts and integers, and `%d` for integers, as many as there are."""
    pattern = constant(call.arguments[0])
    if not isinstance(pattern, str) or _TOKENS.sub("", pattern):
        return False
    wanted = [each for each in _TOKENS.findall(pattern) if each in ("%s", "%d")]
    known = {"%s": (*INTEGERS, pa.string()), "%d": INTEGERS}
    return len(wanted) == len(kinds) and all(kind in known[each] for each, kind in zip(wanted, kinds, strict=True))


def _formatted(call: Call, arguments: list[pa.Array]) -> pa.Array:
    pattern = re.sub("%d", "%s", str(constant(call.arguments[0])))
    return (
        by_whole_row(
            call, arguments[1:], lambda *row: pattern % tuple("null" if each is None else each for each in row)
        )
        if len(arguments) > 1
        else pa.repeat(pattern % (), len(arguments[0]))
    )


def _digest(call: Call, arguments: list[pa.Array]) -> pa.Array:
    names = {"Md5": "md5", "Sha1": "sha1"}
    name = names.get(call.function) or _BITS[int(str(constant(call.arguments[1])))]
    return by_row(call, arguments[:1], lambda octets: hashlib.new(name, octets, usedforsecurity=False).hexdigest())


def _hex(value: Any) -> str:
    if isinstance(value, int):
        return f"{value & 0xFFFF_FFFF_FFFF_FFFF:X}"
    return (value.encode() if isinstance(value, str) else value).hex().upper()


def _base64(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """In lines, if the session asks for it."""
    lines = call.option("chunkBase64") == "true"

    def encoded(octets: bytes) -> str:
        whole = base64.b64encode(octets).decode()
        if not lines:
            return whole
        return "\r\n".join(whole[at : at + _LINE] for at in range(0, len(whole), _LINE))

    return by_row(call, arguments, encoded)


def _translated(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """Each character of one text becomes the one at its place in another, or is left out."""
    those, by = (str(constant(each)) for each in call.arguments[1:])
    table: dict[int, str | None] = {}
    for place, character in enumerate(those):
        table.setdefault(ord(character), by[place] if place < len(by) else None)
    return by_row(call, arguments[:1], lambda text: text.translate(table))


def _before(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """The part of a text before the given place, or, counted from the end, behind it."""
    between, count = str(constant(call.arguments[1])), int(str(constant(call.arguments[2])))

    def part(text: str) -> str:
        if not between or not count:
            return ""
        at = -1 if count > 0 else len(text) - len(between) + 1
        for _ in range(abs(count)):
            at = text.find(between, at + 1) if count > 0 else text.rfind(between, 0, max(at - 1 + len(between), 0))
            if at < 0:
                return text
        return text[:at] if count > 0 else text[at + len(between) :]

    return by_row(call, arguments[:1], part)


def _part(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """One part of each text, between two of its separators; an empty separator parts nothing."""
    between, number = str(constant(call.arguments[1])), int(str(constant(call.arguments[2])))

    def part(text: str) -> str:
        parts = text.split(between) if between else [text]
        at = number - 1 if number > 0 else len(parts) + number
        return parts[at] if 0 <= at < len(parts) else ""

    return by_row(call, arguments[:1], part)


_BY_ROW: Mapping[str, Callable[[Any], Any]] = {"Hex": _hex, "Crc32": zlib.crc32}


def _made(call: Call, arguments: list[pa.Array]) -> pa.Array:
    return by_row(call, arguments, _BY_ROW[call.function])


KERNELS: Mapping[str, Kernel] = {
    **dict.fromkeys(_BY_ROW, _made),
    **dict.fromkeys(("Md5", "Sha1", "Sha2"), _digest),
    "Base64": _base64,
    "FormatString": _formatted,
    "StringTranslate": _translated,
    "SubstringIndex": _before,
    "SplitPart": _part,
}
LAZY: Mapping[str, LazyKernel] = {}
