"""`topology.frame`: an output as a streaming DataFrame, in queries of Spark's own."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from tests.spark.inputs_and_outputs.test_streaming import Collector, put, reader
from watersmeet.errors import ChangedTopology, ConfigError, TopologyError


def shop(spark: SparkSession, folder: Path) -> wm.StreamsBuilder:
    """Tables and a stream over files: a join, sums behind it, and counts of windows."""
    builder = wm.StreamsBuilder("shop")
    options: Any = {"key": "k", "value": "v", "timestamp": "ts"}
    left = builder.table(reader(spark, folder / "left"), name="left", **options)
    right = builder.table(reader(spark, folder / "right"), name="right", **options)
    clicks = builder.stream(reader(spark, folder / "clicks"), name="clicks", **options)
    joined = left.left_join(right, lambda a, b: F.struct(a.alias("a"), F.coalesce(b, F.lit("-")).alias("b")))
    joined.to(wm.ForeachBatch(lambda frame, batch: None), name="joined")
    sums = joined.group_by(lambda row: (row["b"], row["a"])).agg(n=wm.count())
    sums.to("sums", key="string", value="json")
    windows = wm.TimeWindows.of_size_and_grace("10 ms", "20 ms")
    clicks.group_by_key().windowed_by(windows).agg(n=wm.count()).to_stream().to(wm.Writer("noop"), name="windows")
    return builder


def written(spark: SparkSession, folder: Path, frame: DataFrame, sink: Any) -> None:
    """Run Spark's own query over the frame, to the end of what is there."""
    query = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(folder)).trigger(availableNow=True)
    query.start().awaitTermination()


def more(spark: SparkSession, folder: Path, draw: random.Random, number: int) -> None:
    """A file more of each input."""
    for name in ("left", "right", "clicks"):
        texts = ("a", "b", "c") if name == "clicks" else ("a", "b", None)
        rows = [(draw.randrange(6), draw.choice(texts), 20 * number + draw.randint(-15, 15)) for _ in range(8)]
        put(spark, folder / name, *rows)


@pytest.mark.parametrize("name", ["joined", "sums", "windows"])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_frame_has_the_rows_of_the_output_through_failures_and_restarts(
    spark: SparkSession, tmp_path: Path, name: str, seed: int
) -> None:
    draw = random.Random(f"{name} {seed}")
    rows, own = Collector(fail_in=draw.randint(0, 4)), Collector()
    for number in range(1, 4):
        more(spark, tmp_path, draw, number)
        for _ in range(2):
            frame = shop(spark, tmp_path).build().frame(spark, name, checkpoint=tmp_path / "frame", shards=3, tasks=2)
            try:
                written(spark, tmp_path / "frame", frame, rows)
                break
            except StreamingQueryException as failure:
                if "killed behind the sink" not in str(failure):
                    raise
        builder = shop(spark, tmp_path)
        topology = with_output(builder, name, own)
        options: Any = {"checkpoint": tmp_path / "own", "available_now": True, "shards": 3, "tasks": 2}
        topology.start(spark, **options).awaitTermination()
    assert rows.rows()
    assert rows.batches.keys() == own.batches.keys()
    for batch, runs in rows.batches.items():
        # what is written again is the same, bit by bit
        assert all(run == runs[0] for run in runs)
        assert sorted(runs[-1], key=repr) == sorted(own.batches[batch][-1], key=repr)
        assert sorted(rows.sequences[batch][-1], key=repr) == sorted(own.sequences[batch][-1], key=repr)


def with_output(builder: wm.StreamsBuilder, name: str, own: Collector) -> wm.Topology:
    """The topology with a function of batches as its only output."""
    topology = builder.build()
    alone = topology._with_output(name)
    sink = alone.plan.by_name[alone.sinks[0]]
    plan = alone.plan.with_nodes([_to(sink, wm.ForeachBatch(own))])
    return wm.Topology(plan, topology.functions)


def _to(sink: Any, target: Any) -> Any:
    return replace(sink, target=target)


def test_a_flat_frame_has_a_column_for_each_field_and_what_a_change_does(spark: SparkSession, tmp_path: Path) -> None:
    put(spark, tmp_path / "left", (1, "x", 5), (2, "y", 6), (1, None, 7))
    put(spark, tmp_path / "right", (2, "z", 8))
    put(spark, tmp_path / "clicks", (1, "c", 12))
    topology = shop(spark, tmp_path).build()
    frame = topology.frame(spark, "joined", checkpoint=tmp_path / "cp", flat=True)
    assert frame.isStreaming
    assert frame.columns == ["key", "a", "b", "timestamp", "sequence", "operation"]
    query = frame.writeStream.option("checkpointLocation", str(tmp_path / "cp")).trigger(availableNow=True)
    query.toTable("flat_changes", format="parquet", path=str(tmp_path / "out")).awaitTermination()
    try:
        rows = spark.table("flat_changes").orderBy("key", "sequence").select("key", "a", "b", "operation").collect()
        assert [tuple(row) for row in rows] == [
            (1, "x", "-", "upsert"),
            (1, None, None, "delete"),
            (2, "y", "-", "upsert"),
            (2, "y", "z", "upsert"),
        ]
    finally:
        spark.sql("DROP TABLE flat_changes")
    windows = topology.frame(spark, "windows", checkpoint=tmp_path / "cp2", flat=True)
    assert windows.columns == ["key", "start", "end", "n", "timestamp", "sequence", "operation"]
    assert dict(windows.dtypes)["start"] == "timestamp"


