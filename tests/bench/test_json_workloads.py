"""The workloads of JSON, small: their data are of their schemas, and their topologies give what plain Python makes."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

import watersmeet as wm
from bench.workloads.datasets import Shape
from bench.workloads.every import EVERY, WORKLOADS
from bench.workloads.json_records import CLICK, ORDER, PAGE, PAYMENT, USER, enrich_data, orders_data
from bench.workloads.workload import Data, Workload, handles_of
from watersmeet._worker.formats.json import decode
from watersmeet.testing.driver import TopologyTestDriver

Rows = list[tuple[str, int, Any, int]]
"""Topic, key, value and time."""


def rows_of(data: Data) -> Rows:
    found: Rows = []
    for side in data.sides:
        for file in sorted((data.folder / side).glob("*.parquet")):
            columns = [pq.read_table(file)[name].to_pylist() for name in ("key", "value", "ts")]
            found += [(side, key, value, ts) for key, value, ts in zip(*columns, strict=True)]
    return sorted(found, key=lambda row: row[3])


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    return rows_of(orders_data(tmp_path_factory.mktemp("orders"), Shape(40, 20, 2, 20)))


@pytest.fixture(scope="module")
def clicks(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    return rows_of(enrich_data(tmp_path_factory.mktemp("clicks"), 20, 8, 60))


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_values_are_json_of_their_schemas(orders: Rows, clicks: Rows) -> None:
    schemas = {"left": ORDER, "right": PAYMENT, "clicks": CLICK, "users": USER, "pages": PAGE}
    for topic, schema in schemas.items():
        texts = [value for side, _, value, _ in [*orders, *clicks] if side == topic]
        kind = StructType.fromDDL(schema)
        values, flaws = decode(kind, pa.array(texts))
        assert not flaws
        assert (
            pa.compute.sum(pa.array([sum(each is None for each in v.values()) for v in values.to_pylist()])).as_py()
            == 0
        )
        assert [*json.loads(texts[0])] == kind.names


def written(spark: SparkSession, workload: Workload, given: Rows) -> list[tuple[int, Any]]:
    builder = wm.StreamsBuilder("bench")
    (handle,) = handles_of(workload, builder, workload.topics)
    handle.to("out")
    driver = TopologyTestDriver(builder.build(), spark)
    for topic, key, value, ts in given:
        driver.pipe(topic, key=key, value=json.loads(value) if value.startswith("{") else value, ts=ts)
    return [(record.key, record.value) for record in driver.read("out")]


@pytest.mark.spark
def test_what_is_open_of_each_order_is_its_amount_without_what_is_paid(spark: SparkSession, orders: Rows) -> None:
    last = {(topic, key): json.loads(value) for topic, key, value, _ in orders}
    wanted = {}
    for key in {key for _, key, _, _ in orders}:
        order, payment = last[("left", key)], last.get(("right", key)) or {"paid": 0.0, "method": None}
        left = order["amount"] - payment["paid"]
        if left > 0:
            names = ("customer", "item", "quantity")
            wanted[key] = {**{n: order[n] for n in names}, "open": left, "method": payment["method"]}
    found = {
        key: value for key, value in dict(written(spark, WORKLOADS["orders"], orders)).items() if value is not None
    }
    assert {key: value.asDict() for key, value in found.items()} == wanted
    assert 0 < len(wanted) < 40


@pytest.mark.spark
def test_each_click_has_what_is_known_of_its_user_and_its_page(spark: SparkSession, clicks: Rows) -> None:
    known = {(topic, key): json.loads(value) for topic, key, value, _ in clicks if topic != "clicks"}
    wanted = []
    for _, user, value, _ in (row for row in clicks if row[0] == "clicks"):
        click = json.loads(value)
        by, page = known.get(("users", user)), known.get(("pages", click["page"]))
        if by and page:
            wanted.append(
                (
                    click["page"],
                    {"url": click["url"], "ms": click["ms"], "name": by["name"], "country": by["country"], **page},
                )
            )
    found = [(key, value.asDict()) for key, value in written(spark, WORKLOADS["enrich"], clicks)]
    assert sorted(found, key=repr) == sorted(wanted, key=repr)
    assert 0 < len(wanted) < 60


def test_the_plain_workload_beside_another_has_its_topics() -> None:
    for workload in WORKLOADS.values():
        if workload.plain is not None:
            assert EVERY[workload.plain].topics == workload.topics
            assert EVERY[workload.plain].parted == workload.parted
