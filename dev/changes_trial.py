"""What is tried of changes of tables of Delta and Iceberg, each with the Spark that it is made for.

Run by `versions` with the interpreter of an environment that has that PySpark; `HISTORIES=500 KILLS=40 SEED=1` for
more. In each history random MERGE, UPDATE and DELETE change two tables between starts, in Iceberg copied on write or
merged on read, and compacted; behind each start the joined and the summed view are what SQL gives over the tables. The
same holds where the process is killed between the table as it was and its changes, in a batch, or anywhere.
"""

from __future__ import annotations

import os
import pickle
import random
import signal
import subprocess
import sys
import tempfile
import threading
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
if not __package__:  # run by its path: the repository's root is then not on the module path
    sys.path.insert(0, str(ROOT))

import pyspark
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from dev.catalog_trial import FORMATS, raises, settings
from dev.jars import jars
from watersmeet._spark.sources import iceberg
from watersmeet.errors import SourceError, TopologyError

PROPERTIES = "'delta.enableChangeDataFeed' = 'true'"
ON_READ = ", ".join(f"'write.{verb}.mode' = 'merge-on-read'" for verb in ("delete", "update", "merge"))
EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
KEYS, REGIONS = 6, "ns"
GROUP = 10
"""Histories that one query reads: its start takes longer than their commits."""