def test_sparks_own_operators_go_on_behind_a_frame(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(3):
        put(spark, tmp_path / "left", *((key, f"v{number}", 10_000 * number + key) for key in range(10)))
    put(spark, tmp_path / "left", (0, "closes the windows", 60_000))
    put(spark, tmp_path / "right", (2, "z", 8))
    put(spark, tmp_path / "clicks", (1, "c", 12))
    frame = shop(spark, tmp_path).build().frame(spark, "joined", checkpoint=tmp_path / "cp", flat=True)
    names = spark.createDataFrame(
        [(key, "even" if key % 2 == 0 else "odd") for key in range(10)], "key long, kind string"
    )
    counted = (
        frame.join(names, "key")
        .withWatermark("timestamp", "1 second")
        .groupBy(F.window("timestamp", "10 seconds"), "kind")
        .count()
    )
    found: dict[Any, int] = {}

    def keep(rows: DataFrame, batch: int) -> None:
        found.update({(row["window"].start.timestamp(), row["kind"]): row["count"] for row in rows.collect()})

    query = counted.writeStream.outputMode("append").foreachBatch(keep).trigger(availableNow=True)
    query.option("checkpointLocation", str(tmp_path / "cp")).start().awaitTermination()
    counts = {(start, kind): 5 for start in (0, 10, 20) for kind in ("even", "odd")}
    # one of the rows changes once more, by its join
    assert found == counts | {(0, "even"): 6}


def test_a_frame_is_refused_where_it_would_go_on_with_anothers_state(spark: SparkSession, tmp_path: Path) -> None:
    put(spark, tmp_path / "left", (1, "x", 5))
    put(spark, tmp_path / "right", (2, "z", 8))
    put(spark, tmp_path / "clicks", (1, "c", 12))
    build = shop(spark, tmp_path).build
    frame = build().frame(spark, "joined", checkpoint=tmp_path / "cp", tasks=2)
    # a record binds from the first frame on, since Spark's own checkpoint may lie elsewhere
    with pytest.raises(ChangedTopology, match="another number of shards"):
        build().frame(spark, "joined", checkpoint=tmp_path / "cp", shards=7)
    with pytest.raises(ChangedTopology, match="another topology"):
        build().frame(spark, "sums", checkpoint=tmp_path / "cp")
    spark.conf.set("spark.sql.shuffle.partitions", "3")
    with pytest.raises(
        StreamingQueryException, match=r"A frame for 2 tasks is in a query with spark.sql.shuffle.partitions=3"
    ):
        written(spark, tmp_path / "cp", frame, Collector())
    # the frame sets it again
    rows = Collector()
    written(spark, tmp_path / "cp3", build().frame(spark, "joined", checkpoint=tmp_path / "cp"), rows)
    assert rows.rows() == [(1, ("x", "-"), rows.rows()[0][2])]


def test_a_frame_is_refused_where_only_a_query_of_watersmeets_keeps_a_promise(
    spark: SparkSession, tmp_path: Path
) -> None:
    builder = shop(spark, tmp_path)
    with pytest.raises(TopologyError, match=r"(?s)made of 'prices'.*does not write it.*'joined', 'sums', 'windows'"):
        builder.build().frame(spark, "prices", checkpoint=tmp_path / "cp")
    with pytest.raises(ConfigError, match="flat must be True or False"):
        builder.build().frame(spark, "joined", checkpoint=tmp_path / "cp", flat="yes")  # type: ignore[arg-type]
    letters = wm.StreamsBuilder("letters", on_error=wm.DeadLetter("bad"))
    letters.stream(reader(spark, tmp_path / "left"), name="left", key="k", timestamp="ts").to(
        wm.Writer("noop"), name="out"
    )
    with pytest.raises(ConfigError, match="cannot have dead letters"):
        letters.build().frame(spark, "out", checkpoint=tmp_path / "cp")
    matched = wm.StreamsBuilder("matched")
    matched.stream(wm.TopicPattern("a.*"), key="string", value="string").to(wm.Writer("noop"), name="out")
    with pytest.raises(ConfigError, match="cannot have topics by a pattern"):
        matched.build().frame(spark, "out", checkpoint=tmp_path / "cp")
    back = wm.StreamsBuilder("back")
    loop = back.stream("loop", key="string", value="string")
    loop.filter(lambda value: value != F.lit("")).to("loop", feedback=True)
    loop.to(wm.Writer("noop"), name="out")
    with pytest.raises(TopologyError, match=r"(?s)made of 'out'.*reads 'loop', which it writes"):
        back.build().frame(spark, "out", checkpoint=tmp_path / "cp")
