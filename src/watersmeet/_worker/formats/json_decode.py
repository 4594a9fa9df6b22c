"""JSON text to Arrow columns, in the workers: one value and nothing else, or a reason.

Law 6: what is not exactly a value of the type never becomes a value, nor a tombstone. Arrow's parser reads many texts
at once where all of them are plainly fine (`json_blocks`); else the standard library's reads each text whole, which is
slower and says what is wrong (docs/decisions/0013-json-in-the-workers.md has the measurement). Then columns are built
type by type, and one with only values of the wanted Python type costs one look at the set of their types.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import accumulate
from typing import Any

import pyarrow as pa
from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, StringType, StructType

from watersmeet._worker.formats import json_blocks, json_leaves
from watersmeet._worker.formats.arrow_types import arrow_type
from watersmeet._worker.formats.guarded.budgets import JSON_LEVELS, nests_beyond

_SHOWN = 200
_BLOCK_ROWS = 4_096
"""Texts that are read at once: one that is not plainly fine sends all of them the other way."""
_BLOCK_BYTES = 1 << 28
_NAMES = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}


@dataclass
class Flaws:
    """Why rows are not of the format, the first reason of each."""

    found: dict[int, str] = field(default_factory=dict)

    def add(self, row: int, reason: str) -> None:
        """A row's reason, if it has none yet."""
        self.found.setdefault(row, reason)


def decode(kind: DataType, texts: pa.Array) -> tuple[pa.Array, dict[int, str]]:
    """The values of JSON texts, and why some texts are none; those are null, and so are null texts.

    Parameters
    ----------
    kind : what the texts are to be, with all that lies within nullable.
    texts : each of a record.
    """
    flaws: dict[int, str] = {}
    columns = []
    for start in range(0, max(1, len(texts)), _BLOCK_ROWS):
        block = texts.slice(start, _BLOCK_ROWS)
        values = json_blocks.read(kind, block) if block.nbytes <= _BLOCK_BYTES else None
        if values is None:
            values, found = one_by_one(kind, block.to_pylist())
            flaws |= {start + row: reason for row, reason in found.items()}
        columns.append(values)
    return columns[0] if len(columns) == 1 else pa.concat_arrays(columns), flaws


def one_by_one(kind: DataType, texts: Sequence[str | None]) -> tuple[pa.Array, dict[int, str]]:
    """The same, a text after the other.

    Parameters
    ----------
    kind : what the texts are to be, with all that lies within nullable.
    texts : each of a record.
    """
    flaws = Flaws()
    values = _parsed(kind, texts, flaws)
    column = _column(kind, values, range(len(values)), flaws)
    if flaws.found:
        # what was found deep within a value takes all of it
        kept = [None if row in flaws.found else value for row, value in enumerate(values)]
        column = _column(kind, kept, range(len(kept)), Flaws())
    return column, flaws.found


def _parsed(kind: DataType, texts: Sequence[str | None], flaws: Flaws) -> list[Any]:
    decoder = _EXACT if has_decimals(kind) else _FAST
    raw, whole = decoder.raw_decode, decoder.decode
    values: list[Any] = []
    for row, text in enumerate(texts):
        value = None
        if text is not None:
            try:
                _check_levels(text)
                value, end = raw(text) if text[:1] in _BEGINS else (whole(text), len(text))
                if end < len(text):
                    # white space may follow, nothing else
                    value = whole(text)
                if value is None:
                    flaws.add(row, "the JSON text null (a tombstone has no bytes at all)")
            except _RefusedJson as error:
                flaws.add(row, str(error))
            except (ValueError, ArithmeticError, RecursionError):
                shown = kind.simpleString()
                flaws.add(row, f"not JSON of the type {shown if len(shown) <= _SHOWN else shown[:_SHOWN] + '...'}")
        values.append(value)
    return values


# -- parsing -----------------------------------------------------------------------------------------------


class _RefusedJson(ValueError):
    """JSON texts with a value that has no type here."""


def _check_levels(text: str) -> None:
    if nests_beyond(text, JSON_LEVELS):
        raise _RefusedJson(f"it has more than {JSON_LEVELS} levels")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _RefusedJson("an object has a name twice")
    return found


def _no_constant(name: str) -> None:
    raise _RefusedJson(f"{name} is no JSON")


_BEGINS = frozenset('{["-0123456789tfn')
_FAST = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)
_EXACT = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=Decimal)


def has_decimals(kind: DataType) -> bool:
    """Whether a number that is not whole may have to be kept as it is written."""
    return isinstance(kind, DecimalType) or any(map(has_decimals, _inner(kind)))


