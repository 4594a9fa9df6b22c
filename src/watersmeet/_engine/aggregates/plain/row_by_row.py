"""Folds a row at a time by functions of plain values: no arrays are made between one row and the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet._engine.aggregates.fold import Folded, Work, folded
from watersmeet._engine.aggregates.raising import RAISED, placed
from watersmeet._engine.rows.columns import valid
from watersmeet.errors import FunctionError

Function = Callable[[Any, Any, Any], Any]


@dataclass(frozen=True)
class PlainFunctions:
    """The functions of a fold, of plain values.

    Parameters
    ----------
    subtract, merge : of tables and of sessions.
    starts, initial : whether there is an initial value, and what it is.
    array : makes the array of aggregates.
    outlives, owner : as a `Fold` has them.
    """

    subtract: Function | None
    merge: Function | None
    starts: bool
    initial: Any
    array: Callable[[list[Any]], pa.Array]
    outlives: bool
    owner: str


@dataclass(frozen=True)
class PlainArguments:
    """The arguments of the functions.

    Parameters
    ----------
    keys, states : of each group.
    values, firsts, olds, adders : of each row; a value is None where nothing is added. `firsts` become the aggregate
        where there is none, and no initial value.
    """

    keys: list[Any]
    states: list[Any]
    values: Sequence[Any]
    firsts: Sequence[Any]
    olds: Sequence[Any]
    adders: Sequence[Function]


def row_by_row(work: Work, how: PlainFunctions, given: PlainArguments) -> Folded:
    """All rows folded.

    Raises
    ------
    EvaluationError, FunctionError : a function raises, and that is not to be outlived.
    """
    keys, states = given.keys, given.states
    made: list[Any] = []
    failed: dict[int, Exception] = {}
    starts, initial, subtract = how.starts, how.initial, how.subtract
    merge = how.merge if starts else None
    ends = [False] * len(work) if work.ends is None else work.ends.tolist()
    of_sessions = work.resumes is not None
    resumed = [False] * len(states) if work.resumes is None else work.resumes.tolist()
    rows = zip(work.group.tolist(), given.values, given.firsts, given.olds, given.adders, ends, strict=True)
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
            if not how.outlives:
                raise placed(error, how.owner) from None
            failed[len(made)] = function_error(error)
            state = states[group]
        if void:
            state = states[group]
        if of_sessions:
            resumed[group] = True
        states[group] = state
        made.append(state)
    added = how.array(made)
    after = np.where(valid(added), np.arange(len(made)), -1)
    return folded(work, [added], added.type, after, failed)


def function_error(error: Exception) -> Exception:
    """The error of a plain Python function, as an error of ours."""
    if isinstance(error, RAISED):
        return error
    return FunctionError("A plain Python function raises.", given=repr(error))
