"""The changes of a task: the last change of each key, in the columns of the database, as blobs.

A key's rows are all in one task, in order (law 2), so its last one there is its last one in the batch. Tasks write
nothing to the database: one that runs twice, or breaks off, changes nothing, and no password leaves the driver.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from watersmeet._engine.databases.columns import DatabaseColumn
from watersmeet._engine.databases.last import last_changes
from watersmeet._engine.rows import blob
from watersmeet._worker.formats.arrow_types import spark_type
from watersmeet._worker.formats.json_encode import encoded
from watersmeet._worker.process import give_back, settle
from watersmeet.errors import SinkError
from watersmeet.io.databases import Dialect

CHANGES = "small boolean, changes binary"
_CHANGES_ARROW = pa.schema([("small", pa.bool_()), ("changes", pa.binary())])
DELETED = "deleted"
PIECE_ROWS = 10_000
"""Rows of a blob, and of a statement, at most."""


@dataclass(frozen=True)
class LastChanges:
    """mapInArrow function: the last change of each key, in pieces.

    Parameters
    ----------
    columns : of the table.
    dialect : of the database.
    limit : bytes up to which all that a task has is small.
    """

    columns: tuple[DatabaseColumn, ...]
    dialect: Dialect
    limit: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read all rows, then give the pieces."""
        settle()
        keys = [place(number) for number, column in enumerate(self.columns) if column.is_key]
        last = last_changes((self._columns(rows) for rows in batches if len(rows)), keys)
        if last is not None:
            small = last.nbytes <= self.limit
            for piece in blob.pieces(last):
                for start in range(0, len(piece), PIECE_ROWS):
                    yield _read(blob.encode(self._database_values(piece.slice(start, PIECE_ROWS))), small)
        give_back()

    def _columns(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The table's columns of rows with key and value, and which rows delete."""
        made = {place(number): column.of(rows) for number, column in enumerate(self.columns)}
        for number, column in enumerate(self.columns):
            if column.is_key and made[place(number)].null_count:
                raise SinkError(
                    f"The key column {column.name!r} of a database table has no value.",
                    given=f"column {column.name!r}",
                    hint="Leave such rows out before, or fill them: F.coalesce(key, F.lit(...)).",
                )
        deleted = rows.column("value").is_null()
        return pa.RecordBatch.from_pydict({**made, DELETED: deleted})

    def _database_values(self, rows: pa.Table) -> pa.Table:
        """Values as the database gets them."""
        for number, column in enumerate(self.columns):
            values = rows.column(number)
            kept = pa.chunked_array([_database_column(chunk, column, self.dialect) for chunk in values.chunks])
            rows = rows.set_column(number, place(number), kept)
        return rows


def place(number: int) -> str:
    """The name of a column on its way."""
    return f"c{number}"


def _read(content: bytes, small: bool) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"small": [small], "changes": [content]}, schema=_CHANGES_ARROW)


def _database_column(values: pa.Array, column: DatabaseColumn, dialect: Dialect) -> pa.Array:
    kind = values.type
    if column.is_json:
        return encoded(values, spark_type(column.kind)).cast(pa.string())
    if pt.is_timestamp(kind):
        # a count of microseconds means the same whatever zone the column is shown in
        values = values.cast(pa.timestamp("us", kind.tz)).view(pa.timestamp("us", "UTC" if kind.tz else None))
    if dialect == "sqlite" and (pt.is_timestamp(kind) or pt.is_date(kind) or pt.is_decimal(kind)):
        return pc.cast(values, pa.string())
    return values
