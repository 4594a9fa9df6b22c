"""A start with evolve=True refuses an operator that would go on with the rows of something else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from tests.spark.inputs_and_outputs.test_streaming import Collector, put, reader, run


def topology(spark: SparkSession, folder: Path, sink: Any, order: tuple[str, str], *, more: bool = False) -> Any:
    """A join of two tables, one by rows of the one input, the other by steps without names; `more`: one step more."""
    b = wm.StreamsBuilder("inputs")
    inputs = {n: b.stream(reader(spark, folder / n), name=n, key="k", value="v", timestamp="ts") for n in ("a", "b")}
    if more:
        inputs["a"].filter(lambda v: v != "no").to(wm.ForeachBatch(Collector()), name="more")
    tables = {
        "a": inputs["a"].to_table(name="rows"),
        "small": inputs["b"].filter(lambda v: v < "m").to_table(name="small"),
        "large": inputs["b"].filter(lambda v: v >= "m").to_table(name="large"),
    }
    one, other = (tables[name] for name in order)
    one.outer_join(other, lambda x, y: F.concat_ws("+", x, y), name="j").to_stream(name="s").to(sink, name="out")
    return b.build()


def test_a_start_refuses_exchanged_inputs_and_says_what_was_read_and_what_is(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = Collector()
    out = wm.ForeachBatch(sink)
    put(spark, tmp_path / "a", (1, "fromA", 1))
    put(spark, tmp_path / "b", (1, "c", 2))
    run(topology(spark, tmp_path, out, ("a", "small")), spark, tmp_path)
    exchanged = topology(spark, tmp_path, out, ("small", "a"))
    planned = wm.plan_change(tmp_path / "cp", exchanged)
    said = "it read 'rows' and 'small', it reads 'small' and 'rows'"
    assert [item.reason for item in planned.refused if item.name == "j"] == [f"its inputs have changed places: {said}"]
    with pytest.raises(wm.ChangedTopology, match=said):
        run(exchanged, spark, tmp_path, evolve=True)
    re_fed = wm.plan_change(tmp_path / "cp", topology(spark, tmp_path, out, ("a", "large")))
    assert [item.reason for item in re_fed.refused if item.name == "j"] == [
        "it read 'rows' and 'small', it reads 'rows' and 'large'"
    ]
    # the numbers of steps without names have shifted; what they do has not
    shifted = wm.plan_change(tmp_path / "cp", topology(spark, tmp_path, out, ("a", "small"), more=True))
    assert not [item for item in shifted.refused if item.name == "j"], str(shifted)
