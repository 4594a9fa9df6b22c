"""The questions of outputs before they commit: whether the checkpoint is still theirs, and the plan of a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from watersmeet._worker.batch_plan import UNKNOWN, BatchPlan


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


def untold(batch: int) -> BatchPlan:
    """The plan of a batch without a known plan."""
    return UNKNOWN


def always() -> None:
    """Whether the checkpoint is still one's own, where nobody else could have it."""
