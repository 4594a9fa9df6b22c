"""The replica of the served tables: the engine's own state, in memory, advanced by what each committed batch changed.

A batch becomes visible as a whole: readers take a `Moment`, which has all tables at one batch and never changes. The
last few moments are kept, so that several answers can be had of one batch; so are the changes of the last batches.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from pyspark.sql.types import BinaryType, DataType, StringType, StructType

from watersmeet._engine import row_sizes
from watersmeet._engine.exchange import shard_of
from watersmeet._engine.keys import group_keys, hash_keys
from watersmeet._engine.rows import Bools, Int64s, array
from watersmeet._engine.state.manifest import TOMBSTONE, declared
from watersmeet._engine.state.merge import Policy
from watersmeet._engine.state.runs import MemoryChunkStore, State, Table
from watersmeet._spark.checkpoint.record import CheckpointFacts
from watersmeet._spark.checkpoint.spark_logs import NO_BATCH
from watersmeet._spark.stores.table_columns import StoreColumns
from watersmeet._worker.formats.arrow_types import arrow_schema
from watersmeet._worker.formats.json import decode, encoded
from watersmeet._worker.task_reports import ServedChange
from watersmeet.errors import ConfigError, WatersmeetError

# A store that is served: what is shown of it, where its rows lie, and its keys as text and as values.

SCHEMA = b"watersmeet.schema"
"""In the metadata of an answer's Arrow schema: its columns as Spark has them, as JSON."""
DEEPEST = 100
"""Levels of lists and objects in the JSON of a question."""


def servable_columns(stores: Mapping[str, StoreColumns], name: str) -> StoreColumns:
    """The columns of a table that can be served, of the stores of a topology by name."""
    if name not in stores:
        raise ConfigError(
            f"The query has no table with the store {name!r}.",
            hint=f"Tables: {', '.join(sorted(stores)) or 'none'}. A table is kept under the name that store= gives it.",
        )
    columns = stores[name]
    if not columns.by_key:
        raise ConfigError(
            f"The store {name!r} holds results back until their time, and is no table.",
            hint="Serve the table that is aggregated, or read the store by query.state(...).",
        )
    return columns


@dataclass(frozen=True)
class ServedStore:
    """A store that is served."""

    name: str  # the store's
    shown: StoreColumns  # what is shown of it
    # those of its shards, one for each range of the hash in order; of a global table the first
    labels: tuple[int, ...]

    @classmethod
    def of(cls, facts: CheckpointFacts, name: str) -> ServedStore:
        columns = servable_columns({store: StoreColumns.read(record) for store, record in facts.stores.items()}, name)
        labels = facts.addresses[columns.node][name]
        return cls(name, columns, tuple(labels[:1] if columns.whole else labels))

    def label_of(self, hashes: Int64s) -> Int64s:
        """The label under which each of some hashes lies."""
        return np.array(self.labels, dtype=np.int64)[shard_of(hashes, len(self.labels))]

    @property
    def stored(self) -> str:
        """The name of its table in state: that of its store's owner."""
        return self.shown.stored or self.name

    @property
    def key_type(self) -> DataType:
        return self.shown.schema["key"].dataType

    @property
    def is_windowed(self) -> bool:
        return "window" in self.shown.schema.names

    @cached_property
    def schema(self) -> pa.Schema:
        return arrow_schema(self.shown.schema).with_metadata({SCHEMA: self.shown.schema.json().encode()})

    def answer_rows(self, rows: pa.Table | None) -> pa.Table:
        batches = () if rows is None else self.shown.rows(rows)
        return pa.Table.from_batches(batches, schema=arrow_schema(self.shown.schema)).cast(self.schema)


