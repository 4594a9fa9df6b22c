"""Rows that wait in a table of their own, declared by `held_schema`: a source of `time.held` for any operator.

A row is due at the last moment of its wait: it goes when the time of its domain is later. Rows that are due in the
batch that brings them are not stored. Released rows are not deleted row by row: its time is below the floor then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from watersmeet._engine.arrays import Int64s
from watersmeet._engine.keys.keys import group_keys, hash_keys
from watersmeet._engine.operator import OperatorContext
from watersmeet._engine.rows.sizes import in_pieces, taken
from watersmeet._engine.state.changes import Given
from watersmeet._engine.state.layout import arrow_type
from watersmeet._engine.state.table import Table
from watersmeet._engine.time.held import Bound, WaitingRows
from watersmeet._engine.time.times import Times

_IDENTITY = ["key", "due", "domain"]


class HeldRows:
    """The rows of one operator that wait; see `held.Source`.

    Parameters
    ----------
    table : where they are kept.
    results : the column that each column of results is made of.
    """

    def __init__(self, context: OperatorContext, table: Table, times: Times, results: Mapping[str, str]) -> None:
        self._lag = context.time.hold_back
        self._table = table
        self._times = times
        kinds = dict(table.declared.columns)
        self.columns = {name: (column, arrow_type(kinds[column])) for name, column in results.items()}
        self._own: list[pa.RecordBatch] = []
        self._gone: list[pa.RecordBatch] = []

    def hold(self, rows: Mapping[str, Given], due: Int64s, domain: Int64s) -> None:
        """Hold rows back.

        Parameters
        ----------
        rows : the table's columns but `due` and `domain`; of a table of replaced rows each key, due time and
            domain once in a batch, with the `arrival` that decides among equal keys.
        due : the last moment at which each waits, no earlier than the time of its domain at the batch's start.
        domain : its domain's number.
        """
        rows = {**rows, "due": pa.array(due), "domain": pa.array(domain)}
        goes = due < self._times.end[self._times.index(domain)]
        stay, leave = np.flatnonzero(~goes), np.flatnonzero(goes)
        if len(stay):
            self._table.put({name: taken(rows[name], stay) for name in self._table.schema.names})
        if len(leave):
            given = {name: taken(rows[name], leave) for name in self._table.schema.names}
            for piece in in_pieces(given):
                self._own += piece.cast(self._table.schema).combine_chunks().to_batches()

    def drop(self, rows: pa.Table) -> None:
        """Hold rows of state back no longer, nor let them go: they have gone another way."""
        if len(rows):
            self._table.put(rows, np.ones(len(rows), dtype=np.bool_))
            self._gone += rows.select(_IDENTITY).to_batches()

    def finish(self) -> None:
        """Let go what is due in this batch, each row by the time of its domain."""
        self._table.expire(self._times.by_domain(self._times.end))

    def waiting(self, after: Bound) -> Iterator[WaitingRows]:
        """See `held.Source`."""
        for hits in self._table.due(*self._times.passing()):
            yield self._placed(hits.batch, hits.rows)
        for batch in self._own:
            yield self._placed(batch, np.arange(len(batch), dtype=np.int64))

    def left(self, picked: Sequence[WaitingRows]) -> Sequence[WaitingRows]:
        """Those that no row of the batch has replaced, and that were not dropped."""
        if self._table.layout.appended or not (self._own or self._gone):
            return picked
        new = {id(batch) for batch in self._own}
        stored = [part for part in picked if id(part.batch) not in new]
        if not stored:
            return picked
        others = [*self._own, *self._gone]
        parts = [_identity(batch, np.arange(len(batch))) for batch in others]
        parts += [_identity(part.batch, part.rows) for part in stored]
        identity = pa.chunked_array(parts).combine_chunks()
        firsts = np.zeros(len(identity), dtype=np.bool_)
        firsts[group_keys(hash_keys(identity), identity).first] = True
        ends = np.cumsum([len(part) for part in parts])
        kept = dict(zip(map(id, stored), np.split(firsts, ends[:-1])[len(others) :], strict=True))
        return [part.where(kept[id(part)]) if id(part) in kept else part for part in picked]

    def _placed(self, batch: pa.RecordBatch, rows: Int64s) -> WaitingRows:
        """Those of some rows that are due, with where they stand."""
        times = self._times
        due, domain = (batch.column(n).to_numpy(zero_copy_only=False)[rows] for n in ("due", "domain"))
        index = times.index(domain)
        goes = times.passes(index, due)
        rows, due, index = rows[goes], due[goes], index[goes]
        stands, latest = times.release_positions(index, due)
        return WaitingRows(batch, rows, stands, np.minimum(due + self._lag, latest), 2 * due)


def _identity(batch: pa.RecordBatch, rows: Int64s) -> pa.Array:
    at = pa.array(rows)
    return pa.StructArray.from_arrays([batch.column(name).take(at) for name in _IDENTITY], _IDENTITY)
