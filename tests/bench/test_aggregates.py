"""The workloads of aggregates: their data, and watersmeet's results and Spark's own beside plain Python's."""

from __future__ import annotations

import datetime as dt
import json
import struct
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import watersmeet as wm
from bench.run import some_of_kafka
from bench.workloads.aggregates import DAY_MS, HOUR_MS, in_spark, sales_data
from bench.workloads.datasets import EPOCH
from bench.workloads.every import WORKLOADS
from bench.workloads.workload import handles_of
from watersmeet.testing.driver import TopologyTestDriver

MINUTE_MS = 60_000


@pytest.fixture(scope="module")
def sales(tmp_path_factory: pytest.TempPathFactory) -> pa.Table:
    data = sales_data(tmp_path_factory.mktemp("sales"), 1_600, 50, shops=10)
    tables = [pq.read_table(file) for file in sorted((data.folder / "sales").glob("*.parquet"))]
    assert data.records == 1_600
    return pa.concat_tables(tables)


def test_sales_lie_within_an_hour_in_order_of_time(sales: pa.Table) -> None:
    times = sales["ts"].to_pylist()
    assert times == sorted(times)
    assert 0 <= times[0] - EPOCH < times[-1] - EPOCH < HOUR_MS
    assert len(set(sales["key"].to_pylist())) == 50
    assert [*json.loads(sales["value"][0].as_py())] == ["shop", "cents"]


@pytest.mark.spark
def test_spark_writes_what_kafka_streams_does(spark: SparkSession, sales: pa.Table) -> None:
    rows = list(zip(*(sales[name].to_pylist() for name in ("key", "value", "ts")), strict=True))
    given = [
        (struct.pack(">q", key), value.encode(), dt.datetime.fromtimestamp(ts / 1000, dt.UTC))
        for key, value, ts in rows
    ]
    frame = spark.createDataFrame(given, "key binary, value binary, timestamp timestamp")

    def found(aggregate: str) -> dict[tuple[int, ...], int]:
        made = [(bytes(row["key"]), bytes(row["value"])) for row in in_spark(aggregate, frame).collect()]
        return {struct.unpack(f">{len(key) // 8}q", key): struct.unpack(">q", value)[0] for key, value in made}

    assert found("count") == {(key,): count for key, count in Counter(key for key, _, _ in rows).items()}
    minutes = Counter((key, ts // MINUTE_MS * MINUTE_MS) for key, _, ts in rows)
    assert found("tumbling_count") == minutes
    sums: Counter[tuple[int, int]] = Counter()
    for key, value, ts in rows:
        for back in range(5):
            sums[(key, ts // MINUTE_MS * MINUTE_MS - back * MINUTE_MS)] += json.loads(value)["cents"]
    assert found("hopping_sum") == sums


def written(spark: SparkSession, name: str, sales: pa.Table) -> dict[Any, Any]:
    """The final table that watersmeet writes, in a process of its own kind (`testing`)."""
    builder = wm.StreamsBuilder("bench")
    (handle,) = handles_of(WORKLOADS[name], builder, ["sales"])
    handle.to("out", **WORKLOADS[name].formats())
    driver = TopologyTestDriver(builder.build(), spark)
    for key, value, ts in zip(*(sales[column].to_pylist() for column in ("key", "value", "ts")), strict=True):
        driver.pipe("sales", key=key, value=json.loads(value), ts=ts)
    last = {record.key: record.value for record in driver.read("out")}
    return {key: value for key, value in last.items() if value is not None}


@pytest.mark.spark
def test_watersmeet_writes_what_plain_python_counts(spark: SparkSession, sales: pa.Table) -> None:
    rows = [
        (key, json.loads(value), ts)
        for key, value, ts in zip(*(sales[name].to_pylist() for name in ("key", "value", "ts")), strict=True)
    ]
    assert written(spark, "count", sales) == Counter(key for key, _, _ in rows)
    minutes = Counter((key, start := ts // MINUTE_MS * MINUTE_MS, start + MINUTE_MS) for key, _, ts in rows)
    assert written(spark, "tumbling_count", sales) == minutes
    sums: Counter[tuple[int, int, int]] = Counter()
    for key, sale, ts in rows:
        for back in range(5):
            start = ts // MINUTE_MS * MINUTE_MS - back * MINUTE_MS
            sums[(key, start, start + 5 * MINUTE_MS)] += sale["cents"]
    assert written(spark, "hopping_sum", sales) == sums
    shops: Counter[int] = Counter()
    for sale in {key: sale for key, sale, _ in rows}.values():
        shops[sale["shop"]] += sale["cents"]
    assert shops == {shop: cents for shop, cents in written(spark, "table_aggregate", sales).items() if cents}


@pytest.mark.spark
def test_watersmeet_writes_the_windows_that_records_make(spark: SparkSession, sales: pa.Table) -> None:
    by_key: dict[int, list[tuple[int, int]]] = {}
    for key, value, ts in zip(*(sales[name].to_pylist() for name in ("key", "value", "ts")), strict=True):
        by_key.setdefault(key, []).append((ts, json.loads(value)["cents"]))
    sessions: dict[tuple[int, int, int], int] = {}
    means: dict[tuple[int, int, int], float] = {}
    for key, found in by_key.items():
        times = [ts for ts, _ in found]
        begins = [at for at in range(len(times)) if not at or times[at] - times[at - 1] > MINUTE_MS]
        for begin, end in pairwise([*begins, len(times)]):
            sessions[(key, times[begin], times[end - 1])] = end - begin
        for start in {ts - MINUTE_MS for ts in times} | {ts + 1 for ts in times}:
            held = [cents for ts, cents in found if start <= ts <= start + MINUTE_MS]
            if held:
                means[(key, start, start + MINUTE_MS)] = sum(held) / len(held)
    assert written(spark, "session_count", sales) == sessions
    assert written(spark, "sliding_avg", sales) == means


@pytest.mark.spark
def test_watersmeet_writes_how_many_more_than_a_week_before(spark: SparkSession, tmp_path: Path) -> None:
    data = sales_data(tmp_path, 800, 5, span=14 * DAY_MS)
    days = pa.concat_tables(map(pq.read_table, sorted((data.folder / "sales").glob("*.parquet"))))
    pairs = zip(days["key"].to_pylist(), days["ts"].to_pylist(), strict=True)
    counts = Counter((key, ts // DAY_MS * DAY_MS) for key, ts in pairs)
    more = {(key, day, day + DAY_MS): count - counts[(key, day - 7 * DAY_MS)] for (key, day), count in counts.items()}
    assert written(spark, "last_week", days) == more


def test_a_workload_that_is_not_there_is_refused() -> None:
    with pytest.raises(Exception, match="no such workload: other"):
        some_of_kafka("orders,other")


def test_every_workload_has_its_topology_in_java() -> None:
    java = "".join(file.read_text() for file in (Path(__file__).parents[2] / "bench" / "kafka" / "java").glob("*.java"))
    assert [name for name in WORKLOADS if f'case "{name}":' not in java] == []
