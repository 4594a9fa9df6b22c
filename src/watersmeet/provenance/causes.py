"""Which records a row comes from: those without which it would be another one.

Two steps. The plan says which records may reach the row at all, by their keys where an operator works key by key, and
else all. Then each of these is left out once. The records that moved time, so that one of the row's was late or a
window was closed, are among those that are tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from watersmeet._engine.arrays import Int64s
from watersmeet._plan.physical import Edge, Operator, Physical
from watersmeet.provenance.records import History, InputRecord, JournaledRecord
from watersmeet.provenance.replay import (
    AskedRow,
    QuietRun,
    TableRow,
    WatchedRun,
    edges_above,
    in_steps,
    keeps_key,
    rows_of,
)
from watersmeet.testing.in_process import Local
from watersmeet.testing.piped import Piped

_NEVER = np.iinfo(np.int64).min
MOST_TRIED = 256
"""Records that are left out one by one; of more, all that may reach the row are named."""


@dataclass(frozen=True)
class Cause:
    """A record, and what it has to do with a row.

    Parameters
    ----------
    record : the record.
    role : "made": without it the row would be another one. "time": so it would, as the record has moved time.
        "replaced": it came to the row, and has no part in it any more. "dropped": it ended before. "may": it may
        have a part in it; there are too many to leave out each.
    drops : where and why it ended, as (operator, reason).
    waited_for : the record that was waited for until this one had an effect; None: nothing was.
    """

    record: InputRecord
    role: str
    drops: tuple[tuple[str, str], ...] = ()
    waited_for: InputRecord | None = None


@dataclass(frozen=True)
class Found:
    """A row as the records of a journal leave it, and its causes.

    Parameters
    ----------
    row : as they leave it.
    causes : in the order in which the query has processed them.
    one_by_one : whether each record that may reach the row was left out once.
    tried : how many may.
    """

    row: TableRow
    causes: tuple[Cause, ...]
    one_by_one: bool
    tried: int


def causes_of(topology: Local, asked: AskedRow, history: History, steps: Int64s | None = None) -> Found:
    """The records that a row comes from.

    Parameters
    ----------
    history : all records of the journal.
    steps : those that can have a part in the row, but for time (`selection`); None: all.
    """
    movers = _Movers(history.ts(), is_timed(topology.physical, asked.table.context.operator))
    replayed = np.arange(len(history)) if steps is None else np.union1d(steps, movers.before(steps))
    run = WatchedRun(topology)
    run.take(history.frame(replayed))
    row, operator = asked.of(run, 0), asked.table.context.operator
    reaching = _Reaching(topology, run, asked)
    came, related = reaching.by_its_key(operator), reaching.through(operator, by_key=True)
    mine = np.array(sorted(related), dtype=np.int64)
    tried = np.union1d(mine, movers.before(mine))
    chosen = history.records(tried.tolist())
    if rows_of(topology, asked, [_history(chosen)]) != [row]:
        # something has come by another way than keys say
        chosen, related = history.records(replayed.tolist()), frozenset(replayed.tolist())
    if len(chosen) > MOST_TRIED:
        return Found(row, tuple(Cause(each.record, "may") for each in chosen), one_by_one=False, tried=len(chosen))
    needed, told = _needed(topology, asked, chosen, row), _step_by_step(topology, asked, chosen)
    causes = (
        _cause(each, step, needs, each.piped.step in related)
        for each, needs, step in zip(chosen, needed, told, strict=True)
        if needs or each.piped.step in came
    )
    return Found(row, tuple(causes), one_by_one=True, tried=len(chosen))


def is_timed(physical: Physical, operator: Operator) -> bool:
    """Whether the operator, or one above, goes by time."""
    above = (each for _, each in edges_above(physical, operator) if each is not None)
    return operator.time is not None or any(is_timed(physical, each) for each in above)


@dataclass(frozen=True)
class _Movers:
    """The records that have moved time.

    Parameters
    ----------
    ts : of all records; the lowest number for those that do not pass.
    matters : whether anything goes by time.
    """

    ts: Int64s
    matters: bool

    @cached_property
    def _last(self) -> Int64s:
        """By step the last record up to it that has moved time; -1: none."""
        before = np.concatenate([[_NEVER], np.maximum.accumulate(self.ts)[:-1]])
        found: Int64s = np.maximum.accumulate(np.where(self.ts > before, np.arange(len(self.ts)), -1))
        return found

    def before(self, steps: Int64s) -> Int64s:
        """For each of these records the one that had moved time last when it came, and the last one of all."""
        if not self.matters or not len(self.ts):
            return np.zeros(0, dtype=np.int64)
        found = np.append(self._last[steps[steps > 0] - 1], self._last[-1])
        return np.unique(found[found >= 0])


def _history(chosen: Sequence[JournaledRecord]) -> list[Piped]:
    return in_steps([each.piped for each in chosen])


@dataclass(frozen=True)
class _Reaching:
    """The ways of records to a row, as a run has shown them."""

    topology: Local
    run: WatchedRun
    asked: AskedRow

    def by_its_key(self, operator: Operator) -> frozenset[int]:
        """The steps of the records with rows of the asked key here, or above if the key is the same there."""
        physical, arrived = self.topology.physical, self.run.arrivals(operator.id)
        if not arrived.kinds <= {self.asked.kind}:
            return frozenset()
        ways = [self.by_its_key(above) for edge, above in self._above(operator) if keeps_key(physical, edge)]
        return arrived.of_key(self.asked.order).union(*ways)

    def through(self, operator: Operator, *, by_key: bool) -> frozenset[int]:
        """The steps of the records that may decide over the row at this operator, and at those above.

        Parameters
        ----------
        by_key : whether only rows of the asked key do.
        """
        physical, arrived = self.topology.physical, self.run.arrivals(operator.id)
        everywhere = any(table.everywhere for table in operator.keeps)
        by_key = by_key and not (operator.spec.mixes_keys or everywhere) and arrived.kinds <= {self.asked.kind}
        found = set(arrived.of_key(self.asked.order) if by_key else arrived.all)
        for edge, above in self._above(operator):
            found |= self.through(above, by_key=by_key and keeps_key(physical, edge))
        return frozenset(found)

    def _above(self, operator: Operator) -> Iterator[tuple[Edge, Operator]]:
        found = edges_above(self.topology.physical, operator)
        return ((edge, above) for edge, above in found if above is not None)


def _needed(topology: Local, asked: AskedRow, chosen: Sequence[JournaledRecord], row: TableRow) -> list[bool]:
    """Of each record whether the row would be another one without it."""
    cases = [_history([*chosen[:at], *chosen[at + 1 :]]) for at in range(len(chosen))]
    return [without != row for without in rows_of(topology, asked, cases)]


@dataclass(frozen=True)
class _Step:
    """The effect of a record when it came.

    Parameters
    ----------
    changed : whether the row has changed.
    drops : where and why something ended.
    next : the next record with which the row has changed; None: there was none.
    """

    changed: bool
    drops: tuple[tuple[str, str], ...]
    next: InputRecord | None = None


def _step_by_step(topology: Local, asked: AskedRow, chosen: Sequence[JournaledRecord]) -> list[_Step]:
    """The effect of each record."""
    run, history = QuietRun(topology), _history(chosen)
    before: TableRow = ()
    dropped, found = dict(run.drops), list[_Step]()
    for end in range(1, len(history) + 1):
        run.run([history[:end]])
        row = asked.of(run, 0)
        drops = tuple(what for what, count in run.drops.items() if count > dropped.get(what, 0))
        found.append(_Step(row != before, drops))
        before, dropped = row, dict(run.drops)
    later: InputRecord | None = None
    for at in reversed(range(len(found))):
        found[at] = replace(found[at], next=later)
        later = chosen[at].record if found[at].changed else later
    return found


def _cause(each: JournaledRecord, step: _Step, needed: bool, related: bool) -> Cause:
    if not needed:
        return Cause(each.record, "dropped" if step.drops else "replaced", step.drops)
    if not related:
        return Cause(each.record, "time")
    return Cause(each.record, "made", step.drops, None if step.changed else step.next)
