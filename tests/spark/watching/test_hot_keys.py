"""A key with a good part of an operator's records is told, and nobody is shown it who may see numbers alone."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from tests.spark.inputs_and_outputs.test_streaming import reader
from watersmeet._engine.keys import hash_keys
from watersmeet._spark.metrics.exporters import families
from watersmeet._spark.metrics.metrics import HotKey, Metrics, metrics_as_json, metrics_of_json, without_keys
from watersmeet._spark.metrics.texts import as_text, log_line, metric_lines
from watersmeet._worker.counts import HOT_ROWS, hottest, short_text


def rows(keys: pa.Array, silent: int = 0) -> pa.Table:
    mute = np.arange(len(keys)) < silent
    return pa.table({"hash": hash_keys(keys), "key": keys, "silent": mute})


def texts(hot_rows: int, others: int) -> pa.Array:
    keys = np.array(["the hot one"] * hot_rows + [f"k{number}" for number in range(others)])
    return pa.array(np.random.default_rng(1).permutation(keys).tolist())


@pytest.mark.parametrize(("few", "others"), [(HOT_ROWS, 20_000), (HOT_ROWS + 5, 90_000)])
def test_a_key_with_many_rows_and_a_tenth_of_all_is_found_on_either_side(few: int, others: int) -> None:
    keys = texts(few, others)
    assert hottest({0: rows(keys)}) == (few, "the hot one")
    assert hottest({0: rows(texts(0, 10)), 1: rows(keys)}) == (few, "the hot one")
    half = few // 2
    assert hottest({0: rows(texts(half, 10)), 1: rows(texts(few - half, others))}) == (few, "the hot one")


@pytest.mark.parametrize(("few", "others", "silent"), [(HOT_ROWS - 1, 0, 0), (HOT_ROWS, 95_000, 0), (HOT_ROWS, 0, 1)])
def test_no_key_is_hot_with_few_rows_or_a_small_share_or_rows_that_are_no_records(
    few: int, others: int, silent: int
) -> None:
    assert hottest({0: rows(texts(few, others), silent), 1: rows(texts(0, 0))}) is None
    assert hottest({}) is None


def test_rows_that_are_placed_by_something_else_than_their_key_have_no_text() -> None:
    keys = pa.array(range(HOT_ROWS))
    table = rows(keys).set_column(0, "hash", pa.array(hash_keys(pa.array([7] * HOT_ROWS))))
    assert hottest({0: table}) == (HOT_ROWS, "")


@pytest.mark.parametrize("text", ["", "a", "é" * 100, "x" * 56, "x" * 57, "🙂" * 14, "a\x01"])
def test_a_long_text_is_cut_between_letters(text: str) -> None:
    shown = short_text(text)
    assert shown == text or (shown.endswith("…") and text.startswith(shown[:-1]) and len(shown.encode()) > 50)


@pytest.fixture(scope="module")
def told(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Metrics:
    folder = tmp_path_factory.mktemp("hot")
    hot_one = F.when(F.col("id") % 2 == 0, 7).otherwise(1_000 + F.col("id")).cast("int")
    made = spark.range(0, 40_000, 1, 1).select(hot_one.alias("k"), F.lit("v").alias("v"), F.col("id").alias("ts"))
    made.write.parquet(str(folder / "in"))
    b = wm.StreamsBuilder("hot")
    given = b.stream(reader(spark, folder / "in"), name="in", key="k", value="v", timestamp="ts")
    counted = given.group_by_key().count(name="counted").to_stream()
    counted.to(wm.Writer("parquet", path=str(folder / "out")), name="out")
    query = b.build().start(
        spark, checkpoint=str(folder / "cp"), local_cache=None, available_now=True, record_cache=True
    )
    query.awaitTermination()
    return query.metrics()


def test_the_metrics_of_a_batch_name_the_key_with_its_records_and_share(told: Metrics) -> None:
    assert told.batch is not None
    assert told.batch.hot_keys == {"counted": HotKey("7", 20_000, 0.5)}
    assert "; one key has 50% of the records of counted" in log_line(told)
    assert "hot key of counted: '7' with 20,000" in as_text(metric_lines(told))
    again = metrics_of_json(json.loads(json.dumps(metrics_as_json(told))))
    assert again.batch is not None
    assert again.batch.hot_keys == told.batch.hot_keys


def test_prometheus_and_the_page_have_the_share_without_the_key(told: Metrics) -> None:
    samples = {name: found for name, _, _, found in families(told)}
    assert samples["watersmeet_hot_key_share"] == [(("counted",), 0.5)]
    shown = without_keys(told)
    assert shown.batch is not None
    assert shown.batch.hot_keys == {"counted": HotKey("", 20_000, 0.5)}
