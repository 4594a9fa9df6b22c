"""A changed topology that takes the place of the running one serves its tables at the same addresses."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import watersmeet as wm
from tests.spark.changes.test_deployed_topology import behind, running, topology
from tests.spark.inputs_and_outputs.test_streaming import Collector, put, reader
from tests.spark.serving.kit import until
from tests.spark.serving.readers import reading

pytestmark = pytest.mark.filterwarnings("ignore:A function has changed since the last start")


def test_a_reader_across_the_switch_sees_no_batch_before_the_one_that_it_has_seen(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(spark, tmp_path / "in", (1, "a", 1))
    old = topology(spark, tmp_path, wm.ForeachBatch(Collector()))
    new = topology(spark, tmp_path, wm.ForeachBatch(Collector()), stored="?")
    values = ["a", "b", "b?", "c?"]
    with running(old, spark, tmp_path) as blue:
        url = str(blue.serve("127.0.0.1:0", tables=["latest"]).url)
        blue.processAllAvailable()
        with reading(url, "latest", 1) as readers:

            def read(value: str) -> None:
                until(lambda: all(reader.value == value for reader in readers))

            def write() -> None:
                read("a")
                put(spark, tmp_path / "in", (1, "b", 2))
                read("b")

            behind(monkeypatch, "prepare", write)
            green = blue.upgrade(new, local_cache=str(tmp_path / "cache"), allow_changed_functions=True)
            try:
                assert str(green._served.url) == url
                read("b?")
                put(spark, tmp_path / "in", (1, "c", 3))
                read("c?")
                assert green.table("latest").get(1).value == "c?"
            finally:
                green.stop()
        # until the switch all rows are those of the running topology
        assert [[value for _, value in reader.answers] for reader in readers] == [values, values]
        with pytest.raises(wm.ConfigError, match="No tables are served"):
            blue.table("latest")


def test_a_topology_without_a_table_that_is_served_is_refused_and_the_running_one_serves(
    spark: SparkSession, tmp_path: Path
) -> None:
    put(spark, tmp_path / "in", (1, "a", 1))
    builder = wm.StreamsBuilder("deployed")
    records = builder.stream(reader(spark, tmp_path / "in"), name="in", key="k", value="v", timestamp="ts")
    records.to(wm.ForeachBatch(Collector()), name="out")
    with running(topology(spark, tmp_path, wm.ForeachBatch(Collector())), spark, tmp_path) as blue:
        blue.serve(tables=["latest"])
        with pytest.raises(wm.ConfigError, match="no table with the store 'latest'"):
            blue.upgrade(builder.build())
        assert blue.isActive
        assert blue.table("latest").get(1, at_least=0, timeout=60).value == "a"
