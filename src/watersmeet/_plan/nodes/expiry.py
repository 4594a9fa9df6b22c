"""expiry: rows that last for a while (docs/semantics/expiry.md)."""

from __future__ import annotations

from dataclasses import dataclass, field

from watersmeet._plan.nodes.base import Node


@dataclass(frozen=True)
class ExpiryNode(Node):
    """The records of a stream that will be a table's changes, and a tombstone when a row has lasted for so long.

    Parameters
    ----------
    ttl_ms : for how long a row lasts, in ms of stream time.
    of_record : whether from the record's own timestamp on, and not from the stream time at which it comes.
    """

    ttl_ms: int = field(kw_only=True)
    of_record: bool = field(default=False, kw_only=True)

    stem = "expiry"

    def details(self) -> tuple[tuple[str, str], ...]:
        return (("ttl", f"{self.ttl_ms} ms"), ("since", "record" if self.of_record else "update"))
