"""One mistake in each call; `test_types` has mypy refuse each line that says so. It is never run."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

import watersmeet as wm


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
    builder.table("h", key="long", value="string", timestamp="at")  # refused: records of a topic have theirs
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
