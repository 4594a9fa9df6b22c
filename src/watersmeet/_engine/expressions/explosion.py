"""The layer of a program that makes rows of lists, as Spark's `posexplode_outer` does.

Its columns are calls of `PosExplode` on one and the same column: the place of each element, and the element. All other
columns are repeated.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
import pyarrow as pa

from watersmeet._engine.expressions.tree import Call, Expression, Operand
from watersmeet._engine.expressions.vectors import made, shaped
from watersmeet._engine.rows.columns import array, gather, valid
from watersmeet._engine.rows.types import with_nulls

EXPLODES = "PosExplode"
PART = "part"
"""Option of a call: which of the parts `PLACE` and `ELEMENT` it gives."""
PLACE, ELEMENT = "pos", "col"
MOST_ROWS = 1 << 20
"""That are made of several rows at once (law 9)."""
Layer = Sequence[tuple[str, Expression]]


class TooManyRows(Exception):
    """More rows would be made at once than memory is for.

    Parameters
    ----------
    parts : into how many the rows should be cut.
    """

    def __init__(self, parts: int) -> None:
        self.parts = parts
        super().__init__(parts)

    def slices(self, rows: pa.Table) -> Iterator[pa.Table]:
        """The rows, cut."""
        size = -(-len(rows) // min(self.parts, len(rows)))
        yield from (rows.slice(at, size) for at in range(0, len(rows), size))


def explodes(layer: Layer) -> bool:
    """Whether a layer makes rows of lists."""
    return any(isinstance(expression, Call) and expression.function == EXPLODES for _, expression in layer)


def exploded(rows: pa.Table, layer: Layer, gone: Collection[str], *, whole: bool = False) -> pa.Table:
    """A row for each element; a row without elements stays one, with null as place and element.

    Parameters
    ----------
    gone : columns that nothing reads behind this: these are not repeated.
    whole : whether they are of one record, which cannot be cut.

    Raises
    ------
    TooManyRows : of several records more than `MOST_ROWS` would be made.
    """
    calls = {name: expression for name, expression in layer if isinstance(expression, Call)}
    (name,) = {each.name for call in calls.values() for each in call.arguments if isinstance(each, Operand)}
    lists = array(rows, name)
    offsets = np.asarray(lists.offsets.to_numpy(zero_copy_only=False), dtype=np.int64)
    lengths = np.where(valid(lists), np.diff(offsets), 0)
    repeated = np.maximum(lengths, 1)
    if repeated.sum() > MOST_ROWS and not whole:
        raise TooManyRows(int(repeated.sum() // MOST_ROWS) + 1)
    row = np.repeat(np.arange(len(rows)), repeated)
    place = np.arange(len(row)) - np.repeat(np.cumsum(repeated) - repeated, repeated)
    there = lengths[row] > 0
    found = rows.drop_columns([each for each in rows.column_names if each in gone and each not in calls])
    found = found.take(pa.array(row))
    elements = np.where(there, offsets[:-1][row] + place, -1)
    for each, call in calls.items():
        if call.option(PART) == PLACE:
            column = made(place.astype(np.int32), there, pa.int32())
        else:
            column = shaped(gather(lists.values, elements), with_nulls(call.type))
        found = found.append_column(each, column)
    return found
