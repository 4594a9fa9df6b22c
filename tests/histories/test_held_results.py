"""Random topologies in which records that were held back get other keys: the order is the oracle's all the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from proof.histories import Case, check
from proof.histories.blueprint import Blueprint, Ref
from proof.histories.draw import draw_blueprint, draw_case
from proof.histories.kinds.choices import Dice
from proof.histories.last_results import all_above
from proof.histories.report import page

COUNT = 160
PIECES = 4
REKEYS = ("select_key", "map", "flat_map")
ALIKE = {"b": "neighbour", "a\0": "neighbour\0", "": "neighbours", "é": "neighbour-é"}
"""Keys that have their first eight bytes in common, one the other's continuation by a zero byte."""


def rekeyed_late(blueprint: Blueprint) -> bool:
    """Whether records get another key behind an operator that keeps results until time has passed."""
    rekeys = (place for place, op in enumerate(blueprint.ops) if op.kind in REKEYS)
    above = {place for last in rekeys for place in all_above(blueprint, Ref(last))}
    joins = (blueprint.ops[place] for place in above)
    return any(op.kind == "stream_stream" and op.params["how"] != "inner" for op in joins)


def cases(seed: str, count: int) -> Iterator[Case]:
    dice = Dice(seed)
    while count:
        blueprint = draw_blueprint(dice, keys="string", generation="current")
        if rekeyed_late(blueprint):
            case = draw_case(dice, blueprint)
            records = tuple(r._replace(key=ALIKE.get(str(r.key), r.key)) for r in case.records)
            yield replace(case, records=records)
            count -= 1


@pytest.mark.parametrize("piece", range(PIECES))
def test_held_results_under_other_keys_come_in_the_order_of_the_keys_they_had(piece: int) -> None:
    for case in cases(f"held/{piece}", COUNT // PIECES):
        found = check(case)
        assert found is None, page(found)
