"""Rows for which a function raises: what it gives for the others, and why it has nothing for these."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from millpond._engine.arrays import Int64s
from millpond._engine.expressions.errors import EvaluationError
from millpond.errors import FunctionError

RAISED = (EvaluationError, FunctionError)
"""What is raised for rows, and not since something else is wrong."""


def placed(error: Exception, whose: str) -> Exception:
    """The error, which says in whose function it was raised: a start reads that in the text of a failure.

    Parameters
    ----------
    whose : name of an operator, or names of inputs.
    """
    where = f"In a function of {whose}."
    if isinstance(error, FunctionError):
        given = where if error.given is None else f"{error.given}\n{where}"
        return FunctionError(error.message, given=given, hint=error.hint)
    error.add_note(where)
    return error


def survivors(step: Callable[[Int64s], pa.Array], count: int) -> tuple[Int64s, list[pa.Array], dict[int, Exception]]:
    """(rows that a function has values for, these values, why it has none for the others).

    It is asked for all, and where it raises for halves, so that few rows that raise cost few calls.

    Parameters
    ----------
    step : gives the values of rows, by their numbers.
    count : how many rows there are.
    """
    fine: list[Int64s] = [np.zeros(0, dtype=np.int64)]
    made: list[pa.Array] = []
    raised: dict[int, Exception] = {}
    spans = [np.arange(count, dtype=np.int64)] if count else []
    while spans:
        rows = spans.pop()
        try:
            made.append(step(rows))
            fine.append(rows)
        except RAISED as error:
            if len(rows) == 1:
                raised[int(rows[0])] = _bare(error)
            else:
                middle = len(rows) // 2
                spans += [rows[middle:], rows[:middle]]
    return np.concatenate(fine), made, raised


def _bare(error: Exception) -> Exception:
    """The error without the frames that it has passed, which hold rows."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)
