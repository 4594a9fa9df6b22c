"""A denormalisation of nested rows, from files: orders with their line items, customers, products and countries.

Three joins by foreign key, two of them behind each other: an order finds its customer, what is found finds the
customer's country, and what is found then the product of the order's first item. Rows are as a database's changes
are after their envelope is opened: structs of texts, numbers and times, the items an array of structs. One customer
has `HOT` orders and changes in every file. The data follow from a seed; no value is small by compression.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bench.workloads.datasets import EPOCH

HOT = 2_000
"""Orders of the one customer that has many."""
_VERSION = 1
ITEM = "product: long, sku: string, title: string, quantity: int, price: double, discount: double, note: string"
VALUES = {
    "orders": f"customer long, status string, currency string, placed timestamp, street string, city string, "
    f"comment string, items array<struct<{ITEM}>>",
    "customers": "name string, email string, phone string, street string, city string, country long, "
    "joined timestamp, notes string",
    "products": "title string, brand string, category string, description string, weight double, stock int",
    "countries": "name string, iso string, currency string, region string",
}
"""The values of each table, as DDL."""


@dataclass(frozen=True)
class Size:
    """How many rows there are of each table, and files with how many updates of orders."""

    orders: int = 60_000
    customers: int = 8_000
    products: int = 2_000
    countries: int = 100
    files: int = 8

    @property
    def rows(self) -> dict[str, int]:
        """By table."""
        return {name: getattr(self, name) for name in VALUES}

    @property
    def name(self) -> str:
        """Folder of the data."""
        return "-".join(map(str, ("nested", _VERSION, *self.rows.values(), self.files)))


def prepared(root: Path, size: Size) -> Path:
    """The folder with the files of each table, written where it is not there: half fills, half updates."""
    folder = root / "data" / size.name
    if (folder / "complete").exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    rng = np.random.default_rng([_VERSION, size.orders])
    seq = dict.fromkeys(VALUES, 0)
    for number in range(size.files):
        for table, count in size.rows.items():
            keys = _keys(table, count, number, size, rng)
            rows = _rows(table, keys, seq[table], size, rng)
            seq[table] += len(keys)
            path = folder / table / f"{number:05d}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(rows, path, compression="none", use_dictionary=False)
            # Spark's file source reads in order of modification time
            os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
    (folder / "complete").touch()
    return folder


def _keys(table: str, count: int, number: int, size: Size, rng: np.random.Generator) -> np.ndarray:
    half = size.files // 2
    if number < half:
        return np.arange(number * count // half, (number + 1) * count // half)
    # an eighth of the orders and a hundredth of the others change in each file, and the hot customer always
    changed = rng.integers(0, count, count // 8 if table == "orders" else max(1, count // 100))
    return np.append(changed, 0) if table == "customers" else changed


def _rows(table: str, keys: np.ndarray, seq: int, size: Size, rng: np.random.Generator) -> pa.Table:
    count = len(keys)
    numbers = np.arange(seq, seq + count, dtype=np.int64)
    value = {"orders": _orders, "customers": _customers, "products": _products, "countries": _countries}[table]
    ts = EPOCH + numbers * 100_000 // size.rows[table]
    return pa.table({"key": keys.astype(np.int64), "value": value(keys, size, rng), "ts": ts, "seq": numbers})


def _orders(keys: np.ndarray, size: Size, rng: np.random.Generator) -> pa.StructArray:
    count = len(keys)
    lines = rng.integers(1, 8, count)
    offsets = np.append(0, np.cumsum(lines)).astype(np.int32)
    total = int(offsets[-1])
    items = pa.StructArray.from_arrays(
        [
            pa.array(rng.integers(0, size.products, total)),
            _texts(total, 12, rng),
            _texts(total, 30, rng),
            pa.array(rng.integers(1, 10, total).astype(np.int32)),
            pa.array(rng.random(total)),
            pa.array(rng.random(total)),
            _texts(total, 20, rng),
        ],
        ["product", "sku", "title", "quantity", "price", "discount", "note"],
    )
    # the first HOT orders are the hot customer's
    customer = np.where(keys < HOT, 0, 1 + keys % (size.customers - 1))
    return _struct(
        "orders",
        [
            pa.array(customer.astype(np.int64)),
            _texts(count, 8, rng),
            _texts(count, 3, rng),
            _times(count, rng),
            _texts(count, 24, rng),
            _texts(count, 12, rng),
            _texts(count, 80, rng),
            pa.ListArray.from_arrays(pa.array(offsets), items),
        ],
    )


def _customers(keys: np.ndarray, size: Size, rng: np.random.Generator) -> pa.StructArray:
    count = len(keys)
    texts = [_texts(count, length, rng) for length in (20, 24, 12, 24, 12)]
    country = pa.array((keys % size.countries).astype(np.int64))
    return _struct("customers", [*texts, country, _times(count, rng), _texts(count, 120, rng)])


def _products(keys: np.ndarray, size: Size, rng: np.random.Generator) -> pa.StructArray:
    count = len(keys)
    texts = [_texts(count, length, rng) for length in (30, 12, 12, 200)]
    return _struct(
        "products", [*texts, pa.array(rng.random(count)), pa.array(rng.integers(0, 99, count).astype(np.int32))]
    )


def _countries(keys: np.ndarray, size: Size, rng: np.random.Generator) -> pa.StructArray:
    return _struct("countries", [_texts(len(keys), length, rng) for length in (20, 2, 3, 12)])


def _struct(table: str, columns: list[pa.Array]) -> pa.StructArray:
    names = [part.split()[0] for part in VALUES[table].split(" array<")[0].split(", ")]
    return pa.StructArray.from_arrays(columns, names)


def _times(count: int, rng: np.random.Generator) -> pa.Array:
    return pa.array((EPOCH + rng.integers(0, 10**9, count)) * 1000, pa.timestamp("us", tz="UTC"))


def _texts(count: int, length: int, rng: np.random.Generator) -> pa.Array:
    data = rng.integers(32, 127, count * length, dtype=np.uint8)
    offsets = np.arange(count + 1, dtype=np.int32) * length
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def start(spark: SparkSession, data: Path, checkpoint: str) -> Any:
    """The topology, as a user writes it."""
    import watersmeet as wm

    builder = wm.StreamsBuilder("nested")

    def table(name: str) -> Any:
        read = spark.readStream.schema(f"key long, value struct<{_typed(name)}>, ts long, seq long")
        frame = read.option("maxFilesPerTrigger", 1).parquet(str(data / name))
        return builder.table(frame, name=name, key="key", value="value", timestamp="ts", order="seq")

    orders, customers, products, countries = map(table, VALUES)
    found = orders.join(
        customers,
        lambda order, customer: F.struct(order.alias("order"), customer.alias("customer")),
        foreign_key=lambda order: order["customer"],
    )
    found = found.join(
        countries,
        lambda one, country: F.struct(one["order"], one["customer"], country.alias("country")),
        foreign_key=lambda one: one["customer"]["country"],
    )
    found = found.join(
        products,
        lambda one, product: F.struct(one["order"], one["customer"], one["country"], product.alias("first_product")),
        foreign_key=lambda one: one["order"]["items"][0]["product"],
    )
    found.to(wm.Writer("noop"), name="orders_of_all")
    return builder.build().start(spark, checkpoint=checkpoint, available_now=True, local_cache=f"{checkpoint}-cache")


def _typed(table: str) -> str:
    """The fields of a value within `struct<...>`."""
    head, *items = VALUES[table].split(", items ")
    fields = ", ".join(part.replace(" ", ": ", 1) for part in head.split(", "))
    return ", ".join([fields, *(f"items: {part}" for part in items)])
