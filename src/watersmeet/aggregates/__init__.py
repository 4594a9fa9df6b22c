"""Aggregates by name (`wm.sum`, `wm.count`, ...), users' own (`wm.Aggregate`), and plain Python functions for folds.

Vocabulary: descriptions, which a grouped stream or table evaluates. An aggregate is one class, which says all that is
asked of it (`declared`); a line in `AGGREGATES` makes it known by its name, and its kernel is found by its stem
(`_engine.aggregates.kinds`). All leave out records with a null argument, as SQL's aggregates do.

>>> top_k(lambda value: value, k=3)
wm.top_k(k=3)
"""

from __future__ import annotations

from watersmeet.aggregates.counted.mode import Mode, mode
from watersmeet.aggregates.counted.percentile import Percentile, percentile
from watersmeet.aggregates.declared import AnyAggregate, Function, Use
from watersmeet.aggregates.lists.collect_list import CollectList, collect_list
from watersmeet.aggregates.lists.collect_set import CollectSet, collect_set
from watersmeet.aggregates.lists.count_distinct import CountDistinct, count_distinct
from watersmeet.aggregates.lists.last_k import LastK, last_k
from watersmeet.aggregates.lists.top_k import TopBy, TopK, top_k
from watersmeet.aggregates.numbers.avg import Avg, avg
from watersmeet.aggregates.numbers.count import Count, count
from watersmeet.aggregates.numbers.stddev import Stddev, stddev
from watersmeet.aggregates.numbers.sum import Sum, sum
from watersmeet.aggregates.own import Aggregate
from watersmeet.aggregates.picks.booleans import BoolAnd, BoolOr, bool_and, bool_or
from watersmeet.aggregates.picks.edges import First, Last, first, last
from watersmeet.aggregates.picks.extremes import Max, Min, max, min
from watersmeet.aggregates.picks.extremes_by import MaxBy, MinBy, max_by, min_by
from watersmeet.aggregates.plain import PythonFunction, python
from watersmeet.names import beside

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

for _each in AGGREGATES.values():
    if _each.in_agg is not None:
        beside(_each.name, f"{_each.in_agg}={_each.example()}")

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
