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
MIXED_CHAIN = "a windowed join behind an outer windowed join whose bounds differ"
_PASSES_ALL = ("stream", "map_values", "select_key", "merge", "stream_stream")


def limit_of(blueprint: Blueprint) -> str | None:
    """The limit that a blueprint runs into, if any.

    In the drivers all inputs are one partition with one time, so a record moves the time of operators that it
    does not reach too; the oracle's operators know only what they saw.

    An outer windowed join of unequal bounds lets go of several results when a record moves time, in order of
    timestamp; a windowed join behind it places what it lets go of itself by its own window, perhaps before.
    """
    if not all(_sees_all(blueprint, number) for number, op in enumerate(blueprint.ops) if KINDS[op.kind].timed):
        return TIME_OF_OTHERS
    if any(_is_mixed_chain(blueprint, number) for number in range(len(blueprint.ops))):
        return MIXED_CHAIN
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
