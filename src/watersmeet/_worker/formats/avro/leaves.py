"""What Avro has for simple values, as Arrow columns and back: without logical types, exact to the last digit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._worker.formats.avro.types import Schema, kind_of, logical_of
from watersmeet._worker.formats.registered.language import Unwritable

Bad = list[tuple[int, str]]
_MILLIS = 1_000
_MOST_MILLIS = (1 << 63) // _MILLIS - 1
_DECIMAL_BYTES = 16
_INT = 1 << 31
_TYPES = {
    "boolean": pa.bool_(),
    "long": pa.int64(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}


def column(schema: Schema, values: Sequence[Any]) -> tuple[pa.Array, Bad]:
    """The values as a column, null where they are out of their type's range, and what is wrong with those."""
    kind, logical = kind_of(schema), logical_of(schema)
    if kind in ("bytes", "fixed") and str in set(map(type, values)):
        # a default of the reader's schema, in which a character stands for a byte
        values = [each.encode("latin-1") if isinstance(each, str) else each for each in values]
    if logical == "decimal":
        return _decimals(schema, values)
    if kind == "int":
        return _ints(values, pa.date32() if logical == "date" else pa.int32())
    if kind == "float":
        return pa.array(values, pa.float64()).cast(pa.float32(), safe=False), []
    if kind == "long" and "timestamp" in logical and not logical.endswith("nanos"):
        return _timestamps(logical, values)
    return pa.array(values, _TYPES[kind]), []


def _ints(values: Sequence[Any], target: pa.DataType) -> tuple[pa.Array, Bad]:
    bad: Bad = []
    try:
        made = pa.array(values, pa.int32())
    except (pa.ArrowInvalid, OverflowError):
        bad = [(n, "a number does not fit into an int") for n, v in enumerate(values) if not _fits(v)]
        made = pa.array([v if _fits(v) else None for v in values], pa.int32())
    return made.view(target), bad


def _fits(value: Any) -> bool:
    return value is None or -_INT <= value < _INT


def _timestamps(logical: str, values: Sequence[Any]) -> tuple[pa.Array, Bad]:
    made, bad = pa.array(values, pa.int64()), []
    if logical.endswith("millis"):
        # not by pc.abs: of the smallest number that is itself
        beyond = pc.or_(pc.greater(made, _MOST_MILLIS), pc.less(made, -_MOST_MILLIS)).fill_null(False)
        if pc.any(beyond).as_py():
            bad = [(at, "a timestamp is beyond its range") for at in np.flatnonzero(beyond.to_numpy(False)).tolist()]
            made = pc.if_else(beyond, None, made)
        made = pc.multiply(made, _MILLIS)
    return made.view(pa.timestamp("us", None if logical.startswith("local") else "UTC")), bad


def _decimals(schema: Any, values: Sequence[Any]) -> tuple[pa.Array, Bad]:
    most = 10 ** schema["precision"]
    numbers: list[int | None] = []
    bad: Bad = []
    for at, value in enumerate(values):
        number = None if value is None else int.from_bytes(value, "big", signed=True)
        if number is not None and (not value or not -most < number < most):
            bad.append((at, f"a decimal has more than {schema['precision']} digits" if value else "a decimal is empty"))
            number = None
        numbers.append(number)
    content = b"".join((number or 0).to_bytes(_DECIMAL_BYTES, "little", signed=True) for number in numbers)
    there = pa.array([number is not None for number in numbers], pa.bool_())
    kind = pa.decimal128(schema["precision"], schema.get("scale", 0))
    return pa.Array.from_buffers(kind, len(numbers), [there.buffers()[1], pa.py_buffer(content)]), bad


# -- back --------------------------------------------------------------------------------------------------


def plain(schema: Schema, values: pa.Array) -> list[Any]:
    """The values as fastavro writes them.

    Raises
    ------
    Unwritable : one is none of the schema's.
    """
    kind, logical = kind_of(schema), logical_of(schema)
    make: Callable[[Any, pa.Array], list[Any]] | None = None
    if logical == "decimal":
        make = _decimal_bytes
    elif kind == "enum":
        make = _symbols
    elif kind == "fixed":
        make = _fixed
    elif logical == "date":
        return list(values.cast(pa.date32()).view(pa.int32()).to_pylist())
    elif pa.types.is_timestamp(values.type):
        make = _counts
    return list(values.to_pylist()) if make is None else make(schema, values)


def _decimal_bytes(schema: Any, values: pa.Array) -> list[Any]:
    numbers = _unscaled(values)
    if schema["type"] == "bytes":
        return [
            n if n is None else n.to_bytes((n + (n < 0)).bit_length() // 8 + 1, "big", signed=True) for n in numbers
        ]
    try:
        return [n if n is None else n.to_bytes(schema["size"], "big", signed=True) for n in numbers]
    except OverflowError:
        raise Unwritable(f"a decimal does not fit into {schema['size']} bytes") from None


def _unscaled(values: pa.Array) -> list[int | None]:
    # not by way of Python's decimals, whose context rounds
    content, size, first = values.buffers()[1], _DECIMAL_BYTES, values.offset
    given = content.to_pybytes()[first * size : (first + len(values)) * size]
    places = range(0, len(given), size)
    there = values.is_valid().to_pylist()
    return [
        int.from_bytes(given[at : at + size], "little", signed=True) if valid else None
        for at, valid in zip(places, there, strict=True)
    ]


def _symbols(schema: Any, values: pa.Array) -> list[Any]:
    unknown = set(pc.unique(values).to_pylist()) - {None, *schema["symbols"]}
    if unknown:
        raise Unwritable(f"{min(unknown)!r:.80} is not a symbol of {schema['name']}: {', '.join(schema['symbols'])}")
    return list(values.to_pylist())


def _fixed(schema: Any, values: pa.Array) -> list[Any]:
    given = list(values.to_pylist())
    if any(each is not None and len(each) != schema["size"] for each in given):
        raise Unwritable(f"{schema['name']} takes {schema['size']} bytes")
    return given


def _counts(schema: Any, values: pa.Array) -> list[Any]:
    micros = values.cast(pa.timestamp("us", values.type.tz)).view(pa.int64())
    if not logical_of(schema).endswith("millis"):
        return list(micros.to_pylist())
    millis = pc.divide(micros, _MILLIS)
    if not pc.all(pc.equal(pc.multiply(millis, _MILLIS), micros)).as_py() and micros.null_count < len(micros):
        raise Unwritable("a timestamp has digits beyond milliseconds")
    return list(millis.to_pylist())
