"""`run --restart N` while Kafka does not answer: the query ends, is started again, and counts each record once."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from dev.broker import KafkaBroker
from tests.kafka.topics import new_topic
from watersmeet._spark.metrics.metrics import Metrics
from watersmeet._spark.query.query import Query
from watersmeet._spark.query.restarts import Restarts
from watersmeet.cli.run import RunOptions, starting

MODULE = """
import watersmeet as wm

def topology():
    builder = wm.StreamsBuilder("restarted")
    read = builder.stream("TOPIC", key="string", value="string")
    read.group_by_key().count(store="counts").to(wm.ForeachBatch(lambda frame, batch: frame.count()), name="counted")
    return builder.build()
"""
PATIENCE = 300.0
"""Seconds after which what is waited for is not believed in."""


def produce(broker: KafkaBroker, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    for number in range(count):
        producer.produce(topic, key=b"k", value=str(number).encode())
    assert producer.flush(30) == 0


@pytest.fixture
def restarted(broker: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, RunOptions]]:
    """A topic, and the options of a run that reads it and soon loses patience with Kafka."""
    topic = new_topic(broker)
    (tmp_path / "restarted_by_run.py").write_text(MODULE.replace("TOPIC", topic))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "restarted_by_run", raising=False)
    kafka = {
        "bootstrap_servers": broker.bootstrap_servers,
        "consumer": {"default.api.timeout.ms": "3000", "request.timeout.ms": "2000"},
        "source": {"fetchOffset.numRetries": "1"},
    }
    start = {"shards": 1, "tasks": 1}
    yield topic, RunOptions("restarted_by_run:topology", str(tmp_path / "cp"), start=start, kafka=kafka)
    os.kill(broker.pid, signal.SIGCONT)


def check_numbers(now: Metrics) -> None:
    assert now.restarts >= 1
    assert now.last_error is not None
    assert (now.last_error.error, now.last_error.reason) == ("SourceError", "Kafka does not answer.")


def test_a_query_goes_on_when_kafka_answers_again(
    spark: SparkSession,
    broker: KafkaBroker,
    restarted: tuple[str, RunOptions],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "watersmeet.query")
    topic, options = restarted
    produce(broker, topic, 5)
    start, queries, up = starting(options), list[Query](), threading.Event()

    def started() -> Query:
        query = start()
        queries.append(query)
        if len(queries) == 1:
            query.processAllAvailable()
            os.kill(broker.pid, signal.SIGSTOP)
        else:
            up.set()
        return query

    def pause(seconds: float) -> None:
        # the second restart comes when Kafka answers again: the first, if it comes so far, fails as the query did
        if caplog.text.count("is started again") > 1:
            os.kill(broker.pid, signal.SIGCONT)

    running = threading.Thread(target=lambda: Restarts(50, pause).run(started))
    running.start()
    assert up.wait(PATIENCE)
    os.kill(broker.pid, signal.SIGCONT)
    produce(broker, topic, 7)
    last = queries[-1]
    last.processAllAvailable()
    (row,) = last.state("counts").collect()
    assert row["value"] == 12
    check_numbers(last.metrics())
    assert "SourceError: Kafka does not answer. It is started again in 1 s (restart 1 of 50" in caplog.text
    last.stop()
    running.join(PATIENCE)
    assert not running.is_alive()
