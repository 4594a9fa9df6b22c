"""Headers of records that wait for the grace of a join: on Spark, in what stores show, and at a start."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from tests.spark.checkpoints.test_checkpoint import FACTS, begin_batches, verify_or_create
from watersmeet._plan.evolve import described
from watersmeet._spark.checkpoint.folders import Folder
from watersmeet._spark.checkpoint.record import look
from watersmeet._spark.stores.table_columns import columns_of_stores
from watersmeet._worker.ended_rows import HEADERS
from watersmeet.errors import ChangedTopology
from watersmeet.testing.driver import TopologyTestDriver


def topology(*, headers: bool = True) -> wm.Topology:
    b = wm.StreamsBuilder("held")
    stream = b.stream("s", key="string", value="string", name="s", headers=headers)
    table = b.table("t", key="string", value="string", name="t", history="200 ms")

    def joiner(left: Any, right: Any) -> Any:
        return F.concat(left, F.coalesce(right, F.lit("")))

    stream.left_join(table, joiner, name="j", grace="20 ms").to("out", name="out")
    return b.build()


def test_held_back_records_go_with_their_headers(spark: SparkSession) -> None:
    told: list[tuple[tuple[str, bytes | None], ...]] = [(), (("a", b"1"),), (("a", b"2"), ("b", None)), (), ()]
    for driver in (TopologyTestDriver(topology()), TopologyTestDriver(topology(), spark)):
        for step, ts in enumerate((10, 5, 90, 60, 200)):
            driver.pipe("s", "k", f"{step}", ts=ts, headers=told[step])
        assert [(r.value, r.headers) for r in driver.read("out")] == [(f"{n}", told[n]) for n in (1, 0, 3, 2)]


def test_a_store_of_what_waits_shows_its_headers(spark: SparkSession) -> None:
    shown = columns_of_stores(topology().physical)["j.held"].schema
    assert shown.fieldNames() == ["key", "value", "headers", "due", "timestamp"]
    assert shown["headers"].dataType == HEADERS
    assert "headers" not in columns_of_stores(topology(headers=False).physical)["j.held"].schema.fieldNames()


def test_a_checkpoint_that_keeps_other_columns_is_refused_at_a_start_and_goes_on_with_evolve(
    spark: SparkSession, tmp_path: Path
) -> None:
    before, now = (
        replace(FACTS, described=described(topology(headers=headers).physical, {})) for headers in (False, True)
    )
    folder = str(tmp_path / "cp")
    verify_or_create(spark, folder, before)
    begin_batches(folder)
    with pytest.raises(ChangedTopology, match=r"other columns(.|\n)*j\.held: (.|\n)*, headers(.|\n)*Hint: .*evolve=Tr"):
        look(Folder(spark, folder)).fitting(now)
    change = look(Folder(spark, folder)).fitting(now, evolve=True).change
    assert change is not None
    assert change.possible
