"""Functions that are shown rows on their way (`peek`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet._engine.aggregates.raising import placed
from watersmeet._engine.rows.columns import array, bools, ints
from watersmeet._engine.rows.python_values import python_values


@dataclass(frozen=True)
class PeekCall:
    """A Python function and the columns it is shown."""

    action: Any
    key: str
    value: str
    active: str | None


def show(frame: pa.Table, peeks: Sequence[PeekCall], owner: str, failed: dict[int, Exception] | None = None) -> None:
    """Show the functions their rows.

    Parameters
    ----------
    owner : the node before them, as an error names it.
    failed : takes rows for which one raises, and what; no other is shown them then. None: that is raised.
    """
    for peek in peeks:
        mine = bools(frame, peek.active) if peek.active else np.ones(len(frame), dtype=np.bool_)
        shown = np.flatnonzero(mine)
        if failed:
            shown = shown[~np.isin(shown, list(failed))]
        rows = frame.take(pa.array(shown)) if len(shown) < len(frame) else frame
        keys, values = python_values(rows.column(peek.key)), python_values(rows.column(peek.value))
        # A plain Python function per record is what peek is for.
        for row, key, value in zip(shown.tolist(), keys, values, strict=True):
            try:
                peek.action(key, value)
            except Exception as error:
                placed(error, owner)
                if failed is None:
                    raise
                failed[row] = error


def rooted(frame: pa.Table, roots: Iterable[int]) -> pa.Table:
    """The frame with a column for each root, by number, that marks the rows which are its own and have not ended."""
    root = array(frame, "root").fill_null(-1).to_numpy()
    fine = ints(frame, "reason") == 0 if "reason" in frame.column_names else np.ones(len(frame), dtype=np.bool_)
    for number in roots:
        frame = frame.append_column(f"root:{number}", pa.array((root == number) & fine))
    return frame
