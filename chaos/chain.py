"""`python -m chaos.chain --kills 20 --seed 1`: Postgres, Debezium, Kafka, a query and Postgres again, under kills.

A writer changes two tables of a database, in transactions of several rows. Debezium's own engine writes them into
Kafka, a query joins them (`wm.Kafka(transactions=)`), and keeps the join in another table. Query and Debezium are
killed at random. Whenever a batch is committed, the table must be the join as SQL has it behind one of the
transactions, and none before the one of the batch before; in the end it must be that of now.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

import watersmeet as wm
from dev.broker import KafkaBroker
from dev.debezium.engine import PREFIX, Debezium
from dev.debezium.servers import postgres
from dev.jars import ROOT, spark_jars

_LOG = f"{PREFIX}.transaction"
_CUSTOMERS, _LINES = f"{PREFIX}.public.customers", f"{PREFIX}.public.order_lines"
_OFFSETS = "offsets"
_SECONDS = 240.0
"""In which a batch is committed behind a start, and the last transaction arrives."""
_TABLES = """
create table customers (id bigint primary key, name text);
create table "order lines" (id bigint primary key, customer_id bigint, amount bigint);
insert into customers select n, 'first' from generate_series(1, 10) n;
insert into "order lines" select n, 1 + n % 12, n from generate_series(1, 30) n;
create schema target;
create table target.joined (id bigint primary key, amount bigint, name text);
create table target.states (number bigserial primary key, state text);
create function target.note() returns trigger language plpgsql as $$
  declare found text;
begin
  select md5(coalesce(string_agg(format('%s|%s|%s', id, amount, name), ',' order by id), ''))
    into found from target.joined;
  if found is distinct from (select state from target.states order by number desc limit 1) then
    insert into target.states (state) values (found);
  end if;
  return null;
end $$;
create constraint trigger note after insert or update or delete on target.joined
  deferrable initially deferred for each row execute function target.note();
"""
_JOIN = """
select md5(coalesce(string_agg(format('%s|%s|%s', o.id, o.amount, c.name), ',' order by o.id), ''))
from "order lines" o join customers c on c.id = o.customer_id
"""
_CHANGES = (
    "update customers set name = %(text)s where id = %(customer)s",
    "delete from customers where id = %(customer)s",
    "insert into customers values (%(customer)s, %(text)s) on conflict (id) do update set name = excluded.name",
    'update "order lines" set customer_id = %(customer)s, amount = amount + 1 where id = %(line)s',
    'insert into "order lines" values (%(line)s, %(customer)s, 0) on conflict (id) do update set amount = 0',
    'update "order lines" set amount = amount + 1 where customer_id = %(customer)s',
    'delete from "order lines" where id = %(line)s',
    'update "order lines" set id = id + 1000 where id = %(line)s and id + 1000 not in (select id from "order lines")',
)


def topology(url: str) -> wm.Topology:
    """The join, kept in the target."""
    from pyspark.sql import functions as F

    builder = wm.StreamsBuilder("chain")
    lines = builder.table(
        _LINES, key=wm.debezium_key("id long"), value=wm.debezium("customer_id long, amount long"), name="lines"
    )
    customers = builder.table(
        _CUSTOMERS, key=wm.debezium_key("id long"), value=wm.debezium("name string"), name="customers"
    )
    joined = lines.join(
        customers,
        lambda line, customer: F.struct(line["amount"], customer["name"]),
        foreign_key=lambda line: line["customer_id"],
    )
    joined.to(wm.DatabaseTable(url, table="target.joined", key="id"), name="joined")
    return builder.build()


@dataclass
class Writer:
    """Changes the tables until it is stopped.

    Attributes
    ----------
    states : of the join, by the transaction behind which it is so.
    """

    url: str
    draw: random.Random
    states: list[str] = field(default_factory=list)
    _end: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End, behind a transaction."""
        self._end.set()
        if self._thread is not None:
            self._thread.join()

    def _write(self) -> None:
        with psycopg.connect(self.url) as connection:
            self.states += [self._state(connection)]
            connection.commit()
            while not self._end.wait(self.draw.random() * 0.4):
                for _ in range(self.draw.choice([1, 2, 3, 20])):
                    drawn = {"customer": self.draw.randrange(1, 13), "line": self.draw.randrange(1, 60)}
                    connection.execute(self.draw.choice(_CHANGES), {**drawn, "text": str(self.draw.random())})
                # before anyone can read it
                self.states.append(self._state(connection))
                connection.commit()

    @staticmethod
    def _state(connection: psycopg.Connection[Any]) -> str:
        row = connection.execute(_JOIN).fetchone()
        return str(row[0]) if row else ""


@dataclass
class Outcome:
    """How a run went.

    Parameters
    ----------
    kills : of the query and of Debezium.
    transactions : of the source.
    batches : that changed the table.
    strange : states of the table that the source never had, or had before.
    whole : whether the table is the join of the source in the end.
    """

    kills: dict[str, int]
    transactions: int = 0
    batches: int = 0
    strange: list[str] = field(default_factory=list)
    whole: bool = False


