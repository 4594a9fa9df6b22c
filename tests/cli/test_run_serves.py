"""`run --serve` serves the tables of the topology while its query runs; without --table it serves all of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from watersmeet.cli.run import RunOptions, starting
from watersmeet.errors import ConfigError

MODULE = """
import watersmeet as wm

def topology(spark):
    frame = spark.readStream.schema("k long, v string, ts long").parquet("FOLDER/rows")
    builder = wm.StreamsBuilder("served-by-run")
    rows = builder.table(frame, name="rows", key="k", value="v", timestamp="ts", store="rows-by-key")
    counts = rows.group_by(lambda k, v: (v, k)).count(store="counts")
    counts.to(wm.ForeachBatch(lambda frame, batch: frame.count()), name="nothing")
    return builder.build()
"""


@pytest.fixture
def written(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(1, "a", 1), (2, "b", 2), (3, "a", 3)]
    spark.createDataFrame(rows, "k long, v string, ts long").coalesce(1).write.parquet(str(tmp_path / "rows"))
    (tmp_path / "served_by_run.py").write_text(MODULE.replace("FOLDER", str(tmp_path)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "served_by_run", raising=False)


@pytest.mark.spark
def test_a_table_that_is_not_there_is_refused_before_the_query_starts(written: None, tmp_path: Path) -> None:
    serve = {"address": "127.0.0.1:0", "tables": ["count"]}
    with pytest.raises(ConfigError, match=r"(?s)no table with the store 'count'.*Tables: counts, rows-by-key"):
        starting(RunOptions("served_by_run:topology", str(tmp_path / "cp"), serve=serve))
    assert not (tmp_path / "cp").exists()


@pytest.mark.spark
def test_all_tables_are_served_while_the_query_runs(written: None, tmp_path: Path) -> None:
    start = {"shards": 1, "tasks": 1}
    options = RunOptions("served_by_run:topology", str(tmp_path / "cp"), start=start, serve={"address": "127.0.0.1:0"})
    options.check()
    query = starting(options)()
    try:
        query.processAllAvailable()
        asked = {"rows-by-key": 2, "counts": "a"}
        found = [query.table(name).get(key, at_least=0, timeout=300).value for name, key in asked.items()]
        assert found == ["b", 2]
    finally:
        query.stop()
