"""The writes of a commit to a table: rows to put and to delete, as pointers to their values.

Law 9: values are gathered once, when the commit writes them, in the order of the run and a piece at a time; until then
a change holds what names and sorts its rows, and pointers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.rows.columns import gather
from watersmeet._engine.rows.columns import joined as together
from watersmeet._engine.rows.sizes import Picked, in_pieces
from watersmeet._engine.state.layout import TOMBSTONE, TableLayout
from watersmeet._engine.state.merge import joined, narrow
from watersmeet.errors import StateError

Given: TypeAlias = pa.Array | pa.ChunkedArray | Picked
"""A column of a put: there already, or to be gathered when the commit writes it."""


@dataclass(frozen=True)
class PutRows:
    """Rows of one put.

    Parameters
    ----------
    named : the columns that say which rows are kept, in which order; the tombstone flag, too.
    values : the other columns, null for what is deleted.
    """

    named: pa.RecordBatch
    values: Mapping[str, Picked]

    @property
    def bytes(self) -> int:
        """About how many bytes its rows will have."""
        return int(self.named.nbytes + sum(picked.sizes().sum() for picked in self.values.values()))

    @classmethod
    def of(cls, layout: TableLayout, columns: Mapping[str, Given], deleted: Bools) -> PutRows:
        """The rows of these columns, of which those that `deleted` marks are to be removed."""
        kept = narrow(layout)
        anything, gone = deleted.any(), np.arange(len(deleted), dtype=np.int64)
        gone[deleted] = -1
        named = []
        for field in kept:
            column = pa.array(deleted) if field.name == TOMBSTONE else _whole(columns[field.name], field.type)
            named.append(gather(column, gone) if anything and field.name not in layout.named | {TOMBSTONE} else column)
        values = {}
        for name in layout.schema.names:
            if name not in kept.names:
                given = columns[name]
                picked = given if isinstance(given, Picked) else Picked(given, gone)
                values[name] = Picked(picked.values, np.where(deleted, -1, picked.pointers)) if anything else picked
        return cls(pa.RecordBatch.from_arrays(named, schema=kept), values)


def check(layout: TableLayout, table: str, columns: Mapping[str, Given], count: int) -> None:
    """Refuse columns that are not the table's, or not `count` rows long."""
    asked = [field for field in layout.schema if field.name != TOMBSTONE]
    lengths = set(map(length, columns.values()))
    if {field.name for field in asked} != set(columns) or lengths != {count}:
        raise _misfit(table, layout, f"{count} flags for {max(lengths, default=0)} rows of {list(columns)}")
    for field in asked:
        given = columns[field.name]
        if not isinstance(given, Picked) and given.type != field.type:
            raise _misfit(table, layout, f"column {field.name} is {given.type}, the table has {field.type}")


def sorted_rows(
    changes: Sequence[PutRows], layout: TableLayout, choose: Callable[[pa.RecordBatch], Int64s], segment: int
) -> Iterator[pa.RecordBatch]:
    """The rows that `choose` names, in its order, in batches of about `segment` bytes."""
    rows = joined([change.named for change in changes], narrow(layout))
    at = choose(rows)
    if not len(at):
        return
    columns = {name: Picked(rows.column(name), at) for name in rows.schema.names}
    for name in layout.schema.names:
        if name not in columns:
            picked = _joined([change.values[name] for change in changes], layout.schema.field(name).type)
            columns[name] = Picked(picked.values, picked.pointers[at])
    ordered = {name: columns[name] for name in layout.schema.names}
    for piece in in_pieces(ordered, segment):
        arrays = [_whole(piece.column(field.name), field.type) for field in layout.schema]
        yield pa.RecordBatch.from_arrays(arrays, schema=layout.schema)


def _joined(parts: Sequence[Picked], kind: pa.DataType) -> Picked:
    """The rows of all parts, one after the other."""
    if len(parts) == 1:
        return parts[0]
    starts = np.cumsum([0, *(len(part.values) for part in parts)])
    pointers = [np.where(p.pointers < 0, -1, p.pointers + start) for p, start in zip(parts, starts, strict=False)]
    return Picked(together([part.values for part in parts], kind), np.concatenate(pointers))


def _whole(given: Given, kind: pa.DataType) -> pa.Array:
    column = given.part(0, length(given)) if isinstance(given, Picked) else given
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return column if column.type == kind else column.cast(kind)


def length(given: Given) -> int:
    """How many rows a column has."""
    return len(given.pointers) if isinstance(given, Picked) else len(given)


def _misfit(table: str, layout: TableLayout, given: str) -> StateError:
    fields = (field for field in layout.schema if field.name != TOMBSTONE)
    return StateError(
        f"rows do not fit the table {table!r}",
        given=given,
        hint=f"its columns are {', '.join(f'{field.name}: {field.type}' for field in fields)}",
    )
