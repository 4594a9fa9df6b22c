"""Random topologies, records, batches and shards: the engine says what the oracle says.

Two thousand seeded histories, all that a soak of any length begins with (250 of them unless with --proof); the same
generator under hypothesis, which shrinks; and a few topologies through Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from proof.histories import Case, check
from proof.histories.draw import case_of, draw_blueprint, draw_case
from proof.histories.kinds.registry import is_limited
from proof.histories.report import page
from proof.histories.soak import run_chunk
from proof.histories.spark import bundle_of, check_bundle
from tests.lengths import examples

SEED = 1
COUNT = 2_000
PIECES = 8
T = TypeVar("T")


@pytest.mark.parametrize("piece", [0, *(pytest.param(n, marks=pytest.mark.proof) for n in range(1, PIECES))])
def test_random_histories_are_what_the_oracle_says(piece: int) -> None:
    size = COUNT // PIECES
    failures = run_chunk(SEED, piece * size, (piece + 1) * size, tables=False)
    assert not failures, failures[0][1]


class Drawn:
    """Choices by hypothesis, which makes a failing case small."""

    def __init__(self, data: st.DataObject) -> None:
        self._data = data

    def pick(self, options: Sequence[T]) -> T:
        return options[self.number(0, len(options) - 1)]

    def number(self, least: int, most: int) -> int:
        return self._data.draw(st.integers(least, most))

    def chance(self, percent: int) -> bool:
        return self.number(0, 99) >= 100 - percent


@settings(
    max_examples=examples(40), deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None
)
@given(st.data())
def test_histories_that_hypothesis_draws_are_what_the_oracle_says(data: st.DataObject) -> None:
    choices = Drawn(data)
    blueprint = draw_blueprint(choices)
    found = check(draw_case(choices, blueprint, most=12))
    assert found is None, page(found)


def test_a_number_gives_the_same_case_again() -> None:
    assert [case_of(7, number) for number in range(20)] == [case_of(7, number) for number in range(20)]
    assert len({str(case_of(7, number)) for number in range(20)}) == 20


def test_the_generator_reaches_every_operator_and_every_way_to_cut() -> None:
    cases: list[Case] = [case_of(SEED, number) for number in range(COUNT)]
    from proof.histories.kinds.registry import KINDS

    # a view with a store is one of programs of tables alone (`proof.histories --tables`)
    assert {op.kind for case in cases for op in case.blueprint.ops} == set(KINDS) - {"stored_view"}
    assert {case.shards for case in cases} == {1, 2, 3, 7}
    assert any(case.replay and len(case.cuts) > 3 for case in cases)
    assert any(case.cuts and len(set(case.cuts)) < len(case.cuts) for case in cases)
    records = [record for case in cases for record in case.records]
    assert any(record.key is None for record in records)
    assert any(record.ts < 0 for record in records)
    assert any(one == other for case in cases for one, other in pairwise(case.records))


def test_a_bundle_with_a_limited_buffer_has_one_shard_for_spark_too() -> None:
    cases = [case for number in range(20) for case in bundle_of(5, number, cases=1).cases]
    limited = [case for case in cases if is_limited(case.blueprint)]
    assert {case.shards for case in limited} == {1}
    assert {case.shards for case in cases} == {1, 2, 3}


@pytest.mark.spark
@pytest.mark.parametrize(("number", "parts", "cases"), [(0, 5, 12), (1, 5, 12), (2, 1, 40)])
def test_random_topologies_hold_on_spark(spark: SparkSession, number: int, parts: int, cases: int) -> None:
    bundle = bundle_of(5, number, parts=parts, cases=cases)
    differences = check_bundle(bundle, spark)
    assert not differences, page(differences[0])
