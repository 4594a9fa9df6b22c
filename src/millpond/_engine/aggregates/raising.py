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
                raised[int(rows[0])] = error
            else:
                middle = len(rows) // 2
                spans += [rows[middle:], rows[:middle]]
    return np.concatenate(fine), made, raised
