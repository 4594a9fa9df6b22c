"""Texts in texts: what begins with, ends with, holds or is like a constant text, where that is, what replaces it."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.expressions.functions import regular
from watersmeet._engine.expressions.functions.regular.java import pattern_of
from watersmeet._engine.expressions.functions.texts import constant
from watersmeet._engine.expressions.kernel import Kernel, LazyKernel
from watersmeet._engine.expressions.rowwise import by_row
from watersmeet._engine.expressions.tree import Call, Literal, type_of
from watersmeet._engine.expressions.vectors import all_valid, made, numbers, shaped
from watersmeet._engine.keys.keyform import spans

_SPECIAL = frozenset("\\^$.|?*+()[]{}")
_ESCAPED = re.compile(r"\\[^A-Za-z0-9]")
_SINGLE = re.compile(r"\[[^\\^\[\]&-]\]")


def fits(call: Call) -> bool:
    """See `kernel`."""
    kinds = [type_of(each) for each in call.arguments]
    texts, rest = call.arguments[1:], kinds[1:]
    if call.function == "StringSplit":
        pattern, limit = texts
        known = isinstance(constant(pattern), str) and isinstance(constant(limit), int)
        return kinds[0] == pa.string() and known and _splits(str(constant(pattern)))
    if call.function == "StringLocate":
        substring, text, start = call.arguments
        return constant(substring) is not None and type_of(text) == pa.string() and constant(start) == 1
    plain = kinds[0] == pa.string() and all(kind == pa.string() for kind in rest)
    if not plain or not all(isinstance(each, Literal) and each.value.is_valid for each in texts):
        return False
    if call.function == "Like":
        # what an escape stands for is Spark's
        return call.option("escapeChar") == "\\" and "\\" not in str(constant(texts[0]))
    return True


def _literal(pattern: str) -> str | None:
    """The text that a regular expression of Java's stands for, where it stands for one alone."""
    bare = _SINGLE.sub(lambda found: "\\" + found.group()[1], pattern)
    if _SPECIAL & set(_ESCAPED.sub("", bare)):
        return None
    return _ESCAPED.sub(lambda found: found.group()[1], bare)


def _splits(text: str) -> bool:
    """Whether a pattern stands for a text, or is one that Python understands as Java does and matches no empty text."""
    if _literal(text):
        return True
    pattern = pattern_of(text)
    return pattern is not None and pattern.least > 0


def _begins(call: Call, arguments: list[pa.Array]) -> pa.Array:
    looked = str(constant(call.arguments[1]))
    search = {"StartsWith": pc.starts_with, "EndsWith": pc.ends_with, "Contains": pc.match_substring}
    return search[call.function](arguments[0], looked)


def _like(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """% stands for any characters, _ for one."""
    return pc.match_like(arguments[0], str(constant(call.arguments[1])))


def _place(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """The number of the character at which a text begins, 0 where it does not occur."""
    where, what = (1, 0) if call.function == "StringLocate" else (0, 1)
    values = arguments[where]
    octet = numbers(pc.find_substring(values, str(constant(call.arguments[what])))).astype(np.int64)
    starts, _, data = spans(values)
    begun = np.concatenate([[0], np.cumsum((data & 0xC0) != 0x80)])
    found = np.clip(octet, 0, None)
    before = begun[np.minimum(starts + found, len(data))] - begun[starts]
    return made(np.where(octet < 0, 0, before + 1), all_valid(values), call.type)


def _replace(call: Call, arguments: list[pa.Array]) -> pa.Array:
    search, by = (str(constant(each)) for each in call.arguments[1:])
    return pc.replace_substring(arguments[0], search, by) if search else arguments[0]


def _split(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """The parts between the places of a text: at most so many, if the number is greater than zero."""
    limit, text = int(str(constant(call.arguments[2]))), str(constant(call.arguments[1]))
    between = _literal(text)
    if not between:
        pattern = pattern_of(text)
        assert pattern is not None, "the call fits"
        return by_row(call, arguments[:1], regular.parts(pattern, limit))
    parts = pc.split_pattern(arguments[0], between, max_splits=limit - 1 if limit > 0 else None)
    return shaped(parts, call.type)


KERNELS: Mapping[str, Kernel] = {
    **dict.fromkeys(("StartsWith", "EndsWith", "Contains"), _begins),
    "Like": _like,
    **dict.fromkeys(("StringInstr", "StringLocate"), _place),
    "StringReplace": _replace,
    "StringSplit": _split,
}
LAZY: Mapping[str, LazyKernel] = {}