class Shop:
    """Two tables of a format in a folder, orders and customers, and the topology that joins and sums them."""

    def __init__(self, format: str, folder: Path) -> None:
        self.format, self.folder = format, folder
        config = settings(format, folder) | {"spark.databricks.delta.snapshotPartitions": "1"}
        config |= {"spark.sql.extensions": EXTENSIONS} if format == "iceberg" else {}
        given = [str(jar) for jar in jars(format)]
        self.spark = wm.session("changes", master="local[2]", jars=given, config=config)
        self.spark.sparkContext.setLogLevel("OFF")
        self.number = 0

    def make(self, number: int) -> None:
        """The tables of a history, empty if they have not been there."""
        self.number, properties = number, PROPERTIES
        if self.format == "iceberg":
            properties = ON_READ if number % 2 else "'format-version' = '2'"
            self.spark.sql("CREATE SCHEMA IF NOT EXISTS lake.shop")
        for name, columns in (("orders", "customer bigint, amount bigint"), ("customers", "region string")):
            place = f" LOCATION '{self.folder}/lake/{name}{number}'" if self.format == "delta" else ""
            self.spark.sql(
                f"CREATE TABLE IF NOT EXISTS {self.table(name)} (id bigint NOT NULL, {columns}) "
                f"USING {self.format}{place} TBLPROPERTIES ({properties})"
            )
            if self.format == "iceberg":
                self.spark.sql(f"ALTER TABLE {self.table(name)} SET IDENTIFIER FIELDS id")

    def table(self, name: str) -> str:
        """The table's name in this history."""
        return f"lake.shop.{name}{self.number}" if self.format == "iceberg" else f"{name}{self.number}"

    def change(self, draw: random.Random) -> None:
        """One commit: a MERGE, an UPDATE or a DELETE of one of the tables."""
        name = draw.choice(("orders", "orders", "customers"))
        table, value = self.table(name), "amount" if name == "orders" else "region"
        random_value = str(draw.randint(0, 9)) if name == "orders" else f"'{draw.choice(REGIONS)}'"
        keys = draw.sample(range(KEYS), draw.randint(1, 3))
        among, actions = f"id IN ({', '.join(map(str, keys))})", ["merge", "merge", "update", "delete", "move"]
        action = draw.choice([*actions, *(["compact"] if self.format == "iceberg" else [])])
        if action == "compact":
            every = "map('rewrite-all', 'true')"
            self.spark.sql(f"CALL lake.system.rewrite_data_files(table => '{table[5:]}', options => {every})")
        elif action == "update":
            self.spark.sql(f"UPDATE {table} SET {value} = {random_value} WHERE {among}")
        elif action == "delete":
            self.spark.sql(f"DELETE FROM {table} WHERE {among}")
        elif action == "move":  # of a key that is changed, the row of the old one goes
            taken = {row[0] for row in self.spark.table(table).select("id").collect()}
            free = [key for key in keys if key + KEYS not in taken]
            self.spark.sql(f"UPDATE {table} SET id = id + {KEYS} WHERE id IN ({', '.join(map(str, free or [-1]))})")
        else:
            self._merge(table, name, draw, keys)

    def _merge(self, table: str, name: str, draw: random.Random, keys: list[int]) -> None:
        rows: list[tuple[Any, ...]]
        if name == "orders":
            rows = [(key, draw.randrange(KEYS), draw.randint(0, 9), draw.random() < 0.3) for key in keys]
            columns = "id long, customer long, amount long, gone boolean"
        else:
            rows = [(key, draw.choice(REGIONS), draw.random() < 0.3) for key in keys]
            columns = "id long, region string, gone boolean"
        self.spark.createDataFrame(rows, columns).createOrReplaceTempView("news")
        names = [name for name in columns.replace(",", "").split()[::2] if name != "gone"]
        assigned, values = (", ".join(text.format(n) for n in names) for text in ("t.{0} = s.{0}", "s.{0}"))
        self.spark.sql(
            f"MERGE INTO {table} t USING news s ON t.id = s.id WHEN MATCHED AND s.gone THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {assigned} "
            f"WHEN NOT MATCHED THEN INSERT ({', '.join(names)}) VALUES ({values})"
        )

    @property
    def place(self) -> Path:
        """Where the views of this history are."""
        return self.folder / f"views{self.number}"

    def run(self, *numbers: int, die_in: int | None = None, **options: Any) -> None:
        """Read what is there of these histories, or of the one that is under way, with one query."""
        builder, numbers = wm.StreamsBuilder("changes"), numbers or (self.number,)
        for number in numbers:
            self.number = number
            self._join(builder, die_in, options)
        query = builder.build().start(
            self.spark,
            checkpoint=self.folder / f"checkpoint{numbers[0]}",
            available_now=True,
            local_cache=self.folder / "cache",
            shards=2,
            tasks=1,
        )
        query.awaitTermination()

    def _join(self, builder: wm.StreamsBuilder, die_in: int | None, options: dict[str, Any]) -> None:
        number = self.number
        key, given = "id" if self.format == "delta" else None, {"maxFilesPerTrigger": "1"}
        orders = builder.table(wm.Changes(self.table("orders"), key=key, options=given, **options), name=f"o{number}")
        customers = builder.table(wm.Changes(self.table("customers"), key=key, value="region"), name=f"c{number}")
        joined = orders.join(
            customers,
            lambda order, region: F.struct(order["amount"], region.alias("region")),
            foreign_key=lambda order: order["customer"],
        )
        totals = joined.group_by(lambda row: (row["region"], row["amount"])).agg(total=wm.sum(lambda amount: amount))
        for name, table in (("joined", joined), ("totals", totals)):
            table.to(wm.ForeachBatch(self._keeping(self.place / name, die_in)), name=f"{name}{number}")

    @staticmethod
    def view(place: Path, before: int = 1 << 31) -> dict[Any, Any]:
        """What the batches before one have made of a view."""
        numbers = [int(file.name) for file in place.glob("[0-9]*") if int(file.name) < before]
        found: dict[Any, Any] = pickle.loads((place / str(max(numbers))).read_bytes()) if numbers else {}
        return found

    def _keeping(self, place: Path, die_in: int | None) -> Any:
        def write(frame: Any, batch: int) -> None:
            if batch == die_in:
                os.killpg(0, signal.SIGKILL)
            view = self.view(place, batch)
            for row in frame.orderBy("sequence").collect():
                view.pop(row["key"], None)
                if row["value"] is not None:
                    view[row["key"]] = tuple(row["value"])
            place.mkdir(parents=True, exist_ok=True)
            (place / ".new").write_bytes(pickle.dumps(view))
            (place / ".new").rename(place / str(batch))

        return write

    def check(self, at: str) -> None:
        """That the views are what SQL gives over the tables as they are."""
        kept = {name: self.view(self.place / name) for name in ("joined", "totals")}
        orders, customers = self.table("orders"), self.table("customers")
        join = f"FROM {orders} o JOIN {customers} c ON o.customer = c.id"
        rows = self.spark.sql(f"SELECT o.id, amount, region {join}").collect()
        assert kept["joined"] == {key: (amount, region) for key, amount, region in rows}, (at, kept, rows)
        sums: dict[str, int] = {}
        for _, amount, region in rows:
            sums[region] = sums.get(region, 0) + amount
        # of a group that has lost all its rows the sum is null, where SQL has no row
        totals = {region: total for region, (total,) in kept["totals"].items() if total is not None}
        assert totals == sums, (at, totals, sums)


