"""Transactions of a database through Kafka and Spark: at no committed moment does a result show a part of one."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from dev.broker import KafkaBroker
from dev.debezium.captures import events_of
from tests.kafka.topics import PARTITIONS, new_topic

ROOT = Path(__file__).resolve().parents[3]
ACCOUNTS, TRANSFERS, OPEN, EACH = 12, 200, 3, 100
KILLS, MOST_SECONDS = 2, 300


class Bank:
    """Writes what Debezium would of transfers between accounts, which lie in two tables.

    Parameters
    ----------
    database : what the names of its topics begin with.
    """

    def __init__(self, broker: KafkaBroker, database: str) -> None:
        self.log, self.tables = f"{database}.transaction", (f"{database}.s.checking", f"{database}.s.saving")
        broker.create_topics([self.log], partitions=1)
        broker.create_topics([*self.tables], partitions=PARTITIONS)
        self._producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
        self._amounts = dict.fromkeys(range(ACCOUNTS), EACH)
        self._draw, self._number, self._position = random.Random(database), 0, 0
        for account in self._amounts:
            self._change(account, "r", None)

    def transfers(self, count: int) -> None:
        """Transactions of which several are open at a time; none changes an account that an open one has changed."""
        open_ = dict[tuple[int, ...], Iterator[None]]()
        while count or open_:
            if count and len(open_) < OPEN:
                free = sorted({*range(ACCOUNTS)} - {account for changed in open_ for account in changed})
                accounts = self._draw.sample(free, 2)
                open_[tuple(accounts)] = self._steps(accounts, self._draw.randrange(50))
                count -= 1
            chosen = self._draw.choice([*open_])
            if next(open_[chosen], self) is self:
                del open_[chosen]

    def transfer(self, *, ends: bool = True, amount: int) -> None:
        """One transaction: an amount goes from one account to another."""
        for _ in self._steps(self._draw.sample(range(ACCOUNTS), 2), amount, ends=ends):
            pass

    def _steps(self, changed: list[int], amount: int, *, ends: bool = True) -> Iterator[None]:
        number = self._number
        self._number += 1
        self._say({"status": "BEGIN", "id": self._id(number)})
        for order, (account, by) in enumerate(zip(changed, (-amount, amount), strict=True), 1):
            yield
            self._amounts[account] += by
            self._change(account, "u", {"id": self._id(number), "total_order": order})
        yield
        counts = [sum(self._table(account) == table for account in changed) for table in self.tables]
        said = [
            {"data_collection": table.partition(".")[2], "event_count": count}
            for table, count in zip(self.tables, counts, strict=True)
            if count
        ]
        self._end = {"status": "END", "id": self._id(number), "event_count": 2, "data_collections": said}
        if ends:
            self.end()

    def _id(self, number: int) -> str:
        """A transaction's id in one event: the position in the log stands behind its number."""
        self._position += 1
        return f"{571 + number}:{53195829 + 56 * self._position}"

    def end(self) -> None:
        """Say the end of the last transaction."""
        self._say(self._end)

    def flush(self) -> None:
        assert self._producer.flush(60) == 0

    def _say(self, said: Any) -> None:
        self._producer.produce(self.log, json.dumps(said).encode(), partition=0)

    def _table(self, account: int) -> str:
        return self.tables[account % 2]

    def _change(self, account: int, operation: str, transaction: Any) -> None:
        row = {"id": account, "amount": self._amounts[account]}
        said = {"op": operation, "after": row, "source": {"ts_ms": 1_000 + self._number}, "transaction": transaction}
        key = json.dumps({"id": account}).encode()
        self._producer.produce(self._table(account), json.dumps(said).encode(), key, partition=account % PARTITIONS)


