"""Every join on two executors, Kafka to Kafka and exactly once, and started again: the oracle's results, in order."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from confluent_kafka import Producer

from chaos.feed import records
from chaos.joins import JOINS, SIDES
from chaos.judge import both, ends_of, expected, expected_dead_letters, judge, judge_dead_letters, unplanned
from dev.broker import KafkaBroker
from dev.cluster import LOCAL_CLUSTER, cleaned, spark_home
from dev.reader import committed

ROOT = Path(__file__).resolve().parents[2]
PARTITIONS, RECORDS = 2, 300
RESTARTED = ("foreign_key", "stream_stream")
OFTEN = ("table_table", "dead_letters", "stream_stream", "foreign_key", "stream_global", "count", "process_joined")
"""Those that run without --proof, too."""


class Joins:
    """The program that runs them, and the broker beside it."""

    def __init__(self, folder: Path, broker: KafkaBroker) -> None:
        self._folder, self._servers = folder, broker.bootstrap_servers
        topics = [f"{name}-{end}" for name in JOINS for end in (*SIDES, "out", "dead")]
        broker.create_topics(topics, partitions=PARTITIONS)
        self._producer = Producer(
            {"bootstrap.servers": self._servers, "enable.idempotence": True, "partitioner": "murmur2_random"}
        )
        self._fed = {name: records(JOINS[name], name) for name in JOINS}
        path = os.pathsep.join(map(str, (ROOT / "dev" / "site", ROOT / "src", ROOT)))
        with (folder / "log").open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(ROOT / "tests" / "cluster" / "joins_run.py"), str(folder), self._servers],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**cleaned(), "SPARK_HOME": str(spark_home(folder)), "PYTHONPATH": path},
            )

    def run(self, name: str) -> None:
        """Write more records, and run the join over them."""
        for record in islice(self._fed[name], RECORDS):
            self._producer.produce(f"{name}-{record.side}", record.value, record.key, timestamp=record.ts)
        assert self._producer.flush(600) == 0
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{name}\n")
        self._process.stdin.flush()
        said = self._process.stdout.readline().split()
        assert said == [name, LOCAL_CLUSTER], (self._folder / "log").read_text()[-3_000:]

    def judged(self, name: str) -> tuple[int, list[str]]:
        """How many results there should be, and what is wrong with those there are."""
        sides = {side: committed(self._servers, [f"{name}-{side}"], PARTITIONS) for side in SIDES}
        planned = sorted((int(path.name), path) for path in (self._folder / name / "offsets").glob("[0-9]*"))
        plans = [ends_of(path.read_text()) for _, path in planned]
        assert not unplanned(sides, plans)
        verdict = judge(expected(JOINS[name], sides, plans), committed(self._servers, [f"{name}-out"], PARTITIONS))
        dead = committed(self._servers, [f"{name}-dead"], PARTITIONS)
        verdict = both(verdict, judge_dead_letters(expected_dead_letters(JOINS[name], sides, plans), dead))
        return verdict.results, list(verdict.details)

    def end(self) -> None:
        """Let the program end by itself."""
        self._process.communicate()


@pytest.fixture(scope="module")
def joins(broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Joins]:
    running = Joins(tmp_path_factory.mktemp("cluster"), broker)
    yield running
    running.end()


@pytest.mark.parametrize(
    "name", [name if name in OFTEN else pytest.param(name, marks=pytest.mark.proof) for name in JOINS]
)
def test_a_join_on_executors_gives_what_the_oracle_gives_also_when_it_is_started_again(joins: Joins, name: str) -> None:
    for _ in range(2 if name in RESTARTED else 1):
        joins.run(name)
    results, wrong = joins.judged(name)
    assert wrong == []
    assert results > 100
