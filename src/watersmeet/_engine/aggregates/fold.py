"""A fold in the engine: functions of Arrow arrays, a row each, and the run over rows in their order.

`init`, `add`, `subtract`, `merge` and `finish` go from states to states; a null state is an aggregate that is absent.
`run` gives the state before and after each row (law 1: each record's change, not only the batch's last). A fold without
a quicker way takes the n-th rows of all groups at once, the largest groups first, so that a prefix is left. A round
costs what its rows cost, and at least some tens of microseconds: a key that has most of a batch makes as many rounds as
it has rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from watersmeet._engine.aggregates.raising import RAISED, placed, survivors
from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.rows.columns import gather, joined, valid
from watersmeet.errors import WatersmeetError

ArrayStep = Callable[[pa.Array, pa.Array, pa.Array], pa.Array]


@dataclass(frozen=True)
class Work:
    """Rows to fold, group after group, in their order within each.

    Parameters
    ----------
    keys : the key of each group.
    starts : where each group begins, and the number of rows as last entry; no group is empty.
    values : what each row adds; null: nothing.
    ts : timestamp of each row.
    prior : state of each group before its first row; null where there is none.
    prior_ts : its timestamp; any, where there is none.
    olds : what each row subtracts before; null: nothing. None: no row does.
    resumes : of sessions: whether the group's prior state is that of a session, which a row merges into a new
        aggregate before it adds its value, as it does with that of the row before it. None: of no sessions.
    ends : rows that change nothing, since a function raises for their record: functions are asked for them all the
        same, whether they still do. None: there are none.
    """

    keys: pa.Array
    starts: Int64s
    values: pa.Array
    ts: Int64s
    prior: pa.Array
    prior_ts: Int64s
    olds: pa.Array | None = None
    resumes: Bools | None = None
    ends: Bools | None = None

    def __len__(self) -> int:
        return len(self.ts)

    @cached_property
    def sizes(self) -> Int64s:
        """Rows of each group."""
        return np.diff(self.starts)

    @cached_property
    def group(self) -> Int64s:
        """Group of each row."""
        return np.repeat(np.arange(len(self.sizes), dtype=np.int64), self.sizes)

    @cached_property
    def is_first(self) -> Bools:
        """Which rows are the first of their group."""
        flags = np.zeros(len(self), dtype=np.bool_)
        flags[self.starts[:-1]] = True
        return flags

    @cached_property
    def known(self) -> Bools:
        """Which groups have a state before their first row."""
        return valid(self.prior)


@dataclass(frozen=True)
class Folded:
    """States before and after each row, as pointers into `states`: -1 where there is none.

    Parameters
    ----------
    states : those of the groups before their first rows, then new ones.
    before, after : of each row.
    ts : timestamp of each row's result: it never goes back while an aggregate stands.
    failed : rows for which a function raises, and what.
    void : rows that change nothing, since they have failed or end; None: there are none.
    """

    states: pa.Array | pa.ChunkedArray
    before: Int64s
    after: Int64s
    ts: Int64s
    failed: Mapping[int, Exception] = field(default_factory=dict)
    void: Bools | None = None


class FoldKernel:
    """Base of the folds.

    Attributes
    ----------
    state, result : Arrow types of what is kept, and of what is shown.
    grows : whether a state may become larger with each row.
    outlives : whether a row for which a function raises changes nothing, and does not fail the query.
    owner : name of the operator.
    how_it_runs : in words, where `describe` says it; see docs/decisions, number 19.
    """

    grows = True
    outlives = False
    owner = ""
    how_it_runs: str | None = None

    def __init__(self, state: pa.DataType, result: pa.DataType) -> None:
        self.state = state
        self.result = result

    def init(self, keys: pa.Array) -> pa.Array:
        """The initial state of an aggregate; null if the first value is taken as it is."""
        raise NotImplementedError

    def add(self, keys: pa.Array, states: pa.Array, values: pa.Array) -> pa.Array:
        """States with values, which are not null, added; to absent ones after `init`."""
        raise NotImplementedError

    def subtract(self, keys: pa.Array, states: pa.Array, values: pa.Array) -> pa.Array:
        """States, which are not absent, without values, which are not null."""
        raise WatersmeetError("This fold cannot subtract.")

    def merge(self, keys: pa.Array, states: pa.Array, others: pa.Array) -> pa.Array:
        """Two states as one, the later records' second; of sessions."""
        raise WatersmeetError("This fold cannot merge.")

    def resume(self, keys: pa.Array, states: pa.Array) -> pa.Array:
        """States of sessions, which are not absent, as their next record finds them: merged into new aggregates."""
        return states

    def finish(self, states: pa.Array) -> pa.Array:
        """The results of states; null of absent ones."""
        return states

    def run(self, work: Work) -> Folded:
        """All rows folded."""
        return in_rounds(self, work)

    def tried(self, work: Work) -> Folded:
        """All rows folded but those that end, and those for which a function raises."""
        return in_rounds(self, work, {})

    def outlived(self, work: Work) -> Folded:
        """All rows folded; where that is wanted, but those for which a function raises: see `tried`.

        Raises
        ------
        EvaluationError, FunctionError : a function raises, and that is not to be outlived.
        """
        if work.ends is None:
            try:
                return self.run(work)
            except RAISED as error:
                if not self.outlives:
                    raise placed(error, self.owner) from None
        return self.tried(work)


