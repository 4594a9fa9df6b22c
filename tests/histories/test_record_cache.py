"""The record cache: each key has one result per batch, and what then stands is what stands without it."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from millpond._plan.record_cache import with_record_cache
from millpond.testing.histories.blueprint import Blueprint, name_of
from millpond.testing.histories.case import Case
from millpond.testing.histories.check import Steps, run_engine, run_oracle, topology_of
from millpond.testing.histories.draw import case_of
from millpond.testing.histories.driver import RoughDriver
from millpond.testing.histories.settled import settling_sinks, standing

SEED = 12
COUNT = 2_000
PIECES = 8
ONLY_WHAT_STOOD = ("table", "table_table", "one_to_many", "table_global")
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


def differences(case: Case) -> str | None:
    """What is wrong with a case under the record cache."""
    topology = topology_of(case.blueprint)
    if not any(operator.cached for operator in with_record_cache(topology.physical).operators):
        return None
    driver = RoughDriver(topology, shards=case.shards, replay=case.replay, shuffle=case.shuffle, record_cache=True)
    got, (expected, _) = run_engine(case, driver), run_oracle(case)
    sinks = settling_sinks(case.blueprint)
    now, then = standing(got, sinks), standing(expected, sinks)
    cached = cached_sinks(case.blueprint)
    before: Steps = []
    for start, end in pairwise([0, *case.cuts, len(case.records)]):
        if start == end:
            continue
        one, other = now[end - 1], then[end - 1]
        if {place: value for place, (value, _) in one.items()} != {place: value for place, (value, _) in other.items()}:
            return f"{start}:{end}: {one} stands, not {other}"
        batch = [result for results in got[start:end] for result in results if result.sink in cached]
        twice = [place for place, count in Counter((r.sink, repr(r.key)) for r in batch).items() if count > 1]
        if twice:
            return f"{start}:{end}: {twice} twice"
        stood = standing([*before, []], frozenset(cached))[-1]
        for result in batch:
            if cached[result.sink] and result.value is None and (result.sink, result.key) not in stood:
                return f"{start}:{end}: a null for {result.key}, which had none"
        # a result stands where the last of what it is made of stands
        early = [
            r
            for step in range(start, end)
            for r in got[step]
            if r.sink in sinks & cached.keys() and then[step].get((r.sink, r.key), (None,))[0] != r.value
        ]
        if early:
            return f"{start}:{end}: {early} out of place"
        # what a deletion did to the time of what stands without the other side may be left out with the deletion
        whole = (result for result in batch if "null" not in str(result.value))
        fresh = {(result.sink, result.key) for result in whole} & one.keys()
        if any(one[place] != other[place] for place in fresh):
            return f"{start}:{end}: {one} stands, not {other}"
        before += got[start:end]
    return None


@pytest.mark.parametrize("piece", range(PIECES))
def test_what_stands_after_a_batch_is_what_the_oracle_says_and_no_key_has_two_results_in_it(piece: int) -> None:
    size = COUNT // PIECES
    for number in range(piece * size, (piece + 1) * size):
        case = case_of(SEED, number)
        found = differences(case)
        assert found is None, "\n".join([f"case {number}: {found}", *case.blueprint.lines(), repr(case)])
