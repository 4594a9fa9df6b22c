"""Rows for which something raises, found where it is done for many rows at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

E = TypeVar("E", bound=Exception)


def failing(step: Callable[[int, int], object], count: int, kind: type[E]) -> dict[int, E]:
    """The rows for which an error of a kind is raised, and the error: looked for by halves, which few rows take well.

    Parameters
    ----------
    step : does it for the rows from the first number on, up to the second.
    count : how many rows there are.
    kind : of error; any other is raised.
    """
    found: dict[int, E] = {}
    spans = [(0, count)]
    while spans:
        begin, end = spans.pop()
        try:
            step(begin, end)
        except kind as error:
            middle = (begin + end) // 2
            spans += [(begin, middle), (middle, end)] if end - begin > 1 else []
            found |= {begin: error} if end - begin == 1 else {}
    return found
