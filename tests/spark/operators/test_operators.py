"""Every stateless operator through Spark, in one topology and one run."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from watersmeet.testing.driver import TopologyTestDriver

RECORDS = [
    ("k", "one two", 0),
    (None, "nokey", 1),
    ("j", None, 2),
    ("k", "three", 3),
    ("j", "four five six", 4),
]


def topology() -> wm.Topology:
    b = wm.StreamsBuilder("operators")
    words = b.stream("words", key="string", value="string")
    other = b.stream("other", key="string", value="string")
    words.filter(lambda key, value: key == "k").to("filtered")
    words.filter_not(lambda key, value: key == "k").to("not-filtered")
    words.map_values(F.upper).to("upper")
    words.map_values(lambda value: F.coalesce(F.upper(value), F.lit("none")), nulls=True).to("upper-or-none")
    words.map(lambda key, value: (value, key)).to("swapped")
    words.select_key(lambda value: F.substring(value, 1, 1)).to("rekeyed")
    words.flat_map_values(lambda value: F.split(value, " ")).to("split-values")
    pairs = words.flat_map(
        lambda key, value: F.transform(F.split(value, " "), lambda word: F.struct(word.alias("k"), key.alias("v")))
    )
    pairs.to("pairs")
    words.merge(other).to("merged")
    branches = words.split(
        {"long": lambda value: F.length(value) > 6, "any": lambda value: value.isNotNull()}, default="rest"
    )
    for name, branch in branches.items():
        branch.to(f"branch-{name}")
    words.repartition().to("repartitioned")
    words.through("through", name="through").map_values(F.lower).to("after-through")
    words.to_table(store="words-table").to("table")
    # Behind a flat_map other paths of the same record must not be repeated.
    words.flat_map_values(lambda value: F.split(value, " ")).filter(lambda value: F.length(value) > 3).to("long-words")
    return b.build()


@pytest.fixture(scope="module")
def results(spark: SparkSession) -> tuple[dict[str, list[tuple[Any, Any, int]]], dict[tuple[str, str], int]]:
    built = topology()
    driver = TopologyTestDriver(built, spark)
    for key, value, ts in RECORDS:
        driver.pipe("words", key, value, ts=ts)
    driver.pipe("other", "o", "other", ts=5)
    outputs = [sink.output for sink in built.plan.sinks]
    return {o: [(r.key, r.value, r.ts) for r in driver.read(o)] for o in outputs}, driver.drops


EXPECTED = {
    "filtered": [("k", "one two", 0), ("k", "three", 3)],
    "not-filtered": [(None, "nokey", 1), ("j", None, 2), ("j", "four five six", 4)],
    "upper": [
        ("k", "ONE TWO", 0), (None, "NOKEY", 1), ("j", None, 2), ("k", "THREE", 3), ("j", "FOUR FIVE SIX", 4),
    ],
    "upper-or-none": [
        ("k", "ONE TWO", 0), (None, "NOKEY", 1), ("j", "none", 2), ("k", "THREE", 3), ("j", "FOUR FIVE SIX", 4),
    ],
    "swapped": [
        ("one two", "k", 0), ("nokey", None, 1), (None, "j", 2), ("three", "k", 3), ("four five six", "j", 4),
    ],
    "rekeyed": [
        ("o", "one two", 0), ("n", "nokey", 1), (None, None, 2), ("t", "three", 3), ("f", "four five six", 4),
    ],
    "split-values": [
        ("k", "one", 0), ("k", "two", 0), (None, "nokey", 1), ("k", "three", 3),
        ("j", "four", 4), ("j", "five", 4), ("j", "six", 4),
    ],
    "pairs": [
        ("one", "k", 0), ("two", "k", 0), ("nokey", None, 1), ("three", "k", 3),
        ("four", "j", 4), ("five", "j", 4), ("six", "j", 4),
    ],
    "merged": [*RECORDS, ("o", "other", 5)],
    "branch-long": [("k", "one two", 0), ("j", "four five six", 4)],
    "branch-any": [(None, "nokey", 1), ("k", "three", 3)],
    "branch-rest": [("j", None, 2)],
    "repartitioned": [record for record in RECORDS if record[0] is not None],
    "through": RECORDS,
    "after-through": [("k", "one two", 0), ("j", None, 2), ("k", "three", 3), ("j", "four five six", 4)],
    "table": [("k", "one two", 0), ("j", None, 2), ("k", "three", 3), ("j", "four five six", 4)],
    "long-words": [(None, "nokey", 1), ("k", "three", 3), ("j", "four", 4), ("j", "five", 4)],
}  # fmt: skip


@pytest.mark.parametrize("output", sorted(EXPECTED))
def test_each_operator_gives_its_records_in_order(results: Any, output: str) -> None:
    assert results[0][output] == EXPECTED[output]


def test_null_keys_that_end_are_counted_where_they_end(results: Any) -> None:
    assert {name: count for (name, reason), count in results[1].items() if reason == "null_key"} == {
        "repartition-1": 1,
        "through-repartition": 1,
        "to_table-words": 1,
    }


def test_headers_travel_with_the_record_that_caused_a_result(spark: SparkSession) -> None:
    b = wm.StreamsBuilder("headers")
    stream = b.stream(wm.Topic("s", key="string", value="string", headers=True))
    table = b.table("t", key="string", value="string")
    stream.join(table, lambda left, right: F.concat(left, right)).to("out")
    driver = TopologyTestDriver(b.build(), spark)
    driver.pipe("t", "k", "1", ts=0, headers=[("from", b"table")])
    driver.pipe("s", "k", "a", ts=1, headers=[("from", b"stream"), ("again", b"\x00")])
    assert [r.headers for r in driver.read("out")] == [(("from", b"stream"), ("again", b"\x00"))]


def test_a_tombstone_never_reaches_a_function(spark: SparkSession) -> None:
    b = wm.StreamsBuilder("tombstones")
    table = b.table("t", key="string", value="string").map_values(lambda value: F.coalesce(value, F.lit("seen")))
    table.to("out")
    driver = TopologyTestDriver(b.build(), spark)
    driver.pipe("t", "k", "a", ts=0)
    driver.pipe("t", "k", None, ts=1)
    assert [(r.key, r.value) for r in driver.read("out")] == [("k", "a"), ("k", None)]


def test_ids_beyond_two_to_the_53_and_nulls_pass_unchanged_through_structs(spark: SparkSession) -> None:
    near = 2**53 + 1
    b = wm.StreamsBuilder("ids")
    value = wm.json("id long, other long")
    left, right = b.table("l", key="long", value=value), b.table("r", key="long", value=value)
    left.outer_join(right, lambda a, c: F.struct(a["id"].alias("a"), c["other"].alias("b"))).to("out")
    driver = TopologyTestDriver(b.build(), spark)
    driver.pipe("l", near, (near, None), ts=0)
    driver.pipe("r", near, (None, near), ts=1)
    assert [(r.key, tuple(r.value)) for r in driver.read("out")] == [
        (near, (near, None)),
        (near, (near, near)),
    ]


def test_structs_are_keys(spark: SparkSession) -> None:
    b = wm.StreamsBuilder("struct keys")
    stream = b.stream("s", key="string", value="string")
    keyed = stream.select_key(lambda key, value: F.struct(key.alias("a"), F.length(value).alias("n")))
    keyed.to_table().to_stream().to("out")
    driver = TopologyTestDriver(b.build(), spark)
    driver.pipe("s", "k", "v", ts=0)
    assert [tuple(r.key) for r in driver.read("out")] == [("k", 1)]


def test_a_table_s_null_keys_end_at_the_source_and_are_counted_wherever_it_goes(spark: SparkSession) -> None:
    b = wm.StreamsBuilder("tables")
    looking, plain = (b.table(name, key="string", value="string") for name in ("looking", "plain"))
    people = b.global_table("people", key="string", value="string")
    looking.left_join(people, F.concat, foreign_key=lambda value: value).to("joined")
    plain.to("copied")
    driver = TopologyTestDriver(b.build(), spark)
    driver.pipe("people", "a", "1", ts=0)
    for name in ("looking", "plain"):
        driver.pipe(name, None, "a", ts=1)
        driver.pipe(name, "k", "a", ts=2)
    assert [(r.key, r.value) for r in driver.read("joined")] == [("k", "a1")]
    assert [(r.key, r.value) for r in driver.read("copied")] == [("k", "a")]
    assert driver.drops == {("looking", "null_key"): 1, ("plain", "null_key"): 1}
