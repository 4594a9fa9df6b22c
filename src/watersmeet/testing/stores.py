"""The stores of a topology under test, to be read: Kafka Streams' ReadOnlyKeyValueStore, WindowStore, SessionStore.

A store is read as it is after all records that have been piped. Keys are in the order of Kafka's bytes, which is that
of text, and of integers that are not negative.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.conversion import ArrowTableToRowsConversion, LocalDataToArrowConversion
from pyspark.sql.types import DataType, StructField, StructType

from watersmeet._engine.aggregates.registry import fold_of
from watersmeet._engine.keys import encode_keys
from watersmeet._engine.operator import OperatorContext
from watersmeet._engine.operators.process_state import lasting
from watersmeet._engine.rows import stacked
from watersmeet._engine.state.runs import State
from watersmeet._engine.time import REACH
from watersmeet._plan.declaration import TableSchema
from watersmeet._plan.operators.aggregates import AggregateParams
from watersmeet._plan.operators.joins import AsOfParams
from watersmeet._plan.operators.processors import ProcessParams
from watersmeet._plan.operators.tables import VersionedParams
from watersmeet._plan.physical import Physical
from watersmeet._spark.formats import Unfit, fitted
from watersmeet._worker.formats.arrow_types import arrow_schema, spark_type
from watersmeet.errors import TopologyError
from watersmeet.hints import answering, refusing

# Python values as Arrow's columns and back, as Spark takes and collects them.

Columns = Sequence[tuple[str, DataType]]
"""Names and types."""


def arrow_rows(rows: Sequence[tuple[Any, ...]], columns: Columns) -> pa.Table:
    """The rows as columns, of the types of the workers."""
    schema = _schema(columns)
    return LocalDataToArrowConversion.convert(rows, schema, False).cast(arrow_schema(schema))


def python_rows(rows: pa.Table, columns: Columns) -> list[tuple[Any, ...]]:
    """The columns' values as Spark collects them, row by row."""
    schema = _schema(columns)
    table = rows.select(schema.names).cast(arrow_schema(schema))
    return [tuple(row) for row in ArrowTableToRowsConversion.convert(table, schema)]


def _schema(columns: Columns) -> StructType:
    return StructType([StructField(name, kind, True) for name, kind in columns])


_KINDS = {
    ("key",): (),
    ("key", "start"): ("start",),
    ("key", "end"): ("start", "end"),
    ("key", "ts"): ("ts",),
    ("key", "until", "domain"): (),
    ("key", "entry"): ("entry",),
    ("key", "entry", "until", "domain"): ("entry",),
}
"""Columns that tell a key's rows apart, by the identity of tables that are stores: times, or entries of a processor."""


@dataclass(frozen=True)
class Entry:
    """A row of a store.

    Parameters
    ----------
    order : its key as bytes, then its times.
    key, value : as Spark collects them.
    times : of its window: the start; of a session start and end; of a version its timestamp. Of a store by key none; of
        a processor's map or list the entry.
    known_from : of versions, the time from which on the past is known.
    """

    order: tuple[Any, ...]
    key: Any
    times: tuple[Any, ...]
    value: Any
    known_from: int = 0


