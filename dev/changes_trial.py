"""What is tried of changes of tables of Delta, with the Spark that it is made for.

Run by `versions` with the interpreter of an environment that has that PySpark; `HISTORIES=500 SEED=1` for more. In each
history random MERGE, UPDATE and DELETE change two tables between starts; behind each start the joined and the summed
view are what SQL gives over the tables.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
if not __package__:  # run by its path: the repository's root is then not on the module path
    sys.path.insert(0, str(ROOT))

import pyspark
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from dev.catalog_trial import FORMATS, settings
from dev.jars import jars

PROPERTIES = "'delta.enableChangeDataFeed' = 'true'"
KEYS, REGIONS = 6, "ns"


class Shop:
    """Two tables of a format in a folder, orders and customers, and the topology that joins and sums them."""

    def __init__(self, format: str, folder: Path) -> None:
        self.format, self.folder = format, folder
        config = settings(format, folder) | {"spark.databricks.delta.snapshotPartitions": "1"}
        given = [str(jar) for jar in jars(format)]
        self.spark = wm.session("changes", master="local[2]", jars=given, config=config)
        self.spark.sparkContext.setLogLevel("OFF")
        self.number = 0

    def make(self, number: int) -> None:
        """The tables of a history, empty if they have not been there."""
        self.number = number
        if self.format == "iceberg":
            self.spark.sql("CREATE SCHEMA IF NOT EXISTS lake.shop")
        for name, columns in (("orders", "customer bigint, amount bigint"), ("customers", "region string")):
            place = f" LOCATION '{self.folder}/lake/{name}{number}'" if self.format == "delta" else ""
            self.spark.sql(
                f"CREATE TABLE IF NOT EXISTS {self.table(name)} (id bigint, {columns}) USING {self.format}{place} "
                f"TBLPROPERTIES ({PROPERTIES})"
            )

    def table(self, name: str) -> str:
        """The table's name in this history."""
        return f"lake.shop.{name}{self.number}" if self.format == "iceberg" else f"{name}{self.number}"

    def change(self, draw: random.Random) -> None:
        """One commit: a MERGE, an UPDATE or a DELETE of one of the tables."""
        name = draw.choice(("orders", "orders", "customers"))
        table, value = self.table(name), "amount" if name == "orders" else "region"
        random_value = str(draw.randint(0, 9)) if name == "orders" else f"'{draw.choice(REGIONS)}'"
        keys = draw.sample(range(KEYS), draw.randint(1, 3))
        among, action = (
            f"id IN ({', '.join(map(str, keys))})",
            draw.choice(("merge", "merge", "update", "delete", "move")),
        )
        if action == "update":
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

    def run(self, kept: dict[str, dict[Any, Any]], die_in: int | None = None, **options: Any) -> None:
        """Read what is there; `kept` has the views behind it."""
        builder = wm.StreamsBuilder("changes")
        given = {"maxFilesPerTrigger": "1"} if self.format == "delta" else {}
        orders = builder.table(wm.Changes(self.table("orders"), key="id", options=given, **options), name="orders")
        customers = builder.table(wm.Changes(self.table("customers"), key="id", value="region"), name="customers")
        joined = orders.join(
            customers,
            lambda order, region: F.struct(order["amount"], region.alias("region")),
            foreign_key=lambda order: order["customer"],
        )
        totals = joined.group_by(lambda row: (row["region"], row["amount"])).agg(total=wm.sum(lambda amount: amount))
        for name, table in (("joined", joined), ("totals", totals)):
            table.to(wm.ForeachBatch(self._keeping(kept.setdefault(name, {}), die_in)), name=name)
        query = builder.build().start(
            self.spark,
            checkpoint=self.folder / f"checkpoint{self.number}",
            available_now=True,
            local_cache=self.folder / "cache",
            shards=2,
            tasks=1,
        )
        query.awaitTermination()

    @staticmethod
    def _keeping(view: dict[Any, Any], die_in: int | None) -> Any:
        def write(frame: Any, batch: int) -> None:
            if batch == die_in:
                os.killpg(0, signal.SIGKILL)
            for row in frame.orderBy("sequence").collect():
                view.pop(row["key"], None)
                if row["value"] is not None:
                    view[row["key"]] = tuple(row["value"])

        return write

    def check(self, kept: dict[str, dict[Any, Any]], at: str) -> None:
        """That the views are what SQL gives over the tables as they are."""
        orders, customers = self.table("orders"), self.table("customers")
        join = f"FROM {orders} o JOIN {customers} c ON o.customer = c.id"
        rows = self.spark.sql(f"SELECT o.id, amount, region {join}").collect()
        assert kept["joined"] == {key: (amount, region) for key, amount, region in rows}, (at, kept, rows)
        sums: dict[str, int] = {}
        for _, amount, region in rows:
            sums[region] = sums.get(region, 0) + amount
        assert kept["totals"] == {region: (total,) for region, total in sums.items()}, (at, kept["totals"], sums)


def histories(shop: Shop, count: int, seed: int) -> None:
    """So many random histories of commits and starts."""
    for number in range(count):
        draw, kept = random.Random(f"{seed} {number}"), dict[str, dict[Any, Any]]()
        shop.make(number)
        for _ in range(draw.randint(2, 3)):
            for _ in range(draw.randint(1, 4)):
                shop.change(draw)
            shop.run(kept)
            shop.check(kept, f"history {number} of seed {seed}")


def main() -> None:
    """Try it all."""
    spark = SparkSession.getActiveSession()
    assert spark is None
    format = FORMATS[".".join(pyspark.__version__.split(".")[:2])]
    if format != "delta":
        return
    count, seed = int(os.environ.get("HISTORIES", "2")), int(os.environ.get("SEED", "1"))
    with tempfile.TemporaryDirectory() as name:
        shop = Shop(format, Path(name))
        histories(shop, count, seed)
        shop.spark.stop()
    print(f"as it should be: {count} histories of changes in tables of {format}, PySpark {pyspark.__version__}")


if __name__ == "__main__":
    main()
