"""Which columns the table of a database has: from the types of keys and values, before there is a database.

Law 4: what cannot be kept is refused when the topology is built, on the user's own line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from watersmeet.errors import TopologyError
from watersmeet.io.databases import TableTarget, check_name

KEY, VALUE, VERSION = "key", "value", "version"
_PLAIN: tuple[Callable[[pa.DataType], bool], ...] = (
    *(pt.is_boolean, pt.is_signed_integer, pt.is_floating, pt.is_decimal, pt.is_string, pt.is_large_string),
    *(pt.is_binary, pt.is_large_binary, pt.is_date32, pt.is_timestamp),
)


@dataclass(frozen=True)
class DatabaseColumn:
    """A column, and where its values come from."""

    name: str  # as the database calls it
    part: str  # "key", "value" or, of a table with all versions of a row, "version"
    path: tuple[str, ...]  # fields, one within the other; none: the whole part
    kind: pa.DataType  # type of the values; what holds others is kept as JSON

    @property
    def is_key(self) -> bool:
        """Whether it is one of those that tell rows apart."""
        return self.part == KEY

    @property
    def is_json(self) -> bool:
        return bool(pt.is_nested(self.kind))

    def of(self, rows: pa.RecordBatch) -> pa.Array:
        """Its values, from the columns key and value."""
        column = rows.column(self.part)
        for name in self.path:
            column = pc.struct_field(column, name)
        return column


_TIME = pa.timestamp("us", "UTC")
VALID_FROM, VALID_TO = (DatabaseColumn(name, VERSION, (), _TIME) for name in ("valid_from", "valid_to"))
CURRENT = DatabaseColumn("current", VERSION, (), pa.bool_())


def columns_of(target: TableTarget, key: pa.DataType, value: pa.DataType) -> tuple[DatabaseColumn, ...]:
    """The columns: those of the key, those of the value, those of a version."""
    columns = (*_key_columns(target, tuple(_leaves(KEY, (), key))), *_values(target, value))
    columns += (VALID_FROM, VALID_TO, CURRENT) if target.keeps_versions else ()
    for column in columns:
        check_name(column.name, target.dialect)
        _check_type(column)
    by_name: dict[str, DatabaseColumn] = {}
    for column in columns:
        # neither database tells capitals apart for sure
        previous = by_name.setdefault(column.name.casefold(), column)
        if previous is not column:
            raise TopologyError(
                f"Two columns of the table are named {column.name!r}.",
                given=f"{column.name!r}, of {_path_of(previous)} and of {_path_of(column)}",
                hint=f'Name the key\'s columns: key="{column.name}_key" (several: key=("...", "...")); or leave the '
                "field out of the value: table.map_values(lambda value: F.struct(...)).",
            )
    return columns


def _values(target: TableTarget, value: pa.DataType) -> Iterator[DatabaseColumn]:
    if target.value is not None or not pt.is_struct(value):
        yield DatabaseColumn(target.value or VALUE, VALUE, (), value)
        return
    for field in value:
        yield DatabaseColumn(field.name, VALUE, (field.name,), field.type)


def _leaves(part: str, path: tuple[str, ...], kind: pa.DataType) -> Iterator[DatabaseColumn]:
    if not pt.is_struct(kind):
        yield DatabaseColumn(path[-1] if path else part, part, path, kind)
        return
    for field in kind:
        yield from _leaves(part, (*path, field.name), field.type)


def _key_columns(target: TableTarget, leaves: tuple[DatabaseColumn, ...]) -> tuple[DatabaseColumn, ...]:
    if target.key is None:
        return leaves
    if len(target.key) != len(leaves):
        fields = ", ".join(".".join(leaf.path) or leaf.part for leaf in leaves)
        raise TopologyError(
            f"key={target.key!r:.200} has {len(target.key)} names, and the key has {len(leaves)} columns.",
            given=f"the key's columns: {fields}",
            hint=f"Give as many names: key=({', '.join('...' for _ in leaves)}); or none, for the fields' own.",
        )
    pairs = zip(target.key, leaves, strict=True)
    return tuple(DatabaseColumn(name, leaf.part, leaf.path, leaf.kind) for name, leaf in pairs)


def _check_type(column: DatabaseColumn) -> None:
    if column.is_key and (column.is_json or pt.is_floating(column.kind)):
        raise TopologyError(
            f"The key's column {column.name!r} cannot be {column.kind}: equal values would differ in the database.",
            hint="Make the key a string, a number without fractions, a decimal, a date, a timestamp, or a struct of "
            "these: table.to_stream().select_key(lambda key, value: ...).to_table().",
        )
    if not column.is_json and not any(is_kind(column.kind) for is_kind in _PLAIN):
        raise TopologyError(
            f"The column {column.name!r} cannot be {column.kind}: databases have no type for it.",
            hint="Cast it in the value: table.map_values(lambda value: ...), to a string or a number.",
        )


def _path_of(column: DatabaseColumn) -> str:
    return ".".join((column.part, *column.path))


# The last change of each key, of rows that come in order: what a table needs of a batch (law 2).

_ROW = "_row"
_FEW = 1 << 16
"""Rows below which it does not pay to look for keys that come again."""


def last_changes(batches: Iterable[pa.RecordBatch], keys: list[str]) -> pa.Table | None:
    """The last row of each key, in order; None where there are no rows.

    It holds the last rows and at most about as many others.

    Parameters
    ----------
    keys : names of the columns that tell keys apart.
    """
    pending: list[pa.RecordBatch] = []
    rows, distinct = 0, 0
    for batch in batches:
        pending.append(batch)
        rows += len(batch)
        if rows > 2 * distinct + _FEW:
            pending = _last(pa.Table.from_batches(pending), keys).to_batches()
            rows = distinct = sum(map(len, pending))
    return _last(pa.Table.from_batches(pending), keys) if rows else None


def _last(rows: pa.Table, keys: list[str]) -> pa.Table:
    numbered = rows.select(keys).append_column(_ROW, pa.array(np.arange(len(rows))))
    places = numbered.group_by(keys, use_threads=False).aggregate([(_ROW, "max")]).column(f"{_ROW}_max")
    if len(places) == len(rows):
        return rows
    # a filter, which works on each chunk alone: no column is put together
    mask = np.zeros(len(rows), dtype=bool)
    mask[places.to_numpy()] = True
    return rows.filter(pa.array(mask))
