"""Functions that are shown rows on their way (`peek`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from millpond._engine.rows.columns import bools


@dataclass(frozen=True)
class PeekCall:
    """A Python function and the columns it is shown."""

    action: Any
    key: str
    value: str
    active: str | None


def show(frame: pa.Table, peeks: Sequence[PeekCall]) -> None:
    """Show the functions their rows."""
    for peek in peeks:
        rows = frame.filter(pa.array(bools(frame, peek.active))) if peek.active else frame
        keys, values = rows.column(peek.key).to_pylist(), rows.column(peek.value).to_pylist()
        # A plain Python function per record is what peek is for.
        for key, value in zip(keys, values, strict=True):
            peek.action(key, value)
