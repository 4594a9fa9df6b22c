"""Spark Connect: the start says in one line that it cannot, and what to do; nobody has to read an error of PySpark."""

from __future__ import annotations

from pathlib import Path

import pytest

import watersmeet as wm


class _Session:
    """Has what any session has; PySpark's own class of Connect needs packages that nothing else here does."""

    conf = None

    @staticmethod
    def createDataFrame() -> None: ...

    @property
    def sparkContext(self) -> None:
        raise AttributeError("[JVM_ATTRIBUTE_NOT_SUPPORTED] Attribute `sparkContext` is not supported in Spark Connect")


def session_of_connect() -> object:
    of_pyspark = type("SparkSession", (_Session,), {"__module__": "pyspark.sql.connect.session"})
    # as Databricks has its own
    return type("DatabricksSession", (of_pyspark,), {})()


def test_a_start_on_a_session_of_spark_connect_says_in_one_line_that_it_cannot(tmp_path: Path) -> None:
    builder = wm.StreamsBuilder("app")
    builder.stream("clicks", key="string", value="string").to("out")
    with pytest.raises(wm.ConfigError, match=r"^A session of Spark Connect.*cannot run a topology") as refused:
        builder.build().start(session_of_connect(), checkpoint=tmp_path / "cp", kafka=wm.Kafka("localhost:1"))
    first, hint = str(refused.value).split("\n")
    assert first.endswith("DatabricksSession.")
    assert hint.startswith("Hint: Run the program on the driver (spark-submit")
    assert not (tmp_path / "cp").exists()


def test_stores_are_not_read_over_spark_connect_either(tmp_path: Path) -> None:
    with pytest.raises(wm.ConfigError, match="Spark Connect"):
        wm.read_state(session_of_connect(), str(tmp_path), "counts")


def test_wm_session_does_not_connect_to_a_server_of_spark_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("watersmeet._spark.session.SparkSession.getActiveSession", lambda: None)
    monkeypatch.setenv("SPARK_REMOTE", "sc://host:15002/;token=canary")
    with pytest.raises(wm.ConfigError, match="SPARK_REMOTE is set") as refused:
        wm.session("app")
    assert "canary" not in str(refused.value)
