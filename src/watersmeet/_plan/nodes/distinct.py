"""distinct: what a user declares (docs/semantics/distinct.md)."""

from __future__ import annotations

from dataclasses import dataclass, field

from watersmeet._plan.nodes.base import Node


@dataclass(frozen=True)
class DistinctNode(Node):
    """The first record of each key, and again the first one when a while has passed.

    Parameters
    ----------
    within_ms : how long, in ms of stream time, records of the key are left out behind it; None: for ever.
    """

    within_ms: int | None = field(kw_only=True)

    stem = "distinct"

    @property
    def takes_null_keys(self) -> bool:
        return True

    def details(self) -> tuple[tuple[str, str], ...]:
        return (("within", "no limit" if self.within_ms is None else f"{self.within_ms} ms"),)