@contextmanager
def _query(servers: str, folder: Path, url: str, limit: int) -> Iterator[subprocess.Popen[bytes]]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    command = [sys.executable, "-m", "chaos.chain", "--query", servers, str(folder), url, str(limit)]
    with (folder / "query.log").open("ab") as log:
        process = subprocess.Popen(command, env=environment, start_new_session=True, stdout=log, stderr=log)
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def run(kills: int, seed: int, folder: Path) -> Outcome:
    """Run the chain, with so many kills."""
    draw, outcome = random.Random(seed), Outcome({"query": 0, "debezium": 0})
    with postgres() as source, KafkaBroker() as broker:
        with closing(source.session()) as session:
            session.add(_TABLES)
            session.run()
        broker.create_topics([_LOG], partitions=1)
        broker.create_topics([_OFFSETS], partitions=1, config={"cleanup.policy": "compact"})
        broker.create_topics([_CUSTOMERS, _LINES], partitions=2)
        writer = Writer(source.url, random.Random(seed))
        settings = {
            **source.properties,
            "provide.transaction.metadata": "true",
            "table.include.list": "public.*",
            "max.batch.size": "40",
            "max.queue.size": "80",
            "offset.storage": "org.apache.kafka.connect.storage.KafkaOffsetBackingStore",
            "bootstrap.servers": broker.bootstrap_servers,
            "offset.storage.topic": _OFFSETS,
            "offset.storage.partitions": "1",
            "offset.storage.replication.factor": "1",
            "offset.flush.interval.ms": "300",
        }
        with Debezium(folder, settings, broker.bootstrap_servers) as debezium:
            _until(source.is_followed, debezium)
            writer.start()
            left = kills
            while left:
                with _query(broker.bootstrap_servers, folder, source.url, draw.choice([60, 300])) as query:
                    left = _strike(draw, outcome, debezium, query, source.url, left)
            with _query(broker.bootstrap_servers, folder, source.url, 10_000):
                _until(lambda: _states(source.url), debezium)
                writer.stop()
                outcome.transactions = len(writer.states) - 1
                _until(lambda: _states(source.url)[-1:] == writer.states[-1:], debezium)
        judge(outcome, writer.states, _states(source.url))
    return outcome


def _strike(
    draw: random.Random, outcome: Outcome, debezium: Debezium, query: subprocess.Popen[bytes], url: str, left: int
) -> int:
    """Kill Debezium behind some batches until it is the query's turn, or no kills are left: how many are."""
    while True:
        _wait_for_batches(url, len(_states(url)) + 2, query, debezium)
        time.sleep(draw.random() * 2)
        victim = draw.choice(["query", "debezium"])
        outcome.kills[victim] += 1
        left -= 1
        if victim == "query":
            return left
        debezium.stop()
        debezium.start()
        if not left:
            return left


def _wait_for_batches(url: str, count: int, query: subprocess.Popen[bytes], debezium: Debezium) -> None:
    _until(lambda: len(_states(url)) >= count or query.poll() is not None, debezium)
    assert query.poll() is None, (debezium.folder / "query.log").read_text()[-3000:]


def _states(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        return [str(state) for (state,) in connection.execute("select state from target.states order by number")]


def _until(happened: Any, debezium: Debezium) -> None:
    until = time.monotonic() + _SECONDS
    while not happened():
        if time.monotonic() > until:
            raise TimeoutError(f"Nothing has come for {_SECONDS:.0f} s:\n{debezium.log.read_text()[-3000:]}")
        list(debezium.events())  # raises when it has ended
        time.sleep(0.2)


def judge(outcome: Outcome, wanted: Sequence[str], states: Sequence[str]) -> None:
    """Compare the states of the table, batch by batch, with those of the source."""
    outcome.batches, last = len(states), 0
    outcome.whole = states[-1:] == wanted[-1:]
    for number, state in enumerate(states):
        try:
            last = wanted.index(state, last)
        except ValueError:
            when = "an earlier one" if state in wanted else "none of the source"
            outcome.strange.append(f"batch {number} of {len(states)}: its state is {when}")


def _run_query(servers: str, folder: str, url: str, limit: str) -> None:
    spark = wm.session("chain", master="local[2]", jars=spark_jars(), config={"spark.sql.shuffle.partitions": "2"})
    query = topology(url).start(
        spark,
        checkpoint=f"{folder}/cp",
        local_cache=f"{folder}/cache",
        shards=2,
        tasks=2,
        kafka=wm.Kafka(servers, max_records_per_batch=int(limit), transactions=_LOG),
    )
    query.awaitTermination()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print the figures, and say whether all held."""
    parser = argparse.ArgumentParser(prog="python -m chaos.chain", description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--query", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.query:
        _run_query(*options.query)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        outcome = run(options.kills, options.seed, Path(folder))
    print(f"seed {options.seed}, kills {outcome.kills}")
    print(f"{outcome.transactions} transactions, {outcome.batches} batches that changed the table")
    print(*outcome.strange, "the table is the join" if outcome.whole else "the table is NOT the join", sep="\n")
    return 0 if outcome.whole and not outcome.strange else 1


if __name__ == "__main__":
    sys.exit(main())
