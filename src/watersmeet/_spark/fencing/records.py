"""Which of a checkpoint's records holds.

Records are numbered, and each is written under an epoch. Who starts first takes an epoch and only then writes its
record. Where a start that was passed by writes its record late, it has the number of another's, or a later one: so the
epoch is compared before the number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

Row = TypeVar("Row", bound=Mapping[str, Any])


def holding(rows: Iterable[Row]) -> Row:
    """The row that holds, of at least one.

    Parameters
    ----------
    rows : each with a `number`, and with the `epoch` it was written under: those of an earlier watersmeet have none.
    """
    return max(rows, key=lambda row: (int(row.get("epoch", 0)), int(row["number"])))


def may_be_shared(*, has_lock: bool, is_fresh: bool, epoch: int) -> bool:
    """Whether somebody may still be about to write a record, who is yet to find out that the checkpoint is another's.

    Then a start writes its record again, so that it holds against one that comes late. Batches need nothing of the
    kind: a query plans a batch before it asks for its epoch and commits, so the plan is in the log.

    Parameters
    ----------
    has_lock : whether a lock keeps all others out.
    is_fresh : whether the epoch before was ended.
    epoch : of the record that is there; 0: an earlier watersmeet, which takes no epochs, has written it.
    """
    return not has_lock and (not is_fresh or epoch == 0)
