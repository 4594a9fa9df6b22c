"""Lookups in a row share a level: with branches, merges and changed keys between them, over any cuts and shards."""

from __future__ import annotations

from proof.histories import Blueprint, check
from proof.histories.check import topology_of
from proof.histories.draw import draw_case, with_rescaling
from proof.histories.kinds.choices import Choices, Dice
from proof.histories.report import page
from tests.histories.ops import op


def chained(choices: Choices) -> Blueprint:
    """Two global tables, looked up by a stream in a branching row, and by a table."""

    def how() -> str:
        return choices.pick(("inner", "left"))

    stream = (
        *(op("global"), op("global"), op("stream")),
        *(op("stream_global", 2, 0, how=how()), op("to", 3), op("map_values", 3)),
        *(op("stream_global", 5, 1, how=how()), op("select_key", 6), op("stream_global", 7, 0, how=how()), op("to", 8)),
        *(
            op("stream_global", 3, 1, how=how()),
            op("merge", 8, 10),
            op("stream_global", 11, 1, how=how()),
            op("to", 12),
        ),
    )
    table = op("table"), op("table_global", 14, 0, how=how()), op("table_global", 15, 1, how=how()), op("table_to", 16)
    return Blueprint((*stream, *table))


def test_random_chains_of_lookups_hold_in_one_level() -> None:
    for number in range(20):
        dice = Dice(f"chain/{number}")
        blueprint = chained(dice)
        assert topology_of(blueprint).physical.levels == 1
        found = check(with_rescaling(Dice(f"rescaled/{number}"), draw_case(dice, blueprint)))
        assert found is None, page(found)
