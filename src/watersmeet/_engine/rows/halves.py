"""Rows for which something raises, found where it is done for many rows at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

T = TypeVar("T")
E = TypeVar("E", bound=Exception)


def outcomes(step: Callable[[int, int], T], count: int, *kinds: type[E]) -> Iterator[tuple[int, T | E]]:
    """The results of a step for spans of rows, or its error for a single one, and the first bad row, in order of rows.

    It is asked for all, and where it raises for halves, so that few rows that raise cost few calls.

    Parameters
    ----------
    step : does it for the rows from the first number on, up to the second.
    count : how many rows there are.
    kinds : of errors; any other is raised.
    """
    spans = [(0, count)] if count else []
    while spans:
        begin, end = spans.pop()
        outcome: T | E
        try:
            outcome = step(begin, end)
        except kinds as error:
            if end - begin > 1:
                middle = (begin + end) // 2
                spans += [(middle, end), (begin, middle)]
                continue
            outcome = error
        yield begin, outcome


def failing(step: Callable[[int, int], object], count: int, kind: type[E]) -> dict[int, E]:
    """The rows for which an error of a kind is raised, and the error; see `outcomes`."""
    return {row: outcome for row, outcome in outcomes(step, count, kind) if isinstance(outcome, kind)}