def keys_of(kind: DataType, keys: Sequence[Any]) -> pa.Array:
    """Keys from what JSON has for them, as topics have it."""
    values, flaws = decode(kind, pa.array([to_json(key) for key in keys], pa.string()))
    if flaws or values.null_count:
        raise ConfigError(
            f"A key is not of the type of the table's keys, {kind.simpleString()}: "
            f"{', '.join(to_json(key) for key in keys):.200}.",
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
    """The value of a JSON text, decimals to the last digit."""
    try:
        value = json.loads(text, parse_float=Decimal)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    level = [value]
    for _ in range(DEEPEST):
        level = [part for above in level for part in _parts(above)]
        if not level:
            return value
    raise ValueError("nested too deeply")


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def to_json(value: Any) -> str:
    """The text of what `from_json` gives."""
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(name)}: {to_json(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(to_json, value)) + "]"
    return json.dumps(value)


def json_rows(rows: pa.Table, kind: StructType) -> list[str]:
    structs = pa.StructArray.from_arrays([array(rows, name) for name in kind.names], fields=list(rows.schema))
    texts: list[bytes] = encoded(structs, kind).to_pylist()
    return [text.decode() for text in texts]


# The order of rows by their keys: numbers, text, bytes and times as they are, structs field by field, nulls first.


def order_columns(keys: pa.Array) -> list[pa.Array]:
    """Columns of which the first that differs says which of two keys comes first."""
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


def exceeds(columns: Sequence[pa.Array], bound: Sequence[pa.Array], *, included: bool) -> Bools:
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


def sorted_positions(columns: Sequence[pa.Array], mask: Bools) -> Int64s:
    """Positions of the chosen rows, in order."""
    places = np.flatnonzero(mask)
    at = pa.array(places)
    table = pa.table({str(number): column.take(at) for number, column in enumerate(columns)})
    by = [(name, "ascending") for name in table.column_names]
    # where there are nulls, a column before says so, and there is no order among them
    order = pc.sort_indices(table, sort_keys=by)
    return np.asarray(places[order.to_numpy()], dtype=np.int64)


def _bools(mask: pa.Array) -> Bools:
    return np.asarray(mask.fill_null(False).to_numpy(zero_copy_only=False), dtype=np.bool_)


# A table of a replica as a batch has left it: lookups that other threads make while the replica goes on.


@dataclass(frozen=True, eq=False)
class TableView:
    """A table as a batch has left it."""

    store: ServedStore  # which table it is
    shards: Mapping[int, Table]  # the shards that have rows, by label
    runs: Mapping[tuple[str, int, str], int]  # bytes of the runs that it holds, by their names

    @property
    def is_versioned(self) -> bool:
        """Whether it keeps versions of its rows; False where it has no rows yet."""
        return any(shard.layout.ends is not None for shard in self.shards.values())

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns that tell rows apart behind the key."""
        return next((shard.layout.identity[1:] for shard in self.shards.values()), ())

    def whole(self) -> pa.Table | None:
        """A copy of all rows; None where there are none."""
        tables = [rows for shard in self.shards.values() for rows in _scanned(shard)]
        return pa.concat_tables(tables).combine_chunks() if tables else None

    def of_keys(self, keys: pa.Array) -> pa.Table | None:
        """All rows of some keys, which may be asked for twice, by key and then in the table's order."""
        return _joined(self._lookup(keys))

    def between(self, keys: pa.Array | None, low: int, high: int) -> pa.Table | None:
        """Rows of windows that start between `low` and `high`, in ms, both included.

        Parameters
        ----------
        keys : of these alone; None: of all.
        """
        rows = self.whole() if keys is None else self.of_keys(keys)
        if rows is None:
            return None
        start = rows.column("start").to_numpy()
        return rows.filter(pa.array((start >= low) & (start <= high)))

    def as_of(self, keys: pa.Array | None, at: int | None) -> pa.Table | None:
        """Of each key the version that was valid at a time, in ms; None: the latest. Deleted keys have none."""
        rows = self.whole() if keys is None else self.of_keys(keys)
        if rows is None or not len(rows):
            return rows
        if at is not None:
            rows = rows.filter(pa.array(rows.column("ts").to_numpy() <= at))
        key = rows.column("key").combine_chunks()
        last = np.sort(group_keys(rows.column("hash").to_numpy(), key).last)
        versions = rows.take(pa.array(last))
        return versions.filter(pc.is_valid(versions.column("value")))

    def ordered(
        self, rows: pa.Table | None, bounds: tuple[pa.Array | None, pa.Array | None], cursor: Sequence[pa.Array] | None
    ) -> pa.Table | None:
        """Rows in order of their keys, and of what else tells them apart.

        Parameters
        ----------
        bounds : a lowest and a highest key, both included, each an array of one; None: there is none.
        cursor : the key, and what else tells it apart, of the row behind which the first one comes.
        """
        if rows is None:
            return None
        keys = order_columns(array(rows, "key"))
        mask = np.ones(len(rows), dtype=np.bool_)
        low, high = bounds
        if low is not None:
            mask &= exceeds(keys, order_columns(low), included=True)
        if high is not None:
            mask &= ~exceeds(keys, order_columns(high), included=False)
        columns = [*keys, *(array(rows, name) for name in self.identity)]
        if cursor is not None:
            mask &= exceeds(columns, [*order_columns(cursor[0]), *cursor[1:]], included=False)
        return rows.take(pa.array(sorted_positions(columns, mask)))

    def _lookup(self, keys: pa.Array) -> Iterator[pa.Table]:
        hashes = hash_keys(keys)
        if len(keys) > 1:
            distinct = group_keys(hashes, keys).first
            hashes, keys = hashes[distinct], keys.take(pa.array(distinct))
        labels = self.store.label_of(hashes)
        for label in np.unique(labels).tolist():
            shard = self.shards.get(label)
            if shard is not None:
                positions = np.flatnonzero(labels == label)
                yield _rows_of(shard, hashes[positions], keys.take(pa.array(positions)))


def _rows_of(shard: Table, hashes: Int64s, keys: pa.Array) -> pa.Table:
    if shard.layout.identity == ("key",):
        rows: pa.Table = shard.point(hashes, keys).rows
    else:
        rows = shard.rows(hashes, keys).rows
    return _drop_expired(shard, rows)


def _scanned(shard: Table) -> Iterator[pa.Table]:
    for rows in shard.scan():
        yield _drop_expired(shard, rows)


def _drop_expired(shard: Table, rows: pa.Table) -> pa.Table:
    """Those that time has not passed: a merge removes these later."""
    if not shard.floors or not len(rows):
        return rows
    (batch,) = rows.combine_chunks().to_batches()
    return rows.filter(pa.array(shard.wanted(batch)))


def _joined(pieces: Iterator[pa.Table]) -> pa.Table | None:
    tables = list(pieces)
    if len(tables) < 2:
        return tables[0] if tables else None
    return pa.concat_tables(tables)


# Errors of a table that cannot be read now; the servers turn each kind into a status of theirs.


class NotServed(ConfigError):
    """The table, the version or the batch is not here, or not any more: asking again does not help."""


class Unknown(ConfigError):
    """There is no table of this name."""


class Busy(ConfigError):
    """So many questions of this kind are being answered already."""


class TooEarly(WatersmeetError):
    """The replica has not reached the batch that is asked for."""

    @classmethod
    def of(cls, at_least: int | None, has: int | None) -> TooEarly:
        """The error of a question.

        Parameters
        ----------
        at_least : the batch that it asks for; None: any.
        has : the batch that the replica has; None: none yet.
        """
        batch = "its first batch" if at_least is None else f"at_least={at_least}"
        return cls(
            f"The replica has not reached {batch} in time.",
            given="no batch is there yet" if has is None else f"it is at {has}",
            hint="Give more time (timeout=), or see whether the query still runs.",
        )


_KINDS = {kind.__name__: kind for kind in (NotServed, Unknown, Busy, TooEarly, ConfigError, WatersmeetError)}


def error_text(error: WatersmeetError) -> bytes:
    """An error, to be raised in another process."""
    kind = next(cls.__name__ for cls in type(error).__mro__ if cls.__name__ in _KINDS)
    detail = None if error.given is None else str(error.given)
    return json.dumps({"kind": kind, "message": error.message, "given": detail, "hint": error.hint}).encode()


def error_of(text: bytes) -> WatersmeetError | None:
    """The error of a text; None: it is the text of none."""
    try:
        body = json.loads(text)
        return _KINDS[body["kind"]](body["message"], given=body["given"], hint=body["hint"])
    except (ValueError, LookupError, TypeError):
        return None


MOMENTS = 8
"""Batches of which answers can be had: the last ones."""
_POLICY = Policy(fanout=8)
_LOG_SHARE = 8
"""Of the bytes that a replica may have, the share of the log of changes."""
_BATCH_BYTES = 1_000
"""Of a batch in the log, beside its rows."""


class ManifestStore(MemoryChunkStore):
    """The store of a state with its runs in memory: it keeps the manifest alone."""

    def put_chunk(self, run: str, chunk: int, blob: bytes) -> None:
        """The run is in memory."""


@dataclass(frozen=True, eq=False)
class Moment:
    """All tables as a batch has left them."""

    batch: int  # its number; -1: none has been committed yet
    tables: Mapping[str, TableView]  # by name


@dataclass(frozen=True, eq=False)
class BatchChanges:
    """The changes of a batch: of each table blobs of the rows as runs have them, tombstones included."""

    batch: int
    tables: Mapping[str, Sequence[bytes]]

    @property
    def bytes(self) -> int:
        return _BATCH_BYTES + sum(sys.getsizeof(rows) for blobs in self.tables.values() for rows in blobs)


@dataclass
class ReplicaTable:
    """A table of the replica; one thread alone changes it."""

    store: ServedStore  # which table it is
    _states: dict[int, State] = field(default_factory=dict)

    def load(self, pieces: Iterable[pa.Table]) -> None:
        """Begin anew with the rows of a checkpoint, in pieces."""
        self._states = {}
        for rows in pieces:
            labels = self.store.label_of(rows.column("hash").to_numpy())
            for label in np.unique(labels).tolist():
                shard_rows = rows.filter(pa.array(labels == label))
                self._put(
                    label, shard_rows.append_column(TOMBSTONE, pa.array(np.zeros(len(shard_rows), dtype=np.bool_)))
                )

    def apply(self, label: int, rows: Sequence[pa.Table], floors: Mapping[int, int] | None) -> None:
        """Advance a shard by a batch's changes."""
        for piece in rows[:-1]:
            self._put(label, piece)
        self._put(label, rows[-1] if rows else None, floors)

    def view(self) -> TableView:
        """The table as it is now, for readers in other threads."""
        shards = {}
        for label, state in self._states.items():
            entry = state.manifest.tables.get(self.store.name)
            if entry is not None:
                shards[label] = state.as_committed(declared(self.store.name, entry.schema))
        return TableView(self.store, shards, self.runs)

    @property
    def runs(self) -> dict[tuple[str, int, str], int]:
        """Bytes of its runs, by their names: each is held as a whole."""
        return {
            (self.store.name, label, run.id): run.size
            for label, state in self._states.items()
            for entry in state.manifest.tables.values()
            for run in entry.runs()
        }

    def _put(self, label: int, rows: pa.Table | None, floors: Mapping[int, int] | None = None) -> None:
        state = self._states.get(label)
        if state is None:
            if rows is None:
                return
            state = self._states[label] = State(ManifestStore(), policy=_POLICY)
        table = state.opened(self.store.name)
        if table is None:
            assert rows is not None
            table = state.table(declared(self.store.name, rows.schema))
        if floors is not None:
            table.expire(floors)
        if rows is not None and len(rows):
            columns = rows.select(table.schema.names).combine_chunks()
            table.put(columns, None if table.layout.appended else rows.column(TOMBSTONE).combine_chunks())
        state.commit()


class Replica:
    """The served tables of a query.

    Parameters
    ----------
    stores : the tables.
    max_bytes : how large it may become: tables, what moments hold, the log of changes, and what waits.

    Attributes
    ----------
    size : its bytes when they were last counted.
    waiting : bytes of batches that wait to be applied, as the follower counts them.
    """

    def __init__(self, stores: Sequence[ServedStore], max_bytes: int) -> None:
        self.stores = {store.name: store for store in stores}
        self.max_bytes = max_bytes
        self._tables = {store.name: ReplicaTable(store) for store in stores}
        self._moments: deque[Moment] = deque(maxlen=MOMENTS)
        self._log: deque[BatchChanges] = deque()
        self._log_bytes = 0
        self._log_start = NO_BATCH
        self.size = self.waiting = 0
        self._changed = threading.Condition()
        self._watchers = set[Callable[[], None]]()
        self.refused: Exception | None = None

    # -- one thread writes -------------------------------------------------------------------------------------

    def load(self, batch: int, rows: Mapping[str, Iterable[pa.Table]]) -> None:
        """Begin with the tables of a checkpoint, as a batch has left them."""
        for name, pieces in rows.items():
            self._tables[name].load(self._checked(name, pieces))
        self._publish(batch, None)

    def apply(self, batch: int, changes: Iterable[ServedChange]) -> None:
        """Advance by a batch that is committed."""
        logged: dict[str, list[bytes]] = {}
        for name, label, rows, floors in sorted(changes, key=itemgetter(0, 1)):
            assert rows is not None
            self._tables[name].apply(label, [row_sizes.decode(blob) for blob in rows], floors)
            if rows:
                logged.setdefault(name, []).extend(rows)
        self._publish(batch, BatchChanges(batch, logged))

    def refuse(self, reason: Exception) -> None:
        """Answer nothing any more, and say why."""
        with self._changed:
            self.refused = reason
            self._moments.clear()
            self._log.clear()
            self._log_bytes = 0
            self._tables = {name: ReplicaTable(store) for name, store in self.stores.items()}
            self._announce()

    @property
    def bytes(self) -> int:
        """Its size in memory: the runs of tables and of moments, and the log of changes; for this thread alone."""
        runs: dict[tuple[str, int, str], int] = {}
        with self._changed:
            for view in (view for moment in self._moments for view in moment.tables.values()):
                runs.update(view.runs)
            for table in self._tables.values():
                runs.update(table.runs)
            return sum(runs.values()) + self._log_bytes

    def _checked(self, name: str, pieces: Iterable[pa.Table]) -> Iterator[pa.Table]:
        for piece in pieces:
            yield piece
            self._check(name)

    def _check(self, name: str) -> None:
        """Let go of moments, the oldest first, as far as there is no room for them."""
        with self._changed:
            while self._moments and self.bytes + self.waiting > self.max_bytes:
                self._moments.popleft()
            self.size = self.bytes
        if self.size > self.max_bytes:
            raise NotServed(
                f"The served tables are larger than the replica may be: max_bytes={self.max_bytes}.",
                given=f"{self.size} bytes, the last of table {name!r}",
                hint="query.serve(..., max_bytes=...) with more, or fewer tables; query.state(...) reads tables of "
                "any size.",
            )

    def _remember(self, changes: BatchChanges) -> None:
        self._log.append(changes)
        self._log_bytes += changes.bytes
        while self._log and self._log_bytes > self.max_bytes // _LOG_SHARE:
            oldest = self._log.popleft()
            self._log_bytes -= oldest.bytes
            self._log_start = oldest.batch

    def _publish(self, batch: int, changes: BatchChanges | None) -> None:
        """Show a batch; without changes the log begins anew behind it."""
        moment = Moment(batch, {name: table.view() for name, table in self._tables.items()})
        with self._changed:
            if changes is not None:
                self._remember(changes)
            else:
                self._log.clear()
                self._log_bytes, self._log_start = 0, batch
            self._check("all")
            self._moments.append(moment)
            self._announce()

    def _announce(self) -> None:
        self._changed.notify_all()
        for watcher in self._watchers:
            watcher()

    # -- any thread reads --------------------------------------------------------------------------------------

    @property
    def batch(self) -> int | None:
        """The batch that answers are of; None: there are none yet."""
        with self._changed:
            return self._moments[-1].batch if self._moments else None

    def moment(self, *, at_least: int | None = None, batch: int | None = None, timeout: float = 0.0) -> Moment:
        """The tables at the last batch.

        Parameters
        ----------
        at_least : wait for a batch of this number, or a later one.
        batch : of just this batch, one of the last.
        timeout : seconds to wait at most; for the first answer, too.
        """
        target = at_least if batch is None else batch
        with self._changed:
            self._changed.wait_for(lambda: self.refused is not None or self._has(target), timeout)
            if self.refused is not None:
                raise self.refused
            if not self._has(target):
                raise TooEarly.of(target, self._moments[-1].batch if self._moments else None)
            if batch is None:
                return self._moments[-1]
            by_batch = {moment.batch: moment for moment in self._moments}
        if batch not in by_batch:
            raise NotServed(
                f"Answers of batch={batch} are not kept any more.",
                hint=f"Batches that are: {min(by_batch)} to {max(by_batch)}; read all that must be of one batch anew.",
            )
        return by_batch[batch]

    @contextmanager
    def watched(self, watcher: Callable[[], None]) -> Iterator[None]:
        """Have a function called, by the writing thread, whenever there is something new."""
        with self._changed:
            self._watchers.add(watcher)
        try:
            yield
        finally:
            with self._changed:
                self._watchers.discard(watcher)

    def wake(self) -> None:
        """Have all that wait look again."""
        with self._changed:
            self._announce()

    def answers(self, batch: int | None) -> bool:
        """Whether `moment` and `changes` answer at once: the batch is there, or nothing will come any more."""
        with self._changed:
            return self.refused is not None or self._has(batch)

    def _has(self, batch: int | None) -> bool:
        return bool(self._moments) and (batch is None or self._moments[-1].batch >= batch)

    def changes(self, since: int, timeout: float) -> list[BatchChanges]:
        """The changes of the batches behind `since`, in order; waits for the first of them."""
        with self._changed:
            self._check_since(since)
            self._changed.wait_for(lambda: self.refused is not None or self._has(since + 1), timeout)
            if self.refused is not None:
                raise self.refused
            self._check_since(since)
            if self._moments and since < self._log_start:
                raise NotServed(
                    f"The changes behind since={since} are not kept any more.",
                    hint=f"They are from batch {self._log_start} on: read the table, and then the changes since the "
                    "batch of that answer.",
                )
            last = self._moments[-1].batch if self._moments else NO_BATCH
            return [entry for entry in self._log if since < entry.batch <= last]

    def _check_since(self, since: int) -> None:
        last = self._moments[-1].batch if self._moments else since
        if since > last:
            raise ConfigError(
                f"since={since} is a batch that is yet to come: the last is {last}.",
                hint=f"since={last}, or leave it out.",
            )


def changed_rows(store: ServedStore, changes: BatchChanges) -> pa.Table:
    """A table's changes of a batch as they are shown: its columns behind `batch` and `deleted`."""
    blobs = changes.tables.get(store.name, ())
    tables = [_changed_rows(store, changes.batch, row_sizes.decode(rows)) for rows in blobs]
    return pa.concat_tables([changes_schema(store).empty_table(), *tables])


def changes_schema(store: ServedStore) -> pa.Schema:
    fields = [pa.field("batch", pa.int64()), pa.field("deleted", pa.bool_())]
    return pa.schema([*fields, *store.schema], metadata=store.schema.metadata)


def _changed_rows(store: ServedStore, batch: int, rows: pa.Table) -> pa.Table:
    deleted = rows.column(TOMBSTONE)
    parts = []
    for is_deleted, subset in ((False, rows.filter(pc.invert(deleted))), (True, rows.filter(deleted))):
        if len(subset):
            answer = store.answer_rows(subset.drop_columns([TOMBSTONE]))
            heads = [pa.array([batch] * len(subset), pa.int64()), pa.array([is_deleted] * len(subset))]
            parts.append(pa.table([*heads, *answer.columns], schema=changes_schema(store)))
    return pa.concat_tables([changes_schema(store).empty_table(), *parts])
