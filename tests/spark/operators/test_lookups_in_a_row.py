"""Lookups in a row: each follows the one before in its level, with the functions between evaluated there (KIP-99)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from tests.spark.inputs_and_outputs.test_streaming import Collector, put, reader, run
from watersmeet._plan.rewrite import rewrite
from watersmeet.errors import ConfigError
from watersmeet.testing import TopologyTestDriver

STRINGS: Any = {"key": "string", "value": "string"}


def initial(value: Column) -> Column:
    """The key that a value refers to."""
    return F.substring(value, 1, 1)


def joined(left: Column, right: Column) -> Column:
    """A row of both, which begins with the right one."""
    return F.concat(F.coalesce(right, F.lit("-")), left)


def enriched(*, between: Any = lambda value: F.upper(value)) -> wm.StreamsBuilder:
    """Lookups of streams and of tables, with keys that change, and branches that meet."""
    b = wm.StreamsBuilder("enriched")
    one, two, three = (b.global_table(name, **STRINGS) for name in ("one", "two", "three"))
    first = b.stream("records", **STRINGS).left_join(one, joined, key=initial).map_values(between)
    first.to("first")
    second = first.select_key(lambda key, value: F.substring(value, 2, 1)).join(two, joined, key=initial)
    short = second.filter(lambda value: F.length(value) < 5).left_join(three, joined, key=lambda k, v: k)
    many = second.map_values(lambda value: F.lower(value)).join(three, joined, key=initial)
    short.merge(many).left_join(one, joined, key=initial).to("last")
    rows = b.table("rows", **STRINGS).left_join(one, joined, foreign_key=initial)
    rows.filter(lambda value: F.length(value) > 1).join(two, joined, foreign_key=initial).to("rows-out")
    return b


def apart(topology: wm.Topology) -> wm.Topology:
    """The same with a level for each lookup."""
    names = frozenset(node.name for node in topology.plan.nodes)
    topology.physical = rewrite(replace(topology.plan, separate_lookups=names))
    topology.plan = topology.physical.plan
    return topology


def results_of(topology: wm.Topology, seed: int, *, shards: int) -> tuple[Any, Any]:
    """What every output gets of random records, in batches, and what ends."""
    driver, random, results = TopologyTestDriver(topology, shards=shards), Random(seed), []
    for step in range(120):
        source = random.choice(("one", "two", "three", "records", "records", "rows"))
        value = random.choice(("a", "bA", "cba", "Ab", "B", "aaaab", None))
        driver.pipe(source, random.choice(("a", "b", "A", "B", "-", None)), value, ts=step, case=random.choice("xy"))
        if step % 7 == 6:
            results += [
                [(r.key, r.value, r.ts, r.step) for r in driver.read(output, case=case)]
                for output in ("first", "last", "rows-out")
                for case in "xy"
                if case in driver._cases
            ]
    return results, driver.drops


@pytest.mark.parametrize("seed", range(3))
def test_lookups_in_one_level_give_what_lookups_in_levels_of_their_own_give(spark: SparkSession, seed: int) -> None:
    together, separate = enriched().build(), apart(enriched().build())
    assert together.physical.levels < separate.physical.levels == 4
    results = results_of(together, seed, shards=1 + seed % 3)
    assert results == results_of(separate, seed, shards=1 + seed % 3)
    assert len([record for output in results[0] for record in output]) > 30


def test_kip_99_s_purchase_finds_customer_and_product_in_one_level(spark: SparkSession) -> None:
    b = wm.StreamsBuilder("purchases")
    named: Any = {"key": "long", "value": wm.json("name string")}
    customers, products = (b.global_table(name, **named) for name in ("customers", "products"))
    purchases = b.stream("purchases", key="long", value=wm.json("customer long, product long"))
    with_customer = purchases.left_join(
        customers,
        lambda left, right: F.struct(left["product"].alias("product"), right["name"].alias("customer")),
        key=lambda value: value["customer"],
    )
    with_customer.left_join(
        products,
        lambda left, right: F.struct(left["customer"].alias("customer"), right["name"].alias("product")),
        key=lambda value: value["product"],
    ).to("enriched")
    topology = b.build()
    assert topology.physical.levels == 1
    assert "Levels: 1\n" in topology.describe()
    driver = TopologyTestDriver(topology)
    driver.pipe("customers", 1, {"name": "Ada"}, ts=0)
    driver.pipe("products", 2, {"name": "loom"}, ts=0)
    driver.pipe("purchases", 9, {"customer": 1, "product": 2}, ts=1)
    assert [tuple(r.value) for r in driver.read("enriched")] == [("Ada", "loom")]


def test_a_function_of_spark_s_alone_between_two_lookups_takes_a_level_and_is_told(spark: SparkSession) -> None:
    backwards = F.udf(lambda value: value[::-1], "string")
    topology = enriched(between=backwards).build()
    assert topology.physical.levels > 1
    assert "mapper of" in topology.describe()
    assert "by Spark (a UDF" in topology.describe()
    assert results_of(topology, 1, shards=2) == results_of(apart(enriched(between=backwards).build()), 1, shards=2)


def test_a_session_that_has_spark_evaluate_what_a_level_would_says_to_build_again(spark: SparkSession) -> None:
    topology = enriched().build()
    spark.conf.set("watersmeet.functions", "spark")
    try:
        driver = TopologyTestDriver(topology, spark)
        driver.pipe("records", "a", "a", ts=0)
        with pytest.raises(ConfigError, match="Build the topology again"):
            driver.read("last")
        assert enriched().build().physical.levels == 4
    finally:
        spark.conf.unset("watersmeet.functions")


def started(spark: SparkSession, folder: Path, sink: Any, *, in_levels: bool) -> wm.Topology:
    """Two lookups of a stream of files."""
    b = wm.StreamsBuilder("files")
    options: Any = {"key": "k", "value": "v", "timestamp": "ts"}
    one, two = (b.global_table(reader(spark, folder / n), name=n, store=n, **options) for n in ("one", "two"))
    records = b.stream(reader(spark, folder / "records"), name="records", **options)
    found = records.left_join(one, joined, key=lambda key, value: key % 5, name="in one")
    found = found.map(lambda key, value: (key + 1, F.upper(value)))
    found = found.left_join(two, joined, key=lambda key, value: key % 3, name="in two")
    found.to(wm.ForeachBatch(sink), name="out")
    return apart(b.build()) if in_levels else b.build()


@pytest.mark.parametrize("moved", [False, True])
def test_a_query_keeps_the_tables_of_a_chain_whether_it_began_in_levels_or_not(
    spark: SparkSession, tmp_path: Path, moved: bool
) -> None:
    expected: list[tuple[int, str]] = []
    sink = Collector()
    tables: dict[str, dict[int, str]] = {"one": {}, "two": {}}
    for number in range(3):
        news = {"one": {number: f"o{number}"}, "two": {number: f"t{number}"}}
        for name, rows in news.items():
            tables[name] |= rows
            put(spark, tmp_path / name, *((key, value, number) for key, value in rows.items()))
        put(spark, tmp_path / "records", *((key, f"v{number}", number) for key in range(40)))
        for key in range(40):
            value = (tables["one"].get(key % 5, "-") + f"v{number}").upper()
            expected.append((key + 1, tables["two"].get((key + 1) % 3, "-") + value))
        topology = started(spark, tmp_path, sink, in_levels=moved and number == 0)
        run(topology, spark, tmp_path, shards=4, tasks=2, evolve=moved and number == 1)
    assert sorted((key, value) for key, value, _ in sink.rows()) == sorted(expected)
    for name, latest in tables.items():
        stored = wm.read_state(spark, str(tmp_path / "cp"), name).collect()
        assert {row["key"]: row["value"] for row in stored} == latest
