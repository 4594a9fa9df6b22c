"""product: the same of the values which are left."""

from __future__ import annotations

from collections.abc import Sequence


def product(values: Sequence[int], modulo: int) -> int:
    """One after the other."""
    made = 1
    for value in values:
        made = made * value % modulo
    return made
