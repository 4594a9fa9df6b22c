"""The kernel of each aggregate, by the stem of its declaration."""

from __future__ import annotations

from watersmeet._engine.aggregates.kernels import own
from watersmeet._engine.aggregates.kernels.counted import mode, percentile
from watersmeet._engine.aggregates.kernels.lists import collect_list, collect_set, count_distinct, last_k, top_k
from watersmeet._engine.aggregates.kernels.numbers import avg, count, stddev, sum
from watersmeet._engine.aggregates.kernels.picks import booleans, edges, extremes, extremes_by
from watersmeet._engine.aggregates.parts import AggregateKernel, Kernel, KernelTypes
from watersmeet.aggregates import AnyAggregate

KERNELS: dict[str, Kernel] = {
    "count": count.count,
    "sum": sum.sums,
    "avg": avg.avg,
    "stddev": stddev.stddev,
    "min": extremes.least,
    "max": extremes.most,
    "first": edges.first,
    "last": edges.last,
    "collect_list": collect_list.collect_list,
    "collect_set": collect_set.collect_set,
    "count_distinct": count_distinct.count_distinct,
    "last_k": last_k.last_k,
    "top_k": top_k.top_k,
    "top_k_by": top_k.top_by,
    "min_by": extremes_by.least_by,
    "max_by": extremes_by.most_by,
    "bool_and": booleans.of_all,
    "bool_or": booleans.of_any,
    "mode": mode.mode,
    "percentile": percentile.percentile,
    "own": own.own,
    "kept": own.as_stored,
}


def part_of(aggregate: AnyAggregate, kept: KernelTypes) -> AggregateKernel:
    """The kernel of an aggregate."""
    return KERNELS[aggregate.stem](aggregate, kept)
