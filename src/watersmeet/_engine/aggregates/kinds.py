"""The aggregate of each name."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.aggregates import lists
from watersmeet._engine.aggregates.parts import Bag, Count, Edge, Extreme, Part
from watersmeet._engine.aggregates.sums import Average, Deviation, ExactDeviation, Sum, Total


def part_of(kind: str, state: pa.DataType, k: int | None, *, takes_back: bool) -> Part:
    """The aggregate of a name."""
    if kind in ("count", "sum", "avg", "stddev"):
        once = {"count": Count, "sum": Sum, "avg": Average, "stddev": Deviation}
        again = {"count": Count, "sum": Total, "avg": Average, "stddev": ExactDeviation}
        return (again if takes_back else once)[kind](state)
    if kind in ("first", "last"):
        return Edge(state, first=kind == "first")
    if kind in ("min", "max") and not takes_back:
        return Extreme(state, largest=kind == "max")
    shown: Callable[[pa.Array], pa.Array] = {
        "min": lambda kept: lists.extreme(kept, largest=False),
        "max": lambda kept: lists.extreme(kept, largest=True),
        "collect_list": lambda kept: kept,
        "collect_set": lists.distinct,
        "count_distinct": lambda kept: pc.list_value_length(lists.distinct(kept)).cast(pa.int64()),
        "top_k": lambda kept: lists.descending(kept, k),
    }[kind]
    if takes_back or kind == "collect_list":
        return Bag(state, finish=shown)
    if kind == "top_k":
        return Bag(state, trim=shown)
    lengths = (
        (lambda kept: kept) if kind == "collect_set" else (lambda kept: pc.list_value_length(kept).cast(pa.int64()))
    )
    return Bag(state, trim=lists.distinct, finish=lengths)
