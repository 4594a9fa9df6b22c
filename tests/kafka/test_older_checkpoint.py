"""An older copy of the checkpoint than what Kafka has: its next batches have numbers that Kafka knows already."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import watersmeet as wm
from dev.broker import KafkaBroker
from tests.kafka.topics import committed, new_topic
from tests.spark.inputs_and_outputs.test_streaming import put, reader
from watersmeet.errors import ConfigError


def run(spark: SparkSession, folder: Path, kafka: wm.Kafka, topic: str) -> None:
    """Work on what is there; a run is a batch of its own."""
    b = wm.StreamsBuilder("older")
    b.table(reader(spark, folder / "in"), name="in", key="k", value="v", timestamp="ts", store="kept").to(topic)
    given: dict[str, Any] = {"checkpoint": str(folder / "cp"), "local_cache": str(folder / "cache")}
    b.build().start(spark, kafka=kafka, available_now=True, **given).awaitTermination()


def test_an_older_copy_of_the_checkpoint_is_refused_at_the_start_and_the_newest_goes_on(
    spark: SparkSession, broker: KafkaBroker, kafka: wm.Kafka, tmp_path: Path
) -> None:
    topic, checkpoint = new_topic(broker), tmp_path / "cp"
    put(spark, tmp_path / "in", (1, "first", 10))
    run(spark, tmp_path, kafka, topic)
    shutil.copytree(checkpoint, tmp_path / "older")
    put(spark, tmp_path / "in", (1, "second", 20))
    run(spark, tmp_path, kafka, topic)
    put(spark, tmp_path / "in", (1, "third", 30))
    checkpoint.rename(tmp_path / "newest")
    (tmp_path / "older").rename(checkpoint)
    # unnoticed, its second batch would hold other records, and Kafka would say that it is in
    with pytest.raises(ConfigError, match=r"older than the output.*\n.*the last batch planned is 0, batch 1 is in"):
        run(spark, tmp_path, kafka, topic)
    assert [record.value for record in committed(broker, topic)] == [b"first", b"second"]
    shutil.rmtree(checkpoint)
    (tmp_path / "newest").rename(checkpoint)
    run(spark, tmp_path, kafka, topic)
    assert [record.value for record in committed(broker, topic)] == [b"first", b"second", b"third"]
