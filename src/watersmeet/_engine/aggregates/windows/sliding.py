"""Sliding windows: which ones each record changes, makes, or is late for (docs/semantics, sections 13 and 14; KIP-450).

Of keys with records in order all is known from their times (`sliding_in_order`); those of other keys are looked
at one after the other (`sliding_out_of_order`). Both give the same
where both can (tests/engine/aggregates/test_sliding.py).
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

import numpy as np

from watersmeet._engine.aggregates.windows.sliding_changes import Slid, StoredWindows
from watersmeet._engine.aggregates.windows.sliding_in_order import SlidingRecords, changes_in_order, in_order
from watersmeet._engine.aggregates.windows.sliding_out_of_order import Whose, out_of_order
from watersmeet._engine.arrays import Int64s


def slid(
    keys: Int64s,
    ts: Int64s,
    close: Int64s,
    before: StoredWindows,
    difference: int,
    vanishing: AbstractSet[tuple[int, int]],
    owner: Whose | None = None,
) -> Slid:
    """The changes that records bring, which are in order of position.

    Parameters
    ----------
    keys, ts, close : of each record: key group, timestamp, and the least end of a window that is still open.
    before : what stands, and may be changed.
    vanishing : (record, start) of the changes with a null aggregate, so that there is no window; with `WHOLE` as
        start, records that change nothing, and are asked for all the same.
    owner : of keys that lie in several partitions; None: there are none.
    """
    order = np.argsort(keys, kind="stable")
    records = SlidingRecords.of(order, keys[order], ts[order], before)
    orderly = in_order(records, close[order], before, difference, vanishing)
    if owner is not None:
        orderly &= ~owner.partitions.several[records.key]
    one = changes_in_order(records.some(orderly), before, difference, len(before.key))
    rest = records.some(~orderly)
    known = len(before.key) + len(one.record)
    other = out_of_order(rest.row, rest.key, rest.ts, close[rest.row], before, difference, known, vanishing, owner)
    return one.with_more(other)