@dataclass(frozen=True)
class StoredTable:
    """A table that is a store.

    Parameters
    ----------
    name : under which it is found.
    context : of the operator that keeps the table.
    schema : the table, as its store has it.
    """

    name: str
    context: OperatorContext
    schema: TableSchema

    @property
    def times(self) -> tuple[str, ...]:
        """The columns with its rows' times."""
        return _KINDS[self.schema.identity]

    @property
    def key(self) -> DataType:
        """Type of its keys."""
        return spark_type(dict(self.schema.columns)["key"])

    @property
    def of_entries(self) -> bool:
        """Whether a key has entries, which are no times: in a processor's map or list."""
        return "entry" in self.times

    @property
    def versioned(self) -> bool:
        """Whether it has the past of its keys, too."""
        return "ts" in self.times

    def _known_from(self, states: Iterable[State]) -> int:
        params = self.context.operator.params
        if not isinstance(params, VersionedParams | AsOfParams):
            return 0
        reached = (reach for state in states for reach in state.get_scalar(REACH, [{}])[-1].values())
        return max(reached, default=0) - params.history_ms

    def entries(self, cases: Sequence[Iterable[State]], only: bytes | None = None) -> list[list[Entry]]:
        """The rows of each of several cases, in order.

        Parameters
        ----------
        cases : of each the states of its shards.
        only : the bytes of a key; None: the rows of all keys.
        """
        shards = [list(states)[: 1 if self.schema.everywhere else None] for states in cases]
        pairs = [(case, state) for case, states in enumerate(shards) for state in states]
        parts = [(case, lasting(state, part)) for case, state in pairs for part in state.table(self.schema).scan()]
        entries: list[list[Entry]] = [[] for _ in shards]
        if not parts:
            return entries
        table = stacked([part for _, part in parts]).combine_chunks()
        orders = encode_keys(table.column("key")).cast(pa.binary())
        numbers = np.repeat([case for case, _ in parts], [len(part) for _, part in parts])
        if only is not None:
            mask = pc.equal(orders, only)
            table, orders, numbers = (
                table.filter(mask).combine_chunks(),
                orders.filter(mask),
                numbers[mask.to_numpy(False)],
            )
        if not len(table):
            return entries
        values, params = table.column("value"), self.context.operator.params
        if isinstance(params, AggregateParams):
            values = fold_of(params.fold).finish(values.combine_chunks())
        rows = python_rows(
            pa.table({"key": table.column("key"), "value": values}),
            (("key", self.key), ("value", spark_type(values.type))),
        )
        times = list(zip(*(table.column(name).to_pylist() for name in self.times), strict=True)) or [()] * len(rows)
        known_from = [self._known_from(states) for states in shards]
        for case, at, when, (key, value) in zip(numbers.tolist(), orders.to_pylist(), times, rows, strict=True):
            entries[case].append(Entry((at, *when), key, when, value, known_from[case]))
        return [sorted(of_case, key=lambda entry: entry.order) for of_case in entries]

    def order_of(self, key: Any) -> bytes:
        """The bytes of a key that was given.

        Raises
        ------
        TopologyError : it is not of the keys' type.
        """
        try:
            value = fitted(key, self.key, "key", nullable=False)
        except Unfit as error:
            raise TopologyError(
                f"A key of the store {self.name!r} has another type.",
                given=error.fault,
                hint=f"Its keys are of the type {self.key.simpleString():.200}.",
            ) from None
        column = arrow_rows([(value,)], (("key", self.key),)).column("key")
        return bytes(encode_keys(column)[0].as_py())


def stores_of(physical: Physical, contexts: Mapping[int, OperatorContext]) -> dict[str, StoredTable]:
    """The stores of a topology, by name."""
    stores: dict[str, StoredTable] = {}
    for number, context in contexts.items():
        for (name, _), schema in zip(physical.stores_of(number), context.kept, strict=True):
            if schema.shown and schema.identity in _KINDS and "value" in dict(schema.columns):
                stores.setdefault(name, StoredTable(name, context, schema))
    return stores


@refusing("[...]", "[...] = ...", "loop", "len", "in")
@dataclass(frozen=True)
class DriverStore:
    """Base of the stores.

    Parameters
    ----------
    kept : the table.
    read : gives its rows as they are now.
    """

    kept: StoredTable
    read: Callable[[], list[Entry]]

    @property
    def name(self) -> str:
        """The store's name."""
        return self.kept.name

    def _rows(self) -> list[Entry]:
        """The present entries."""
        return self.read()

    def approximate_num_entries(self) -> int:
        """How many rows it has; exactly."""
        return len(self._rows())


@answering
class KeyValueStore(DriverStore):
    """A store with a row for each key; made by `TopologyTestDriver.get_store`."""

    def get(self, key: Any) -> Any:
        """The key's value; None where there is none.

        Raises
        ------
        TopologyError : the key is not of the keys' type.
        """
        order = self.kept.order_of(key)
        return next((entry.value for entry in self._rows() if entry.order[0] == order), None)

    def range(self, from_key: Any = None, to_key: Any = None) -> list[tuple[Any, Any]]:
        """(key, value) of the keys between the two, both included, in order; None: no limit (KIP-763).

        Raises
        ------
        TopologyError : a key is not of the keys' type.
        """
        low = None if from_key is None else self.kept.order_of(from_key)
        high = None if to_key is None else self.kept.order_of(to_key)
        return [
            (entry.key, entry.value)
            for entry in self._rows()
            if (low is None or entry.order[0] >= low) and (high is None or entry.order[0] <= high)
        ]

    def all(self) -> list[tuple[Any, Any]]:
        """(key, value) of all keys, in order."""
        return self.range()


