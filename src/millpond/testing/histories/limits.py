"""Topologies in which engine and oracle are known to differ, and why.

Owns the list of limits. Law: a limit names a shape of topology, never a result, and stands in the
documentation; the tests keep an example of each that must differ, so that a limit that is gone is noticed.
Called by `draw`, which draws another blueprint instead.
"""

from __future__ import annotations

from millpond.testing.histories.blueprint import Blueprint, Op, Ref
from millpond.testing.histories.registry import KINDS
from millpond.testing.histories.settled import all_above

TIME_OF_OTHERS = "an operator that keeps time, which some piped records do not reach"
STORED_LOSS = "a foreign-key join of a stored join of a table with itself"
MIXED_CHAIN = "a windowed join behind an outer windowed join whose bounds differ"
_PASSES_ALL = ("stream", "map_values", "select_key", "merge", "stream_stream")


def limit_of(blueprint: Blueprint) -> str | None:
    """The limit that a blueprint runs into, if any.

    In the drivers all inputs are one partition with one time, so a record moves the time of operators that it
    does not reach too; the oracle's operators know only what they saw.

    An outer windowed join of unequal bounds lets go of several results when a record moves time, in order of
    timestamp; a windowed join behind it places what it lets go of itself by its own window, perhaps before.

    Where a stored join of a table with itself loses a tombstone (KAFKA-6443), a foreign-key join behind it compares
    the next row with the old value that Kafka Streams computes at that moment, which is none, and a result whose
    row is gone stays; millpond compares with what the join was sent, and deletes it.
    """
    if not all(_sees_all(blueprint, number) for number, op in enumerate(blueprint.ops) if KINDS[op.kind].timed):
        return TIME_OF_OTHERS
    if any(_is_mixed_chain(blueprint, number) for number in range(len(blueprint.ops))):
        return MIXED_CHAIN
    if any(_compares_with_computed(blueprint, number) for number in range(len(blueprint.ops))):
        return STORED_LOSS
    return None


def _sees_all(blueprint: Blueprint, number: int) -> bool:
    above = all_above(blueprint, Ref(number))
    everywhere = {place for place, op in enumerate(blueprint.ops) if not op.inputs}
    return everywhere <= above and all(blueprint.ops[place].kind in _PASSES_ALL for place in above)


def _is_mixed_chain(blueprint: Blueprint, number: int) -> bool:
    above = all_above(blueprint, Ref(number)) - {number}
    return KINDS[blueprint.ops[number].kind].timed and any(_is_mixed(blueprint.ops[p]) for p in above)


def _is_mixed(op: Op) -> bool:
    params = op.params
    return KINDS[op.kind].timed and params["how"] == "outer" and params["before"] != params["after"]


def _compares_with_computed(blueprint: Blueprint, number: int) -> bool:
    """A foreign-key join whose left table is computed from a stored join of a table with itself."""
    op = blueprint.ops[number]
    if op.kind != "foreign_key":
        return False
    above = (blueprint.ops[place] for place in _tables_above(blueprint, op.inputs[0]))
    return any(join.kind == "table_table" and join.params.get("stored") and _meet(blueprint, join) for join in above)


def _meet(blueprint: Blueprint, join: Op) -> bool:
    left, right = join.inputs
    return bool(all_above(blueprint, left) & all_above(blueprint, right))


def _tables_above(blueprint: Blueprint, ref: Ref) -> set[int]:
    """The tables that this one is computed from; a to_table begins a new one."""
    op = blueprint.ops[ref.op]
    tables = [above for above, shape in zip(op.inputs, KINDS[op.kind].takes, strict=True) if shape == "table"]
    return {ref.op}.union(*(_tables_above(blueprint, above) for above in tables))
