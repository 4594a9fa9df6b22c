"""The replica of the served tables: the engine's own state, in memory, advanced by what each committed batch changed.

A batch becomes visible as a whole: readers take a `Moment`, which has all tables at one batch and never changes. The
last few moments are kept, so that several answers can be had of one batch; so are the changes of the last batches.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.rows import blob
from watersmeet._engine.state.layout import TOMBSTONE, declared
from watersmeet._engine.state.merge import Policy
from watersmeet._engine.state.runs import State
from watersmeet._engine.state.store import MemoryChunkStore
from watersmeet._spark.serving.errors import NotServed, TooEarly
from watersmeet._spark.serving.stores import ServedStore
from watersmeet._spark.serving.views import TableView
from watersmeet._worker.handed_back import ServedChange

NONE = -1
"""Number of the batch where none has been committed."""
MOMENTS = 8
"""Batches of which answers can be had: the last ones."""
_POLICY = Policy(fanout=8)
_LOG_SHARE = 8
"""Of the bytes that a replica may have, the share of the log of changes."""


class ManifestStore(MemoryChunkStore):
    """The store of a state with its runs in memory: it keeps the manifest alone."""

    def put_chunk(self, run: str, chunk: int, blob: bytes) -> None:
        """The run is in memory."""


@dataclass(frozen=True, eq=False)
class Moment:
    """All tables as a batch has left them.

    Parameters
    ----------
    batch : its number; -1: none has been committed yet.
    tables : by name.
    """

    batch: int
    tables: Mapping[str, TableView]


@dataclass(frozen=True, eq=False)
class BatchChanges:
    """The changes of a batch: of each table the rows as runs have them, tombstones included."""

    batch: int
    tables: Mapping[str, Sequence[pa.Table]]

    @property
    def bytes(self) -> int:
        """About their size in memory."""
        return sum(rows.nbytes for tables in self.tables.values() for rows in tables)


@dataclass
class ReplicaTable:
    """A table of the replica; one thread alone changes it.

    Parameters
    ----------
    store : which table it is.
    """

    store: ServedStore
    _states: dict[int, State] = field(default_factory=dict)

    def load(self, pieces: Iterable[pa.Table]) -> None:
        """Begin anew with the rows of a checkpoint, in pieces."""
        self._states = {}
        for rows in pieces:
            labels = self.store.label_of(rows.column("hash").to_numpy())
            for label in np.unique(labels).tolist():
                some = rows.filter(pa.array(labels == label))
                self._put(label, some.append_column(TOMBSTONE, pa.array(np.zeros(len(some), dtype=np.bool_))))

    def apply(self, label: int, rows: Sequence[pa.Table], floors: Mapping[int, int] | None) -> None:
        """Advance a shard by a batch's changes."""
        for each in rows[:-1]:
            self._put(label, each)
        self._put(label, rows[-1] if rows else None, floors)

    def view(self) -> TableView:
        """The table as it is now, for readers in other threads."""
        shards = {}
        for label, state in self._states.items():
            entry = state.manifest.tables.get(self.store.name)
            if entry is not None:
                shards[label] = state.as_committed(declared(self.store.name, entry.schema))
        return TableView(self.store, shards)

    @property
    def bytes(self) -> int:
        """Its size in memory."""
        levels = [
            level
            for state in self._states.values()
            for entry in state.manifest.tables.values()
            for level in entry.levels
        ]
        return sum(piece.size for level in levels for piece in level.pieces())

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
    max_bytes : how large it may become, the log of changes included.
    """

    def __init__(self, stores: Sequence[ServedStore], max_bytes: int) -> None:
        self.stores = {store.name: store for store in stores}
        self.max_bytes = max_bytes
        self._tables = {store.name: ReplicaTable(store) for store in stores}
        self._moments: deque[Moment] = deque(maxlen=MOMENTS)
        self._log: deque[BatchChanges] = deque()
        self._log_bytes = 0
        self._begun = NONE
        self._changed = threading.Condition()
        self.refused: Exception | None = None

    # -- one thread writes -------------------------------------------------------------------------------------

    def load(self, batch: int, rows: Mapping[str, Iterable[pa.Table]]) -> None:
        """Begin with the tables of a checkpoint, as a batch has left them.

        Raises
        ------
        NotServed : they are too large.
        """
        for name, pieces in rows.items():
            self._tables[name].load(self._checked(name, pieces))
        self._log.clear()
        self._log_bytes, self._begun = 0, batch
        self._publish(batch)

    def apply(self, batch: int, changes: Iterable[ServedChange]) -> None:
        """Advance by a batch that is committed.

        Raises
        ------
        NotServed : they have become too large.
        """
        # a shard that was run twice has said the same twice
        told = {(change.store, change.label): change for change in changes}
        found: dict[str, list[pa.Table]] = {}
        for (name, label), change in sorted(told.items()):
            assert change.rows is not None
            rows = [blob.decode(each) for each in change.rows]
            self._tables[name].apply(label, rows, change.floors)
            if rows:
                found.setdefault(name, []).extend(rows)
        self._remember(BatchChanges(batch, found))
        self._publish(batch)

    def refuse(self, reason: Exception) -> None:
        """Answer nothing any more, and say why."""
        with self._changed:
            self.refused = reason
            self._moments.clear()
            self._log.clear()
            self._tables = {name: ReplicaTable(store) for name, store in self.stores.items()}
            self._changed.notify_all()

    def _checked(self, name: str, pieces: Iterable[pa.Table]) -> Iterator[pa.Table]:
        for piece in pieces:
            yield piece
            self._check(name)

    def _check(self, name: str) -> None:
        size = self.bytes
        if size > self.max_bytes:
            raise NotServed(
                f"The served tables are larger than the replica may be: max_bytes={self.max_bytes}.",
                given=f"{size} bytes, the last of table {name!r}",
                hint="query.serve(..., max_bytes=...) with more, or fewer tables; query.state(...) reads tables of "
                "any size.",
            )

    def _remember(self, changes: BatchChanges) -> None:
        self._log.append(changes)
        self._log_bytes += changes.bytes
        while self._log and self._log_bytes > self.max_bytes // _LOG_SHARE:
            gone = self._log.popleft()
            self._log_bytes -= gone.bytes
            self._begun = gone.batch

    def _publish(self, batch: int) -> None:
        self._check("all")
        made = Moment(batch, {name: table.view() for name, table in self._tables.items()})
        with self._changed:
            self._moments.append(made)
            self._changed.notify_all()

    # -- any thread reads --------------------------------------------------------------------------------------

    @property
    def bytes(self) -> int:
        """Its size in memory: tables and log of changes."""
        return sum(table.bytes for table in self._tables.values()) + self._log_bytes

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

        Raises
        ------
        TooEarly : the time was up before.
        NotServed : the batch is not kept, or nothing is served any more.
        """
        wanted = at_least if batch is None else batch
        with self._changed:
            self._changed.wait_for(lambda: self.refused is not None or self._has(wanted), timeout)
            if self.refused is not None:
                raise self.refused
            if not self._has(wanted):
                raise TooEarly(wanted, self._moments[-1].batch if self._moments else None)
            if batch is None:
                return self._moments[-1]
            kept = {each.batch: each for each in self._moments}
        if batch not in kept:
            raise NotServed(
                f"Answers of batch={batch} are not kept any more.",
                hint=f"Batches that are: {min(kept)} to {max(kept)}; read all that must be of one batch anew.",
            )
        return kept[batch]

    def _has(self, wanted: int | None) -> bool:
        return bool(self._moments) and (wanted is None or self._moments[-1].batch >= wanted)

    def changes(self, since: int, timeout: float) -> list[BatchChanges]:
        """The changes of the batches behind `since`, in order; waits for the first of them.

        Raises
        ------
        NotServed : changes of the batch behind it are not kept any more.
        """
        with self._changed:
            self._changed.wait_for(lambda: self.refused is not None or self._has(since + 1), timeout)
            if self.refused is not None:
                raise self.refused
            if self._moments and since < self._begun:
                raise NotServed(
                    f"The changes behind since={since} are not kept any more.",
                    hint=f"They are from batch {self._begun} on: read the table, and then the changes since the "
                    "batch of that answer.",
                )
            seen = self._moments[-1].batch if self._moments else NONE
            return [each for each in self._log if since < each.batch <= seen]


def changed_rows(store: ServedStore, changes: BatchChanges) -> pa.Table:
    """A table's changes of a batch as they are shown: its columns behind `batch` and `deleted`."""
    found = [_changed_rows(store, changes.batch, rows) for rows in changes.tables.get(store.name, ())]
    return pa.concat_tables([changes_schema(store).empty_table(), *found])


def changes_schema(store: ServedStore) -> pa.Schema:
    """Columns of `changed_rows`."""
    more = [pa.field("batch", pa.int64()), pa.field("deleted", pa.bool_())]
    return pa.schema([*more, *store.schema], metadata=store.schema.metadata)


def _changed_rows(store: ServedStore, batch: int, rows: pa.Table) -> pa.Table:
    deleted = rows.column(TOMBSTONE)
    parts = []
    for gone, some in ((False, rows.filter(pc.invert(deleted))), (True, rows.filter(deleted))):
        if len(some):
            shown = store.answer_rows(some.drop_columns([TOMBSTONE]))
            heads = [pa.array([batch] * len(some), pa.int64()), pa.array([gone] * len(some))]
            parts.append(pa.table([*heads, *shown.columns], schema=changes_schema(store)))
    return pa.concat_tables([changes_schema(store).empty_table(), *parts])
