"""The rows of a table that another operator stores, as the borrower would have got them (law 1).

Both operators stand in one shard. The lookups of the borrower go to the lender's table as the last batch has left it,
and to the batch's rows of the table, which come once: here they get the position of the borrower's own way. Rows of
keys that the borrower does not look up are left out.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from watersmeet._engine.rows.columns import ints
from watersmeet._plan.physical import Lent


def with_lent_rows(lent: Lent, own: Mapping[int, pa.Table], lenders: Mapping[int, pa.Table]) -> dict[int, pa.Table]:
    """The rows of each side of a borrower.

    Parameters
    ----------
    lent : how it has the table.
    own : the rows of its other sides.
    lenders : the rows of the lender, by side.
    """
    table = lenders.get(lent.side)
    if table is None or not own:
        return dict(own)
    looked_up = np.unique(np.concatenate([ints(rows, "hash") for rows in own.values()]))
    hashes = ints(table, "hash")
    at = np.minimum(looked_up.searchsorted(hashes), len(looked_up) - 1)
    seen = table.filter(pa.array(looked_up[at] == hashes))
    if not len(seen):
        return dict(own)
    path = f"p{lent.slot}"
    moved = pa.array(ints(seen, path) + lent.shift)
    return {**own, lent.side: seen.set_column(seen.schema.get_field_index(path), path, moved)}