def in_time(fold: FoldKernel, work: Work, floor: Int64s) -> Folded:
    """All rows folded, except those with a result before the row's floor; these are void.

    Whether a result is in time depends on whether the rows before it have left an aggregate. So the fold is repeated
    with its last result until that does not change; if no row deletes, once is enough.

    Raises
    ------
    EvaluationError, FunctionError : a function raises for a row that is in time.
    """
    ends = np.zeros(len(work), dtype=np.bool_)
    try:
        done = fold.run(work)
    except RAISED:
        done = fold.tried(work)
    while True:
        late = np.maximum(done.ts, work.ts) < floor
        if (late == ends).all():
            break
        ends = late
        done = fold.tried(replace(work, ends=ends))
    failed = [row for row in done.failed if not ends[row]]
    if failed:
        raise placed(done.failed[min(failed)], fold.owner) from None
    return replace(done, failed={}, void=ends if ends.any() else None)


def folded(
    work: Work, added: list[pa.Array], kind: pa.DataType, after: Int64s, failed: Mapping[int, Exception] | None = None
) -> Folded:
    """The result of a run, from the new states and where each row's is among them: -1 for none.

    Parameters
    ----------
    failed : rows for which a function raised; their states are those before them.
    """
    after = np.where(after >= 0, after + len(work.prior), -1)
    return standing(work, joined([work.prior, *added], kind), after, failed)


def standing(
    work: Work, states: pa.Array | pa.ChunkedArray, after: Int64s, failed: Mapping[int, Exception] | None = None
) -> Folded:
    """The same, where each row's state is said by its place among all, the prior ones first."""
    void = None
    if failed or work.ends is not None:
        void = np.zeros(len(work), dtype=np.bool_) if work.ends is None else work.ends.copy()
        void[list(failed or ())] = True
        # what has not come moves no aggregate's time
        work = replace(work, ts=np.where(void, 0, work.ts))
    prior = np.where(work.known, np.arange(len(work.prior)), -1)
    before = np.empty_like(after)
    before[1:] = after[:-1]
    before[work.starts[:-1]] = prior
    return Folded(states, before, after, result_times(work, before), failed or {}, void)


def result_times(work: Work, before: Int64s) -> Int64s:
    """The running maximum of timestamps for as long as an aggregate stands, that of the stored one included."""
    ts = work.ts
    begins = work.is_first | (before < 0)
    resumed = work.starts[:-1][work.known]
    floor = ts.copy()
    floor[resumed] = np.maximum(ts[resumed], work.prior_ts[work.known])
    return segmented_maximum(floor, begins)


def segmented_maximum(values: Int64s, begins: Bools) -> Int64s:
    """The running maximum, which begins anew at each row of `begins`."""
    if not len(values):
        return values
    levels, rank = np.unique(values, return_inverse=True)
    segment = np.cumsum(begins)
    highest = np.maximum.accumulate(segment * len(levels) + rank)
    return np.asarray(levels[highest - segment * len(levels)])


