"""A fold in the engine: functions of Arrow arrays, a row each, and the run over rows in their order.

`init`, `add`, `subtract`, `merge` and `finish` go from states to states; a null state is an aggregate that is absent.
`run` gives the state before and after each row (law 1: each record's change, not only the batch's last). A fold without
a quicker way takes the n-th rows of all groups at once, the largest groups first, so that a prefix is left. A round
costs what its rows cost, and at least some tens of microseconds: a key that has most of a batch makes as many rounds as
it has rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.expressions.evaluate import RowsOfArrays
from watersmeet._engine.expressions.program import Evaluated
from watersmeet._engine.expressions.scalars import Choice, NoForm, StepFunction, choice, of_values, stepped, values_of
from watersmeet._engine.expressions.tree import Call, EvaluationError, Expression, Operand, array, is_plain, plain
from watersmeet._engine.rows import (
    Bools,
    Int64s,
    array_of,
    gather,
    joined,
    keeping,
    not_of,
    outcomes,
    python_values,
    stored_value_of,
    valid,
)
from watersmeet._plan import folds
from watersmeet._plan.folds import FunctionFold, Step
from watersmeet.errors import FunctionError, WatersmeetError

# Rows for which a function raises: what it gives for the others, and why it has nothing for these.

RAISED = (EvaluationError, FunctionError)
"""What is raised for rows, and not since something else is wrong."""


def with_owner(error: Exception, owner: str) -> Exception:
    """The error with the name of the function that raised it: a start reads that in the text of a failure.

    Parameters
    ----------
    owner : name of an operator, or names of inputs.
    """
    where = f"In a function of {owner}."
    if isinstance(error, FunctionError):
        details = where if error.given is None else f"{error.given}\n{where}"
        return FunctionError(error.message, given=details, hint=error.hint)
    error.add_note(where)
    return error


def survivors(step: Callable[[Int64s], pa.Array], count: int) -> tuple[Int64s, list[pa.Array], dict[int, Exception]]:
    """(rows that a function has values for, these values, why it has none for the others); see `outcomes`.

    Parameters
    ----------
    step : gives the values of rows, by their numbers.
    count : how many rows there are.
    """
    rows = np.arange(count, dtype=np.int64)
    values: list[pa.Array] = []
    raised: dict[int, Exception] = {}
    for row, outcome in outcomes(lambda start, end: step(rows[start:end]), count, *RAISED):
        if isinstance(outcome, RAISED):
            raised[row] = without_frames(outcome)
        else:
            values.append(outcome)
    return np.delete(rows, list(raised)), values, raised


def without_frames(error: Exception) -> Exception:
    """The error without the frames that it has passed, which hold rows."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


ArrayStep = Callable[[pa.Array, pa.Array, pa.Array], pa.Array]


@dataclass(frozen=True)
class Work:
    """Rows to fold, group after group, in their order within each."""

    keys: pa.Array  # the key of each group
    starts: Int64s  # where each group begins, and the number of rows as last entry; no group is empty
    values: pa.Array  # what each row adds; null: nothing
    ts: Int64s  # timestamp of each row
    prior: pa.Array  # state of each group before its first row; null where there is none
    prior_ts: Int64s  # its timestamp; any, where there is none
    olds: pa.Array | None = None  # what each row subtracts before; null: nothing. None: no row does
    # of sessions: whether the group's prior state is that of a session, which a row merges into a new aggregate
    # before it adds its value, as it does with that of the row before it. None: of no sessions
    resumes: Bools | None = None
    # rows that change nothing, since a function raises for their record: functions are asked for them all the same,
    # whether they still do. None: there are none
    ends: Bools | None = None

    def __len__(self) -> int:
        return len(self.ts)

    @cached_property
    def sizes(self) -> Int64s:
        return np.diff(self.starts)

    @cached_property
    def group(self) -> Int64s:
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
    """States before and after each row, as pointers into `states`: -1 where there is none."""

    states: pa.Array | pa.ChunkedArray  # those of the groups before their first rows, then new ones
    # before, after: of each row
    before: Int64s
    after: Int64s
    ts: Int64s  # timestamp of each row's result: it never goes back while an aggregate stands
    failed: Mapping[int, Exception] = field(default_factory=dict)  # rows for which a function raises, and what
    void: Bools | None = None  # rows that change nothing, since they have failed or end; None: there are none


