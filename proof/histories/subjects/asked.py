"""Mappers of values that ask elsewhere: coroutines that answer in an order of their own.

Owns the coroutine. Law: the oracle has the answers, whoever answers first.
"""

from __future__ import annotations

import asyncio
import zlib
from dataclasses import replace
from typing import Any

from proof.histories.blueprint import Blueprint
from proof.histories.kinds.choices import Choices
from proof.histories.kinds.functions import mapped


async def answer(value: Any) -> Any:
    """What the mapper gives, after some turns of the loop, another number of them for each value."""
    for _ in range(zlib.crc32(value.encode()) % 4):
        await asyncio.sleep(0)
    return mapped(value)


def with_asked(choices: Choices, blueprint: Blueprint) -> Blueprint:
    """Perhaps with mappers of values that ask."""
    ops = [
        replace(op, params={**op.params, "asks": choices.pick((1, 2, 100))})
        if op.kind == "map_values" and choices.chance(70)
        else op
        for op in blueprint.ops
    ]
    return replace(blueprint, ops=tuple(ops))
