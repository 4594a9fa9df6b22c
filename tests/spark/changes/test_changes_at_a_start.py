"""What may be another at a start upon an old checkpoint, what may not, and what a start leaves that came to nothing."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from tests.spark.inputs_and_outputs.test_streaming import Collector, put, reader, run
from watersmeet._plan.explain import functions_in_state
from watersmeet._spark.session import overridden

Function = Callable[[Column], Column]


def topology(
    spark: SparkSession,
    folder: Path,
    sink: Any,
    *,
    store: str | None = None,
    more: bool = False,
    before: Function = F.upper,
    behind: Function = F.lower,
) -> wm.Topology:
    """A table that is kept, between two functions."""
    b = wm.StreamsBuilder("changes")
    records = b.stream(reader(spark, folder / "in"), name="in", key="k", value="v", timestamp="ts")
    table = records.map_values(before, name="before").to_table(store="kept")
    out = table.map_values(behind, name="behind", store=store).to_stream()
    out.to(sink, name="out")
    if more:
        out.to(wm.ForeachBatch(Collector()), name="more")
    return b.build()


def test_a_start_that_came_to_nothing_leaves_nothing_that_binds_the_next_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    put(spark, tmp_path / "in", (1, "a", 1))
    b = wm.StreamsBuilder("changes")
    b.stream("topic", key="string", value="string").to("out")
    for made in (b.build(), topology(spark, tmp_path, wm.TopicSink("out"))):
        with pytest.raises(wm.ConfigError, match=r"Hint: topology\.start\(.*kafka=wm\.Kafka"):
            run(made, spark, tmp_path)
        assert not (tmp_path / "cp" / "watersmeet").exists()
    # what only Spark can know is wrong
    with pytest.raises(Exception, match="nonsense"):
        run(topology(spark, tmp_path, wm.Writer("nonsense")), spark, tmp_path, shards=3)
    sink = Collector()
    run(topology(spark, tmp_path, wm.ForeachBatch(sink), more=True), spark, tmp_path)
    assert [row[1] for row in sink.rows()] == ["a"]


def test_an_added_sink_or_store_and_other_fixed_options_are_changes_that_are_named(
    spark: SparkSession, tmp_path: Path
) -> None:
    put(spark, tmp_path / "in", (1, "a", 1))
    sink = wm.ForeachBatch(Collector())
    run(topology(spark, tmp_path, sink), spark, tmp_path)
    for given, line in (({"more": True}, "+  sink more"), ({"store": "second"}, "store second")):
        with pytest.raises(wm.ChangedTopology, match=r"belongs to another topology\.") as changed:
            run(topology(spark, tmp_path, sink, **given), spark, tmp_path)
        assert line in str(changed.value)
        assert "Hint: Start it once with evolve=True" in str(changed.value)
    with pytest.raises(wm.ChangedTopology, match=r"another number of shards\.(.|\n)*Hint: Rows of state lie by shard"):
        run(topology(spark, tmp_path, sink), spark, tmp_path, shards=7)


def test_a_changed_function_is_said_and_refused_where_state_depends_on_it(spark: SparkSession, tmp_path: Path) -> None:
    put(spark, tmp_path / "in", (1, "a", 1))
    sink = Collector()

    def start(**given: Any) -> None:
        options = {"allow_changed_functions": True} if given.pop("allow", False) else {}
        run(topology(spark, tmp_path, wm.ForeachBatch(sink), **given), spark, tmp_path, **options)

    start()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        start(before=lambda value: F.upper(value))
    with pytest.warns(UserWarning, match=r"mapper of 'behind': it was lower\(value\), it is upper\(value\)") as said:
        start(behind=F.upper)
    # the line of who starts
    assert {str(warning.filename) for warning in said if "mapper" in str(warning.message)} == {run.__code__.co_filename}
    with pytest.raises(wm.ChangedTopology, match=r"mapper of 'before': it was upper\(value\), it is lower\(value\)"):
        start(behind=F.upper, before=F.lower)
    put(spark, tmp_path / "in", (1, "B", 2))
    with pytest.warns(UserWarning, match="mapper of 'before'"):
        start(behind=F.upper, before=F.lower, allow=True)
    assert [row[1] for row in sink.rows()] == ["a", "B"]


def test_a_batch_that_was_not_finished_is_finished_as_it_was_begun_and_the_next_one_has_the_new_options(
    spark: SparkSession, tmp_path: Path
) -> None:
    def start(sink: Collector, **options: Any) -> Any:
        def hour(value: Column) -> Column:
            return F.concat(value, F.date_format(F.timestamp_millis(F.lit(0)), "-HH"))

        return run(topology(spark, tmp_path, wm.ForeachBatch(sink), behind=hour), spark, tmp_path, **options)

    sink = Collector(fail_in=0)
    put(spark, tmp_path / "in", (1, "a", 1), (1, "b", 2), (1, "no time", -5))
    zone = "spark.sql.session.timeZone"
    with overridden(spark, {zone: "UTC"}), pytest.raises(Exception, match="killed behind the sink"):
        start(sink)
    put(spark, tmp_path / "in", (1, "c", 3), (1, "d", 4), (1, "no time", -5))
    with overridden(spark, {zone: "Asia/Tokyo"}), pytest.warns(UserWarning, match=r"Some\(UTC\).*Some\(Asia/Tokyo\)"):
        query = start(sink, record_cache=True)
    assert [[row[1] for row in rows] for rows in sink.batches[0]] == [["A-00", "B-00"], ["A-00", "B-00"]]
    assert [row[1] for row in sink.rows()] == ["A-00", "B-00", "D-09"]
    # those of the batch that was finished as well
    assert query.drops == {("in", "negative_timestamp"): 2}


def test_what_decides_what_is_kept_and_where_it_is_looked_for_is_told_from_what_does_not(spark: SparkSession) -> None:
    b = wm.StreamsBuilder("kept")
    stream, table, other = (
        b.stream("s", key="long", value="long"),
        *(b.table(t, key="long", value="long") for t in "tu"),
    )
    keyed = stream.filter(lambda v: v > 1, name="in front of a lookup").join(table, lambda a, c: a + c, name="lookup")
    keyed.select_key(lambda v: v, name="in front of a table").to_table(store="kept").to_stream().to("one")
    some = table.filter(lambda v: v > 1, name="in front of a join")
    joined = some.join(other, lambda a, c: a, foreign_key=lambda v: v, name="by key")
    joined.map_values(lambda v: v, name="at the end").to_stream().to("two")
    windows = wm.JoinWindows.of_time_difference_with_no_grace("1 minute")
    stream.map_values(lambda v: v, name="in front of a window").join(stream, lambda a, c: a, windows, name="window").to(
        "x"
    )
    counted = stream.group_by(lambda v: v, name="in front of an aggregate").count(name="count")
    counted.map_values(lambda v: v, name="behind an aggregate").to_stream().to("three")
    table.group_by(lambda v: (v, v), name="groups").agg(total=wm.sum(lambda v: v), name="total").to("four")
    assert functions_in_state(b.build().physical) == {
        ("in front of a lookup", "predicate"),
        ("lookup", "joiner"),
        ("in front of a table", "selector"),
        ("in front of a join", "predicate"),
        ("by key", "extractor"),
        ("in front of a window", "mapper"),
        ("in front of an aggregate", "selector"),
        ("groups", "selector"),
        ("groups-old", "selector"),
        ("total-arguments", "mapper"),
        ("total-arguments-old", "mapper"),
    }
