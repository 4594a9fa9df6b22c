"""Time windows of keys with records in several partitions: which records a window has, and which begin it anew.

See `partitions`. A window that is begun anew is another aggregate, a further generation; all but the last one of a
window have been closed, and are let go by what closes in the batch. Whether a window stands depends on what functions
make of the records before, as a null deletes it. So what has been found is taken for so, and folded anew, until the
same is found: of each key one record more is right each time, and most often all are.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from watersmeet._engine.aggregates.contributions import Contributions, StandingAggregates, WrittenAggregates, folded
from watersmeet._engine.aggregates.fold import FoldKernel
from watersmeet._engine.aggregates.windows.partitions import Partitions
from watersmeet._engine.aggregates.windows.windowed import domains
from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.operator import Events
from watersmeet._engine.rows.columns import ints
from watersmeet._engine.rows.sizes import taken
from watersmeet._engine.state.lookups import Lookup
from watersmeet._engine.time.times import Times

_NOBODY = -1


@dataclass(frozen=True)
class Generations:
    """Contributions to windows, those that are begun anew apart; and what stands of each.

    Parameters
    ----------
    rows : the contributions.
    standing : what stands before them.
    domain : of each window the time domain that it belongs to; None: of each it is that of its records.
    window : of each aggregate, what it is a generation of, in order of generations; None: each is the only one.
    """

    rows: Contributions
    standing: StandingAggregates
    domain: Int64s | None = None
    window: Int64s | None = None

    def domains(self, counts: Bools, found: Lookup, of_row: Int64s) -> Int64s:
        """See `windowed.domains`."""
        return domains(self.rows, counts, found, of_row) if self.domain is None else self.domain

    def latest(self, written: WrittenAggregates) -> WrittenAggregates:
        """Of each window's generations the last one that is written."""
        if self.window is None:
            return written
        window = self.window[written.group]
        _, last = np.unique(window[::-1], return_index=True)
        chosen = np.sort(len(window) - 1 - last)
        columns = {name: taken(column, chosen) for name, column in written.columns.items()}
        return WrittenAggregates(columns, written.delete[chosen], written.group[chosen])


def generations(
    rows: Contributions, found: Lookup, fold: FoldKernel, events: Events, times: Times, wait: int, *, whole: bool
) -> Generations:
    """The generations of windows.

    Parameters
    ----------
    rows : contributions to windows.
    found : what state has of each window.
    wait : from a window's start on until it is closed, in ms.
    whole : see `folded`.
    """
    standing = StandingAggregates.of(found, fold)
    domain = np.full(len(rows.keys), _NOBODY, dtype=np.int64)
    known = np.flatnonzero(found.found)
    domain[known] = ints(found.rows, "domain")[found.index[known]]
    key = np.zeros(len(rows.keys), dtype=np.int64)
    key[rows.group] = events.groups.group_of_row[rows.row]
    partitions = Partitions.of(events, times, key[known], domain[known], wait)
    if partitions is None:
        return Generations(rows, standing)
    mine = np.flatnonzero(partitions.several[key[rows.group]])
    counted = _Counted(rows, mine, domain, partitions)
    while True:
        counted.count()
        again = counted.rows_of(fold, standing, whole=whole)
        if not again:
            break
    return counted.generations(standing)


class _Counted:
    """Generations, as far as it is known what functions make of the records."""

    def __init__(self, rows: Contributions, mine: Int64s, domain: Int64s, partitions: Partitions) -> None:
        """`mine`: the contributions to windows of keys that lie in several partitions."""
        self._rows = rows
        self._mine = mine
        self._stored = domain
        self._partitions = partitions
        self._empties, self._void = (np.zeros(len(mine), dtype=np.bool_) for _ in range(2))
        self._order = np.argsort(rows.group[mine], kind="stable")
        self._generation = np.zeros(len(mine), dtype=np.int64)
        self._owner: dict[tuple[int, int], int] = {}

    def count(self) -> None:
        """The generation of each contribution, and the owners of generations."""
        at, partitions = self._mine[self._order], self._partitions
        row = self._rows.row[at]
        starts = self._rows.at[self._rows.group[at]]
        columns = (self._order, self._rows.group[at], row, starts, partitions.domain[row])
        flags = (self._empties[self._order], self._void[self._order])
        owner, generation, group = _NOBODY, 0, -1
        self._owner = {}
        # which generation a record goes to depends on those before it; of keys of several partitions alone
        for place, window, event, start, here, empties, void in zip(
            *(column.tolist() for column in (*columns, *flags)), strict=True
        ):
            if window != group:
                group, owner, generation = window, int(self._stored[window]), 0
                self._owner[window, 0] = owner
            closed = owner not in (_NOBODY, here) and start <= partitions.closes[owner][event]
            self._generation[place] = generation + closed
            if void:
                continue
            generation += closed
            if closed or owner == _NOBODY:
                owner = here
            self._owner[window, generation] = owner
            if empties:
                owner = _NOBODY

    def rows_of(self, fold: FoldKernel, standing: StandingAggregates, *, whole: bool) -> bool:
        """Fold; whether functions make something else of the records than was taken for so."""
        outliving = copy(fold)
        outliving.outlives = True
        made = self.generations(standing)
        rows = replace(made.rows, row=made.rows.row[self._mine], group=made.rows.group[self._mine])
        before = StandingAggregates(made.standing.states, made.standing.ts.copy())
        empties, void = (np.zeros(len(self._mine), dtype=np.bool_) for _ in range(2))
        for chosen, done in folded(rows, outliving, before, whole=whole):
            void[chosen] = False if done.void is None else done.void
            empties[chosen] = done.after < 0
        empties &= ~void
        if (empties == self._empties).all() and (void == self._void).all():
            return False
        self._empties, self._void = empties, void
        return True

    def generations(self, standing: StandingAggregates) -> Generations:
        """As they are counted."""
        rows, count = self._rows, len(self._rows.keys)
        again = self._generation > 0
        pairs = np.stack([rows.group[self._mine], self._generation]).T[again]
        windows, window = np.unique(pairs, axis=0, return_inverse=True)
        group = rows.group.copy()
        group[self._mine[again]] = count + window.reshape(-1)
        of = np.concatenate([np.arange(count), windows[:, 0]])
        identity = {name: column.take(pa.array(of)) for name, column in rows.identity.items()}
        states = pa.concat_arrays([standing.states, pa.nulls(len(windows), standing.states.type)])
        ts = np.concatenate([standing.ts, np.zeros(len(windows), dtype=np.int64)])
        whose = np.concatenate([self._stored, np.full(len(windows), _NOBODY)])
        first = np.flatnonzero(whose[rows.group] == _NOBODY)[::-1]
        whose[rows.group[first]] = self._partitions.domain[rows.row[first]]
        numbers = {(int(w), int(g)): count + at for at, (w, g) in enumerate(windows)}
        for (w, g), domain in self._owner.items():
            whose[numbers.get((w, g), w) if g else w] = domain
        return Generations(replace(rows, group=group, identity=identity), StandingAggregates(states, ts), whose, of)
