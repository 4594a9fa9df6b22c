"""A store that is served: what is shown of it, where its rows lie, and its keys as text and as values."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import BinaryType, DataType, StringType, StructType

from watersmeet._engine.arrays import Int64s
from watersmeet._engine.exchange.shards import shard_of
from watersmeet._spark.checkpoint.facts import CheckpointFacts
from watersmeet._spark.stores.table_columns import StoreColumns
from watersmeet._worker.formats.arrow_types import arrow_schema
from watersmeet._worker.formats.json_decode import decode
from watersmeet._worker.formats.json_encode import encoded
from watersmeet.errors import ConfigError

SCHEMA = b"watersmeet.schema"
"""In the metadata of an answer's Arrow schema: its columns as Spark has them, as JSON."""


def servable_columns(stores: Mapping[str, StoreColumns], name: str) -> StoreColumns:
    """The columns of a table that can be served, of the stores of a topology by name.

    Raises
    ------
    ConfigError : there is no store of that name, or it is no table.
    """
    if name not in stores:
        raise ConfigError(
            f"The query has no table with the store {name!r}.",
            given=f"tables=[{name!r}]",
            hint=f"Tables: {', '.join(sorted(stores)) or 'none'}. A table is kept under the name that store= gives it.",
        )
    shown = stores[name]
    if not shown.by_key:
        raise ConfigError(
            f"The store {name!r} holds results back until their time, and is no table.",
            given=f"tables=[{name!r}]",
            hint="Serve the table that is aggregated, or read the store by query.state(...).",
        )
    return shown


@dataclass(frozen=True)
class ServedStore:
    """A store that is served.

    Parameters
    ----------
    name : the store's.
    shown : what is shown of it.
    labels : those of its shards, one for each range of the hash in order; of a global table the first.
    """

    name: str
    shown: StoreColumns
    labels: tuple[int, ...]

    @classmethod
    def of(cls, facts: CheckpointFacts, name: str) -> ServedStore:
        """A store of a checkpoint.

        Raises
        ------
        ConfigError : the query has no store of that name, or it is no table.
        """
        shown = servable_columns({each: StoreColumns.read(said) for each, said in facts.stores.items()}, name)
        labels = facts.addresses[shown.node][name]
        return cls(name, shown, tuple(labels[:1] if shown.whole else labels))

    def label_of(self, hashes: Int64s) -> Int64s:
        """The label under which each of some hashes lies."""
        return np.array(self.labels, dtype=np.int64)[shard_of(hashes, len(self.labels))]

    @property
    def stored(self) -> str:
        """The name of its table in state: the lender's name for it if the table is lent."""
        return self.shown.stored or self.name

    @property
    def key_type(self) -> DataType:
        """Type of the keys."""
        return self.shown.schema["key"].dataType

    @property
    def is_windowed(self) -> bool:
        """Whether a row is of a key and a window."""
        return "window" in self.shown.schema.names

    @cached_property
    def schema(self) -> pa.Schema:
        """Columns of an answer."""
        return arrow_schema(self.shown.schema).with_metadata({SCHEMA: self.shown.schema.json().encode()})

    def answer_rows(self, rows: pa.Table | None) -> pa.Table:
        """Rows of the replica as they are shown."""
        found = () if rows is None else self.shown.rows(rows)
        return pa.Table.from_batches(found, schema=arrow_schema(self.shown.schema)).cast(self.schema)


def keys_of(kind: DataType, given: Sequence[Any]) -> pa.Array:
    """Keys from what JSON has for them, as topics have it.

    Raises
    ------
    ConfigError : one is not of the type.
    """
    values, flaws = decode(kind, pa.array([to_json(each) for each in given], pa.string()))
    if flaws or values.null_count:
        raise ConfigError(
            f"A key is not of the type of the table's keys, {kind.simpleString()}: "
            f"{', '.join(to_json(each) for each in given):.200}.",
            hint="Write it as JSON has it in topics: bytes as Base64, times as ISO 8601, structs as objects.",
        )
    return values


def key_of_text(kind: DataType, text: str) -> Any:
    """What JSON has for a key that stands in an address: text, times and bytes without their quotes."""
    # Base64 may look like a number of JSON's
    if isinstance(kind, StringType | BinaryType):
        return text
    try:
        return from_json(text)
    except ValueError:
        return text


def from_json(text: str | bytes) -> Any:
    """The value of a JSON text, decimals to the last digit.

    Raises
    ------
    ValueError : it is none.
    """
    return json.loads(text, parse_float=Decimal)


def to_json(value: Any) -> str:
    """The text of what `from_json` gives."""
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(name)}: {to_json(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(to_json, value)) + "]"
    return json.dumps(value)


def json_rows(rows: pa.Table, kind: StructType) -> list[str]:
    """The JSON text of each row, as topics have it."""
    made = pa.StructArray.from_arrays([_flat(rows.column(name)) for name in kind.names], fields=list(rows.schema))
    texts: list[bytes] = encoded(made, kind).to_pylist()
    return [text.decode() for text in texts]


def _flat(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return found.chunk(0) if isinstance(found, pa.ChunkedArray) else found
