"""Draws histories of tables that are joined with what is computed from themselves.

Owns how likely they are: one or two inputs, perhaps the store of a view of global tables, and joins upon joins of them,
by key and by foreign key. Law: as in `draw`.
"""

from __future__ import annotations

from proof.histories.blueprint import Blueprint, Op, Ref
from proof.histories.case import Case
from proof.histories.draw import draw_case, with_rescaling
from proof.histories.kinds.choices import Choices, Dice
from proof.histories.kinds.registry import KINDS

_JOINS = (
    ("foreign_key",) * 4
    + ("table_table",) * 4
    + ("one_to_many", "many_to_many", "multi_join", "table_set", "value_set")
)
_OTHERS = ("table_filter", "table_map_values")


def self_joined_case_of(seed: int, number: int) -> Case:
    """The case of a seed and a number; a few cases in succession share a topology."""
    blueprint = self_joins(Dice(f"{seed}/self-joins/{number // 4}"))
    return with_rescaling(Dice(f"{seed}/rescaled/{number}"), draw_case(Dice(f"{seed}/case/{number}"), blueprint))


def self_joins(choices: Choices) -> Blueprint:
    """Two to five operators of tables over one or two inputs, perhaps with a count of groups behind them."""
    ops: list[Op] = []

    def add(kind: str, *inputs: int) -> int:
        params = dict(KINDS[kind].draw(choices, "current"))
        if kind != "table":
            params.pop("history", None)
        ops.append(Op(kind, tuple(map(Ref, inputs)), params))
        return len(ops) - 1

    def waiting(table: int) -> int:
        """A table that shows its rows later, or no longer, and an output of it: what stands there is looked at."""
        kind = choices.pick(("suppress", "expiring"))
        made = add(kind, add("to_stream", table) if kind == "expiring" else table)
        add("table_to", made)
        return made

    tables = [add("table") for _ in range(choices.pick((1, 1, 2)))]
    inputs = len(tables)
    for _ in range(choices.number(2, 5)):
        if choices.chance(20):
            # of an input it is known to the moment how long its rows last
            tables.append(waiting(_side(choices, tables[:inputs] if choices.chance(40) else tables)))
        kind = choices.pick(_JOINS if choices.chance(80) else _OTHERS)
        tables.append(add(kind, *(_side(choices, tables) for _ in KINDS[kind].takes)))
    ends = [table for table in tables[inputs:] if table == tables[-1] or choices.chance(30)]
    for table in ends:
        add("table_to", table)
    if choices.chance(15):
        ops.append(Op("table_aggregate", (Ref(tables[-1]),), {"fold": "count"}))
        add("table_to", len(ops) - 1)
    if choices.chance(30):
        # the store of a view, beside all else: nothing reads its rows as a table
        sides = [add("global") for _ in range(choices.number(1, 3))]
        add("table_to", add("stored_view", *(choices.pick(sides) for _ in range(3))))
    return Blueprint(tuple(ops))


def _side(choices: Choices, tables: list[int]) -> int:
    """The newest table one half of the time."""
    return tables[-1] if choices.chance(50) else choices.pick(tables)
