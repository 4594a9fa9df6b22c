"""One record reaches both sides of a join of tables, and what reads the result sees what Kafka Streams sees.

There a tombstone may be lost or repeated (KAFKA-6443), and filters may know an old value that was never sent;
lookups are right all the same, since they go to the stores of the inputs. Joins of today's generation go by what has
arrived instead, so that none is lost (row 48).
"""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from proof.arrow import arrow_builder
from proof.engine import EngineDriver
from proof.histories import Blueprint, Case, Input, Op, check
from proof.histories.blueprint import beside
from proof.histories.check import by_step, run_oracle
from proof.histories.draw import draw_case, draw_records
from proof.histories.kinds.choices import Choices, Dice
from proof.histories.kinds.functions import ArrowLifts
from proof.histories.kinds.kind import Params
from proof.histories.kinds.registry import KINDS, build
from proof.histories.report import page
from proof.histories.spark import Bundle, check_bundle
from tests.histories.ops import op

LOST = (op("table"), op("table_table", 0, 0, how="inner"))
"""A delete is not sent: each side sees that the other has gone already."""
ADDED, GONE, OTHER = Input("n0", "a", "a|1", 0), Input("n0", "a", None, 1), Input("n2", "a", "1", 2)
CASES: dict[str, tuple[tuple[Op, ...], tuple[Input, ...]]] = {
    "a row whose tombstone was lost is not joined again": (
        (*LOST, op("table"), op("table_table", 1, 2, how="outer"), op("table_to", 3)),
        (ADDED, GONE, OTHER),
    ),
    "a stream does not find a row whose tombstone was lost": (
        (*LOST, op("stream"), op("stream_table", 2, 1, how="left"), op("to", 3)),
        (ADDED, GONE, OTHER),
    ),
    "nothing refers to a row whose tombstone was lost": (
        (*LOST, op("table"), op("foreign_key", 2, 1, how="left"), op("table_to", 3)),
        (ADDED, GONE, Input("n2", "b", "a|4", 2)),
    ),
    "a mapped row whose tombstone was lost is not joined again": (
        (*LOST, op("table"), op("table_map_values", 1), op("table_table", 3, 2, how="outer"), op("table_to", 4)),
        (ADDED, GONE, OTHER),
    ),
    "a loss two joins above is seen": (
        (
            *LOST,
            op("table"),
            op("table_table", 1, 1, how="inner"),
            op("table_table", 3, 2, how="outer"),
            op("table_to", 4),
        ),
        (ADDED, GONE, OTHER),
    ),
    "a row that loses both sides at once loses its one-to-many result": (
        (op("table"), op("table_table", 0, 0, how="left"), op("one_to_many", 0, 1), op("table_to", 2)),
        (ADDED, GONE),
    ),
    "a join with what came by a foreign key is seen as it goes from one result to the next": (
        (
            op("table"),
            op("foreign_key", 0, 0, how="left"),
            op("table_table", 1, 0, how="inner"),
            op("table_table", 2, 0, how="outer"),
            op("table_to", 3),
        ),
        (ADDED, Input("n0", "a", "a|2", 1), GONE._replace(ts=2), ADDED._replace(ts=3)),
    ),
    "a repeated tombstone comes twice": (
        (op("table"), op("table_table", 0, 0, how="outer"), op("table_table", 1, 1, how="left"), op("table_to", 2)),
        (ADDED, GONE),
    ),
    "a filter behind a stored join compares with what the join computes": (
        (
            op("table"),
            op("table_table", 0, 0, how="left", stored=True),
            op("table_filter", 1, negate=False),
            op("table_to", 2),
        ),
        (ADDED, Input("n0", "a", "", 1)),
    ),
    "what a filter keeps to itself is seen by lookups": (
        (
            op("table"),
            op("table_table", 0, 0, how="left", stored=True),
            op("table_filter", 1, negate=True),
            op("to_stream", 1),
            op("stream_table", 3, 2, how="left"),
            op("to", 4),
        ),
        (Input("n0", "a", "1", 0), Input("n0", "a", "2", 1)),
    ),
}


