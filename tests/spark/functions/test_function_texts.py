"""What functions come to, as text: the same when the program runs again, another where the program is another."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from watersmeet._spark.function_texts import function_texts

pytestmark = pytest.mark.usefixtures("spark")
VALUE = wm.json("id long, name string, tags array<int>")


def a_topology(*, least: int = 3) -> wm.Topology:
    """One function of each role."""
    b = wm.StreamsBuilder("texts")
    stream, other = (b.stream(name, key="long", value=VALUE) for name in ("s", "o"))
    table, country = b.table("t", key="long", value=VALUE), b.global_table("g", key="long", value=VALUE)
    windows = wm.JoinWindows.of_time_difference_with_no_grace("1 minute")
    stream.filter(lambda v: F.size(F.filter(v["tags"], lambda tag: tag > least)) > 0, name="filter")
    stream.map_values(lambda v: F.transform(v["tags"], lambda tag, i: tag - i), name="mapped")
    stream.map(lambda k, v: (v["id"], F.upper(v["name"])), name="map")
    stream.select_key(lambda v: v["id"], name="keyed")
    stream.flat_map(lambda k, v: F.array(F.struct(k, v["name"])), name="flat")
    stream.split({"a": lambda v: v["id"] > 1, "b": lambda v: v["id"] > 2}, default="rest", name="split")
    stream.join(other, lambda a, c: F.concat(a["name"], c["name"]), windows, name="streams")
    stream.join(table, lambda a, c: F.struct(*[F.lit(n).alias(f"c{n}") for n in range(40)]), name="with table")
    stream.join(country, lambda k, g, a, c: k + g, key=lambda v: v["id"], name="with global")
    table.join(table.filter(lambda v: v["id"] > 0, name="some"), lambda a, c: c["id"], name="tables")
    table.join(b.table("u", key="long", value="string"), lambda a, c: c, foreign_key=lambda v: v["id"], name="by key")
    stream.peek(print).to("out")
    return b.build()


def test_each_function_of_each_node_has_a_text_that_is_the_same_when_the_program_is_run_again(
    spark: SparkSession,
) -> None:
    texts = function_texts(spark, a_topology().plan)
    assert texts == {
        "filter": {
            "predicate": "(size(filter(value.tags, lambdafunction((lambda x#0 > 3), lambda x#0, false)), false) > 0)"
        },
        "mapped": {
            "mapper": "transform(value.tags, lambdafunction((lambda x#0 - lambda y#1), lambda x#0, lambda y#1, false))"
        },
        "map": {"mapper": "value.id\nupper(value.name)"},
        "keyed": {"selector": "value.id"},
        "flat": {"mapper": "array(struct(key, key, name, value.name))"},
        "split-a": {"predicate": "(value.id > cast(1 as bigint))"},
        "split-b": {"predicate": "(value.id > cast(2 as bigint))"},
        "streams": {"joiner": "concat(left.name, right.name)"},
        "with table": {"joiner": f"struct({', '.join(f'c{n}, {n}' for n in range(40))})"},
        "with global": {"mapper": "value.id", "joiner": "(key + mapped_key)"},
        "some": {"predicate": "(value.id > cast(0 as bigint))"},
        "tables": {"joiner": "side1.id"},
        "by key": {"extractor": "value.id", "joiner": "right"},
    }
    # Spark and PySpark have numbered on meanwhile
    assert function_texts(spark, a_topology().plan) == texts


def test_texts_are_those_of_explain_where_spark_shows_a_plan_itself(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = function_texts(spark, a_topology().plan)
    monkeypatch.setattr(DataFrame, "createOrReplaceTempView", None)
    assert function_texts(spark, a_topology().plan) == texts  # no view, so no EXPLAIN
    monkeypatch.undo()
    monkeypatch.setattr("watersmeet._spark.function_texts.projection_text", lambda frame: "")
    assert function_texts(spark, a_topology().plan) == texts


def test_what_settings_hide_from_texts_is_hidden_from_those_of_functions(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.redaction.string.regex", "1234")
    try:
        b = wm.StreamsBuilder("hidden")
        b.stream("s", key="long", value=VALUE).filter(lambda v: v["id"] > 1234, name="m").to("out")
        assert "1234" not in function_texts(spark, b.build().plan)["m"]["predicate"]
    finally:
        spark.conf.unset("spark.sql.redaction.string.regex")


def test_a_changed_constant_is_another_text_of_its_node_alone(spark: SparkSession) -> None:
    before, after = (function_texts(spark, a_topology(least=least).plan) for least in (3, 4))
    assert {name for name in before if before[name] != after[name]} == {"filter"}


@pytest.mark.parametrize(
    "function",
    [
        lambda v: F.concat(v["name"], F.lit(" AS column0#1, key_0#2L\n)")),
        lambda v: F.udf(lambda x: x, "string")(v["name"]),
        lambda v: v["name"].alias("some name"),
        lambda v: F.lit("lambda"),
    ],
)
def test_texts_do_not_break_on_what_looks_like_a_plan(
    spark: SparkSession, function: Callable[[Column], Column]
) -> None:
    def text() -> str:
        b = wm.StreamsBuilder("texts")
        b.stream("s", key="long", value=VALUE).map_values(function, name="m").to("out")
        return function_texts(spark, b.build().plan)["m"]["mapper"]

    assert text() == text() != ""


def test_a_topology_without_functions_has_no_texts(spark: SparkSession) -> None:
    b = wm.StreamsBuilder("none")
    b.stream("s", key="long", value="string").to("out")
    assert function_texts(spark, b.build().plan) == {}
