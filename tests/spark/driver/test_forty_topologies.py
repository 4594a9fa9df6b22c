"""Forty small topologies, as an application's tests have them: all run in the test driver's own process.

`python -m tests.spark.driver.test_forty_topologies` says how long they take, the session included.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from watersmeet.testing.driver import TopologyTestDriver

ORDER = wm.json("id long, customer string, amount double, items array<string>, at timestamp, note string")
ORDERS: list[dict[str, Any] | None] = [
    {"id": 1, "customer": "ann", "amount": 2.5, "items": ["pen", "ink"], "at": None, "note": "To: ann@x.org, 20 EUR"},
    {"id": 2, "customer": "bob", "amount": -1.0, "items": [], "at": None, "note": None},
    {"id": 3, "customer": "ann", "amount": 40.0, "items": ["cup", None, "pen"], "at": None, "note": "call 030-1234"},
    None,
    {"id": 4, "customer": "É😀", "amount": None, "items": None, "at": None, "note": " b  a "},
]
Define = Callable[[Any, Any, Any], Any]
"""Of a stream of orders, a table of customers and a stream of texts: what is written."""


def _words(orders: Any, customers: Any, texts: Any) -> Any:
    return texts.flat_map_values(lambda v: F.split(F.lower(v), r"\W+")).group_by(lambda v: v).count().to_stream()


def _windows(orders: Any, customers: Any, texts: Any) -> Any:
    windows = wm.TimeWindows.of_size_with_no_grace("10 ms")
    counts = texts.group_by_key().windowed_by(windows).count().to_stream()
    return counts.map(lambda window, n: (window["key"], n))


TOPOLOGIES: dict[str, Define] = {
    "words are counted": _words,
    "records by window": _windows,
    "pass": lambda o, c, t: o,
    "filter": lambda o, c, t: o.filter(lambda v: v["amount"] > 2),
    "filter out": lambda o, c, t: o.filter_not(lambda v: v["items"].isNull()),
    "field": lambda o, c, t: o.map_values(lambda v: v["customer"]),
    "struct": lambda o, c, t: o.map_values(lambda v: F.struct(v["id"], (v["amount"] * 2).alias("double"))),
    "new key": lambda o, c, t: o.select_key(lambda v: F.coalesce(v["customer"], F.lit("?"))),
    "new pair": lambda o, c, t: o.map(lambda k, v: (F.concat(k, F.lit("!")), v["id"])),
    "items": lambda o, c, t: o.flat_map_values(lambda v: v["items"]),
    "pairs of items": lambda o, c, t: o.flat_map(
        lambda k, v: F.transform(v["items"], lambda item: F.struct(item, v["amount"]))
    ),
    "upper": lambda o, c, t: t.map_values(lambda v: F.upper(F.trim(v))),
    "like": lambda o, c, t: t.filter(lambda v: v.like("%a%")),
    "matches": lambda o, c, t: o.filter(lambda v: v["note"].rlike(r"^\w+: \S+@\S+")),
    "extracted": lambda o, c, t: o.map_values(lambda v: F.regexp_extract(v["note"], r"(\d+)-(\d+)", 2)),
    "replaced": lambda o, c, t: o.map_values(lambda v: F.regexp_replace(v["note"], "[0-9]+", "<$0>")),
    "digits": lambda o, c, t: o.map_values(lambda v: F.regexp_extract_all(v["note"], F.lit(r"\d+"), 0)),
    "padded": lambda o, c, t: t.map_values(lambda v: F.lpad(v, 6, "*")),
    "formatted": lambda o, c, t: o.map_values(lambda v: F.format_string("%s has %d", v["customer"], v["id"])),
    "digest": lambda o, c, t: t.map_values(lambda v: F.sha2(v, 256)),
    "base 64": lambda o, c, t: t.map_values(lambda v: F.base64(v.cast("binary"))),
    "translated": lambda o, c, t: t.map_values(lambda v: F.translate(v, "ab", "x")),
    "joined texts": lambda o, c, t: o.map_values(lambda v: F.array_join(v["items"], ", ", "none")),
    "sorted items": lambda o, c, t: o.map_values(lambda v: F.array_sort(F.array_distinct(v["items"]))),
    "long items": lambda o, c, t: o.map_values(lambda v: F.filter(v["items"], lambda item: F.length(item) > 2)),
    "any pen": lambda o, c, t: o.filter(lambda v: F.exists(v["items"], lambda item: item == "pen")),
    "sum of lengths": lambda o, c, t: o.map_values(
        lambda v: F.aggregate(v["items"], F.lit(0), lambda n, item: n + F.coalesce(F.length(item), F.lit(0)))
    ),
    "map": lambda o, c, t: o.map_values(lambda v: F.create_map(F.lit("id"), v["id"])),
    "slice": lambda o, c, t: o.map_values(lambda v: F.slice(v["items"], 1, 2)),
    "numbers": lambda o, c, t: o.map_values(lambda v: F.sequence(F.lit(1), v["id"])),
    "choice": lambda o, c, t: o.map_values(lambda v: F.when(v["amount"] > 10, "large").otherwise("small")),
    "rounded": lambda o, c, t: o.map_values(lambda v: F.floor(v["amount"])),
    "sums": lambda o, c, t: (
        o.group_by(lambda v: v["customer"])
        .agg(total=wm.sum(lambda v: v["amount"]), n=wm.count(), ids=wm.collect_list(lambda v: v["id"]))
        .to_stream()
    ),
    "latest": lambda o, c, t: o.group_by_key().reduce(lambda one, other: other).to_stream(),
    "largest": lambda o, c, t: (
        o.group_by_key().reduce(lambda one, v: F.when(v["amount"] > one["amount"], v).otherwise(one)).to_stream()
    ),
    "fold in Python": lambda o, c, t: (
        o.group_by_key().aggregate(lambda: 0, wm.python(lambda v, n: n + len(v["items"] or []))).to_stream()
    ),
    "with its customer": lambda o, c, t: o.select_key(lambda v: v["customer"]).left_join(
        c, lambda order, name: F.concat_ws("-", order["id"].cast("string"), name)
    ),
    "names in Python": lambda o, c, t: c.map_values(wm.python(str.title, "string")).to_stream(),
    "customers by letter": lambda o, c, t: (
        c.group_by(lambda k, v: (F.substring(v, 1, 1), v)).agg(n=wm.count()).to_stream()
    ),
    "either": lambda o, c, t: t.merge(c.to_stream()),
}


def _built(define: Define) -> wm.Topology:
    b = wm.StreamsBuilder("forty")
    orders = b.stream("orders", key="string", value=ORDER)
    customers = b.table("customers", key="string", value="string")
    define(orders, customers, b.stream("texts", key="string", value="string")).to("out")
    return b.build()


def _outputs(topology: wm.Topology, spark: SparkSession | None = None) -> tuple[TopologyTestDriver, list[Any]]:
    driver = TopologyTestDriver(topology, spark)
    for ts, order in enumerate(ORDERS):
        driver.pipe("customers", "ann" if ts % 2 else "bob", ["Ann", "bob", None, "anna"][ts % 4], ts=ts)
        driver.pipe("orders", f"k{ts % 2}", order, ts=ts)
        driver.pipe("texts", "t", [" a b,A", "", None, "é 😀", "bab"][ts], ts=5 * ts)
    return driver, driver.read("out")


def test_there_are_forty() -> None:
    assert len(TOPOLOGIES) == 40


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_a_small_topology_runs_in_the_drivers_process(spark: SparkSession, name: str) -> None:
    driver, records = _outputs(_built(TOPOLOGIES[name]))
    assert driver.runs_in == "process", driver.why_spark
    assert records


@pytest.mark.proof
@pytest.mark.parametrize("name", TOPOLOGIES)
def test_a_small_topology_gives_what_spark_makes_of_it(spark: SparkSession, name: str) -> None:
    topology = _built(TOPOLOGIES[name])
    _, here = _outputs(topology)
    spark.conf.set("watersmeet.functions", "spark")
    try:
        assert _outputs(topology, spark)[1] == here
    finally:
        spark.conf.unset("watersmeet.functions")


def _timed() -> None:
    begin = time.perf_counter()
    wm.session("forty")
    print(f"session: {time.perf_counter() - begin:.1f} s")
    for name, define in TOPOLOGIES.items():
        before = time.perf_counter()
        driver, _ = _outputs(_built(define))
        print(f"{name}: {time.perf_counter() - before:.2f} s, in {driver.runs_in} {driver.why_spark}")
    print(f"all: {time.perf_counter() - begin:.1f} s")


if __name__ == "__main__":
    _timed()
