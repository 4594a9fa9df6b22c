"""From where a topic is read, as a user says it.

Vocabulary: of an input that begins there, or goes on from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from watersmeet.errors import TopologyError

StartingOffsets = Mapping[int, int] | Literal["earliest", "latest"]


def check_offsets(given: Any) -> None:
    """Raise unless these are places from where a topic is read.

    Raises
    ------
    TopologyError : they are none.
    """
    named = isinstance(given, Mapping) and all(is_number(each) for pair in given.items() for each in pair)
    if not (named and given) and given not in ("earliest", "latest"):
        raise TopologyError(
            "Offsets are numbers, by the numbers of the partitions.",
            given=f"starting_offsets={given!r}",
            hint='starting_offsets={0: 1200, 1: 1187}, "earliest" or "latest".',
        )


def is_number(given: Any) -> bool:
    """Whether this is a number of a partition, an offset or a time."""
    return isinstance(given, int) and not isinstance(given, bool) and given >= 0
