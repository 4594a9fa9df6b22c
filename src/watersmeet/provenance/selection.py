"""The records of a journal that can have a part in a row, by their keys: a replay needs no others.

All records pass the stateless steps, a column at a time, which says under which key each comes to an operator. From the
table's operator upwards those of the row's key matter. Behind a join by a foreign key these are records of the keys
that the row's records refer to: a replay of what was found so far says which, until nothing is added.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from watersmeet._engine.arrays import Int64s
from watersmeet._plan.physical import Edge, Operator, Physical
from watersmeet.provenance.records import History
from watersmeet.provenance.replay import AskedRow, WatchedRun, edges_above, keeps_key, steps_keep_key
from watersmeet.testing.in_process import Local

MOST_SELECTED = 20_000
"""Records; where more are found, the whole journal is replayed."""
_REFERRED = frozenset(("foreign_key_receive", "one_to_many"))
_REFERS = "foreign_key_send"


def selected(topology: Local, asked: AskedRow, history: History) -> Int64s | None:
    """The steps of the records that can have a part in a row, in order; None: all may.

    Time is left out: who has moved it when one of these came may have a part in the row, too.
    """
    ways = _operators_above(topology.physical, asked)
    if ways is None:
        return None
    first = WatchedRun(topology)
    first.take_directly(history.frame(np.arange(len(history))))
    arrived = {
        number: first.arrivals(number) for number in (*ways.by_key, *(n for some in ways.referred for n in some))
    }
    if any(not arrived[number].kinds <= {asked.kind} for number in ways.by_key):
        return None
    found = _joined(arrived[number].of_keys([asked.order]) for number in ways.by_key)
    while len(found) <= MOST_SELECTED:
        run = WatchedRun(topology)
        run.take(history.frame(found))
        more = [found]
        for referred, *above in ways.referred:
            keys = set(run.arrivals(referred).keys.to_pylist()) - {None}
            more += [arrived[number].of_keys(keys) for number in (referred, *above)]
        steps = _joined(more)
        if len(steps) == len(found):
            return found
        found = steps
    return None


def _joined(parts: Iterable[Int64s]) -> Int64s:
    return np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *parts]))


@dataclass
class _OperatorsAbove:
    """The operators above a row, by their numbers.

    Attributes
    ----------
    by_key : those of which the rows of the asked key matter.
    referred : of each join by a foreign key the operator of the keys that are referred to, and those above it that have
        rows of the same keys.
    """

    by_key: list[int] = field(default_factory=list)
    referred: list[list[int]] = field(default_factory=list)


def _operators_above(physical: Physical, asked: AskedRow) -> _OperatorsAbove | None:
    """The ways to a row; None where keys do not say what matters."""
    ways = _OperatorsAbove()
    return ways if _goes_up(physical, asked.table.context.operator, ways.by_key, ways) else None


def _goes_up(physical: Physical, operator: Operator, group: list[int], ways: _OperatorsAbove) -> bool:
    """Note an operator and those above it in a group with the same keys; False where keys do not say what matters."""
    if operator.id in group:
        return True
    if operator.spec.mixes_keys or any(table.everywhere for table in operator.keeps):
        return False
    group.append(operator.id)
    if operator.stem in _REFERRED:
        # the asked table may be one of the operator's own: then the group is that of the keys that are referred to
        return _refers(physical, operator, group, ways)
    return all(_follows(physical, edge, above, group, ways) for edge, above in edges_above(physical, operator))


def _follows(physical: Physical, edge: Edge, above: Operator | None, group: list[int], ways: _OperatorsAbove) -> bool:
    if above is None or keeps_key(physical, edge):
        return above is None or _goes_up(physical, above, group, ways)
    if above.stem not in _REFERRED or not steps_keep_key(physical, edge):
        return False
    referred: list[int] = []
    ways.referred.append(referred)
    sends = [each for _, each in edges_above(physical, above) if each is not None and each.stem == _REFERS]
    # its results have the keys of the rows that refer
    return all(_goes_up(physical, send, group, ways) for send in sends) and _goes_up(physical, above, referred, ways)


def _refers(physical: Physical, operator: Operator, group: list[int], ways: _OperatorsAbove) -> bool:
    """The operators above the rows that are referred to; those of the rows that refer are noted by their results."""
    is_asked = group is ways.by_key
    others = [(e, each) for e, each in edges_above(physical, operator) if each is None or each.stem != _REFERS]
    return not is_asked and all(_follows(physical, edge, above, group, ways) for edge, above in others)
