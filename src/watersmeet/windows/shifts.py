"""Shifts: which window of the right side meets a window of the left one, where these are not the same.

Vocabulary, frozen and checked when made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from watersmeet.errors import TopologyError
from watersmeet.names import answered


@dataclass(frozen=True)
class Previous:
    """The window that lies `count` sizes earlier (tumbling), or `count` advances (hopping)."""

    count: int

    def __post_init__(self) -> None:
        given: Any = self.count
        if not isinstance(given, int) or isinstance(given, bool) or given < 1:
            raise TopologyError(
                f"previous(count): count must be at least 1, and is {self.count!r}.",
                hint="previous(1) is the window before.",
            )


@answered
def previous(count: int) -> Previous:
    """The window that lies `count` windows earlier, as the shift of a join of tables by key and window.

    Parameters
    ----------
    count : how many sizes (tumbling windows), advances (hopping windows) or periods (calendar windows) earlier; at
        least 1.

    >>> previous(7)
    Previous(count=7)
    """
    return Previous(count)
