"""Aggregates by name (`wm.sum`, `wm.count`, ...), users' own (`wm.Aggregate`), and plain Python functions for folds.

Vocabulary: descriptions, which a grouped stream or table evaluates. An aggregate is one class, which says all that is
asked of it (`declaration`); a line in `AGGREGATES` makes it known by its name, and its kernel is found by its stem
(`_engine.aggregates.registry`). All leave out records with a null argument, as SQL's aggregates do.

>>> top_k(lambda value: value, k=3)
wm.top_k(k=3)
"""

from __future__ import annotations

from watersmeet.aggregates.collections import (
    CollectList,
    CollectSet,
    CountDistinct,
    LastK,
    Mode,
    Percentile,
    TopBy,
    TopK,
    collect_list,
    collect_set,
    count_distinct,
    last_k,
    mode,
    percentile,
    top_k,
)
from watersmeet.aggregates.declaration import AnyAggregate, Function, Use
from watersmeet.aggregates.extremes import (
    BoolAnd,
    BoolOr,
    First,
    Last,
    Max,
    MaxBy,
    Min,
    MinBy,
    bool_and,
    bool_or,
    first,
    last,
    max,
    max_by,
    min,
    min_by,
)
from watersmeet.aggregates.sums import Avg, Count, Stddev, Sum, avg, count, stddev, sum
from watersmeet.aggregates.user_defined import Aggregate, PythonFunction, python
from watersmeet.hints import beside

AGGREGATES: dict[str, type[AnyAggregate]] = {
    each.stem: each
    for each in (
        Count,
        Sum,
        Min,
        Max,
        Avg,
        Stddev,
        First,
        Last,
        CollectList,
        CollectSet,
        CountDistinct,
        LastK,
        TopK,
        TopBy,
        MinBy,
        MaxBy,
        BoolAnd,
        BoolOr,
        Mode,
        Percentile,
        Aggregate,
    )
}
"""All aggregates by their stems."""

for _aggregate in AGGREGATES.values():
    if _aggregate.in_agg is not None:
        beside(_aggregate.name, f"{_aggregate.in_agg}={_aggregate.example()}")

__all__ = [
    "AGGREGATES",
    "Aggregate",
    "AnyAggregate",
    "Function",
    "PythonFunction",
    "Use",
    "avg",
    "bool_and",
    "bool_or",
    "collect_list",
    "collect_set",
    "count",
    "count_distinct",
    "first",
    "last",
    "last_k",
    "max",
    "max_by",
    "min",
    "min_by",
    "mode",
    "percentile",
    "python",
    "stddev",
    "sum",
    "top_k",
]
