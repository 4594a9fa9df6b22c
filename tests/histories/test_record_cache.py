"""The record cache: each key has one result per batch, and what then stands is what stands without it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from itertools import pairwise
from typing import Any

import pytest

from proof.histories.blueprint import Blueprint, Op, Ref, name_of
from proof.histories.case import Case, Input
from proof.histories.check import Steps, StoppedError, run_engine, run_oracle, topology_of
from proof.histories.draw import case_of
from proof.histories.driver import RoughDriver
from proof.histories.kinds.registry import is_limited
from proof.histories.last_results import settling_sinks, standing
from watersmeet._plan.physical import with_record_cache

SEED = 12
COUNT = 2_000
PIECES = 8
ONLY_WHAT_STOOD = ("table", "table_table", "multi_join", "one_to_many", "table_global")
"""Kinds that know what a key had before."""


def cached_sinks(blueprint: Blueprint) -> dict[str, bool]:
    """The outputs that get a cached operator's own results, and whether it sends a null only for what had a result."""
    operators = with_record_cache(topology_of(blueprint).physical).operators
    last = {operator.node: operator for operator in operators}
    found = {}
    for number, op in enumerate(blueprint.ops):
        operator = last.get(name_of(op.inputs[0].op)) if op.kind == "table_to" else None
        if operator is not None and operator.cached:
            found[name_of(number)] = blueprint.ops[op.inputs[0].op].kind in ONLY_WHAT_STOOD
    return found


def looks_up_again(blueprint: Blueprint) -> bool:
    """Whether a global table is looked up for results of joins: without the cache for such as change nothing, too."""
    ops = blueprint.ops
    return any(op.kind == "table_global" and ops[op.inputs[0].op].kind != "table" for op in ops)


def differences(case: Case) -> str | None:
    """What is wrong with a case under the record cache."""
    topology = topology_of(case.blueprint)
    if is_limited(case.blueprint):
        # the cache's changes of a batch come together, so that a buffer holds others at once
        return None
    if not any(operator.cached for operator in with_record_cache(topology.physical).operators):
        return None
    try:
        expected, _ = run_oracle(case)
    except StoppedError:
        # the query ends at that record, so nothing stands
        return None
    driver = RoughDriver(topology, shards=case.shards, replay=case.replay, shuffle=case.shuffle, record_cache=True)
    got = run_engine(case, driver)
    sinks = frozenset() if looks_up_again(case.blueprint) else settling_sinks(case.blueprint)
    now, then = standing(got, sinks), standing(expected, sinks)
    cached = cached_sinks(case.blueprint)
    for start, end in pairwise([0, *case.cuts, len(case.records)]):
        if start == end:
            continue
        if values(now[end - 1]) != values(then[end - 1]):
            return f"{start}:{end}: {now[end - 1]} stands, not {then[end - 1]}"
        found = unneeded(got, start, end, cached) or misplaced(got[start:end], then[start:end], sinks & cached.keys())
        if found is not None:
            return f"{start}:{end}: {found}"
    return None


def values(standing: dict[Any, Any]) -> dict[Any, Any]:
    """What stands, without its timestamps."""
    return {place: value for place, (value, _) in standing.items()}


def unneeded(got: Steps, start: int, end: int, cached: dict[str, bool]) -> str | None:
    """What a batch has too much of."""
    batch = [result for results in got[start:end] for result in results if result.sink in cached]
    twice = [place for place, count in Counter((r.sink, repr(r.key)) for r in batch).items() if count > 1]
    if twice:
        return f"{twice} twice"
    stood = standing([*got[:start], []], frozenset(cached))[-1]
    nulls = (result for result in batch if cached[str(result.sink)] and result.value is None)
    return next((f"a null for {r.key}, which had none" for r in nulls if (r.sink, r.key) not in stood), None)


def misplaced(got: Steps, then: list[dict[Any, Any]], sinks: Collection[str]) -> str | None:
    """A result of a batch that does not stand where the last of what it is made of stands, or has another timestamp.

    Where the other side is missing, it may have come and gone in the batch: what that did is left out with it.
    """
    for results, standing_then in zip(got, then, strict=True):
        for result in results:
            place = (result.sink, result.key)
            if result.sink not in sinks or "null" in str(result.value):
                continue
            if standing_then.get(place, (None,))[0] != result.value:
                return f"{result} out of place"
            if result.value is not None and then[-1][place][1] != result.ts:
                return f"{result}, not {then[-1][place]}"
    return None


@pytest.mark.parametrize("piece", [0, *(pytest.param(n, marks=pytest.mark.proof) for n in range(1, PIECES))])
def test_what_stands_after_a_batch_is_what_the_oracle_says_and_no_key_has_two_results_in_it(piece: int) -> None:
    size = COUNT // PIECES
    for number in range(piece * size, (piece + 1) * size):
        case = case_of(SEED, number)
        found = differences(case)
        assert found is None, "\n".join([f"case {number}: {found}", *case.blueprint.lines(), repr(case)])


def test_a_join_behind_one_that_a_record_moves_on_both_sides_deletes_only_what_stood() -> None:
    """Old values of such a join are not what was sent: this case tells, few do."""
    ops = (
        Op("table", (), {"stored": True}),
        Op("table_table", (Ref(0, 0), Ref(0, 0)), {"how": "inner"}),
        Op("stream", (), {}),
        Op("flat_map_values", (Ref(2, 0),), {}),
        Op("table", (), {}),
        Op("table_table", (Ref(4, 0), Ref(1, 0)), {"how": "inner"}),
        Op("to", (Ref(3, 0),), {}),
        Op("table_to", (Ref(5, 0),), {}),
    )
    moves = [("n2", "b", None, 20), ("n0", "a", "|6", 10), ("n4", "b", "3", 33), ("n4", "b", "1", 61)]
    moves += [("n2", "a", "x", 61), ("n4", "a", "a|b|7", 62), ("n2", "b", "1", 82), ("n4", "a", None, 83)]
    ends = [("n0", "b", None, 83), ("n0", "b", "1", 88), ("n2", "b", None, 88), ("n0", "a", None, 88)]
    ends += [("n4", "b", None, 88), ("n2", "a", None, 88), ("n4", "a", None, 88), ("n0", "b", None, 88)]
    records = tuple(Input(*record) for record in [*moves, *ends])
    case = Case(Blueprint(ops, keys="string", generation="current"), records, cuts=(0,), shards=2, shuffle=702)
    assert differences(case) is None
