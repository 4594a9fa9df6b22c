"""The latency of records, and what is known of a query beside its batches: restarts, the last error, memory, writes."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import SparkSession

import watersmeet as wm
from tests.spark.serving.kit import Inputs
from tests.spark.serving.standing import numbers
from watersmeet._spark.checkpoint.folders import Folder
from watersmeet._spark.metrics.exporters import text_of
from watersmeet._spark.metrics.metrics import LatencyMetrics, Metrics
from watersmeet._spark.metrics.query_facts import QueryFacts
from watersmeet._spark.metrics.totals import CountedPlan, Totals
from watersmeet._spark.outputs.batch_gate import BatchGate
from watersmeet._worker.counts import (
    AGE,
    BEGUN,
    LATENCY,
    AgeLimits,
    Counts,
    Measure,
    bucket_of,
    buckets_of,
    count_source,
    middle_ms,
)
from watersmeet.errors import ConfigError, SinkError


def test_a_time_is_known_to_five_percent_by_its_bucket() -> None:
    for ms in (1, 2, 7, 100, 12_345, 86_400_000, 10**12):
        assert middle_ms(bucket_of(ms)) == pytest.approx(ms, rel=0.05)
    assert buckets_of(np.array([-1_000, 0])) == {0: 2}
    assert middle_ms(0) == 0


def test_a_quantile_is_the_time_that_this_share_of_the_records_took_at_most() -> None:
    times = np.arange(1, 1_001, dtype=np.int64) * 10
    found = LatencyMetrics(buckets_of(times))
    for share in (0.01, 0.5, 0.9, 0.99, 1.0):
        assert found.quantile(share) == pytest.approx(
            float(np.quantile(times, share, method="inverted_cdf")) / 1_000, rel=0.06
        )
    assert found.records == 1_000
    assert found.seconds == pytest.approx(times.sum() / 1_000, rel=0.02)


def test_a_record_of_the_querys_life_waits_since_its_timestamp_and_an_older_one_since_its_batch_began() -> None:
    times = pa.table({"srcpart": [0] * 3, "order_ts": [9_000] * 3, "ts": [10, 4_999, 9_000], "root:0": [True] * 3})
    counts = Counts()
    count_source(times, {0: "orders"}, {}, AgeLimits(live_ms=5_000, begun_ms=10_000), counts)
    ages = {int(measure.part): count for measure, count in counts.sums.items() if measure.kind == AGE}
    assert ages == {0: 2, bucket_of(1_000): 1}


def test_two_tasks_with_the_same_ages_count_both() -> None:
    ages = Counter({Measure(AGE, "orders", "80"): 3, Measure(AGE, "orders", "0"): 3})
    batch, plan = Counts(), CountedPlan((Measure(LATENCY, "orders"),))
    for _ in range(2):
        batch.add(Counts(sums=ages, largest={Measure(BEGUN): 50_000}))
    totals = Totals(plan)
    totals.count(0, batch, ended_ms=54_000)
    latency = totals.metrics(active=True, at_ms=0).latency["orders"]
    assert latency.records == 12
    # the begin of the batch to its outputs takes 4 s, and half of the records were a second old before
    assert [latency.quantile(0.5), latency.quantile(1.0)] == pytest.approx([4, 5], rel=0.06)
    again = Totals.from_json(json.loads(json.dumps(totals.to_json())), plan)
    assert again.metrics(active=True, at_ms=0).latency == totals.metrics(active=True, at_ms=0).latency


def test_prometheus_gets_a_histogram_that_counts_up_and_the_other_numbers() -> None:
    text = text_of("q", numbers)().decode()
    samples = {
        (sample.name, *(value for name, value in sorted(sample.labels.items()) if name != "application")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    ends = [value for key, value in samples.items() if key[0] == "watersmeet_record_latency_seconds_bucket"]
    assert ends == sorted(ends)
    assert (ends[0], ends[-1]) == (0, 10)
    assert samples["watersmeet_record_latency_seconds_bucket", "0.5", "clicks"] == 9
    assert samples["watersmeet_record_latency_seconds_count", "clicks"] == 10
    assert samples["watersmeet_record_latency_seconds_sum", "clicks"] == pytest.approx(9 * 0.49 + 10.17, rel=0.01)
    assert samples["watersmeet_batch_latency_seconds", "0.99", "clicks"] == 10.173
    assert samples["watersmeet_write_duration_seconds", "transactions"] == 0.05
    assert samples["watersmeet_restarts_total",] == 2
    assert samples["watersmeet_last_error_timestamp_seconds", "SinkError"] == 4
    assert samples["watersmeet_driver_memory_bytes", "heap"] == 200_000_000


@pytest.fixture
def failing(spark: SparkSession, tmp_path: Path) -> Any:
    """A query that fails as soon as it is told."""
    inputs = Inputs(spark, tmp_path / "in")
    fails: list[str] = []

    def write(rows: Any, batch: int) -> None:
        rows.count()
        if fails:
            raise wm.ConfigError(fails[0])

    builder = wm.StreamsBuilder("late")
    frame = inputs.read("events", "k string, v long, ts long")
    builder.stream(frame, name="events", key="k", value="v", timestamp="ts").group_by_key().count(
        store="counts"
    ).to_stream().to(wm.ForeachBatch(write), name="out")
    topology = builder.build()

    def started() -> Any:
        return topology.start(spark, checkpoint=tmp_path / "cp", shards=2, tasks=2)

    return inputs, fails, started


def test_a_query_says_its_latency_its_writes_its_memory_and_after_a_failure_why_it_was_started_again(
    failing: Any,
) -> None:
    inputs, fails, started = failing
    query = started()
    now_ms = time.time_ns() // 1_000_000
    history_ms = now_ms - 67 * 86_400_000
    inputs.put("events", *({"k": "a", "v": 1, "ts": ts} for ts in [*[history_ms] * 99, now_ms]))
    query.processAllAvailable()
    passed = (time.time_ns() // 1_000_000 - now_ms) / 1_000
    now: Metrics = query.metrics()
    assert now.batch is not None
    found = now.batch.latency["events"]
    assert now.latency == now.batch.latency
    assert found.records == 100
    # history of 67 days counts from when its batch began to read
    assert (found.quantile(1.0) or 0) <= passed * 1.1
    assert {"offsets", "commits", "state"} <= set(now.batch.writes)
    assert now.driver_bytes["python"] > 0
    assert 0 < now.driver_bytes["heap"] <= now.driver_bytes["heap_limit"]
    assert (now.restarts, now.last_error) == (0, None)
    fails.append("The output is told to fail.\nIts second line.")
    inputs.put("events", {"k": "a", "v": 1, "ts": now_ms})
    with pytest.raises(Exception, match="told to fail"):
        query.processAllAvailable()
    query.stop()
    error = query.metrics().last_error
    assert error is not None
    assert error.reason == "The output is told to fail."
    assert "told to fail" not in error.error
    fails.clear()
    again = started()
    again.processAllAvailable()
    after = again.metrics()
    again.stop()
    assert (after.restarts, after.last_error) == (1, error)
    planned = started()
    assert planned.metrics().restarts == 1  # the end before it was asked for
    planned.stop()


@pytest.mark.parametrize(("lost", "epoch"), [(False, 1), (True, 1), (False, 0)])
def test_a_query_that_has_lost_its_checkpoint_or_given_it_back_writes_no_last_error_into_it(
    spark: SparkSession, tmp_path: Path, lost: bool, epoch: int
) -> None:
    def check() -> None:
        if lost:
            raise ConfigError("Another driver has taken the checkpoint over.", given="cp", hint="Stop one of both.")

    folder = Folder(spark, str(tmp_path))
    QueryFacts(folder, BatchGate(), lambda: epoch, check).end(lambda: SinkError("No.", given="out", hint="Look."))
    assert bool(folder.text("watersmeet/last_error")) == (epoch == 1 and not lost)