def topology(tables: Sequence[str], database: Path, totals: list[list[int]] | None = None) -> wm.Topology:
    """The sum over all accounts, of each batch, and as a row of a database."""
    builder = wm.StreamsBuilder("bank")
    checking, saving = (
        builder.table(topic, key=wm.debezium_key("id long"), value=wm.debezium("amount long"), name=topic[-6:])
        for topic in tables
    )
    both = checking.outer_join(
        saving, lambda one, other: F.coalesce(one["amount"], F.lit(0)) + F.coalesce(other["amount"], F.lit(0))
    )
    total = both.group_by(lambda key, value: (F.lit(1).cast("long"), value)).agg(total=wm.sum(lambda value: value))

    def collect(rows: Any, batch: int) -> None:
        found = rows.orderBy("sequence").collect()
        if found:
            totals.append([row["value"]["total"] for row in found])

    if totals is not None:
        total.to_stream().to(wm.ForeachBatch(collect), name="seen")
    total.to(wm.DatabaseTable(f"sqlite:///{database}", table="totals", create=True), name="stored")
    return builder.build()


def total_in(database: Path) -> int | None:
    """The sum as a reader of the database sees it now; None: there is none yet."""
    if not database.exists():
        return None
    with closing(sqlite3.connect(database, timeout=60)) as connection:
        try:
            found = connection.execute("select total from totals").fetchall()
        except sqlite3.OperationalError:  # no table yet
            return None
    return int(found[0][0]) if found else None


def last_batch(folder: Path) -> int:
    """The number of the last batch that was committed."""
    return max((int(each.name) for each in (folder / "cp" / "commits").glob("[0-9]*")), default=-1)


def run(spark: SparkSession, broker: KafkaBroker, built: wm.Topology, folder: Path, **kafka: Any) -> int:
    """Run all that is there; the number of batches."""
    query = built.start(
        spark,
        checkpoint=str(folder / "cp"),
        local_cache=str(folder / "cache"),
        available_now=True,
        kafka=wm.Kafka(broker.bootstrap_servers, **{"max_records_per_batch": 60, **kafka}),
    )
    query.awaitTermination()
    return sum(1 for each in query.recentProgress if each.numInputRows)


def test_no_committed_result_shows_a_part_of_a_transaction(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path
) -> None:
    bank, totals, stored = Bank(broker, new_topic(broker, "bank")), list[list[int]](), tmp_path / "stored.db"
    bank.transfers(TRANSFERS)
    bank.transfer(ends=False, amount=7)
    bank.flush()
    built = topology(bank.tables, stored, totals)
    assert run(spark, broker, built, tmp_path, transactions=bank.log) > 5
    assert {batch[-1] for batch in totals[1:]} == {ACCOUNTS * EACH}
    # within a batch the sum is another: there is something to be hidden
    assert len({total for batch in totals[1:] for total in batch}) > 1
    seen = len(totals)
    # the transaction that had no end comes when it has one, and another start reads each one once
    bank.end()
    bank.transfers(20)
    bank.flush()
    assert run(spark, broker, built, tmp_path, transactions=bank.log) > 0
    assert {batch[-1] for batch in totals[seen:]} == {ACCOUNTS * EACH}
    assert total_in(stored) == ACCOUNTS * EACH


@pytest.mark.parametrize("left", [0, 1])
def test_available_now_reads_all_that_real_debezium_wrote_or_says_what_it_leaves(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture, left: int
) -> None:
    database = new_topic(broker, "real")
    real = events_of("postgres.changes.transactions")
    written = [(topic.replace("shop", database, 1), key, value) for topic, key, value in real]
    log, table = f"{database}.transaction", f"{database}.public.customers"
    broker.create_topics({topic for topic, _, _ in written})
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    # left out: the end of the last transaction
    for topic, key, value in written[: len(written) - left]:
        producer.produce(topic, value, key, partition=0)
    assert producer.flush(60) == 0
    builder, sizes = wm.StreamsBuilder("real"), list[int]()
    rows = builder.stream(table, key=wm.debezium_key("id long"), value=wm.debezium("id long"))
    rows.to(wm.ForeachBatch(lambda found, batch: sizes.append(found.count())), name="rows")
    with caplog.at_level("WARNING", "watersmeet.query"):
        run(spark, broker, builder.build(), tmp_path, transactions=log)
    there = [value for topic, _, value in written if topic == table and value is not None]
    assert sum(sizes) == len(there) - 3 * left
    said = [each for each in caplog.messages if "available_now=True leaves" in each]
    assert len(said) == left
    assert not left or f" of {table}. transaction " in said[0]


