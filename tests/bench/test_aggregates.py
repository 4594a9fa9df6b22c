"""The workloads of aggregates: their data, Spark's own beside a plain count, and that they must be asked for."""

from __future__ import annotations

import datetime as dt
import json
import struct
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from bench.aggregates import HOUR_MS, in_spark, sales_data
from bench.datasets import EPOCH
from bench.run import some_of_kafka
from bench.workloads import READY, WORKLOADS

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


def test_what_millpond_cannot_do_yet_is_measured_only_when_asked_for() -> None:
    asked = "count,tumbling_count,hopping_sum,sliding_avg,session_count,table_aggregate"
    assert some_of_kafka(asked) == asked.split(",")
    assert not {name for name in READY if WORKLOADS[name].join is None}
    assert {"orders", "enrich", "demo"} <= set(READY)


def test_a_workload_that_is_not_there_is_refused() -> None:
    with pytest.raises(Exception, match="no such workload: other"):
        some_of_kafka("orders,other")


def test_every_workload_has_its_topology_in_java() -> None:
    java = "".join(file.read_text() for file in (Path(__file__).parents[2] / "bench" / "java").glob("*.java"))
    assert [name for name in WORKLOADS if f'case "{name}":' not in java] == []
