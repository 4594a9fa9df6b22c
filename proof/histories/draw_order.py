"""Draws what only matters to the order of results: partitions, clocks, and folds behind new keys.

Owns how likely they are. Law: as in `draw`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from zlib import crc32

from proof.histories.blueprint import Blueprint, Op, Ref
from proof.histories.case import Case
from proof.histories.kinds.choices import Choices
from proof.histories.kinds.registry import KINDS, goes_by_wall, holds_back, is_limited, oracle_of, sources_of
from proof.histories.last_results import all_above, out_of_step
from proof.histories.sequence import merged
from proof.histories.subjects.times import with_extracted_times
from proof.oracle.domains import in_place
from proof.oracle.streams.stream_table import StreamTableJoin

_REKEYS = ("select_one", "select_one", "select_key", "map", "flat_map")
_FOLDS = ("stream_aggregate", "stream_aggregate", "to_table", "window_aggregate")
Add = Callable[[str, tuple[Ref, ...]], None]


def fold_behind(
    choices: Choices, generation: str, ops: Sequence[Op], shapes: Sequence[tuple[Ref, str]], add: Add
) -> None:
    """Often, of results that were held back, a fold that depends on their order, under another key."""
    whole = Blueprint(tuple(ops))
    held = [
        (ref, shape)
        for ref, shape in shapes
        if shape != "global" and any(holds_back(ops[number]) for number in all_above(whole, ref))
    ]
    if not held or not choices.chance(60):
        return
    ref, shape = choices.pick(held)
    if shape == "windowed":
        add("windowed_stream", (ref,))
        ref = shapes[-1][0]
    else:
        if shape == "table":
            add("to_stream", (ref,))
            ref = shapes[-1][0]
        add(choices.pick(_REKEYS), (ref,))
        ref = shapes[-1][0]
    add(choices.pick([name for name in _FOLDS if generation in KINDS[name].generations]), (ref,))


def with_partitions(choices: Choices, case: Case) -> Case:
    """Perhaps with 1 to 3 partitions for each input: as a rule each key stands in one of them, in all inputs alike.

    Sometimes each record stands in any, where what is kept has a rule for that.
    """
    count = choices.pick((0, 0, 1, 2, 2, 3))
    if not count:
        return case
    if count > 1 and not _judged_alike(case.blueprint):
        count = 1
    salt = choices.number(0, 7)
    anywhere = count > 1 and may_share_keys(case.blueprint) and choices.chance(40)
    records = tuple(
        record._replace(
            partition=choices.number(0, count - 1) if anywhere or record.key is None else _part(record.key, salt, count)
        )
        for record in case.records
    )
    if choices.chance(50):
        # long batches: as one batch would process them
        times = with_extracted_times(case.blueprint, records)
        records = merged(records, sources_of(case.blueprint), case.blueprint.sources(("global",)), times)
    return replace(case, records=records, partitioned=True)


def with_clock(choices: Choices, case: Case) -> Case:
    """Perhaps with a wall clock by which time goes on while the input rests; always where timers wait for it."""
    waits = goes_by_wall(case.blueprint)
    if not waits and not choices.chance(20):
        return case
    wall, clock = 1_000, list[tuple[int, int]]()
    for place in sorted(choices.number(1, len(case.records)) for _ in range(choices.number(1, 4))):
        # timers are set for so much later, too
        wall += choices.pick((0, 1, 5, 20, 90) if waits else (0, 1, 8, 30, 90))
        clock.append((place, wall))
    rests = not waits or choices.chance(30)
    return replace(case, clock=tuple(clock), idle_after=choices.pick((1, 10, 40)) if rests else 0)


def _part(key: object, salt: int, count: int) -> int:
    return crc32(f"{salt}/{key!r}".encode()) % count


def _judged_alike(blueprint: Blueprint) -> bool:
    """Whether a table with a history goes by the same time wherever it is kept: in the oracle it is kept once."""
    if out_of_step(blueprint) or not any("history" in op.params for op in blueprint.ops):
        return True
    _, nodes = oracle_of(blueprint)
    joins = [node for node in nodes if isinstance(node, StreamTableJoin) and node.goes_by_time]
    return all(in_place(join) == in_place(table) for join in joins for table in join._looked_up)


def may_share_keys(blueprint: Blueprint) -> bool:
    """Whether a key may stand in several partitions: histories know no rule for that yet."""
    unruled = any("history" in op.params for op in blueprint.ops)
    return blueprint.generation == "current" and not unruled and not is_limited(blueprint)
