"""Topologies in which engine and oracle are known to differ, and why.

Owns the list of limits. Law: a limit names a shape of topology, never a result, and stands in the
documentation; the tests keep an example of each that must differ, so that a limit that is gone is noticed.
Called by `draw`, which draws another blueprint instead.
"""

from __future__ import annotations

from millpond.testing.histories.blueprint import Blueprint, Op, Ref
from millpond.testing.histories.registry import KINDS

TIME_OF_OTHERS = "an operator that keeps time, which some piped records do not reach"
DEFERRED = "a foreign-key join on a way that a record takes more than once"
MIXED_CHAIN = "a windowed join behind an outer windowed join whose bounds differ"
_PASSES_ALL = ("stream", "map_values", "select_key", "merge", "stream_stream")


def limit_of(blueprint: Blueprint) -> str | None:
    """The limit that a blueprint runs into, if any.

    In the drivers all inputs are one partition with one time, so a record moves the time of operators that it
    does not reach too; the oracle's operators know only what they saw.

    An outer windowed join of unequal bounds lets go of several results when a record moves time, in order of
    timestamp; a windowed join behind it places what it lets go of itself by its own window, perhaps before.

    Kafka Streams sends messages through topics for a foreign key, and works on them when the record's own path
    is finished; millpond works depth-first.
    """
    if not all(_sees_all(blueprint, number) for number, op in enumerate(blueprint.ops) if KINDS[op.kind].timed):
        return TIME_OF_OTHERS
    if not all(_takes_one_way(blueprint, number) for number in range(len(blueprint.ops))):
        return DEFERRED
    if any(_is_mixed_chain(blueprint, number) for number in range(len(blueprint.ops))):
        return MIXED_CHAIN
    return None


def _sees_all(blueprint: Blueprint, number: int) -> bool:
    above = _all_above(blueprint, Ref(number))
    everywhere = {place for place, op in enumerate(blueprint.ops) if not op.inputs}
    return everywhere <= above and all(blueprint.ops[place].kind in _PASSES_ALL for place in above)


def _is_mixed_chain(blueprint: Blueprint, number: int) -> bool:
    above = _all_above(blueprint, Ref(number)) - {number}
    return KINDS[blueprint.ops[number].kind].timed and any(_is_mixed(blueprint.ops[p]) for p in above)


def _is_mixed(op: Op) -> bool:
    params = op.params
    return KINDS[op.kind].timed and params["how"] == "outer" and params["before"] != params["after"]


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
