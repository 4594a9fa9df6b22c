"""Tables of a changed topology that are computed anew: only rows that differ go out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from tests.spark.inputs_and_outputs.test_streaming import Collector, put, reader, run

REPLACE: dict[str, Any] = {"evolve": True, "replace": ["view"]}
OPTIONS: dict[str, Any] = {"key": "k", "value": "v", "timestamp": "ts"}


def joined(
    spark: SparkSession, folder: Path, sink: Any, *, how: str = "join", joiner: Callable[..., Any] = F.concat
) -> wm.Topology:
    """A join of two tables with a store, and a count of its values."""
    b = wm.StreamsBuilder("replaced")
    left = b.table(reader(spark, folder / "left"), name="left", **OPTIONS)
    right = b.table(reader(spark, folder / "right"), name="right", **OPTIONS)
    view = getattr(left, how)(right, joiner, name="view", store="view")
    view.to_stream(name="rows").to(wm.ForeachBatch(sink), name="out")
    return b.build()


def rows_of(spark: SparkSession, folder: Path, store: str = "view") -> dict[Any, Any]:
    return {row["key"]: row["value"] for row in wm.read_state(spark, folder / "cp", store).collect()}


def test_a_changed_joiner_gives_only_rows_that_differ(spark: SparkSession, tmp_path: Path) -> None:
    sink = Collector()
    put(spark, tmp_path / "left", (1, "a", 1), (2, "b", 2), (3, "c", 3), (4, "d", 9))
    put(spark, tmp_path / "right", (1, "x", 4), (2, "y", 5), (3, "z", 1))
    run(joined(spark, tmp_path, sink), spark, tmp_path)
    assert rows_of(spark, tmp_path) == {1: "ax", 2: "by", 3: "cz"}
    seen = len(sink.rows())

    def other(left: Any, right: Any) -> Any:
        return F.when(left == "b", F.lit("B")).otherwise(F.concat(left, F.coalesce(right, F.lit("-"))))

    new = joined(spark, tmp_path, sink, how="left_join", joiner=other)
    planned = wm.plan_change(tmp_path / "cp", new, replace=["view"])
    assert planned.possible, str(planned)
    assert [item.reason for item in planned.replaced] == ["1 rows added, 1 rows changed, 0 rows removed"]
    run(new, spark, tmp_path, **REPLACE)
    assert [row for row in sink.rows()[seen:]] == [(2, "B", 5), (4, "d-", 9)]
    assert rows_of(spark, tmp_path) == {1: "ax", 2: "B", 3: "cz", 4: "d-"}
