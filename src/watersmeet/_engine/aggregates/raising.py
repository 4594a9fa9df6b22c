"""Rows for which a function raises: what it gives for the others, and why it has nothing for these."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from watersmeet._engine.arrays import Int64s
from watersmeet._engine.expressions.errors import EvaluationError
from watersmeet._engine.rows.halves import outcomes
from watersmeet.errors import FunctionError

RAISED = (EvaluationError, FunctionError)
"""What is raised for rows, and not since something else is wrong."""


def placed(error: Exception, owner: str) -> Exception:
    """The error with the name of the function that raised it: a start reads that in the text of a failure.

    Parameters
    ----------
    owner : name of an operator, or names of inputs.
    """
    where = f"In a function of {owner}."
    if isinstance(error, FunctionError):
        given = where if error.given is None else f"{error.given}\n{where}"
        return FunctionError(error.message, given=given, hint=error.hint)
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
    made: list[pa.Array] = []
    raised: dict[int, Exception] = {}
    for row, outcome in outcomes(lambda begin, end: step(rows[begin:end]), count, *RAISED):
        if isinstance(outcome, RAISED):
            raised[row] = _bare(outcome)
        else:
            made.append(outcome)
    return np.delete(rows, list(raised)), made, raised


def _bare(error: Exception) -> Exception:
    """The error without the frames that it has passed, which hold rows."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)
