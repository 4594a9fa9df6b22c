"""The record cache on Spark: one result per key and batch, and it may be another one at each start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from tests.spark.inputs_and_outputs.test_streaming import Collector, by_key, put, reader, run


def topology(spark: SparkSession, folder: Path, sink: Any, join: str) -> wm.Topology:
    b = wm.StreamsBuilder("cached")
    options = {"key": "k", "value": "v", "timestamp": "ts"}
    left = b.table(reader(spark, folder / "left"), name="left", **options)
    right = b.table(reader(spark, folder / "right"), name="right", **options)
    options = {"foreign_key": lambda value: F.length(value).cast("long")} if join == "foreign_key" else {}
    joined = left.join(right, F.concat, **options)
    joined.to(sink, name="out")
    return b.build()


@pytest.mark.parametrize("join", ["table_table", "foreign_key"])
def test_a_key_has_its_last_result_of_each_batch_alone(spark: SparkSession, tmp_path: Path, join: str) -> None:
    for _ in range(2):  # files, of which a batch takes one a side
        put(spark, tmp_path / "left", *((n % 7, "a" * (1 + n % 5), n) for n in range(40)))
        put(spark, tmp_path / "right", *((n % 6, None if n % 11 == 10 else f"b{n}", n) for n in range(40)))
    found = {}
    for cached in (True, False):
        folder, sink = tmp_path / str(cached), Collector()
        (folder / "cp").mkdir(parents=True)
        built = topology(spark, tmp_path, wm.ForeachBatch(sink), join)
        run(built, spark, folder, record_cache=cached)
        found[cached] = {batch: by_key(tries[-1]) for batch, tries in sink.batches.items()}
    for batch, every in found[False].items():
        assert any(len(results) > 1 for results in every.values())
        one = found[True][batch]
        assert all(len(results) == 1 for results in one.values())
        assert {key: results[-1][0] for key, results in every.items() if key in one} == {
            key: results[0][0] for key, results in one.items()
        }
        assert all(results[-1][0] is None or batch for key, results in every.items() if key not in one)


def test_a_checkpoint_goes_on_with_it_or_without(spark: SparkSession, tmp_path: Path) -> None:
    sink = Collector()
    for number, cached in enumerate((True, False, True)):
        put(spark, tmp_path / "left", *((1, f"{number}.{n}", 10 * number + n) for n in range(3)))
        put(spark, tmp_path / "right", (1, "!", 10 * number + 5))
        run(topology(spark, tmp_path, wm.ForeachBatch(sink), "table_table"), spark, tmp_path, record_cache=cached)
    assert [len(tries[-1]) for _, tries in sorted(sink.batches.items())] == [1, 4, 1]
    assert sink.rows()[-1][1] == "2.2!"
