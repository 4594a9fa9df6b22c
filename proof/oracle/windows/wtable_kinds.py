"""Joins with WTables as histories name them: the golden pages of section 20.

Owns the meaning of their parameters. Law: the left side is built before the right one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from proof.oracle.functions import named_window, plus
from proof.oracle.graph import Node, Topology
from proof.oracle.records import Key, Value
from proof.oracle.windows.windowed import WindowAggregate
from proof.oracle.windows.wtable import Window, WindowedSide, previous
from proof.oracle.windows.wtable_joins import (
    StreamWTableJoin,
    TableWTableJoin,
    WTableTableJoin,
    WTableWTableJoin,
)

Params = Mapping[str, Any]
KINDS = ("stream_wtable", "table_wtable", "wtable_table", "wtable_wtable")


def wtable_join(kind: str, topology: Topology, params: Params, side: Callable[[str, str], Any]) -> Node:
    """The join of a kind.

    Parameters
    ----------
    side : gives an input, by its name, as a "stream", a "table" or the "windows" of an aggregate of it.
    """
    how, keep, shift = params["type"], params["keep_ms"], params.get("previous")
    topic = params.get("topic")

    def windows(name: str) -> WindowedSide:
        aggregate: WindowAggregate = side(name, "windows")
        return WindowedSide(aggregate, aggregate.wait_ms(), keep)

    def names(_: Key, value: Value) -> Window | None:
        found = named_window(value, params["size_ms"])
        return None if found is None else Window(*found)

    match kind:
        case "stream_wtable":
            return StreamWTableJoin(topology, side("left", "stream"), windows("right"), how, names, plus)
        case "table_wtable":
            return TableWTableJoin(topology, side("left", "table"), windows("right"), how, names, plus)
        case "wtable_table":
            return WTableTableJoin(topology, windows("left"), side("right", "table"), how, plus)
    left = windows(topic or "left")
    right = left if topic else windows("right")
    earlier = None if shift is None else previous(shift, params["size_ms"])
    return WTableWTableJoin(topology, left, right, how, plus, shift=earlier)