@pytest.mark.parametrize("generation", ["current", "spurious"])
@pytest.mark.parametrize("name", list(CASES))
def test_what_reads_a_diamond(name: str, generation: str) -> None:
    ops, records = CASES[name]
    for cuts in ((), tuple(range(1, len(records)))):
        found = check(Case(Blueprint(ops, "string", generation), records, cuts))
        assert found is None, page(found)


@pytest.mark.parametrize(("generation", "results"), [("current", [1, 1]), ("spurious", [2, 0])])
def test_a_tombstone_is_lost_in_the_generations_of_earlier_releases_alone(generation: str, results: list[int]) -> None:
    case = Case(Blueprint((*LOST, op("table_to", 1)), "string", generation), (ADDED, GONE))
    steps, _ = run_oracle(case)
    assert [len(of_step) for of_step in steps] == results
    assert check(case) is None


@pytest.mark.parametrize("cuts", [(), (1, 2, 3)])
def test_a_row_whose_tombstone_was_lost_refers_to_nothing(cuts: tuple[int, ...]) -> None:
    ops = *LOST, op("table"), op("foreign_key", 1, 2, how="left"), op("table_to", 3)
    case = Case(Blueprint(ops, "string", "spurious"), (ADDED, GONE, OTHER, ADDED), cuts)
    builder = arrow_builder("histories", generation="spurious")
    build(case.blueprint, builder, ArrowLifts())
    driver = EngineDriver(builder.build())
    for batch, _ in case.batches():
        for record in batch:
            driver.pipe(record.source, record.key, record.value, ts=record.ts)
        driver.run_batch()
    expected, _ = run_oracle(case)
    assert [len(results) for results in expected] == [2, 0, 0, 2]
    assert by_step(len(case.records), {"n4": driver.read("n4")}) == expected


def deep(choices: Choices) -> Blueprint:
    """Joins of tables upon joins of the same tables, up to seven, by way of streams and filters here and there."""
    generation = choices.pick(("current",) * 6 + ("spurious", "old"))
    ops: list[Op] = []

    def add(kind: str, *inputs: int) -> int:
        params: Params = KINDS[kind].draw(choices, generation)
        ops.append(op(kind, *inputs, **params))
        return len(ops) - 1

    tables = [add("table") for _ in range(choices.number(1, 2))]
    for _ in range(choices.number(2, 7)):
        kind = choices.pick(("table_table",) * 6 + ("table_filter", "table_map_values", "to_table", "stream_table"))
        new, any_one = choices.pick(tables[-3:]), choices.pick(tables)
        if kind == "table_table":
            tables.append(add(kind, *((any_one, new) if choices.chance(30) else (new, any_one))))
        elif kind == "to_table":
            tables.append(add("to_table", add("to_stream", new)))
        elif kind == "stream_table":
            tables.append(add("to_table", add("stream_table", add("to_stream", new), any_one)))
        else:
            tables.append(add(kind, new))
    for table in tables[:-1]:
        if choices.chance(50):
            add("table_to", table)
    add("table_to", tables[-1])
    return Blueprint(tuple(ops), "string", generation)


@pytest.mark.parametrize("piece", [0, *(pytest.param(n, marks=pytest.mark.proof) for n in range(1, 4))])
def test_deep_topologies_of_tables_are_what_the_oracle_says(piece: int) -> None:
    for number in range(piece * 15, (piece + 1) * 15):
        dice = Dice(f"deep/{number}")
        found = check(draw_case(dice, deep(dice)))
        assert found is None, page(found)


@pytest.mark.spark
def test_diamonds_hold_on_spark(spark: SparkSession) -> None:
    names = ("a loss two joins above is seen", "what a filter keeps to itself is seen by lookups")
    parts = [Blueprint(CASES[name][0]) for name in names]
    mapped = op("table_map_values", 1), op("table_table", 2, 0, how="left"), op("table_to", 3), op("table_to", 1)
    together = beside([*parts, Blueprint((*LOST, *mapped))])
    records = [draw_records(Dice(f"spark/{number}"), together, most=40) for number in range(30)]
    bundle = Bundle(tuple(Case(together, piped, shards=2) for piped in records), len(parts) + 1)
    differences = check_bundle(bundle, spark)
    assert not differences, page(differences[0])