class FoldKernel:
    """Base of the folds.

    Attributes
    ----------
    state, result : Arrow types of what is kept, and of what is shown.
    grows : whether a state may become larger with each row.
    tolerates_errors : whether a row for which a function raises changes nothing, and does not fail the query.
    owner : name of the operator.
    how_it_runs : in words, where `describe` says it; see docs/decisions/aggregates.md.
    """

    grows = True
    tolerates_errors = False
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

    def merge(self, keys: pa.Array, left: pa.Array, right: pa.Array) -> pa.Array:
        """Two states as one, the later records' second; of sessions."""
        raise WatersmeetError("This fold cannot merge.")

    def resume(self, keys: pa.Array, states: pa.Array) -> pa.Array:
        """States of sessions, which are not absent, as their next record finds them: merged into new aggregates."""
        return states

    def finish(self, states: pa.Array) -> pa.Array:
        """The results of states; null of absent ones."""
        return states

    def run(self, work: Work) -> Folded:
        return in_rounds(self, work)

    def tried(self, work: Work) -> Folded:
        """All rows folded but those that end, and those for which a function raises."""
        return in_rounds(self, work, {})

    def run_by_policy(self, work: Work) -> Folded:
        """All rows folded; where that is wanted, but those for which a function raises: see `tried`."""
        if work.ends is None:
            try:
                return self.run(work)
            except RAISED as error:
                if not self.tolerates_errors:
                    raise with_owner(error, self.owner) from None
        return self.tried(work)


def in_time(fold: FoldKernel, work: Work, floor: Int64s) -> Folded:
    """All rows folded, except those with a result before the row's floor; these are void.

    Whether a result is in time depends on whether the rows before it have left an aggregate. So the fold is repeated
    with its last result until that does not change; if no row deletes, once is enough.
    """
    ends = np.zeros(len(work), dtype=np.bool_)
    try:
        done = fold.run(work)
    except RAISED:
        done = fold.tried(work)
    while True:
        overdue = np.maximum(done.ts, work.ts) < floor
        if (overdue == ends).all():
            break
        ends = overdue
        done = fold.tried(replace(work, ends=ends))
    failed = [row for row in done.failed if not ends[row]]
    if failed:
        raise with_owner(done.failed[min(failed)], fold.owner) from None
    return replace(done, failed={}, void=ends if ends.any() else None)


def folded(
    work: Work,
    added: list[pa.Array],
    kind: pa.DataType,
    pointers: Int64s,
    failed: Mapping[int, Exception] | None = None,
) -> Folded:
    """The result of a run, from the new states and where each row's is among them: -1 for none.

    Parameters
    ----------
    failed : rows for which a function raised; their states are those before them.
    """
    pointers = np.where(pointers >= 0, pointers + len(work.prior), -1)
    return standing(work, joined([work.prior, *added], kind), pointers, failed)


def standing(
    work: Work, states: pa.Array | pa.ChunkedArray, pointers: Int64s, failed: Mapping[int, Exception] | None = None
) -> Folded:
    """The same, where each row's state is said by its place among all, the prior ones first."""
    void = None
    if failed or work.ends is not None:
        void = np.zeros(len(work), dtype=np.bool_) if work.ends is None else work.ends.copy()
        void[list(failed or ())] = True
        # what has not come moves no aggregate's time
        work = replace(work, ts=np.where(void, 0, work.ts))
    prior = np.where(work.known, np.arange(len(work.prior)), -1)
    previous = np.empty_like(pointers)
    previous[1:] = pointers[:-1]
    previous[work.starts[:-1]] = prior
    return Folded(states, previous, pointers, result_times(work, previous), failed or {}, void)


def result_times(work: Work, previous: Int64s) -> Int64s:
    """The running maximum of timestamps for as long as an aggregate stands, that of the stored one included."""
    ts = work.ts
    begins = work.is_first | (previous < 0)
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
    pointers = np.empty(len(work), dtype=np.int64)
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
        pointers[rows] = np.where(present, count + np.arange(active), -1)
        added.append(states)
        count += active
    return folded(work, added, fold.state, pointers, failed)


