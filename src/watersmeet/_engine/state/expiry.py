"""Expired rows: those that a merge may leave out, and runs that are dropped without being read.

Law 3: each row is judged by the floor of its own time domain, so that a quiet domain keeps nothing of the others. Rows
below their floor may be found until a merge or a drop removes them: lookups go by time as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from watersmeet._engine.arrays import Bools, Int64s, order_of
from watersmeet._engine.keys.keys import group_keys
from watersmeet._engine.rows.columns import bools
from watersmeet._engine.state.layout import TableLayout
from watersmeet._engine.state.manifest import Piece, RunLayer
from watersmeet._engine.state.merge import hashes

MOST_DOMAINS = 16
"""Domains that a run's description tells apart, at most: a topic's partitions are seldom more for one key's shard."""
_NEVER = -(2**63)


@dataclass(frozen=True)
class Floors:
    """The time of each domain below which rows are not wanted any more; a domain without floor keeps all."""

    floors: Mapping[int, int]

    def wanted(self, rows: pa.RecordBatch, layout: TableLayout) -> Bools:
        """Which rows have not been passed."""
        if not self.floors or layout.time is None:
            return np.ones(len(rows), dtype=np.bool_)
        time = rows.column(layout.time).to_numpy(zero_copy_only=False)
        return np.asarray(time >= self._floor_of(rows, layout))

    def _floor_of(self, rows: pa.RecordBatch, layout: TableLayout) -> Int64s:
        """The floor of each row's domain."""
        domain = np.zeros(rows.num_rows, dtype=np.int64)
        if layout.domain is not None:
            domain = rows.column(layout.domain).to_numpy(zero_copy_only=False)
        domains, floors = self._arrays
        at = np.minimum(np.searchsorted(domains, domain), len(domains) - 1)
        return np.where(domains[at] == domain, floors[at], _NEVER)

    def outlived(self, rows: pa.RecordBatch, keep: Int64s, layout: TableLayout) -> Bools:
        """Of the kept rows, which are all versions of some keys, those that no lookup of these times can find any more.

        A version goes when the one after it is no later than the floor of its domain, and with it all before it; the
        latest one, where it deletes the key and lies below the floor.
        """
        assert layout.time is not None
        assert layout.ends is not None
        time = rows.column(layout.time).to_numpy(zero_copy_only=False)[keep]
        at = pa.array(keep)
        groups = group_keys(hashes(rows)[keep], rows.column("key").take(at))
        order = order_of([groups.group_of_row, time])
        last = np.zeros(len(order), dtype=np.bool_)
        last[groups.starts[1:] - 1] = True
        until = np.where(last, time[order] + 1, np.append(time[order][1:], 0))
        floors = self._floor_of(rows, layout)[keep[order]]
        gone = (until <= floors) & (~last | bools(rows, layout.ends)[keep[order]])
        places = np.arange(len(order), dtype=np.int64)
        kept_before = np.maximum.accumulate(np.where(gone, -1, places))
        result = np.zeros(len(order), dtype=np.bool_)
        result[order] = kept_before < np.repeat(groups.starts[:-1], groups.sizes)
        return result

    @cached_property
    def _arrays(self) -> tuple[np.ndarray, np.ndarray]:
        domains = np.array(sorted(self.floors), dtype=np.int64)
        return domains, np.array([self.floors[int(domain)] for domain in domains], dtype=np.int64)

    def alive(self, piece: Piece, layout: TableLayout) -> bool:
        """Whether a run may have rows that are wanted.

        Versions of one row have the same time but may be of several domains: where a newer one may hide an older one,
        a run goes when its times are below all floors.
        """
        run = piece.run
        if run.time is None or not self.floors or layout.ends is not None:
            return True
        if layout.appended and run.latest:
            return any(time >= self.floors.get(domain, _NEVER) for domain, time in run.latest)
        return run.time[1] >= min(self.floors.values())

    def dropped(self, levels: Sequence[RunLayer], layout: TableLayout) -> tuple[tuple[RunLayer, ...], list[str]]:
        """The levels without the runs that time has passed, and the ids of these runs."""
        gone = [p.run.id for level in levels for p in level.pieces() if not self.alive(p, layout)]
        if not gone:
            return tuple(levels), gone
        passed = frozenset(gone)
        kept = []
        for level in levels:
            layers = tuple(tuple(p for p in layer if p.run.id not in passed) for layer in level.layers)
            layers = tuple(filter(None, layers))
            done = tuple(p for p in level.done if p.run.id not in passed)
            if layers:
                kept.append(replace(level, layers=layers, done=done))
            elif done:
                kept.append(RunLayer((done,)))
        return tuple(kept), gone


def latest(rows: pa.RecordBatch, layout: TableLayout) -> tuple[tuple[int, int], ...]:
    """(domain, largest time in it) of each domain of some rows; nothing where they are many."""
    if not layout.retained or not layout.appended or layout.time is None:
        return ()
    time = rows.column(layout.time).to_numpy(zero_copy_only=False)
    if layout.domain is None:
        return ((0, int(time.max())),)
    domains, place = np.unique(rows.column(layout.domain).to_numpy(zero_copy_only=False), return_inverse=True)
    if len(domains) > MOST_DOMAINS:
        return ()
    newest = np.full(len(domains), _NEVER, dtype=np.int64)
    np.maximum.at(newest, place, time)
    return tuple((int(domain), int(newest[at])) for at, domain in enumerate(domains))
