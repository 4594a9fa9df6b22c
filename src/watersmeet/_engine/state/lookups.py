"""Results of lookups: rows found in runs, each by its place, so that values are gathered as late as possible.

Law 9: a lookup holds places and numbers; values are read a piece at a time where they may be many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.rows import columns as arrow
from watersmeet._engine.rows.columns import gather
from watersmeet._engine.rows.sizes import row_bytes
from watersmeet._engine.state.merge import joined
from watersmeet._engine.state.search import Hits


@dataclass(frozen=True)
class Lookup:
    """At most one row for each query.

    index : for each query the row in `rows`, -1 where the table has none.
    rows : the rows found, each once, in no particular order: gather through `index` or `aligned`.
    """

    index: Int64s
    rows: pa.Table

    @cached_property
    def found(self) -> Bools:
        """Whether each query has a row."""
        return self.index >= 0

    def aligned(self, column: str) -> pa.Array:
        """One value per query, null where nothing was found."""
        return gather(self.rows.column(column), self.index)


class FoundRows:
    """Any number of rows for each query, found but not yet read.

    Rows of a table of replaced rows come in order of query, then of the table's order columns, then in one that
    depends on their identity alone; appended rows come in no particular order.

    Attributes
    ----------
    query : of each row, the number of its query.
    """

    def __init__(self, query: Int64s, places: Int64s | None, hits: Sequence[Hits], schema: pa.Schema) -> None:
        self.query = query
        self._places = places
        self._hits = hits
        self._schema = schema

    def __len__(self) -> int:
        return len(self.query)

    @cached_property
    def rows(self) -> pa.Table:
        """All rows, all columns."""
        return self.take(self._schema.names)

    def sizes(self, column: str) -> Int64s:
        """Bytes of all rows' values of a column."""
        parts = [row_bytes(hit.batch.column(column), hit.rows) for hit in self._hits]
        whole = np.concatenate([np.zeros(0, dtype=np.int64), *parts])
        return whole if self._places is None else whole[self._places]

    def take(self, columns: Sequence[str], rows: Int64s | None = None) -> pa.Table:
        """Columns of the given rows, in their order; of all rows if None."""
        if self._places is None and rows is None:
            return gathered(self._hits, self._schema, columns)
        places = np.arange(len(self.query), dtype=np.int64) if self._places is None else self._places
        places = places if rows is None else places[rows]
        order = np.argsort(places, kind="stable")
        ordered = places[order]
        # Hits lie one after the other, so the wanted places of one hit are a stretch of the sorted ones.
        starts = np.cumsum([0] + [len(hit.rows) for hit in self._hits])
        edges = ordered.searchsorted(starts)
        schema = pa.schema([self._schema.field(name) for name in columns])
        parts = [
            hit.batch.select(schema.names).take(pa.array(hit.rows[ordered[edges[i] : edges[i + 1]] - starts[i]]))
            for i, hit in enumerate(self._hits)
            if edges[i] < edges[i + 1]
        ]
        back = np.empty(len(order), dtype=np.int64)
        back[order] = np.arange(len(order))
        table = pa.Table.from_batches([joined(parts, schema)] if parts else [], schema=schema)
        return table.take(pa.array(back))


def gathered(hits: Sequence[Hits], schema: pa.Schema, columns: Sequence[str]) -> pa.Table:
    """The rows that were hit, one hit after the other; in chunks where they are too large for one array."""
    schema = pa.schema([schema.field(name) for name in columns])
    parts = [hit.batch.select(schema.names).take(pa.array(hit.rows)) for hit in hits if len(hit.rows)]
    if sum(part.nbytes for part in parts) <= arrow.ARRAY_BYTES:
        parts = [joined(parts, schema)]
    return pa.Table.from_batches(parts, schema=schema)
