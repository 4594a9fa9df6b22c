"""What is compared where a record's intermediate results come in another order than in Kafka Streams.

Kafka Streams sends messages through topics for a foreign key, and works on them when the record's own path is
finished; watersmeet works depth-first. Where a record goes several ways, the ways meet in another order, so that
they give other intermediate results. Law: what then stands, after each record, is the same.

Two things stand in Kafka Streams that should not. Where one record changes a left row and deletes the right row
that it refers to, an inner join's answer to the deletion is stale when it arrives, and the left change is answered
only where there is a right row. And where a join of a table with itself loses the tombstone of a left row
(KAFKA-6443), a result stands without its row. What comes through such a foreign-key join is compared with watersmeet
itself alone: in one batch, on one shard.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import combinations
from typing import Any

from proof.histories.blueprint import Blueprint, Ref, name_of
from proof.histories.kinds.registry import KINDS, SINKS
from proof.oracle.records import Result

_TABLES = (
    "table",
    "table_filter",
    "table_map_values",
    "table_table",
    "multi_join",
    "foreign_key",
    "stored_view",
    "one_to_many",
    "many_to_many",
    "table_set",
    "table_global",
)
_PASSES = ("stream", "global", "map_values", "repartition", "peek", "to_stream", "to_table", "through", "to")
_SETTLES = frozenset((*_TABLES, *_PASSES, "table_to"))
"""Kinds whose last result of a key says it all; of the others, each result counts."""
_PROCESSORS = ("process", "process_table", "process_global", "process_shared", "transform_values")
_SEVERAL = frozenset((*_PROCESSORS, "flat_map", "flat_map_values", "stream_stream"))
"""Kinds that may send several results for one record."""


def out_of_step(blueprint: Blueprint) -> bool:
    """Whether a record has several ways into, or out of, what is deferred."""
    return not all(takes_one_way(blueprint, number) for number in range(len(blueprint.ops)))


def settling_sinks(blueprint: Blueprint) -> frozenset[str]:
    """The outputs of which the last result of each key must be right."""
    sinks = (number for number, op in enumerate(blueprint.ops) if op.kind in SINKS)
    return frozenset(name_of(number) for number in sinks if _settles(blueprint, all_above(blueprint, Ref(number))))


def settles(blueprint: Blueprint) -> bool:
    """Whether all that is kept depends on last results alone."""
    return _settles(blueprint, range(len(blueprint.ops)))


def standing(steps: list[list[Result]], sinks: frozenset[str]) -> list[dict[Any, Any]]:
    """What stands in these outputs after each step: value and timestamp by output and key."""
    now: dict[Any, Any] = {}
    after = []
    for results in steps:
        for result in results:
            if result.sink in sinks:
                now[(result.sink, result.key)] = (result.value, result.ts)
        after.append({place: held for place, held in now.items() if held[0] is not None})
    return after


def first_unsettled(expected: list[list[Result]], got: list[list[Result]], sinks: frozenset[str]) -> int | None:
    """The first step after which something else stands."""
    pairs = zip(standing(expected, sinks), standing(got, sinks), strict=True)
    return next((step for step, (one, other) in enumerate(pairs) if one != other), None)


def all_above(blueprint: Blueprint, ref: Ref) -> set[int]:
    """The operator and all that it is computed from."""
    return {ref.op}.union(*(all_above(blueprint, above) for above in blueprint.ops[ref.op].inputs))


def _settles(blueprint: Blueprint, numbers: Collection[int]) -> bool:
    # of what remembers its past the order of changes with one timestamp counts
    kinds = all(blueprint.ops[n].kind in _SETTLES and "history" not in blueprint.ops[n].params for n in numbers)
    return kinds and not any(_outlives_its_row(blueprint, number) for number in numbers)


def _outlives_its_row(blueprint: Blueprint, number: int) -> bool:
    """Whether a result of a foreign-key join may stand without its row."""
    op = blueprint.ops[number]
    if op.kind != "foreign_key" and op.params.get("way") != "foreign_key":
        return False
    is_inner = op.params.get("how") == "inner" or op.params.get("method") == "semi_join"
    stale = is_inner and forks(blueprint, number)
    return stale or any(forks(blueprint, place) for place in _tables_above(blueprint, op.inputs[0]))


def _tables_above(blueprint: Blueprint, ref: Ref) -> set[int]:
    """The tables that this one is computed from; a to_table begins a new one."""
    op = blueprint.ops[ref.op]
    tables = [above for above, shape in zip(op.inputs, KINDS[op.kind].takes, strict=True) if shape == "table"]
    return {ref.op}.union(*(_tables_above(blueprint, above) for above in tables))


def takes_one_way(blueprint: Blueprint, number: int) -> bool:
    """Whether a record has one way alone to this operator, as far as anything is deferred above."""
    above = all_above(blueprint, Ref(number))
    deferred = {place for place in above if KINDS[blueprint.ops[place].kind].deferred}
    if not deferred:
        return True
    several = _SEVERAL & {blueprint.ops[place].kind for place in above}
    return not several and len(deferred) == 1 and not any(forks(blueprint, place) for place in above)


def forks(blueprint: Blueprint, number: int) -> bool:
    """Whether one record reaches an operator by two ways."""
    ways = [all_above(blueprint, ref) for ref in blueprint.ops[number].inputs]
    return any(one & other for one, other in combinations(ways, 2))
