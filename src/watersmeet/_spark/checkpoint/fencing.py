"""Which of a checkpoint's records holds.

Records are numbered, and each is written under an epoch. Who starts first takes an epoch and only then writes its
record. Where a start that was passed by writes its record late, it has the number of another's, or a later one: so the
epoch is compared before the number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar

from watersmeet._worker.batch_plan import UNKNOWN, BatchPlan

Row = TypeVar("Row", bound=Mapping[str, Any])


def holding(rows: Iterable[Row]) -> Row:
    """The row that holds, of at least one: each has a `number`, and the `epoch` it was written under."""
    return max(rows, key=lambda row: (int(row["epoch"]), int(row["number"])))


def may_be_shared(*, has_lock: bool, is_fresh: bool) -> bool:
    """Whether somebody may still be about to write a record, who is yet to find out that the checkpoint is another's.

    Then a start writes its record again, so that it holds against one that comes late. Batches need nothing of the
    kind: a query plans a batch before it asks for its epoch and commits, so the plan is in the log.

    Parameters
    ----------
    has_lock : whether a lock keeps all others out.
    is_fresh : whether the epoch before was ended.
    """
    return not has_lock and not is_fresh


# The questions of outputs before they commit: whether the checkpoint is still theirs, and the plan of a batch.


class CheckpointLease(Protocol):
    """The right of a query upon its checkpoint."""

    def check(self) -> None:
        """Raise where it is another's."""

    def at_end(self, call: Callable[[], None]) -> None:
        """Have something done when it is given back."""


class Nobodys:
    """The lease of a query that shares its checkpoint with nobody."""

    def check(self) -> None:
        """See `CheckpointLease`."""

    def at_end(self, call: Callable[[], None]) -> None:
        """See `CheckpointLease`."""


def no_plan(batch: int) -> BatchPlan:
    return UNKNOWN


def always() -> None:
    """Whether the checkpoint is still one's own, where nobody else could have it."""