@pytest.mark.proof
def test_without_it_results_show_parts_of_transactions(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path
) -> None:
    bank, totals = Bank(broker, new_topic(broker, "bank")), list[list[int]]()
    bank.transfers(TRANSFERS)
    bank.flush()
    run(spark, broker, topology(bank.tables, tmp_path / "stored.db", totals), tmp_path)
    assert len({batch[-1] for batch in totals[1:]}) > 1


def test_a_transaction_that_is_larger_than_a_batch_is_read_whole(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("watersmeet._spark.batches.batches.LEAST", 5)
    database = new_topic(broker, "large")
    log, table = f"{database}.transaction", f"{database}.s.rows"
    broker.create_topics([log], partitions=1)
    broker.create_topics([table], partitions=PARTITIONS)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    producer.produce(log, json.dumps({"status": "BEGIN", "id": "1"}).encode(), partition=0)
    for number in range(500):
        row = {"op": "c", "after": {"id": number}, "source": {"ts_ms": 1_000}, "transaction": {"id": "1"}}
        producer.produce(table, json.dumps(row).encode(), json.dumps({"id": number}).encode())
    end = {"status": "END", "id": "1", "data_collections": [{"data_collection": "s.rows", "event_count": 500}]}
    producer.produce(log, json.dumps(end).encode(), partition=0)
    assert producer.flush(60) == 0
    builder, sizes = wm.StreamsBuilder("large"), list[int]()
    rows = builder.stream(table, key=wm.debezium_key("id long"), value=wm.debezium("id long"))
    rows.to(wm.ForeachBatch(lambda found, batch: sizes.append(found.count())), name="rows")
    query = builder.build().start(
        spark,
        checkpoint=str(tmp_path / "cp"),
        local_cache=str(tmp_path / "cache"),
        available_now=True,
        kafka=wm.Kafka(broker.bootstrap_servers, max_records_per_batch=10, transactions=log),
    )
    query.awaitTermination()
    assert [size for size in sizes if size] == [500]


def test_a_driver_that_is_killed_leaves_no_part_of_a_transaction_in_the_database(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path
) -> None:
    bank, stored = Bank(broker, new_topic(broker, "bank")), tmp_path / "stored.db"
    command = [sys.executable, "-m", "tests.kafka.batches.transactions_run", broker.bootstrap_servers, str(tmp_path)]
    seen, draw = set[int | None](), random.Random(1)
    for _ in range(KILLS):
        bank.transfers(TRANSFERS)
        bank.flush()
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
        driver = subprocess.Popen(
            [*command, bank.log, *bank.tables], env=environment, start_new_session=True, stderr=subprocess.DEVNULL
        )
        batch, until = last_batch(tmp_path), time.monotonic() + MOST_SECONDS
        # a few batches behind those of the start before; then at any moment of the next one
        while last_batch(tmp_path) < batch + 3:
            assert driver.poll() is None
            assert time.monotonic() < until
            seen.add(total_in(stored))
            time.sleep(0.1)
        time.sleep(draw.random())
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
        seen.add(total_in(stored))
    assert seen - {None} == {ACCOUNTS * EACH}
    rest: dict[str, Any] = {"transactions": bank.log, "max_records_per_batch": 100_000}
    run(spark, broker, topology(bank.tables, stored), tmp_path, **rest)
    assert total_in(stored) == ACCOUNTS * EACH
