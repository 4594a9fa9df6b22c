"""Which records a row comes from: those without which it would be another one.

Two steps. The plan says which records may reach the row at all, by their keys where an operator works key by key, and
else all. Then each of these is left out once. The records that moved time, so that one of the row's was late or a
window was closed, are among those that are tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from watersmeet._plan.physical import Edge, Operator
from watersmeet.provenance.records import InputRecord, JournaledRecord
from watersmeet.provenance.replay import AskedRow, TableRow, WatchedRun, in_steps, keeps_key, operator_above, rows_of
from watersmeet.testing.in_process import Local, LocalRun
from watersmeet.testing.piped import Piped

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


def causes_of(topology: Local, asked: AskedRow, records: Sequence[JournaledRecord]) -> Found:
    """The records that a row comes from.

    Parameters
    ----------
    records : all of the journal, in order.
    """
    run = WatchedRun(topology)
    run.run([[each.piped for each in records]])
    row, operator = asked.of(run, 0), asked.table.context.operator
    reaching = _Reaching(topology, run, asked)
    came, related = reaching.by_its_key(operator), reaching.through(operator, by_key=True)
    tried = sorted(related | frozenset(_movers(reaching, related, records)))
    chosen = [records[step] for step in tried]
    if rows_of(topology, asked, [_history(chosen)]) != [row]:
        # something has come by another way than keys say
        chosen, related = list(records), frozenset(range(len(records)))
    if len(chosen) > MOST_TRIED:
        return Found(row, tuple(Cause(each.record, "may") for each in chosen), one_by_one=False, tried=len(chosen))
    needed, steps = _needed(topology, asked, chosen, row), _step_by_step(topology, asked, chosen)
    told = zip(chosen, needed, steps, strict=True)
    causes = (
        _cause(each, step, needs, each.piped.step in related)
        for each, needs, step in told
        if needs or each.piped.step in came
    )
    return Found(row, tuple(causes), one_by_one=True, tried=len(chosen))


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

    def is_timed(self, operator: Operator) -> bool:
        """Whether the operator, or one above, goes by time."""
        return operator.time is not None or any(self.is_timed(above) for _, above in self._above(operator))

    def _above(self, operator: Operator) -> Iterator[tuple[Edge, Operator]]:
        for edge in self.topology.physical.edges:
            above = operator_above(self.topology.physical, edge) if edge.target == operator.id else None
            if above is not None:
                yield edge, above


def _movers(reaching: _Reaching, steps: frozenset[int], records: Sequence[JournaledRecord]) -> Iterator[int]:
    """For each of these records the one that had moved time last when it came, and the last one of all."""
    if not reaching.is_timed(reaching.asked.table.context.operator):
        return
    latest: int | None = None
    for step, each in enumerate(records):
        if step in steps and latest is not None:
            yield latest
        if not each.piped.reason and (latest is None or each.piped.ts > records[latest].piped.ts):
            latest = step
    if latest is not None:
        yield latest


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
    run, history = LocalRun(topology), _history(chosen)
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