@answering
class VersionedKeyValueStore(KeyValueStore):
    """A store that has the past of its keys, too (KIP-889); made by `TopologyTestDriver.get_store`."""

    def get(self, key: Any, *, as_of: int | None = None) -> Any:
        """The key's value; None where there is none.

        Parameters
        ----------
        as_of : the value that was valid at this time, in ms; None: the latest. Of what is older than the history only
            the latest is known.

        Raises
        ------
        TopologyError : the key is not of the keys' type.
        """
        if as_of is None:
            return super().get(key)
        order = self.kept.order_of(key)
        versions = [entry for entry in self.read() if entry.order[0] == order]
        valid = [entry for entry in versions if entry.times[0] <= as_of]
        available = valid and (as_of >= valid[-1].known_from or valid[-1] is versions[-1])
        return valid[-1].value if available else None

    def _rows(self) -> list[Entry]:
        last = {entry.order[0]: entry for entry in self.read()}
        return [entry for entry in last.values() if entry.value is not None]


@answering
class WindowStore(DriverStore):
    """A store with a row for each key and window, or session; made by `TopologyTestDriver.get_store`.

    A window is given as its start, a session as (start, end); in ms.
    """

    def fetch(self, key: Any, from_ts: int, to_ts: int) -> list[tuple[Any, Any]]:
        """(window, value) of the key's windows that start between the two times, both included, in order.

        Of sessions those that have a moment in between.

        Raises
        ------
        TopologyError : the key is not of the keys' type.
        """
        if from_ts > to_ts:
            raise TopologyError(
                f"fetch has from_ts={from_ts}, to_ts={to_ts}: it ends before it begins.",
                hint="The earlier time goes first: fetch(key, from_ts, to_ts), in ms.",
            )
        order = self.kept.order_of(key)
        entries = (entry for entry in self.read() if entry.order[0] == order)
        return [(_window(e), e.value) for e in entries if e.times[-1] >= from_ts and e.times[0] <= to_ts]

    def all(self) -> list[tuple[tuple[Any, Any], Any]]:
        """((key, window), value) of all rows, in order."""
        return [((entry.key, _window(entry)), entry.value) for entry in self.read()]


def _window(entry: Entry) -> Any:
    return entry.times[0] if len(entry.times) == 1 else entry.times


# The maps and lists of processors under test, to be read as they are after all records that have been piped.


class EntryStore(DriverStore):
    """A processor's map or list; made by `TopologyTestDriver.get_store`."""

    def get(self, key: Any) -> Any:
        """The key's map, a dictionary in the order of its keys, or its list; empty where there is none.

        Raises
        ------
        TopologyError : the key is not of the store's type.
        """
        order = self.kept.order_of(key)
        return self._assemble([entry for entry in self._rows() if entry.order[0] == order])

    def all(self) -> list[tuple[Any, Any]]:
        """(key, map or list) of all keys that have one, in order."""
        groups: dict[bytes, list[Entry]] = {}
        for entry in self._rows():
            groups.setdefault(entry.order[0], []).append(entry)
        return [(entries[0].key, self._assemble(entries)) for entries in groups.values()]

    def _assemble(self, entries: list[Entry]) -> Any:
        return {entry.times[0]: entry.value for entry in entries}


class ListEntries(EntryStore):
    """The same of lists."""

    def _assemble(self, entries: list[Entry]) -> Any:
        return [entry.value for entry in entries]


def entries_of(table: StoredTable, read: Callable[[], list[Entry]]) -> EntryStore:
    """A processor's map or list."""
    params = table.context.params(ProcessParams)
    kinds = {store.name: store.kind for store in params.stores}
    return (ListEntries if kinds[table.name] == "list" else EntryStore)(table, read)