def histories(shop: Shop, count: int, seed: int) -> None:
    """So many random histories of commits and starts; some are read by one query."""
    for first in range(0, count, GROUP):
        numbers = range(first, min(first + GROUP, count))
        draws = {number: random.Random(f"{seed} {number}") for number in numbers}
        for number in numbers:
            shop.make(number)
        for turn in range(3):
            for number in numbers:
                shop.number = number
                for _ in range(draws[number].randint(0 if turn else 1, 4)):
                    shop.change(draws[number])
            shop.run(*numbers)
            for number in numbers:
                shop.number = number
                shop.check(f"history {number} of seed {seed}, turn {turn}")
        print(f"{numbers[-1] + 1} histories", flush=True)


def snapshots(shop: Shop) -> None:
    """What is Iceberg's own: starts, added columns, a rollback, a query that goes on, expired snapshots."""
    shop.make(2_000)
    orders, customers, spark = shop.table("orders"), shop.table("customers"), shop.spark
    spark.sql(f"INSERT INTO {customers} VALUES (1, 'n')")
    for number in range(3):
        spark.sql(f"INSERT INTO {orders} VALUES ({number}, 1, {number})")
    ids = [row[0] for row in spark.sql(f"SELECT snapshot_id FROM {orders}.snapshots ORDER BY committed_at").collect()]
    raises(TopologyError, "has no version 7", shop.run, starting_version=7)
    shop.run(starting_version=ids[1])
    shop.check("a start with a snapshot")
    spark.sql(f"ALTER TABLE {customers} ADD COLUMN tags map<string, int>")
    spark.sql(f"UPDATE {customers} SET region = 's', tags = map('a', 1)")
    shop.run()
    shop.check("an added column, of a type that is not compared")
    spark.sql(f"CALL lake.system.rollback_to_snapshot('{orders[5:]}', {ids[0]})")
    shop.run()
    shop.check("a rollback")
    follow(shop)  # its UPDATE is read by no other query yet
    now = "TIMESTAMP '2100-01-01 00:00:00'"
    spark.sql(f"INSERT INTO {customers} VALUES (2, 'n', null)")
    spark.sql(f"CALL lake.system.expire_snapshots(table => '{customers[5:]}', older_than => {now}, retain_last => 1)")
    raises(SourceError, "have been expired that this query has yet to read", shop.run)


def follow(shop: Shop) -> None:
    """A query that goes on sees what is committed meanwhile."""
    got, builder = list[Any](), wm.StreamsBuilder("follow")
    changes = builder.stream(wm.Changes(shop.table("customers"), value="region"), name="customers")
    changes.to(wm.ForeachBatch(lambda frame, batch: got.extend(frame.collect())), name="out")
    query = builder.build().start(shop.spark, checkpoint=shop.folder / "follow", shards=1, tasks=1)
    query.processAllAvailable()
    shop.spark.sql(f"UPDATE {shop.table('customers')} SET region = 'w'")
    query.processAllAvailable()
    query.stop()
    assert [(row["key"], row["value"]) for row in got] == [(1, "s"), (1, "w")], got


def columns(shop: Shop) -> None:
    """Columns that are renamed or added, and a table that is replaced by an empty one, while a query reads it."""
    shop.make(3_000)
    spark, customers, got = shop.spark, shop.table("customers"), dict[Any, Any]()

    def query(place: str, value: str | None, version: int | None = None, **options: Any) -> Any:
        builder = wm.StreamsBuilder("columns")
        rows = builder.table(wm.Changes(customers, value=value, starting_version=version), name="customers")
        keep = lambda frame, batch: got.update((row["key"], row["value"]) for row in frame.collect())  # noqa: E731
        rows.to(wm.ForeachBatch(keep), name="out")
        return builder.build().start(spark, checkpoint=shop.folder / place, shards=1, tasks=1, **options)

    spark.sql(f"INSERT INTO {customers} VALUES (1, 'n'), (2, 's')")
    running = query("added", None)
    running.processAllAvailable()
    spark.sql(f"ALTER TABLE {customers} ADD COLUMN Provider bigint")
    spark.sql(f"UPDATE {customers} SET Provider = 7 WHERE id = 1")
    raises(SourceError, "have changed", running.awaitTermination)
    query("added", None, available_now=True, evolve=True).awaitTermination()
    assert {key: tuple(row) for key, row in got.items()} == {1: ("n", 7), 2: ("s",)}, got
    running = query("renamed", "region")
    running.processAllAvailable()
    spark.sql(f"ALTER TABLE {customers} RENAME COLUMN region TO area")
    spark.sql(f"UPDATE {customers} SET area = 'w' WHERE id = 1")
    raises(SourceError, "have changed", running.awaitTermination)
    again = partial(query, "renamed", "area", available_now=True, evolve=True)
    raises(SourceError, "Begin a new checkpoint", again)
    first = spark.sql(f"SELECT snapshot_id FROM {customers}.snapshots ORDER BY committed_at").collect()[0]
    raises(SourceError, "Begin behind the change", partial(query, "old", "area", first[0], available_now=True))
    query("emptied", "area", available_now=True).awaitTermination()
    assert got == {1: "w", 2: "s"}, got
    spark.sql(f"CREATE OR REPLACE TABLE {customers} (id bigint NOT NULL, area string, Provider bigint) USING iceberg")
    spark.sql(f"ALTER TABLE {customers} SET IDENTIFIER FIELDS id")
    query("emptied", "area", available_now=True).awaitTermination()
    assert got == {1: None, 2: None}, got
    spark.sql("USE lake.shop")
    customers = customers[10:]
    query("relative", "area", available_now=True).awaitTermination()


