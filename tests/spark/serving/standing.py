"""A replica that stands still, served without a Spark: one table of many rows, and the numbers of a query."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from proof.arrow import arrow_builder
from watersmeet._engine.keys import hash_keys
from watersmeet._engine.state.manifest import TableLayout
from watersmeet._plan.declaration import TableSchema
from watersmeet._plan.physical import Physical
from watersmeet._spark.metrics.metrics import (
    BatchMetrics,
    ErrorMetrics,
    LatencyMetrics,
    Metrics,
    OperatorMetrics,
    TableMetrics,
)
from watersmeet._spark.serving.access import Access
from watersmeet._spark.serving.page import Explainer, QueryStatus
from watersmeet._spark.serving.replica import Replica, ServedStore
from watersmeet._spark.serving.server import Listeners
from watersmeet._spark.stores.table_columns import StoreColumns
from watersmeet.io.policies import DeadLetter

ROWS = 25_000


def standing(name: str = "t", count: int = ROWS) -> Replica:
    """A table of many rows, as of batch 7."""
    fields = [
        StructField("key", LongType()),
        StructField("value", StringType()),
        StructField("timestamp", TimestampType()),
    ]
    shown = StoreColumns("t", StructType(fields), {"key": "key", "value": "value", "timestamp": "ts"})
    made = Replica([ServedStore(name, shown, (0, 1))], 1 << 30)
    table = TableSchema(name, (("key", pa.int64()), ("value", pa.string()), ("ts", "number")))
    keys = pa.array(range(count), pa.int64())
    columns = [pa.array(hash_keys(keys)), keys, pa.array(["x" * 200] * count), keys]
    layout = TableLayout.of(table)
    schema = layout.schema.remove(len(layout.schema) - 1).with_metadata(layout.stored.metadata)
    rows = pa.table(columns, schema=schema).sort_by("hash")
    made.load(7, {name: [rows]})
    return made


def topology() -> Physical:
    """Clicks, counted by key; what cannot be decoded is a dead letter."""
    builder = arrow_builder("clicks by page")
    clicks = builder.stream("clicks", key="string", value="string", on_undecodable=DeadLetter("bad"))
    clicks.filter(lambda key, value: pc.not_equal(value, "x"), name="some").group_by_key().count(
        store="counts", name="count"
    ).to_stream(name="told").to("out", name="output")
    return builder.build().physical


def numbers() -> Metrics:
    """After two batches: ten clicks, of which three have no key and one cannot be decoded."""
    drops = {("count", "null_key"): 3}
    seconds = {"triggerExecution": 0.5, "addBatch": 0.4}
    # half of a second, and ten seconds
    latency = {"clicks": LatencyMetrics({72: 3, 107: 1})}
    writes = {"offsets": 0.01, "state": 0.2, "transactions": 0.05}
    return Metrics(
        active=True,
        at_ms=10_000,
        batches=2,
        batch=BatchMetrics(1, 5_000, {"clicks": 4}, {"output": 3}, drops, seconds, latency, writes),
        consumed={"clicks": 10},
        produced={"output": 6, "clicks-dead-letters-sink": 1},
        operators={"count": OperatorMetrics(9, 6)},
        tables={"counts": TableMetrics(6, 240)},
        held={},
        stream_time_ms={"clicks": 7_000},
        record_lateness_max_ms={"clicks": 20},
        record_lateness_avg_ms={"clicks": 1.5},
        lag={"clicks": {0: 5, 1: 0}},
        drops=drops,
        worker_bytes=1_000_000,
        state_bytes=2_000_000,
        latency={"clicks": LatencyMetrics({72: 9, 107: 1})},
        driver_bytes={"python": 100_000_000, "jvm": 600_000_000, "heap": 200_000_000, "heap_limit": 1_000_000_000},
        restarts=2,
        last_error=ErrorMetrics(4_000, "SinkError", "Kafka does not answer."),
    )


def status_of(failure: Exception | None) -> QueryStatus:
    """A query of these numbers."""
    active = failure is None
    return QueryStatus("q", "/cp", topology(), lambda: failure, lambda: active, lambda: "waits", numbers)


@contextmanager
def served(
    replica: Replica,
    token: str | None = None,
    tls: tuple[Path, Path] | None = None,
    failure: Exception | None = None,
    explainer: Explainer | None = None,
) -> Iterator[Listeners]:
    """The replica's listeners."""
    listeners = Listeners(replica, Access.of("127.0.0.1:0", None, token, tls), status_of(failure), explainer)
    try:
        yield listeners
    finally:
        listeners.close()


def ask(url: str, token: str | None = None, body: bytes | None = None, **headers: str) -> tuple[int, Any]:
    """Status and JSON of an answer."""
    asked = urllib.request.Request(url, body, headers=headers)
    if token is not None:
        asked.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(asked, timeout=60) as given:
            return given.status, json.loads(given.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())
