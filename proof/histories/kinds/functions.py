"""The functions of random topologies: plain Python functions of values, and how they become column functions.

Owns the texts that records carry and what is done to them. Law: a function of a null gives null (the handles
promise no more: a UDF of one operand is not called for it), and it reads values of every shape, since any
operator may stand behind any other.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import pyarrow as pa

from proof.histories.kinds import shapes
from proof.oracle import functions as text

TEXT_KEYS = ("a", "b", "a\x00", "", "é")
"""Few keys, among them what prefixes, terminators and empty texts get wrong."""
LONG_KEYS = (2**53, 2**53 + 1, -(2**53), 2**62)
"""Few keys, neighbours beyond what a float tells apart."""
VALUES = ("1", "2", "3", "", "a|4", "b|5", "|6", "x", "a|b|7")
"""Values with and without a reference and a digit, the empty text among them."""

plus = text.plus
all_plus = text.all_plus


def even(value: str | None) -> bool | None:
    """Whether the last digit is even; false without digits."""
    return None if value is None else text.even(None, value)


def long(value: str | None) -> bool | None:
    """Whether the text has more than two letters."""
    return None if value is None else len(value) > 2


def mapped(value: str | None) -> str | None:
    """The mapper: null for what ends in 3."""
    return None if value is None else text.mapped(value)


async def answer(value: Any) -> Any:
    """What the mapper gives, after some turns of the loop, another number of them for each value."""
    for _ in range(zlib.crc32(value.encode()) % 4):
        await asyncio.sleep(0)
    return mapped(value)


_FIRST, _STEP, _NONE = "1", 13, "x"


def time_of(value: str | None) -> int | None:
    """The time that a value tells: of a digit 0 to 117; none where it has no digit; before 1970 for "x"."""
    if value is None or value == _NONE:
        return None if value is None else -1
    digits = [letter for letter in value if letter.isdigit()]
    return (int(digits[-1]) - int(_FIRST)) * _STEP if digits else None


def with_time(value: str | None, time: Any) -> str | None:
    """The value with its record's time; of none, and at no time, nothing."""
    return None if value is None or time is None else f"{value}@{int(time)}"


def as_number(times: Any) -> Any:
    """Times as numbers of a type that keys and values of no shape have."""
    return (
        times.cast(pa.decimal128(25, 0)) if isinstance(times, pa.Array | pa.ChunkedArray) else times.cast("decimal(25)")
    )


def pieces(value: str | None) -> list[str | None] | None:
    """The parts between bars; none for "x", a null among several."""
    if value is None or value == "x":
        return None if value is None else []
    parts: list[str | None] = list(value.split("|"))
    return [*parts, None] if len(parts) > 2 else parts


def pairs(keys: str) -> Callable[[str | None], list[dict[str, Any]] | None]:
    """The parts between bars, each under what it refers to."""
    refer = referrer(keys)

    def over_parts(value: str | None) -> list[dict[str, Any]] | None:
        parts = pieces(value)
        return None if parts is None else [{"key": refer(part), "value": part} for part in parts]

    return over_parts


def both_keys(keys: str) -> Callable[[Any, Any], Any]:
    """One key made of two, a different one for each pair."""
    if keys in shapes.KEYS:
        return partial(_name_of_both, keys)
    return text_of_both if keys == "string" else number_of_both


def pair_key(keys: str) -> Callable[[Any, Any], Any]:
    """One key made of two of which one may be missing."""
    both = both_keys(keys)
    missing: Any = {"string": "none", "long": -5}.get(keys) or shapes.NamedKey(keys, "none")
    return lambda left, right: both(missing if left is None else left, missing if right is None else right)


def _name_of_both(keys: str, prefix: shapes.NamedKey | None, suffix: shapes.NamedKey | None) -> shapes.NamedKey | None:
    """The key that is named by both."""
    name = None if prefix is None or suffix is None else text_of_both(prefix.name, suffix.name)
    return None if name is None else shapes.NamedKey(keys, name)


def text_of_both(prefix: str | None, suffix: str | None) -> str | None:
    """The length of the first text, and both."""
    return None if prefix is None or suffix is None else f"{len(prefix)}:{prefix}{suffix}"


def number_of_both(prefix: int | None, suffix: int | None) -> int | None:
    """A number as good as different for each pair."""
    return None if prefix is None or suffix is None else (prefix * 1_000_003 + suffix * 7_919) % 2**63


def referrer(keys: str) -> Callable[[str | None], Any]:
    """What a value refers to, as a key of this type; null when it refers to nothing."""
    if keys == "string":
        return text.ref
    if keys in shapes.KEYS:
        return lambda value: None if text.ref(value) is None else shapes.NamedKey(keys, text.ref(value) or "")
    return refer_to_number


def one_key(keys: str) -> Callable[[str | None], Any]:
    """The same key for every value."""
    first: Any = LONG_KEYS[0] if keys == "long" else shapes.TypeShape(keys).key(TEXT_KEYS[0])
    return lambda value: None if value is None else first


def refer_to_number(value: str | None) -> int | None:
    """The number that stands for the text a value refers to."""
    name = text.ref(value)
    return None if name is None else LONG_KEYS[len(name) % 2 if name != "b" else 0]


class Lifts(Protocol):
    """Lifts functions of values to functions of columns, of keys and values of this shape."""

    shape: shapes.TypeShape

    def lift(self, function: Callable[..., Any], kind: str) -> Callable[..., Any]:
        """`function` as one of columns; `kind` is its result's type, in Spark's words, or "text": not coded."""
        ...


class ArrowLifts:
    """Lifts to functions of Arrow arrays, of keys and values of any types."""

    def __init__(self, shape: shapes.TypeShape = shapes.PLAIN) -> None:
        self.shape = shape
        value, key = shape.value_type, shape.key_type
        pairs = pa.list_(pa.struct([("key", key), ("value", value)]))
        self._types = {
            **dict.fromkeys(shapes.KEYS, key),
            "string": value,
            "text": pa.string(),
            "long": pa.int64(),
            "boolean": pa.bool_(),
            "struct<start:bigint,end:bigint>": pa.struct([("start", pa.int64()), ("end", pa.int64())]),
            "array<string>": pa.list_(value),
            **{f"array<struct<key:{kind},value:string>>": pairs for kind in ("string", "bigint", *shapes.KEYS)},
        }

    def lift(self, function: Callable[..., Any], kind: str) -> Callable[..., Any]:
        """See `Lifts`."""
        made, shape = self._types[kind], self.shape
        coded = shapes.PLAIN.coded if kind == "text" else shape.coded

        def over_arrays(*arrays: pa.Array) -> pa.Array:
            rows = zip(*(map(shape.reader(a.type), a.to_pylist()) for a in arrays), strict=True)
            return pa.array([coded(function(*row)) for row in rows], type=made)

        return over_arrays


class ColumnLifts:
    """Lifts to Python UDFs over Spark Columns; keys and values are texts, or keys numbers."""

    shape = shapes.PLAIN

    def lift(self, function: Callable[..., Any], kind: str) -> Callable[..., Any]:
        """See `Lifts`."""
        from proof.runners.library import python_udf

        return python_udf(function, "string" if kind == "text" else kind)
