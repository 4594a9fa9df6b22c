"""Where random choices come from: a seeded generator for volume, hypothesis for shrinking.

Owns the few questions that the drawing of blueprints and cases asks. Law: whoever draws asks nothing else, so
both sources give the same distribution of shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Protocol, TypeVar

T = TypeVar("T")


class Choices(Protocol):
    """A source of choices; the first option is the simplest one."""

    def pick(self, options: Sequence[T]) -> T:
        """One of the options."""
        ...

    def number(self, least: int, most: int) -> int:
        """A number between the bounds, both included."""
        ...

    def chance(self, percent: int) -> bool:
        """True in so many of a hundred cases."""
        ...


class Dice:
    """Choices by a seeded generator; equal seeds give equal choices on every machine."""

    def __init__(self, seed: str) -> None:
        self._random = Random(seed)

    def pick(self, options: Sequence[T]) -> T:
        """See `Choices`."""
        return options[self._random.randrange(len(options))]

    def number(self, least: int, most: int) -> int:
        """See `Choices`."""
        return self._random.randint(least, most)

    def chance(self, percent: int) -> bool:
        """See `Choices`."""
        return self._random.randrange(100) < percent