def in_rounds(fold: FoldKernel, work: Work, failed: dict[int, Exception] | None = None) -> Folded:
    """All rows folded.

    Parameters
    ----------
    failed : takes rows for which a function raises, and why; None: that is raised.
    """
    largest_first = np.argsort(-work.sizes, kind="stable")
    sizes, starts = work.sizes[largest_first], work.starts[:-1][largest_first]
    keys, states = work.keys.take(pa.array(largest_first)), work.prior.take(pa.array(largest_first))
    after = np.empty(len(work), dtype=np.int64)
    added: list[pa.Array] = []
    count = 0
    for number in range(int(sizes[0]) if len(sizes) else 0):
        active = int(np.searchsorted(-sizes, -number, side="left"))
        rows = starts[:active] + number
        keys, states = keys.slice(0, active), states.slice(0, active)
        resumes = None
        if work.resumes is not None:
            resumes = np.ones(active, dtype=np.bool_) if number else work.resumes[largest_first[:active]]
        turn = _Round(fold, work, keys, states, rows, resumes)
        states = turn.whole() if failed is None else turn.tried(failed)
        present = valid(states)
        after[rows] = np.where(present, count + np.arange(active), -1)
        added.append(states)
        count += active
    return folded(work, added, fold.state, after, failed)


@dataclass(frozen=True)
class _Round:
    """A row of each of some groups.

    Parameters
    ----------
    keys, states, rows : of each group, its key, what stands, and its row.
    resumes : whether what stands is a session's, which is merged into a new aggregate; None: of no sessions.
    """

    fold: FoldKernel
    work: Work
    keys: pa.Array
    states: pa.Array
    rows: Int64s
    resumes: Bools | None

    def whole(self) -> pa.Array:
        """The state after it."""
        fold, work, keys, states = self.fold, self.work, self.keys, self.states
        at = pa.array(self.rows)
        if self.resumes is not None:
            resumed = valid(states) & self.resumes
            states = _where(lambda keys, states, _: fold.resume(keys, states), resumed, keys, states, states)
        if work.olds is not None:
            olds = work.olds.take(at)
            states = _where(fold.subtract, valid(olds) & valid(states), keys, states, olds)
        values = work.values.take(at)
        return _where(fold.add, valid(values), keys, states, values)

    def tried(self, failed: dict[int, Exception]) -> pa.Array:
        """The same, where rows that end, and those for which a function raises, leave what stands."""
        fine, made, raised = survivors(lambda some: self._some(some).whole(), len(self.rows))
        failed |= {int(self.rows[at]): error for at, error in raised.items()}
        if not made:
            return self.states
        stepped = pa.concat_arrays(made)
        if self.work.ends is not None:
            goes_on = np.flatnonzero(~self.work.ends[self.rows[fine]])
            fine, stepped = fine[goes_on], stepped.take(pa.array(goes_on))
        return replaced(self.states, fine, stepped)

    def _some(self, some: Int64s) -> _Round:
        at = pa.array(some)
        resumes = None if self.resumes is None else self.resumes[some]
        return replace(
            self, keys=self.keys.take(at), states=self.states.take(at), rows=self.rows[some], resumes=resumes
        )


def _where(step: ArrayStep, mask: Bools, keys: pa.Array, states: pa.Array, values: pa.Array) -> pa.Array:
    """States after the step for the rows of the mask, the others unchanged."""
    if mask.all():
        return step(keys, states, values)
    rows = np.flatnonzero(mask)
    if not len(rows):
        return states
    at = pa.array(rows)
    stepped = step(keys.take(at), states.take(at), values.take(at))
    return replaced(states, rows, stepped)


def replaced(values: pa.Array, rows: Int64s, others: pa.Array) -> pa.Array:
    """Values with others in place of some rows."""
    pointers = np.arange(len(values), dtype=np.int64)
    pointers[rows] = len(values) + np.arange(len(rows))
    return gather(pa.concat_arrays([values, others]), pointers)
