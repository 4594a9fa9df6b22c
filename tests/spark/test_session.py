"""Sessions and settings: what is set, what is checked, what a query takes at its start, and what is put back."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession

from millpond._spark import settings
from millpond._spark.session import connector, session
from millpond.errors import ConfigError

PARTITIONS = "spark.sql.shuffle.partitions"
BATCH_SIZE = "spark.sql.execution.arrow.maxRecordsPerBatch"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"


def test_the_session_there_is_comes_back_checked(spark: SparkSession) -> None:
    assert session() is spark
    assert spark.conf.get(PROVIDER) == settings.ROCKSDB
    assert os.environ["PYSPARK_PYTHON"] == sys.executable


def test_the_connector_is_that_of_the_running_spark_unless_jars_are_given() -> None:
    assert connector(True, None) == {
        "spark.jars.packages": f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
    }
    assert connector(True, ["a.jar", "b.jar"]) == {"spark.jars": "a.jar,b.jar"}
    assert connector(False, None) == {}


def test_a_session_without_the_connector_cannot_be_given_one_later(spark: SparkSession) -> None:
    with pytest.raises(ConfigError, match=r"already, and jars(.|\n)*Hint: Stop it first"):
        session(jars=["elsewhere.jar"])
    assert spark.conf.get("spark.jars", None) is None


def test_speculation_is_refused(spark: SparkSession) -> None:
    with (
        settings.overridden(spark, {"spark.speculation": "true"}),
        pytest.raises(ConfigError, match=r"spark\.speculation = true\nHint: "),
    ):
        settings.check(spark)
    settings.check(spark)


def test_settings_are_put_back_even_after_an_error(spark: SparkSession) -> None:
    names = [*settings.AT_START, PARTITIONS]
    spark.conf.set(BATCH_SIZE, "123")
    try:
        before = {name: spark.conf.get(name, None) for name in names}
        with pytest.raises(ZeroDivisionError), settings.query_settings(spark, tasks=5):
            assert spark.conf.get(PARTITIONS) == "5"
            assert spark.conf.get(BATCH_SIZE) == settings.AT_START[BATCH_SIZE]
            _ = 1 / 0
        assert {name: spark.conf.get(name, None) for name in names} == before
        assert spark.conf.get(BATCH_SIZE) == "123"
    finally:
        spark.conf.unset(BATCH_SIZE)


def test_a_setting_that_no_one_had_set_is_unset_again(spark: SparkSession) -> None:
    name = "millpond.test.nobody"
    with settings.overridden(spark, {name: "1"}):
        assert spark.conf.get(name) == "1"
    assert spark.conf.get(name, None) is None


def test_a_query_keeps_what_it_took_at_its_start_whatever_the_session_has_later(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The tasks of its exchanges come from the checkpoint at a restart, all else from the session again."""
    seen: list[tuple[str, ...]] = []

    def note(frame: DataFrame, _: int) -> None:
        seen.append(tuple(frame.sparkSession.conf.get(name) or "" for name in (PARTITIONS, BATCH_SIZE)))

    def run(tasks: int, batch_size: str) -> None:
        folder = tmp_path / "in" / f"{len(seen)}"
        spark.range(1).write.parquet(str(folder))
        with settings.query_settings(spark, tasks), settings.overridden(spark, {BATCH_SIZE: batch_size}):
            query = (
                spark.readStream.schema("id long").parquet(f"{tmp_path}/in/*").groupBy("id").count()
                .writeStream.outputMode("update").option("checkpointLocation", f"{tmp_path}/c")
                .foreachBatch(note).trigger(availableNow=True).start()
            )  # fmt: skip
        # the session is back at its own settings while the query runs
        assert spark.conf.get(PARTITIONS) == "2"
        query.awaitTermination()

    run(3, "1000")
    run(4, "2000")
    assert seen == [("3", "1000"), ("3", "2000")]
