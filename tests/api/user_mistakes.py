"""One mistake in each call; `test_types` has mypy refuse each line that says so. It is never run."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm


def named(value: Column) -> Column:
    """A key, or a window."""
    return value


def joined(left: Column, right: Column) -> Column:
    """What a join makes."""
    return F.concat(left, right)


def mistakes(builder: wm.StreamsBuilder, frame: DataFrame, spark: SparkSession) -> None:
    """Each line behind `# refused` is one mistake."""
    stream = builder.stream("a", key="long", value="string")
    table = builder.table("b", key="long", value="string")
    builder.stream("c", key="long")  # refused: a topic needs a format for its values
    builder.stream("d", key="lng", value="string")  # refused: no such format
    builder.stream(wm.Topic("o", "lng", "string"))  # refused: no such format
    stream.to(wm.TopicSink("p", value="lng"))  # refused: no such format
    builder.stream("e", key="long", value="string", on_undecodable="drop")  # refused: no such policy
    builder.stream("f", key="long", value="string", store="s")  # refused: a stream keeps no store
    builder.stream(frame, key="id", timestamp="at")  # refused: a DataFrame has no name
    builder.stream(frame, name="g", key="id")  # refused: rows have a time
    builder.table("h", key="long", value="string", timestamp="at")  # refused: a function gives a topic's times
    builder.table(wm.Topic("i", "long", "string"), key="long")  # refused: a Topic carries its options
    builder.global_table("j", key="long", value="string", sotre="s")  # refused: no such parameter
    builder.global_table(5, key="long", value="string")  # refused: no source
    stream.to("k", delivery="twice")  # refused: no such delivery
    stream.to(wm.Writer("console"))  # refused: a writer has no name of its own
    stream.through("l", format="string")  # refused: no such parameter
    table.to("m", "long")  # refused: by name alone
    table.to(wm.TopicSink("n"), key="long")  # refused: a TopicSink carries its options
    table.mapValues(lambda value: value)  # refused: no such method
    builder.build().start(spark)  # refused: no checkpoint
    builder.build().start(spark, "/cp")  # refused: by name alone
    builder.build().start(spark, checkpoint="/cp", shards="4")  # refused: a number
    builder.build().start(spark, checkpoint="/cp", kafka="localhost:9092")  # refused: a connection
    builder.build().start(spark, checkpoint="/cp", available_know=True)  # refused: no such option
    wm.session("app", kafka="yes")  # refused: yes or no
    wm.session("app", sparkconf={})  # refused: no such parameter


def mistakes_of_joins(builder: wm.StreamsBuilder) -> None:
    """The same for joins, whose options follow from their right side, and for tables by key and window."""
    stream = builder.stream("a", key="long", value="string")
    table = builder.table("b", key="long", value="string")
    other = builder.stream("other", key="long", value="string")
    whole = builder.global_table("whole", key="string", value="string")
    counts = stream.group_by_key().windowed_by(wm.TimeWindows.of_size_with_no_grace("1 hour")).count()
    windows = wm.JoinWindows.of_time_difference_with_no_grace("5 minutes")
    stream.join(table, joined, windows)  # refused: windows are of two streams
    stream.join(table, joined, key=named)  # refused: a record finds a table's row by its own key
    stream.join(other, joined)  # refused: two streams need windows
    stream.left_join(other, joined, windows, grace="1 minute")  # refused: a grace is of a versioned table
    stream.join(whole, joined)  # refused: a global table needs the key to look up
    stream.left_join(whole, joined, windows, key=named)  # refused: windows are of two streams
    stream.join(counts, joined, window_of=named)  # refused: it is not said how long windows are wanted
    stream.outer_join(table, joined, windows)  # refused: a stream and a table have no outer join
    table.join(stream, joined)  # refused: a table joins with a table
    table.join(whole, joined)  # refused: a global table needs the key to look up
    table.left_join(counts, joined, foreign_key=named)  # refused: a window is named, and no foreign key
    table.outer_join(whole, joined)  # refused: a global table has no outer join
    counts.join(table, joined, shift=wm.previous(1))  # refused: a table has no windows to shift
    counts.left_join(counts, joined, shift=named)  # refused: it is not said how long windows are wanted
    counts.join(stream, joined)  # refused: windows join with tables
    counts.to("q")  # refused: it has to be converted first
    counts.to(wm.DatabaseTable("sqlite:////r.db", table="r"), key="string")  # refused: a database has no formats
    whole.join(table, joined, key=named)  # refused: a global table drives nothing
