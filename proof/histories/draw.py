"""Draws blueprints and cases.

Owns what is likely: mostly joins and diamonds, few keys, many equal and late timestamps, nulls, tombstones,
records delivered twice. Law: every choice is asked of `Choices`, in a fixed order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import lru_cache

from proof.histories.blueprint import Blueprint, Op, Ref
from proof.histories.case import Case, Input
from proof.histories.draw_order import fold_behind, with_clock, with_partitions
from proof.histories.kinds.choices import Choices, Dice
from proof.histories.kinds.functions import LONG_KEYS, TEXT_KEYS, VALUES
from proof.histories.kinds.registry import KINDS, SOURCES, is_limited, sources_of
from proof.histories.kinds.shapes import KEYS
from proof.histories.kinds.shapes import VALUES as VALUE_TYPES
from proof.histories.subjects.processors import with_processors
from proof.histories.subjects.times import with_times

MOST_OPERATORS = 4
CASES_PER_BLUEPRINT = 5
SHORT = 10
FAR_FUTURE = 253_402_300_799_999
_INNER = {
    generation: tuple(
        name
        for name, kind in KINDS.items()
        if kind.takes and kind.gives and generation in kind.generations
        for _ in range(kind.weight)
    )
    for generation in ("current", "spurious", "old")
}


def case_of(seed: int, number: int) -> Case:
    """The case of a seed and a number; a few cases in succession share a blueprint."""
    blueprint = _blueprint_of(f"{seed}/blueprint/{number // CASES_PER_BLUEPRINT}")
    return with_rescaling(Dice(f"{seed}/rescaled/{number}"), draw_case(Dice(f"{seed}/case/{number}"), blueprint))


@lru_cache(maxsize=1)
def _blueprint_of(seed: str) -> Blueprint:
    # of its own dice: which operators there are does not depend on their types
    shaped = with_shape(Dice(f"{seed}/shape"), with_processors(Dice(f"{seed}/processors"), draw_blueprint(Dice(seed))))
    return with_times(Dice(f"{seed}/times"), with_failures(Dice(f"{seed}/failures"), shaped))


def draw_blueprint(
    choices: Choices,
    *,
    keys: str | None = None,
    generation: str | None = None,
    kinds: Collection[str] = KINDS,
    most: int = MOST_OPERATORS,
) -> Blueprint:
    """A random topology of one to `most` operators of these kinds, sources and sinks apart."""
    keys = keys or choices.pick(("string", "string", "long"))
    generation = generation or choices.pick(("current",) * 8 + ("spurious", "old"))
    ops: list[Op] = []
    shapes: list[tuple[Ref, str]] = []

    def add(kind: str, inputs: tuple[Ref, ...]) -> None:
        number = len(ops)
        ops.append(Op(kind, inputs, KINDS[kind].draw(choices, generation)))
        shapes.extend((Ref(number, port), shape) for port, shape in enumerate(KINDS[kind].gives))

    for _ in range(choices.number(1, most)):
        kind = choices.pick([name for name in _INNER[generation] if name in kinds])
        add(kind, tuple([_input(choices, shapes, wanted, add) for wanted in KINDS[kind].takes]))
        if choices.chance(15):
            _sink(choices.pick([end for end in shapes if end[1] != "global"] or shapes), add)
    fold_behind(choices, generation, ops, shapes, add)
    read = {ref for op in ops for ref in op.inputs}
    for ref, shape in list(shapes):
        if ref not in read:
            _sink((ref, shape), add)
    return Blueprint(tuple(ops), keys, generation)


def with_shape(choices: Choices, blueprint: Blueprint) -> Blueprint:
    """Perhaps with other types of keys and values."""
    if not choices.chance(60):
        return blueprint
    keys = choices.pick((*KEYS, *KEYS, "long"))
    return replace(blueprint, keys=keys, values=choices.pick([each for each in VALUE_TYPES if each != keys]))


def with_failures(choices: Choices, blueprint: Blueprint) -> Blueprint:
    """Perhaps with folds that raise for some records, and buffers that are limited by bytes, or stop the query."""
    ops = []
    for op in blueprint.ops:
        params = dict(op.params)
        if params.get("fold") in ("log", "reduce") and choices.chance(30):
            params["fold"] = "brittle"
        if op.kind in ("suppress", "windowed_suppress") and choices.chance(30):
            params["bytes"] = choices.pick((0, 20, 30, 50, 90, 200))
        if {"records", "bytes"} & params.keys() and choices.chance(30):
            params["refuses"] = True
        ops.append(replace(op, params=params))
    return replace(blueprint, ops=tuple(ops), on_error=choices.pick(("skip", "skip", "fail")))


Add = Callable[[str, tuple[Ref, ...]], None]


def _input(choices: Choices, shapes: list[tuple[Ref, str]], wanted: str, add: Add) -> Ref:
    """An output of this shape: one that is there, as a rule, or a new source."""
    there = [ref for ref, shape in shapes if shape == wanted]
    if not there or choices.chance(30):
        if wanted == "windowed":
            add("window_aggregate", (_input(choices, shapes, "stream", add),))
            return shapes[-1][0]
        fitting = [name for name in SOURCES if KINDS[name].gives == (wanted,)]
        add(choices.pick(fitting), ())
        return shapes[-1][0]
    # the newest one half of the time: chains rather than stars
    return there[-1] if choices.chance(50) else choices.pick(there)


def _sink(end: tuple[Ref, str], add: Add) -> None:
    ref, shape = end
    if shape != "global":
        add("to" if shape == "stream" else "table_to", (ref,))


def draw_case(choices: Choices, blueprint: Blueprint, *, most: int = 24) -> Case:
    """Random records, batches and shards for a blueprint."""
    records = draw_records(choices, blueprint, most=most)
    case = Case(
        blueprint,
        records,
        cuts=_cuts(choices, len(records)),
        shards=1 if is_limited(blueprint) else choices.pick((1, 2, 3, 7)),
        replay=choices.chance(40),
        shuffle=choices.number(0, 999),
    )
    return with_clock(choices, with_partitions(choices, case))


def with_rescaling(choices: Choices, case: Case) -> Case:
    """Perhaps with state that goes on over other numbers of shards; the limits of buffers hold for each shard."""
    if is_limited(case.blueprint) or not choices.chance(30):
        return case
    return replace(case, rescaled=tuple(choices.pick((0, 1, 2, 3, 5, 8, 64)) for _ in range(choices.number(1, 4))))


def draw_records(choices: Choices, blueprint: Blueprint, *, most: int = 24) -> tuple[Input, ...]:
    """Random records for all inputs; some end by deleting all that was put."""
    sources, keys = sources_of(blueprint), _keys(choices, blueprint)
    records: list[Input] = []
    time = 0
    for _ in range(choices.number(1, most)):
        if records and choices.chance(6):
            records.append(records[-1])
            continue
        time += choices.pick((0, 1, 5, 20))
        ts = _timestamp(choices, time, far=FAR_FUTURE if blueprint.generation == "current" else time)
        key = None if choices.chance(4) else choices.pick(keys)
        value = None if choices.chance(22) else choices.pick(VALUES)
        records.append(Input(choices.pick(sources), key, value, ts))
    if choices.chance(25):
        used = dict.fromkeys((record.source, record.key) for record in records)
        records += [Input(source, key, None, time) for source, key in used]
    return tuple(records)


def _keys(choices: Choices, blueprint: Blueprint) -> tuple[object, ...]:
    known: tuple[object, ...] = LONG_KEYS if blueprint.keys == "long" else TEXT_KEYS
    return known[: choices.number(1, len(known))]


def _timestamp(choices: Choices, time: int, *, far: int) -> int:
    """Mostly in order; the generations that kept a day of records are spared the far future."""
    dice = choices.number(0, 399)
    if dice < 280:
        return time
    if dice < 376:
        return max(0, time - choices.number(1, 40))
    return -1 if dice < 390 else 0 if dice < 399 else far


def _cuts(choices: Choices, records: int) -> tuple[int, ...]:
    """Every record its own batch in short histories only: a batch costs as much as a hundred records."""
    style = choices.number(0, 9)
    if style < 3:
        return ()
    if style == 9:
        size = 1 if records <= SHORT else 3
        return tuple(range(size, records, size))
    return tuple(sorted(choices.number(0, records) for _ in range(choices.number(1, 4))))
