"""The generations of Kafka Streams semantics that a topology can follow (docs/semantics, section 17).

Vocabulary. ``current`` is what Kafka Streams 3.1 and later promise, with watersmeet's repairs; the others
reproduce what earlier releases did, for people who must reproduce their results.
"""

from __future__ import annotations

from enum import Enum

from watersmeet.errors import TopologyError


class Generation(Enum):
    """One generation of join semantics; the value is the name a user writes."""

    CURRENT = "current"
    SPURIOUS = "spurious"
    OLD = "old"
    OLD_0_10_0 = "old-0.10.0"

    @property
    def is_old(self) -> bool:
        """True for the rules of 0.10.0 and 0.10.1."""
        return self in (Generation.OLD, Generation.OLD_0_10_0)

    @classmethod
    def of(cls, name: str | Generation) -> Generation:
        """The generation of that name.

        Raises
        ------
        TopologyError : unknown generation.
        """
        try:
            return cls(name)
        except ValueError:
            known = ", ".join(repr(g.value) for g in cls)
            raise TopologyError(
                f"Unknown generation {name!r}.", given=repr(name), hint=f"Use one of {known}."
            ) from None