def versions(shop: Shop) -> None:
    """What is Delta's own: starts with versions, of fewer columns than the table has now, and of the future."""
    shop.make(3_000)
    spark, orders, got = shop.spark, shop.table("orders"), list[Any]()
    spark.sql(f"INSERT INTO {orders} VALUES (1, 1, 5)")
    spark.sql(f"ALTER TABLE {orders} ADD COLUMN note string")
    spark.sql(f"UPDATE {orders} SET note = 'x' WHERE id = 1")
    source, builder = wm.Changes(orders, key="id", value="note", starting_version=1), wm.StreamsBuilder("versions")
    builder.table(source, name="orders").to(wm.ForeachBatch(lambda rows, batch: got.extend(rows.collect())), name="out")
    builder.build().start(spark, checkpoint=shop.folder / "versions", available_now=True).awaitTermination()
    assert [row["value"] for row in sorted(got, key=lambda row: row["sequence"])] == [None, "x"], got
    assert all(row["timestamp"].year > 2000 for row in got), got
    for kind in (wm.StreamsBuilder("future").stream, wm.StreamsBuilder("future").table):
        future = partial(kind, wm.Changes(orders, key="id", starting_version=9), name="orders")
        raises(TopologyError, "has no version 9", future)


def die(format: str, folder: Path, number: int, seed: str) -> None:
    """Go on with a history that was killed, check it, change its tables, and be killed somewhere."""
    draw, shop = random.Random(seed), Shop(format, folder)
    shop.make(number)
    if (folder / f"checkpoint{number}").exists():
        shop.run()
        shop.check(f"kill {seed}")
    for _ in range(draw.randint(1, 4)):
        shop.change(draw)
    done = max((int(file.name) for file in shop.place.glob("joined/[0-9]*")), default=-1)
    moment = draw.choice(("batch", "written", "time"))

    def kill(*given: object) -> None:
        os.killpg(0, signal.SIGKILL)

    if moment == "written" and format == "iceberg":  # the snapshots are files, and no batch has been planned
        iceberg.LakeRows.write = kill  # type: ignore[method-assign,assignment]
    elif moment == "time":
        threading.Timer(draw.uniform(0.1, 6.0), kill).start()
    shop.run(die_in=None if moment == "time" else done + draw.randint(1, 2))
    kill()


def kills(format: str, folder: Path, count: int, seed: int) -> None:
    """So many kills, four of each history."""
    for number in range(count):
        command = [sys.executable, __file__, str(folder), str(1_000 + number // 4), f"{seed} {number}"]
        done = subprocess.run(command, start_new_session=True, check=False)
        assert done.returncode == -signal.SIGKILL, (number, seed, done)


def main() -> None:
    """Try it all; with a folder, a number and a seed: go on with that history, and be killed."""
    spark = SparkSession.getActiveSession()
    assert spark is None
    format = FORMATS[".".join(pyspark.__version__.split(".")[:2])]
    if len(sys.argv) > 1:
        die(format, Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
    count, killed, seed = (int(os.environ.get(*of)) for of in (("HISTORIES", "2"), ("KILLS", "2"), ("SEED", "1")))
    with tempfile.TemporaryDirectory() as name:
        kills(format, Path(name) / "killed", killed, seed)
        shop = Shop(format, Path(name))
        histories(shop, count, seed)
        if format == "iceberg":
            snapshots(shop)
            columns(shop)
        else:
            versions(shop)
        shop.spark.stop()
    counts = f"{count} histories and {killed} kills"
    print(f"as it should be: {counts} of changes in tables of {format}, PySpark {pyspark.__version__}")


if __name__ == "__main__":
    main()
