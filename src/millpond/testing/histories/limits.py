"""Topologies in which engine and oracle are known to differ, and why.

Owns the list of limits. Law: a limit names a shape of topology, never a result, and stands in the
documentation; the tests keep an example of each that must differ, so that a limit that is gone is noticed.
Called by `draw`, which draws another blueprint instead.
"""

from __future__ import annotations

from millpond.testing.histories.blueprint import Blueprint, Ref
from millpond.testing.histories.registry import KINDS

CHAINED_DIAMOND = "a join of a table with itself, whose result is joined again"
FILTERED_DIAMOND = "a join of a table with itself, kept in a store, whose result is filtered"

DEFERRED = "a foreign-key join on a way that a record takes more than once"


def limit_of(blueprint: Blueprint) -> str | None:
    """The limit that a blueprint runs into, if any.

    Kafka Streams sends messages through topics for a foreign key, and works on them when the record's own path
    is finished; millpond works depth-first.

    Kafka Streams looks the result of a join up in the stores of its inputs; the engine keeps what was sent.
    Where one record reaches both sides of a join of two tables, what is sent may lack a tombstone that both
    sides believed the other to send, or repeat one; and the old value that Kafka Streams sends along is what
    it computes at that moment, not what was sent before.
    """
    if not all(_takes_one_way(blueprint, number) for number in range(len(blueprint.ops))):
        return DEFERRED
    diamonds = {
        number
        for number, op in enumerate(blueprint.ops)
        if op.kind == "table_table" and _all_above(blueprint, op.inputs[0]) & _all_above(blueprint, op.inputs[1])
    }
    kept = {number for number in diamonds if blueprint.ops[number].params.get("stored")}
    for op in blueprint.ops:
        if op.kind == "table_filter" and _tables_above(blueprint, op.inputs[0]) & kept:
            return FILTERED_DIAMOND
        if not op.kind.endswith("_table") or len(op.inputs) < 2:
            continue
        looked_up = [ref for ref, shape in zip(op.inputs, KINDS[op.kind].takes, strict=True) if shape == "table"]
        if any(_tables_above(blueprint, ref) & diamonds for ref in looked_up):
            return CHAINED_DIAMOND
    return None


def _takes_one_way(blueprint: Blueprint, number: int) -> bool:
    """Whether one record has one result at most on its way into, and one way out of, what is deferred."""
    above = _all_above(blueprint, Ref(number))
    deferred = {place for place in above if KINDS[blueprint.ops[place].kind].deferred}
    if not deferred:
        return True
    several = {"flat_map_values", "stream_stream"} & {blueprint.ops[place].kind for place in above}
    return not several and len(deferred) == 1 and not any(_forks(blueprint, place) for place in above)


def _forks(blueprint: Blueprint, number: int) -> bool:
    """Whether one record reaches an operator by two ways."""
    inputs = blueprint.ops[number].inputs
    return len(inputs) == 2 and bool(_all_above(blueprint, inputs[0]) & _all_above(blueprint, inputs[1]))


def _all_above(blueprint: Blueprint, ref: Ref) -> set[int]:
    return {ref.op}.union(*(_all_above(blueprint, above) for above in blueprint.ops[ref.op].inputs))


def _tables_above(blueprint: Blueprint, ref: Ref) -> set[int]:
    """The tables that this one is computed from; a to_table begins a new one."""
    op = blueprint.ops[ref.op]
    tables = [above for above, shape in zip(op.inputs, KINDS[op.kind].takes, strict=True) if shape == "table"]
    return {ref.op}.union(*(_tables_above(blueprint, above) for above in tables))
