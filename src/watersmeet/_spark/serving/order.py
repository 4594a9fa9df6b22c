"""The order of rows by their keys: numbers, text, bytes and times as they are, structs field by field, nulls first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from watersmeet._engine.arrays import Bools, Int64s
from watersmeet.errors import ConfigError


def order_columns(keys: pa.Array) -> list[pa.Array]:
    """Columns of which the first that differs says which of two keys comes first.

    Raises
    ------
    ConfigError : keys of this type have no order.
    """
    return list(_columns(keys))


def _columns(values: pa.Array) -> Iterator[pa.Array]:
    kind = values.type
    if pt.is_struct(kind):
        for number in range(kind.num_fields):
            yield pc.is_valid(pc.struct_field(values, number)).cast(pa.int8())
            yield from _columns(pc.struct_field(values, number))
    elif pt.is_floating(kind):
        yield pc.is_nan(values).cast(pa.int8())
        yield values
    elif pt.is_boolean(kind):
        yield values.cast(pa.int8())
    elif pt.is_nested(kind):
        raise ConfigError(
            "Keys of this type have no order, so there are no ranges of them.",
            given=f"key of type {kind}",
            hint="Ask for a key or keys, or for the whole table.",
        )
    else:
        yield values


def behind(columns: Sequence[pa.Array], bound: Sequence[pa.Array], *, included: bool) -> Bools:
    """Which rows come behind a bound, a row of the same columns."""
    count = len(columns[0])
    greater, equal = np.zeros(count, dtype=np.bool_), np.ones(count, dtype=np.bool_)
    for column, limit in zip(columns, bound, strict=True):
        if not limit[0].is_valid:
            # nulls come first, which a column before this one says
            equal &= _bools(pc.is_null(column))
            continue
        greater |= equal & _bools(pc.greater(column, limit[0]))
        equal &= _bools(pc.equal(column, limit[0]))
    return greater | equal if included else greater


def sorted_positions(columns: Sequence[pa.Array], chosen: Bools) -> Int64s:
    """Positions of the chosen rows, in order."""
    places = np.flatnonzero(chosen)
    at = pa.array(places)
    table = pa.table({str(number): column.take(at) for number, column in enumerate(columns)})
    by = [(name, "ascending") for name in table.column_names]
    # where there are nulls, a column before says so, and there is no order among them
    order = pc.sort_indices(table, sort_keys=by)
    return np.asarray(places[order.to_numpy()], dtype=np.int64)


def _bools(found: pa.Array) -> Bools:
    return np.asarray(found.fill_null(False).to_numpy(zero_copy_only=False), dtype=np.bool_)