def _inner(kind: DataType) -> list[DataType]:
    if isinstance(kind, StructType):
        return [f.dataType for f in kind.fields]
    if isinstance(kind, ArrayType):
        return [kind.elementType]
    return [kind.valueType] if isinstance(kind, MapType) else []


# -- columns -----------------------------------------------------------------------------------------------


def _column(kind: DataType, values: Sequence[Any], rows: Sequence[int], flaws: Flaws) -> pa.Array:
    """The values as an Arrow column; of those that are not of the type, null, and a flaw of their row."""
    build: Callable[[Any, Sequence[Any], Sequence[int], Flaws], pa.Array] = _leaf
    if isinstance(kind, StructType):
        values, build = _only(dict, kind, values, rows, flaws), _struct
    elif isinstance(kind, ArrayType):
        values, build = _only(list, kind, values, rows, flaws), _array
    elif isinstance(kind, MapType):
        values, build = _only(dict, kind, values, rows, flaws), _map
    return build(kind, values, rows, flaws)


def _only(wanted: type, kind: DataType, values: Sequence[Any], rows: Sequence[int], flaws: Flaws) -> Sequence[Any]:
    if set(map(type, values)) <= {wanted, type(None)}:
        return values
    kept = []
    for row, value in zip(rows, values, strict=True):
        if value is not None and type(value) is not wanted:
            flaws.add(row, f"{_NAMES[wanted]} is wanted where there is {_NAMES.get(type(value), 'a number')}")
        kept.append(value if type(value) is wanted else None)
    return kept


def _struct(kind: StructType, values: Sequence[Any], rows: Sequence[int], flaws: Flaws) -> pa.Array:
    there = [value for value in values if value is not None]
    _find_other_case(kind, there, values, rows, flaws)
    empty: dict[str, Any] = {}
    objects = values if len(there) == len(values) else [empty if value is None else value for value in values]
    columns = [_column(f.dataType, [o.get(f.name) for o in objects], rows, flaws) for f in kind.fields]
    mask = None if objects is values else pa.array([value is None for value in values], pa.bool_())
    fields = list(arrow_type(kind))
    if not fields:
        return pa.array([None if value is None else {} for value in values], pa.struct([]))
    return pa.StructArray.from_arrays(columns, fields=fields, mask=mask)


def _find_other_case(
    kind: StructType, there: Sequence[Any], values: Sequence[Any], rows: Sequence[int], flaws: Flaws
) -> None:
    """A name of another case than the schema's is that field misspelt: to leave it out would lose its value."""
    names = {name.lower(): name for name in kind.names}
    unknown = set().union(*there).difference(kind.names)
    for other in sorted(name for name in unknown if name.lower() in names):
        meant = names[other.lower()]
        for row, value in zip(rows, values, strict=True):
            if value is not None and other in value and meant not in value:
                flaws.add(row, f"there is no field {meant!r}, but one {other!r}: names are case-sensitive")


def _array(kind: ArrayType, values: Sequence[Any], rows: Sequence[int], flaws: Flaws) -> pa.Array:
    flat = [element for value in values if value for element in value]
    owners = [row for row, value in zip(rows, values, strict=True) if value for _ in value]
    elements = _column(kind.elementType, flat, owners, flaws)
    return pa.ListArray.from_arrays(_offsets(values), elements).cast(arrow_type(kind))


def _map(kind: MapType, values: Sequence[Any], rows: Sequence[int], flaws: Flaws) -> pa.Array:
    names = [name for value in values if value for name in value]
    flat = [inner for value in values if value for inner in value.values()]
    owners = [row for row, value in zip(rows, values, strict=True) if value for _ in value]
    keys = [name or "" for name in _column(StringType(), names, owners, flaws).to_pylist()]
    inner = _column(kind.valueType, flat, owners, flaws)
    return pa.MapArray.from_arrays(_offsets(values), pa.array(keys, pa.string()), inner).cast(arrow_type(kind))


def _offsets(values: Sequence[Any]) -> pa.Array:
    """Where each value's elements begin; null where there is no value."""
    ends = [0, *accumulate(len(value) if value else 0 for value in values)]
    return pa.array([None if v is None else at for v, at in zip(values, ends, strict=False)] + ends[-1:], pa.int32())


def _leaf(kind: DataType, values: Sequence[Any], rows: Sequence[int], flaws: Flaws) -> pa.Array:
    column, bad = json_leaves.column(kind, values)
    for place, reason in bad:
        flaws.add(rows[place], reason)
    return column
