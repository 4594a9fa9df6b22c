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

TIME_OF_OTHERS = "an operator that keeps time, which some piped records do not reach"
_PASSES_ALL = ("stream", "map_values", "select_key", "merge", "stream_stream")


def limit_of(blueprint: Blueprint) -> str | None:
    """The limit that a blueprint runs into, if any.

    In the drivers all inputs are one partition with one time, so a record moves the time of operators that it
    does not reach too; the oracle's operators know only what they saw.

    Kafka Streams looks the result of a join up in the stores of its inputs; the engine keeps what was sent.
    Where one record reaches both sides of a join of two tables, what is sent may lack a tombstone that both
    sides believed the other to send, or repeat one; and the old value that Kafka Streams sends along is what
    it computes at that moment, not what was sent before.
    """
    if not all(_sees_all(blueprint, number) for number, op in enumerate(blueprint.ops) if KINDS[op.kind].timed):
        return TIME_OF_OTHERS
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


def _sees_all(blueprint: Blueprint, number: int) -> bool:
    above = _all_above(blueprint, Ref(number))
    everywhere = {place for place, op in enumerate(blueprint.ops) if not op.inputs}
    return everywhere <= above and all(blueprint.ops[place].kind in _PASSES_ALL for place in above)


def _all_above(blueprint: Blueprint, ref: Ref) -> set[int]:
    return {ref.op}.union(*(_all_above(blueprint, above) for above in blueprint.ops[ref.op].inputs))


def _tables_above(blueprint: Blueprint, ref: Ref) -> set[int]:
    """The tables that this one is computed from; a to_table begins a new one."""
    op = blueprint.ops[ref.op]
    tables = [above for above, shape in zip(op.inputs, KINDS[op.kind].takes, strict=True) if shape == "table"]
    return {ref.op}.union(*(_tables_above(blueprint, above) for above in tables))
