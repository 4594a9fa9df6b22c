"""Spark Connect: the start says in one line that it cannot, and what to do; nobody has to read an error of PySpark."""

from __future__ import annotations

import os
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


def test_a_flow_is_refused_where_no_server_of_spark_connect_runs_in_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("watersmeet._spark.session.SparkSession.getActiveSession", lambda: None)
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")

    def build(server: object) -> wm.Topology:
        raise AssertionError("nothing is built")

    with pytest.raises(wm.ConfigError, match=r"(?s)server in this process: \S+DatabricksSession.*writeStream.toTable"):
        wm.flow(build, session_of_connect(), "out", checkpoint=tmp_path / "cp")  # type: ignore[arg-type]
    # functions make columns of Spark Connect again
    assert os.environ["SPARK_CONNECT_MODE_ENABLED"] == "1"
    with pytest.raises(wm.ConfigError, match="with its server in this process"):
        wm.flow(build, _Session(), "out", checkpoint=tmp_path / "cp")  # type: ignore[arg-type]


def test_a_frame_over_spark_connect_is_refused_with_the_call_for_pipelines(tmp_path: Path) -> None:
    builder = wm.StreamsBuilder("app")
    builder.stream("clicks", key="string", value="string").to("out")
    with pytest.raises(wm.ConfigError, match=r"cannot run a topology.*\n.*In a pipeline: wm.flow\(build, spark, name"):
        builder.build().frame(session_of_connect(), "out", checkpoint=tmp_path / "cp")
