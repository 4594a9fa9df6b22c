"""Mappers of values that ask elsewhere: coroutines that answer in an order of their own.

Owns how often they are drawn. Law: the oracle has the answers, whoever answers first.
"""

from __future__ import annotations

from dataclasses import replace

from proof.histories.blueprint import Blueprint
from proof.histories.kinds.choices import Choices


def with_asked(choices: Choices, blueprint: Blueprint) -> Blueprint:
    """Perhaps with mappers of values that ask."""
    ops = [
        replace(op, params={**op.params, "asks": choices.pick((1, 2, 100))})
        if op.kind == "map_values" and choices.chance(70)
        else op
        for op in blueprint.ops
    ]
    return replace(blueprint, ops=tuple(ops))
