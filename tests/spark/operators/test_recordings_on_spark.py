"""Recordings of the real Kafka Streams through real Spark: every family, many histories in one run."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from proof.conformance_compare import judge
from proof.golden import read as read_golden
from proof.recordings import History, read
from proof.runners.spark import SparkFunctionsRunner, SparkRunner, SparkTaskRunner
from proof.runners.vectors import new_values

TESTS = Path(__file__).parents[2]
KINDS = (
    "table_table",
    "stream_table",
    "table_ops",
    "three_way",
    "table_chain_same",
    "rekey_stream_table",
    "stream_aggregate",
    "table_aggregate",
)
FAMILY = 2
ALLOWED = {1, 2, 3, 4, 5, 6, 8, 9, 12, 14, 18, 19, 21, 28, 48}  # see tests/engine/test_recordings.py


def chosen(kind: str, runner: SparkRunner) -> list[History]:
    """The first histories of each family of a kind, of all versions."""
    histories: list[History] = []
    for path in sorted((TESTS / "recordings" / "histories").glob(f"{kind}.*")):
        families: dict[str, int] = {}
        for history in read(path):
            family = history.id.split("/")[0]
            families[family] = families.get(family, 0) + 1
            if families[family] <= FAMILY and runner.supports(history) is None:
                histories.append(history)
    return histories


@pytest.mark.parametrize("kind", KINDS)
def test_spark_says_what_kafka_streams_said(spark: SparkSession, kind: str) -> None:
    runner = SparkRunner(spark)
    histories = chosen(kind, runner)
    verdicts = [judge(h, out) for h, out in zip(histories, runner.run_many(histories), strict=True)]
    assert len(verdicts) >= FAMILY
    assert not [v.history.id for v in verdicts if not v.equal and not (v.rows and v.rows <= ALLOWED)]


@pytest.mark.parametrize("path", sorted((TESTS / "golden").glob("*.md")), ids=lambda path: path.stem)
def test_golden_tables_hold_on_spark(spark: SparkSession, path: Path) -> None:
    histories = read_golden(path)
    outputs = SparkRunner(spark, shards=3).run_many(histories)
    assert outputs == [[list(step.expect or ()) for step in history.steps] for history in histories]


@pytest.mark.parametrize("kind", [SparkRunner, SparkTaskRunner, SparkFunctionsRunner])
def test_the_integration_tests_of_kafka_hold_on_spark(spark: SparkSession, kind: type[SparkRunner]) -> None:
    runner = kind(spark)
    names = ("TableTableJoinIntegrationTest", "StreamTableJoinIntegrationTest", "KTableFilterTest")
    paths = [TESTS / "recordings" / "vectors" / f"{name}.json.gz" for name in names]
    histories = [new_values(h) for path in paths for h in read(path) if runner.supports(h) is None]
    verdicts = [judge(h, out) for h, out in zip(histories, runner.run_many(histories), strict=True)]
    assert not [v.history.id for v in verdicts if not v.equal and not (v.rows and v.rows <= ALLOWED)]
