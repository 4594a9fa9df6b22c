"""A user's own aggregate through Spark: in the test driver and in queries, beside ours; what a store shows of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from tests.spark.inputs_and_outputs.test_streaming import Collector, put, reader, run
from watersmeet.errors import TopologyError
from watersmeet.testing.driver import TopologyTestDriver


def harmonic() -> type[wm.Aggregate]:
    """The class, as a program's main module has it: it goes to the workers by value."""

    class Harmonic(wm.Aggregate):
        state, result = "struct<n: bigint, total: double>", "double"

        def init(self) -> Any:
            return {"n": 0, "total": 0.0}

        def add(self, state: Any, value: Any) -> Any:
            state["n"] += 1
            state["total"] += 1 / value
            return state

        def subtract(self, state: Any, value: Any) -> Any:
            return {"n": state["n"] - 1, "total": state["total"] - 1 / value}

        def merge(self, one: Any, other: Any) -> Any:
            return {"n": one["n"] + other["n"], "total": one["total"] + other["total"]}

        def finish(self, state: Any) -> Any:
            return state["n"] / state["total"] if state["n"] else None

    return Harmonic


def aggregates() -> dict[str, Any]:
    return {
        "mean": harmonic()(lambda value: F.length(value).cast("double")),
        "n": wm.count(),
        "longest": wm.max_by(lambda value: value, by=F.length),
        "top": wm.top_k(k=2, by=F.length),
        "middle": wm.percentile(F.length, 0.5),
        "usual": wm.mode(F.length),
        "long": wm.bool_or(lambda value: F.length(value) > 3),
    }


def result(mean: float | None, n: int, longest: str | None, top: list[str], middle: Any, usual: Any, long: Any) -> Row:
    return Row(mean=mean, n=n, longest=longest, top=top, middle=middle, usual=usual, long=long)


def test_beside_ours_it_is_folded_for_streams_tables_and_sessions(spark: SparkSession) -> None:
    b = wm.StreamsBuilder("own")
    stream = b.stream("in", key="string", value="string").group_by_key()
    stream.agg(**aggregates()).to("stream")
    stream.windowed_by(wm.SessionWindows.of_inactivity_gap_and_grace("5 ms", "1 ms")).agg(
        **aggregates()
    ).to_stream().map(lambda key, value: (key["key"], value)).to("sessions")
    rows = b.table("rows", key="string", value="string").group_by(lambda key, value: (F.lit("all"), value))
    rows.agg(**aggregates()).to("table")
    driver = TopologyTestDriver(b.build(), spark)
    for name in ("in", "rows"):
        for key, value, ts in (("a", "xx", 0), ("a", "xxxxxx", 3), ("b", "x", 4), ("a", "yy", 20), ("b", None, 21)):
            driver.pipe(name, key, value, ts=ts)
    said = {name: [r.value for r in driver.read(name)] for name in ("stream", "sessions", "table")}
    first, second = (
        result(2.0, 1, "xx", ["xx"], 2.0, 2, False),
        result(3.0, 2, "xxxxxx", ["xxxxxx", "xx"], 4.0, 2, True),
    )
    alone = result(1.0, 1, "x", ["x"], 1.0, 1, False)
    assert said["stream"][:3] == [first, second, alone]
    assert said["sessions"] == [first, None, second, alone, result(2.0, 1, "yy", ["yy"], 2.0, 2, False)]
    assert [(each["n"], each["longest"], each["top"], each["usual"]) for each in said["table"]] == [
        (1, "xx", ["xx"], 2),
        (1, "xxxxxx", ["xxxxxx"], 6),
        (2, "xxxxxx", ["xxxxxx", "x"], 1),
        (2, "yy", ["yy", "x"], 1),
        (1, "yy", ["yy"], 2),
    ]
    assert said["table"][-1]["mean"] == pytest.approx(2.0)


def test_its_state_goes_through_a_restart_and_a_store_shows_what_is_kept(spark: SparkSession, tmp_path: Path) -> None:
    def built(sink: Any) -> wm.Topology:
        b = wm.StreamsBuilder("own-restart")
        stream = b.stream(reader(spark, tmp_path / "in"), name="in", key="k", value="v", timestamp="ts")
        table = stream.group_by_key().agg(**aggregates(), store="own")
        table.to_stream().to(wm.ForeachBatch(sink), name="out")
        return b.build()

    sink = Collector()
    put(spark, tmp_path / "in", (1, "xx", 0))
    run(built(sink), spark, tmp_path)
    put(spark, tmp_path / "in", (1, "xxxxxx", 1))
    run(built(sink), spark, tmp_path)
    assert [value for _, value, _ in sink.rows()] == [
        result(2.0, 1, "xx", ["xx"], 2.0, 2, False),
        result(3.0, 2, "xxxxxx", ["xxxxxx", "xx"], 4.0, 2, True),
    ]
    (row,) = wm.read_state(spark, str(tmp_path / "cp"), "own").collect()
    assert row.value["mean"] == Row(n=2, total=1 / 2 + 1 / 6)
    assert row.value[1:] == sink.rows()[-1][1][1:]


def test_what_is_missing_or_of_no_type_is_said_where_it_is_used(spark: SparkSession) -> None:
    class Bare(wm.Aggregate):
        state = result = "longish"

        def init(self) -> Any:
            return 0

        def add(self, state: Any, value: Any) -> Any:
            return state

    b = wm.StreamsBuilder("refused")
    table = b.table("rows", key="string", value="string").group_by(lambda key, value: (key, value))
    with pytest.raises(TopologyError, match=r"Bare.subtract is missing"):
        table.agg(own=Bare())
    with pytest.raises(wm.FunctionError, match="longish"):
        b.stream("in", key="string", value="string").group_by_key().agg(own=Bare())


def test_the_programs_of_the_page_are_built(spark: SparkSession) -> None:
    page = (Path(__file__).parents[3] / "docs" / "aggregates.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    for program in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(program, names)
    driver = TopologyTestDriver(names["builder"].build(), spark)
    for customer, amount in (("ann", 2.0), ("bob", 6.0)):
        driver.pipe("sales", "s", {"shop": "here", "customer": customer, "amount": amount}, ts=0)
    assert [r.value for r in driver.read("means")][-1] == Row(n=2, mean=3.0)
    assert [r.value for r in driver.read("shops")][-1] == Row(n=2, total=8.0, best="bob", median=4.0)
