"""Functions that a level cannot evaluate, in a driver of its own process: Spark is asked for them between (law 4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from tests.spark.driver.test_forty_topologies import ORDERS, TOPOLOGIES, _built
from watersmeet._spark.columns import text_of
from watersmeet._spark.dataflow import fusion
from watersmeet._spark.dataflow.fusion import NotFused
from watersmeet.testing.driver import TopologyTestDriver

Define = Callable[[wm.StreamsBuilder], None]
JSON = wm.json("text string, n int")


def of_a_stream(b: wm.StreamsBuilder) -> None:
    b.stream("in", key="string", value=JSON).map_values(lambda v: F.log(v["n"])).to("out")


def of_lists(b: wm.StreamsBuilder) -> None:
    texts = b.stream("in", key="string", value=JSON)
    lists = texts.flat_map_values(lambda v: F.from_json(v["text"], "array<int>"))
    lists.group_by(lambda n: n).count(store="store").to("out")


def of_lists_with_keys(b: wm.StreamsBuilder) -> None:
    texts = b.stream("in", key="string", value=JSON)
    texts.flat_map(
        lambda k, v: F.transform(
            F.from_json(v["text"], "array<int>"),
            lambda n: F.struct(k.alias("key"), F.format_string("%.1f", n / v["n"]).alias("value")),
        )
    ).to("out")


def behind_a_join(b: wm.StreamsBuilder) -> None:
    left, right = b.table("in", key="string", value=JSON), b.table("other", key="string", value="double")
    joined = left.left_join(right, lambda v, d: F.format_string("%.2f", F.coalesce(d, F.lit(0.0)) + v["n"]))
    joined.filter(lambda text: F.levenshtein(text, F.lit("1.00")) > 0, store="store").to("out")


def behind_an_aggregate(b: wm.StreamsBuilder) -> None:
    sums = b.stream("in", key="string", value=JSON).group_by(lambda v: F.initcap(v["text"]))
    sums.agg(total=wm.sum(lambda v: F.pow(v["n"], 2)), store="store").map_values(lambda row: F.exp(row["total"])).to(
        "out"
    )


def of_a_grouped_table(b: wm.StreamsBuilder) -> None:
    rows = b.table("in", key="string", value=JSON)
    rows.group_by(lambda k, v: (F.soundex(v["text"]), v)).agg(n=wm.count(), store="store").to("out")


def of_times(b: wm.StreamsBuilder) -> None:
    stamped = b.stream(
        "in",
        key="string",
        value=JSON,
        timestamp=lambda v: F.to_timestamp(F.concat(F.lit("2026-01-01 00:00:0"), v["n"]), "yyyy-MM-dd HH:mm:ss"),
        on_invalid_timestamp="skip",
    )
    stamped.to("out")


def of_a_record(b: wm.StreamsBuilder) -> None:
    stream = b.stream("in", key="string", value=JSON, headers=True)
    stream.map_values(
        lambda v, record: F.concat_ws(" ", F.initcap(v["text"]), F.transform(record["headers"], lambda h: h["key"]))
    ).to("out")


def of_branches_and_foreign_keys(b: wm.StreamsBuilder) -> None:
    rows, others = b.table("in", key="string", value=JSON), b.table("other", key="string", value="double")
    rows.join(others, lambda v, d: F.log(d) + v["n"], foreign_key=lambda v: F.lower(F.initcap(v["text"]))).to("joined")
    branches = rows.to_stream().split({"odd": lambda v: F.factorial(v["n"]) % 2 == 1}, default="even")
    branches["odd"].merge(branches["even"]).to("out")


DEFINITIONS: list[Define] = [
    *(of_a_stream, of_lists, of_lists_with_keys, behind_a_join, behind_an_aggregate, of_a_grouped_table),
    *(of_times, of_a_record, of_branches_and_foreign_keys),
]
PIPED: list[tuple[str, str, Any]] = [
    ("in", "a", {"text": "[1, 2, 3]", "n": 1}),
    ("other", "a", 2.5),
    ("in", "b", {"text": "a", "n": 2}),
    ("in", "a", {"text": "[2]", "n": 3}),
    ("other", "b", None),
    ("in", "b", {"text": None, "n": 4}),
    ("in", "c", {"text": "[]", "n": None}),
    ("in", "a", None),
]


def fed(topology: wm.Topology, spark: SparkSession | None = None, *, one_by_one: bool = False) -> tuple[Any, ...]:
    outputs = sorted({sink.output for sink in topology.plan.sinks})
    found: dict[str, list[Any]] = {output: [] for output in outputs}
    with TopologyTestDriver(topology, spark) as driver:
        inputs = {source.input for source in topology.plan.sources}
        for ts, (topic, key, value) in enumerate(PIPED):
            if topic in inputs:
                driver.pipe(topic, key, value, ts=ts, headers=[("h", b"1")])
            if one_by_one or ts == len(PIPED) - 1:
                for output in outputs:
                    found[output] += [(r.key, r.value, r.ts, r.headers) for r in driver.read(output)]
        assert (driver.runs_in, bool(driver.why_spark)) == ("process" if spark is None else "spark", True)
        return found, driver.drops


@pytest.mark.parametrize("define", DEFINITIONS, ids=lambda define: define.__name__)
def test_a_driver_in_its_own_process_gives_what_spark_makes_of_a_topology(spark: SparkSession, define: Define) -> None:
    builder = wm.StreamsBuilder("asked")
    define(builder)
    topology = builder.build()
    here = fed(topology)
    assert any(here[0].values())
    assert here == fed(topology, one_by_one=True)
    assert here == fed(topology, spark)


def test_its_stores_and_its_wall_clock_are_there(spark: SparkSession) -> None:
    class Later:
        def process(self, record: Any, context: Any) -> None:
            context.set_timer(context.wall_clock + 5, clock="wall")

        def on_wall_timer(self, key: Any, timestamp: int, context: Any) -> None:
            context.forward(value=timestamp)

    builder = wm.StreamsBuilder("stores")
    capitals = builder.stream("in", key="string", value="string").map_values(F.initcap)
    capitals.to_table(store="capitals")
    capitals.process_values(Later, value="long").to("out")
    driver = TopologyTestDriver(builder.build())
    assert "InitCap" in driver.why_spark
    driver.pipe("in", "a", "hello you", ts=0)
    driver.advance_wall_clock_time("5 ms")
    assert [record.value for record in driver.read("out")] == [5]
    assert driver.get_store("capitals").all() == [("a", "Hello You")]


def test_what_a_function_raises_goes_out_and_takes_the_records_back(spark: SparkSession) -> None:
    builder = wm.StreamsBuilder("raises")
    builder.stream("in", key="string", value="string").map_values(
        lambda v: F.initcap(F.raise_error(v).cast("string"))
    ).to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe("in", "a", "my own words", ts=0)
    with pytest.raises(Exception, match="my own words"):
        driver.read("out")
    assert driver.read("out") == []


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.proof] if n % 6 else []) for n, name in enumerate(TOPOLOGIES)]
)
def test_the_forty_topologies_give_the_same_where_spark_is_asked_for_everything(
    spark: SparkSession, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topology = _built(TOPOLOGIES[name])

    def outputs() -> tuple[str, list[Any]]:
        driver = TopologyTestDriver(topology)
        for ts, order in enumerate(ORDERS):
            driver.pipe("customers", "ann" if ts % 2 else "bob", ["Ann", "bob", None, "anna"][ts % 4], ts=ts)
            driver.pipe("orders", f"k{ts % 2}", order, ts=ts)
            driver.pipe("texts", "t", [" a b,A", "", None, "é 😀", "bab"][ts], ts=5 * ts)
        return driver.why_spark, driver.read("out")

    why, here = outputs()
    assert why == ""
    refused: list[Any] = []

    def refuse(*given: Any) -> NotFused:
        refused.append(given)
        return NotFused("", "a test")

    monkeypatch.setattr(fusion, "_program", refuse)
    assert outputs()[1] == here
    assert refused


class WithoutPlans:
    """A session, or a frame, that shows no plans of its own, as on Spark Connect."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def range(self, end: int) -> WithoutPlans:
        return WithoutPlans(self._real.range(end))

    def select(self, column: Any) -> WithoutPlans:
        return WithoutPlans(self._real.select(column))

    def collect(self) -> Any:
        return self._real.collect()


def test_a_constant_has_one_value_whether_or_not_a_session_shows_its_plans(spark: SparkSession) -> None:
    given = F.upper(F.lit("aß\u0131ﬁ 😀"))
    shown: Any = WithoutPlans(spark)
    assert text_of(spark, given) == text_of(shown, given) == "ASSIFI 😀"