@dataclass(frozen=True)
class _Round:
    """A row of each of some groups."""

    fold: FoldKernel
    work: Work
    # keys, states, rows: of each group, its key, what stands, and its row
    keys: pa.Array
    states: pa.Array
    rows: Int64s
    # whether what stands is a session's, which is merged into a new aggregate; None: of no sessions
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
        fine, pieces, raised = survivors(lambda places: self._select(places).whole(), len(self.rows))
        failed |= {int(self.rows[at]): error for at, error in raised.items()}
        if not pieces:
            return self.states
        stepped = pa.concat_arrays(pieces)
        if self.work.ends is not None:
            goes_on = np.flatnonzero(~self.work.ends[self.rows[fine]])
            fine, stepped = fine[goes_on], stepped.take(pa.array(goes_on))
        return replaced(self.states, fine, stepped)

    def _select(self, places: Int64s) -> _Round:
        at = pa.array(places)
        resumes = None if self.resumes is None else self.resumes[places]
        return replace(
            self, keys=self.keys.take(at), states=self.states.take(at), rows=self.rows[places], resumes=resumes
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


def replaced(values: pa.Array, rows: Int64s, replacements: pa.Array) -> pa.Array:
    """Values with others in place of some rows."""
    pointers = np.arange(len(values), dtype=np.int64)
    pointers[rows] = len(values) + np.arange(len(rows))
    return gather(pa.concat_arrays([values, replacements]), pointers)


# Folds a row at a time by functions of plain values: no arrays are made between one row and the next.

Function = Callable[[Any, Any, Any], Any]


@dataclass(frozen=True)
class PlainFunctions:
    """The functions of a fold, of plain values."""

    # subtract, merge: of tables and of sessions
    subtract: Function | None
    merge: Function | None
    # starts, initial: whether there is an initial value, and what it is
    starts: bool
    initial: Any
    array: Callable[[list[Any]], pa.Array]  # makes the array of aggregates
    # tolerates_errors, owner: as a `Fold` has them
    tolerates_errors: bool
    owner: str


@dataclass(frozen=True)
class PlainArguments:
    """The arguments of the functions."""

    # keys, states: of each group
    keys: list[Any]
    states: list[Any]
    # values, firsts, olds, adders: of each row; a value is None where nothing is added. `firsts` become the aggregate
    # where there is none, and no initial value
    values: Sequence[Any]
    firsts: Sequence[Any]
    olds: Sequence[Any]
    adders: Sequence[Function]


def row_by_row(work: Work, functions: PlainFunctions, arguments: PlainArguments) -> Folded:
    """All rows folded."""
    keys, states = arguments.keys, arguments.states
    results: list[Any] = []
    failed: dict[int, Exception] = {}
    starts, initial, subtract = functions.starts, functions.initial, functions.subtract
    merge = functions.merge if starts else None
    ends = [False] * len(work) if work.ends is None else work.ends.tolist()
    of_sessions = work.resumes is not None
    resumed = [False] * len(states) if work.resumes is None else work.resumes.tolist()
    rows = zip(
        work.group.tolist(), arguments.values, arguments.firsts, arguments.olds, arguments.adders, ends, strict=True
    )
    # A function of plain values is called record by record: that is what it is for.
    for group, value, first, old, add, void in rows:
        state = states[group]
        try:
            if of_sessions and state is not None and resumed[group] and merge is not None:
                state = merge(keys[group], initial, state)
            if old is not None and state is not None and subtract is not None:
                state = subtract(keys[group], old, state)
            if value is not None:
                begins = state is None and not starts
                state = first if begins else add(keys[group], value, initial if state is None else state)
        except Exception as error:
            if not functions.tolerates_errors:
                raise with_owner(error, functions.owner) from None
            failed[len(results)] = function_error(error)
            state = states[group]
        if void:
            state = states[group]
        if of_sessions:
            resumed[group] = True
        states[group] = state
        results.append(state)
    added = functions.array(results)
    pointers = np.where(valid(added), np.arange(len(results)), -1)
    return folded(work, [added], added.type, pointers, failed)


def function_error(error: Exception) -> Exception:
    if isinstance(error, RAISED):
        return error
    return FunctionError("A plain Python function raises.", given=repr(error))


# Folds of Columns without rounds: their functions as plain Python, or as choices among the aggregates that there are.
#
# Rounds cost by the round, and a hot key makes as many as it has rows; rows cost by the row. The batch's rows decide.

_ROUND, _CALL = 20.0, 12.0
"""Microseconds of a round, and of each call of a function in it."""
_ROW, _ROW_CALL = 0.7, 0.12
"""Microseconds of a row by itself, and of each function that is written of it."""
_ROW_OF_ROUND = 0.05
"""Microseconds of each function for a row among others."""


@dataclass(frozen=True)
class CompiledFold:
    """A fold of Columns that can be written as plain Python functions."""

    adders: tuple[StepFunction, ...]  # of each stream
    # subtract, merge: see `FunctionFold`
    subtract: StepFunction | None
    merge: Function | None
    initial: pa.Array | None  # an array of the initial value; None where the first value is taken as it is
    how: FunctionFold  # the functions as they are declared
    state: pa.DataType  # Arrow type of the aggregate
    chosen: Choice | None  # the adder as a choice, if it is one
    calls: int  # of functions in an adder

    @classmethod
    def of(cls, adders: Sequence[Step], fold: FunctionFold, state: pa.DataType) -> CompiledFold | None:
        """The fold; None where a function has no plain form."""
        if not is_plain(state):
            return None
        try:
            programs = [_columns(adder) for adder in adders]
            steps = tuple(map(stepped, programs))
            subtract = None if fold.subtract is None else stepped(_columns(fold.subtract))
            merge = None if fold.merge is None else of_values(_columns(fold.merge))
        except NoForm:
            return None
        initial = pa.array([fold.initial], state) if fold.starts else None
        selector = choice(programs[0]) if len(steps) == 1 and subtract is None else None
        calls = max(_calls(program.expression) for program in programs)
        return cls(steps, subtract, merge, initial, fold, state, selector, calls)

    def pays(self, work: Work) -> bool:
        """Whether rows by themselves cost less than rounds."""
        rounds = int(work.sizes.max(initial=0)) * (_ROUND + _CALL * self.calls)
        rounds += len(work) * _ROW_OF_ROUND * self.calls
        return len(work) * (_ROW + _ROW_CALL * self.calls) < rounds

    def run(self, work: Work, tolerates_errors: bool, owner: str) -> Folded:
        """All rows folded but those that end, and those for which a function raises where that is tolerated."""
        keys = work.keys.take(pa.array(work.group))
        if self.chosen is not None and work.resumes is None:
            begins = firsts(self.how, work.values) if self.initial is None else self.initial
            return _run_choice(work, keys, self.chosen, begins, starts=self.initial is not None)
        functions = PlainFunctions(
            None if self.subtract is None else self.subtract.function,
            self.merge,
            self.initial is not None,
            None if self.initial is None else plain(self.initial)[0],
            lambda states: array(states, self.state),
            tolerates_errors,
            owner,
        )
        olds: Sequence[Any] = [None] * len(work)
        if self.subtract is not None and work.olds is not None:
            olds = self.subtract.values(keys, work.olds)
        values, adders = self._added(keys, work.values)
        first = values if functions.starts else plain(firsts(self.how, work.values))
        return row_by_row(
            work, functions, PlainArguments(plain(work.keys), plain(work.prior), values, first, olds, adders)
        )

    def _added(self, keys: pa.Array, values: pa.Array) -> tuple[list[Any], list[Function]]:
        """The value added for each row, and the function that adds it."""
        if len(self.adders) == 1:
            (adder,) = self.adders
            return adder.values(keys, values), [adder.function] * len(values)
        added: list[Any] = [None] * len(values)
        adders: list[Function] = [self.adders[0].function] * len(values)
        for adder, member in zip(self.adders, values.flatten(), strict=True):
            rows = np.flatnonzero(valid(member))
            at = pa.array(rows)
            # plain functions take plain values, one after the other
            for row, value in zip(rows.tolist(), adder.values(keys.take(at), member.take(at)), strict=True):
                added[row], adders[row] = value, adder.function
        return added, adders


def firsts(fold: FunctionFold, values: pa.Array) -> pa.Array:
    """The part of values that is taken as the aggregate where there is none, and no initial value."""
    return values if fold.first is None else pc.struct_field(values, fold.first)


def _columns(step: Step) -> Evaluated:
    if not isinstance(step.function, Evaluated):
        raise NoForm("a function that is no expression")
    return step.function


def _calls(expression: Expression) -> int:
    return 1 + sum(map(_calls, expression.arguments)) if isinstance(expression, Call) else 0


def _run_choice(work: Work, keys: pa.Array, selector: Choice, begins: pa.Array, *, starts: bool) -> Folded:
    """All rows folded, by the numbers of the aggregates among all that there are or may be.

    Parameters
    ----------
    begins, starts : the initial value, if there is one; else what is taken as it is of each row.
    """
    columns = dict(zip(selector.operands, (keys, work.values), strict=False))
    rows = RowsOfArrays(len(work), columns.__getitem__)
    kinds = [work.prior, begins]
    first = len(work.prior)
    numbers, is_there = [], []
    for candidate in selector.candidates:
        result = rows.evaluate(candidate)
        is_there.append(valid(result).tolist())
        if begins is work.values and isinstance(candidate, Operand):
            # the values stand among the aggregates already
            numbers.append(first)
        else:
            numbers.append(sum(map(len, kinds)))
            kinds.append(result)
    # what a choice looks at is evaluated of all that may become an aggregate
    looks = [values_of(selector.looked, {selector.operands[-1]: states}, len(states)) for states in kinds]
    looked = [list(chain.from_iterable(parts)) for parts in zip(*looks, strict=True)]
    step = selector.make(*looked, *values_of(selector.before, columns, len(work)), *is_there, *numbers)
    pointers = _walked(work, step, first, starts=starts)
    return standing(work, pa.chunked_array(kinds, work.prior.type), np.asarray(pointers, dtype=np.int64))


def _walked(work: Work, step: Callable[[int, int], int], first: int, *, starts: bool) -> list[int]:
    """The number of the aggregate after each row.

    Parameters
    ----------
    first : the number of the initial value, or of the value of the first row.
    """
    pointers: list[int] = []
    skipped = ~valid(work.values) if work.ends is None else ~valid(work.values) | work.ends
    skips = skipped.tolist() if skipped.any() else None
    bounds = work.starts.tolist()
    # a choice is made record by record, of numbers alone
    for group, has_prior in enumerate(work.known.tolist()):
        number = group if has_prior else -1
        for row in range(bounds[group], bounds[group + 1]):
            if skips is None or not skips[row]:
                number = step(row, number) if number >= 0 else step(row, first) if starts else first + row
            pointers.append(number)
    return pointers


# Running results of groups of rows, without a loop over rows: sums, latest members, extremes.
#
# Rows stand group after group. The initial state of a group is one more row at its head (`Groups.headed`).

Floats = npt.NDArray[np.float64]
ROUNDS = 32
"""Rows of a group that are taken with those of all others; what more a group has is summed by itself."""

SAFE = 2.0**62
"""Sums of integers whose terms together stay below this do not pass 64 bits."""


@dataclass(frozen=True)
class Groups:
    """Where groups of rows begin, and the number of rows as last entry."""

    starts: Int64s

    @property
    def rows(self) -> int:
        return int(self.starts[-1])

    @cached_property
    def sizes(self) -> Int64s:
        return np.diff(self.starts)

    @cached_property
    def heads(self) -> Int64s:
        """Where the head of each group stands among headed rows."""
        return self.starts[:-1] + np.arange(len(self.sizes))

    @cached_property
    def row_index(self) -> Int64s:
        """Where each row stands among headed rows."""
        return np.arange(self.rows) + np.repeat(np.arange(len(self.sizes)) + 1, self.sizes)

    @cached_property
    def begins(self) -> Bools:
        flags = np.zeros(self.rows + len(self.sizes), dtype=np.bool_)
        flags[self.heads] = True
        return flags

    def headed(self, heads: npt.NDArray[np.generic], rows: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        merged = np.empty(len(heads) + len(rows), dtype=rows.dtype)
        merged[self.heads], merged[self.row_index] = heads, rows
        return merged

    def any_before(self, flags: Bools, *, inclusive: bool) -> Bools:
        """Whether the flag is set of a row before each one, in its group."""
        counts = self.running_counts(flags.astype(np.int64))
        return np.asarray(counts - (0 if inclusive else flags) > 0)

    def running_counts(self, deltas: Int64s) -> Int64s:
        sums = np.cumsum(deltas)
        offsets = np.append(0, sums)[self.starts[:-1]]
        return np.asarray(sums - np.repeat(offsets, self.sizes))

    def running_sums(self, heads: Floats, rows: Floats) -> Floats:
        """Running sums of floats, added one after the other: so they are the same however rows are cut into batches."""
        sums = np.empty(self.rows)
        largest_first = np.argsort(-self.sizes, kind="stable")
        sizes, starts = self.sizes[largest_first], self.starts[:-1][largest_first]
        totals = heads[largest_first].astype(np.float64)
        # infinities of both signs are NaN, and what is too large is infinite
        with np.errstate(invalid="ignore", over="ignore"):
            for number in range(min(ROUNDS, int(sizes.max(initial=0)))):
                active = int(np.searchsorted(-sizes, -number, side="left"))
                at = starts[:active] + number
                totals[:active] += rows[at]
                sums[at] = totals[:active]
            for group in np.flatnonzero(sizes > ROUNDS):
                start, end = starts[group] + ROUNDS, starts[group] + sizes[group]
                sums[start:end] = np.add.accumulate(np.append(totals[group], rows[start:end]))[1:]
        return sums

    def first_of(self, member: Bools) -> Int64s:
        """Of headed rows, the first member up to each row, as a place among headed ones; -1 for none."""
        count = len(self.begins)
        scores = np.where(member, count - np.arange(count), 0)
        best = segmented_maximum(scores, self.begins)
        return np.where(best > 0, count - best, -1)[self.row_index]

    def last_of(self, member: Bools) -> Int64s:
        """Of headed rows, the last member up to each row, as a place among headed ones; -1 for none."""
        scores = np.where(member, np.arange(len(self.begins)), -1)
        return segmented_maximum(scores, self.begins)[self.row_index]

    def largest_of(self, member: Bools, scores: Int64s, *, last: bool = False) -> Int64s:
        """Of headed rows, the first member with the largest score up to each row, or the last one; -1 for none.

        Parameters
        ----------
        scores : not negative.
        """
        count = len(self.begins)
        place = np.arange(count)
        weights = np.where(member, (scores + 1) * count + (place if last else count - 1 - place), -1)
        best = segmented_maximum(weights, self.begins)
        place = best % count if last else count - 1 - best % count
        return np.where(best >= 0, place, -1)[self.row_index]


# Folds of functions: aggregate and reduce, by functions of arrays or by plain Python ones.


class ArrayFold(FoldKernel):
    """A fold of functions; those of arrays are called round by round."""

    def __init__(self, fold: FunctionFold, state: pa.DataType) -> None:
        super().__init__(state, state)
        self.grows = not pa.types.is_primitive(state)
        add, subtract, merge = (keeping(step, state) for step in (fold.add, fold.subtract, fold.merge))
        assert add is not None, "each fold has one"
        self._fold = replace(
            fold, add=add, subtract=subtract, merge=merge, initial=stored_value_of(state)(fold.initial)
        )

    def init(self, keys: pa.Array) -> pa.Array:
        if not self._fold.starts:
            return pa.nulls(len(keys), self.state)
        return pa.repeat(pa.scalar(self._fold.initial, self.state), len(keys))

    def add(self, keys: pa.Array, states: pa.Array, values: pa.Array) -> pa.Array:
        if states.null_count and self._fold.starts:
            states = pc.if_else(states.is_valid(), states, self.init(keys))
        elif states.null_count:
            present = np.flatnonzero(valid(states))
            at = pa.array(present)
            added = self._call(self._fold.add, *(column.take(at) for column in (keys, values, states)))
            return replaced(array_of(firsts(self._fold, values), self.state), present, added)
        return self._call(self._fold.add, keys, values, states)

    def subtract(self, keys: pa.Array, states: pa.Array, values: pa.Array) -> pa.Array:
        return self._call(self._fold.subtract, keys, values, states)

    def merge(self, keys: pa.Array, left: pa.Array, right: pa.Array) -> pa.Array:
        return self._call(self._fold.merge, keys, left, right)

    def resume(self, keys: pa.Array, states: pa.Array) -> pa.Array:
        return self.merge(keys, self.init(keys), states) if self._fold.starts else states

    def run(self, work: Work) -> Folded:
        if self._plain:
            return self._one_by_one(work, *self._called_for(work))
        return self._summed(work) or self._quickly(work) or in_rounds(self, work)

    def tried(self, work: Work) -> Folded:
        if not self._plain:
            return self._summed_but(work) or self._quickly(work) or in_rounds(self, work, {})
        values, adders = self._called_for(work)
        return self._one_by_one(work, values, [partial(self._checked, adder) for adder in adders])

    @property
    def how_it_runs(self) -> str:  # type: ignore[override]  # of others it is said by their class
        """See `FoldKernel`."""
        if self._plain:
            return "plain Python functions, record by record"
        if self._compiled is None:
            return "in rounds, one record of each key at a time: a key with many records of a batch is slow"
        if self._compiled.chosen is not None:
            return "as a choice between records, record by record or in rounds"
        return "as compiled Python, record by record or in rounds"

    def _quickly(self, work: Work) -> Folded | None:
        """The same without arrays between one row and the next, where rounds would cost more."""
        compiled = self._compiled
        if compiled is None or not compiled.pays(work):
            return None
        return compiled.run(work, self.tolerates_errors, self.owner)

    @cached_property
    def _compiled(self) -> CompiledFold | None:
        return CompiledFold.of((self._fold.add,), self._fold, self.state)

    @property
    def _plain(self) -> bool:
        fold = self._fold
        return all(step is None or step.plain for step in (fold.add, fold.subtract, fold.merge))

    def _called_for(self, work: Work) -> tuple[list[Any], list[Function]]:
        return python_values(work.values), [self._fold.add.function] * len(work)

    def _summed(self, work: Work) -> Folded | None:
        """The same where the adder adds to the aggregate, and some group has more rows than rounds are good for."""
        addend = self._addend(work)
        if addend is None:
            return None
        try:
            terms = addend(work.keys.take(pa.array(work.group)), work.values, work.values)
        except EvaluationError:
            # which row it is for is said by rounds
            return None
        if terms.null_count or work.values.null_count:
            return None
        sums = self._sums(work, array_of(terms, self.state).to_numpy().copy())
        return None if sums is None else folded(work, [pa.array(sums)], self.state, np.arange(len(work)))

    def _summed_but(self, work: Work) -> Folded | None:
        """The same of the rows for which what is added can be computed."""
        addend = self._addend(work)
        if addend is None or not self._fold.starts or work.ends is not None or work.values.null_count:
            return None
        arguments = work.keys.take(pa.array(work.group)), work.values, work.values
        fine, pieces, failed = survivors(
            lambda rows: addend(*(column.take(pa.array(rows)) for column in arguments)), len(work)
        )
        terms = array_of(joined(pieces, self.state), self.state)
        if terms.null_count:
            return None
        # what is added to -0.0 stays as it is
        all_terms = np.full(len(work), -0.0 if pa.types.is_float64(self.state) else 0)
        all_terms[fine] = terms.to_numpy()
        sums = self._sums(work, all_terms)
        if sums is None:
            return None
        goes_on = np.zeros(len(work), dtype=np.bool_)
        goes_on[fine] = True
        present = Groups(work.starts).any_before(goes_on, inclusive=True) | np.repeat(work.known, work.sizes)
        pointers = np.where(present, np.arange(len(work)), -1)
        return folded(work, [pa.array(sums)], self.state, pointers, failed)

    def _addend(self, work: Work) -> Evaluated | None:
        function = self._fold.add.function
        if work.olds is not None or work.sizes.max(initial=0) <= ROUNDS or not isinstance(function, Evaluated):
            return None
        addend = function.addend(function.operands[-1])
        return addend if pa.types.is_int64(self.state) or pa.types.is_float64(self.state) else None

    def _sums(self, work: Work, terms: np.ndarray) -> np.ndarray | None:
        groups = Groups(work.starts)
        # what is added to -0.0 stays as it is
        nothing = self._fold.initial if self._fold.starts else -0.0 if terms.dtype == np.float64 else 0
        begins = work.prior.fill_null(pa.scalar(nothing, self.state)).to_numpy()
        if not self._fold.starts:
            begins_at = work.starts[:-1][~work.known]
            first = firsts(self._fold, work.values.take(pa.array(begins_at)))
            terms[begins_at] = array_of(first, self.state).to_numpy()
        if terms.dtype == np.float64:
            return groups.running_sums(begins, terms)
        if np.abs(terms.astype(np.float64)).sum() + np.abs(begins.astype(np.float64)).max(initial=0) > SAFE:
            return None
        return np.asarray(np.repeat(begins, groups.sizes) + groups.running_counts(terms))

    def _one_by_one(self, work: Work, values: list[Any], adders: list[Function]) -> Folded:
        """The same by plain functions alone."""
        fold = self._fold
        subtract = None if fold.subtract is None else fold.subtract.function
        merge = None if fold.merge is None else fold.merge.function
        policy = self.tolerates_errors, self.owner
        functions = PlainFunctions(subtract, merge, fold.starts, fold.initial, self._array, *policy)
        keys, states = python_values(work.keys), python_values(work.prior)
        olds = [None] * len(work) if work.olds is None else python_values(work.olds)
        first = values if fold.first is None else python_values(firsts(fold, work.values))
        return row_by_row(work, functions, PlainArguments(keys, states, values, first, olds, adders))

    def _checked(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The result of a plain function, if it is of the aggregate's type."""
        result = function(*arguments)
        self._array([result])
        return result

    def _call(self, step: Step | None, *arguments: pa.Array) -> pa.Array:
        assert step is not None, "asked for when the topology was built"
        if not step.plain:
            return array_of(step.function(*arguments), self.state)
        try:
            return self._array(_row_by_row(step.function, *arguments))
        except Exception as error:
            if not self.tolerates_errors:
                if not isinstance(error, RAISED):
                    with_owner(error, self.owner)
                raise
            raise function_error(error) from error

    def _array(self, values: list[Any]) -> pa.Array:
        try:
            return pa.array(values, type=self.state)
        except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, OverflowError) as error:
            raise not_of(self.state, error) from error


def _row_by_row(function: Callable[..., Any], *arguments: pa.Array) -> list[Any]:
    # a plain Python function is called record by record
    return [function(*row) for row in zip(*map(python_values, arguments), strict=True)]


class CogroupedFunctions(ArrayFold):
    """A fold of several streams: values are structs with a field for each, of which one is not null."""

    def __init__(self, fold: folds.CogroupFold, state: pa.DataType) -> None:
        # whose adder is called is said by each value
        first = FunctionFold(fold.adders[0], merge=fold.merge, starts=True, initial=fold.initial)
        super().__init__(first, state)
        self._adders = tuple(adder for step in fold.adders if (adder := keeping(step, state)) is not None)

    def add(self, keys: pa.Array, states: pa.Array, values: pa.Array) -> pa.Array:
        if states.null_count:
            states = pc.if_else(states.is_valid(), states, self.init(keys))
        for adder, member in zip(self._adders, values.flatten(), strict=True):
            rows = np.flatnonzero(valid(member))
            at = pa.array(rows)
            if len(rows):
                added = self._call(adder, *(column.take(at) for column in (keys, member, states)))
                states = replaced(states, rows, added)
        return states

    @property
    def _plain(self) -> bool:
        return all(step is None or step.plain for step in (*self._adders, self._fold.merge))

    def _called_for(self, work: Work) -> tuple[list[Any], list[Function]]:
        values: list[Any] = [None] * len(work)
        adders: list[Function] = [self._adders[0].function] * len(work)
        for adder, member in zip(self._adders, work.values.flatten(), strict=True):
            # plain functions take plain values, one after the other
            for row, value in zip(
                np.flatnonzero(valid(member)).tolist(), python_values(member.drop_null()), strict=True
            ):
                values[row], adders[row] = value, adder.function
        return values, adders

    def _addend(self, work: Work) -> Evaluated | None:
        # there is an adder for each stream
        return None

    @cached_property
    def _compiled(self) -> CompiledFold | None:
        return CompiledFold.of(self._adders, self._fold, self.state)
