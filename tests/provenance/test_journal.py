"""`why` upon real queries: the journal beside the checkpoint, batches that were broken off, and every way to ask."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from tests.spark.serving.kit import Inputs, until
from watersmeet import provenance
from watersmeet.cli.commands import main
from watersmeet.provenance import Why

ORDERS, CUSTOMERS = "id long, customer string, amount double, ts long", "name string, city string, ts long"


class Shop:
    """Orders and their customers, joined: a folder for each input, and a checkpoint."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.checkpoint, self.fails = spark, str(folder / "checkpoint"), False
        self.inputs = Inputs(spark, folder)
        builder = wm.StreamsBuilder("shop")
        orders = self.inputs.read("orders", ORDERS)
        customers = self.inputs.read("customers", CUSTOMERS)
        left = builder.table(orders, name="orders", key="id", timestamp="ts", order=["ts"])
        right = builder.table(customers, name="customers", key="name", timestamp="ts", order=["ts"])
        joined = left.join(
            right,
            lambda order, customer: F.struct(order["amount"], customer["city"]),
            foreign_key=lambda order: order["customer"],
            store="open-orders",
        )
        joined.to_stream().to(wm.ForeachBatch(self.write), name="out")
        self.topology = builder.build()

    def write(self, frame: Any, batch: int) -> None:
        frame.count()
        if self.fails:
            raise RuntimeError("told to fail")

    def start(self, **options: Any) -> Any:
        return self.topology.start(self.spark, checkpoint=self.checkpoint, shards=2, tasks=2, **options)

    def order(self, id: int, customer: str, amount: float, ts: int) -> None:
        self.inputs.put("orders", {"id": id, "customer": customer, "amount": amount, "ts": ts})

    def customer(self, name: str, city: str, ts: int) -> None:
        self.inputs.put("customers", {"name": name, "city": city, "ts": ts})

    def why(self, key: int) -> Why:
        return self.topology.why(self.spark, checkpoint=self.checkpoint, table="open-orders", key=key)

    @property
    def journal(self) -> Path:
        return Path(self.checkpoint, "journal")


def roles(found: Why) -> list[tuple[str, int, str]]:
    return [(cause.record.input, cause.record.batch, cause.role) for cause in found.causes]


def check_http(query: Any, found: Why) -> None:
    query.serve("127.0.0.1:0", tables=["open-orders"])
    until(lambda: query._served.batch == found.batch)
    with urllib.request.urlopen(f"{query._served.url}/why/open-orders/42", timeout=600) as answer:
        said = json.loads(answer.read())
    assert said == found.as_dict()
    with urllib.request.urlopen(f"{query._served.url}/tables/open-orders/42", timeout=600) as answer:
        (row,) = json.loads(answer.read())["rows"]
    assert said["key"] == row.pop("key")
    assert said["rows"] == [row]
    with urllib.request.urlopen(f"{query._served.url}/why/open-orders/42?picture=true", timeout=600) as answer:
        assert json.loads(answer.read())["picture"].startswith("<svg")
    with pytest.raises(urllib.error.HTTPError, match="400"):
        urllib.request.urlopen(f"{query._served.url}/why/open-orders/x", timeout=60)
    check_trace(query, found.causes[-1].record.place)


def check_trace(query: Any, place: str) -> None:
    """The way of a record is the same over HTTP and in the program."""
    url = f"{query._served.url}/trace/{quote(place)}?test=shop:topology"
    with urllib.request.urlopen(url, timeout=600) as answer:
        said = json.loads(answer.read())
    trace = query.trace(place)
    assert said.pop("test") == trace.to_test("shop:topology")
    assert said == json.loads(json.dumps(trace.as_dict(), default=str))
    assert said["record"]["place"] == place
    assert any(store["rows"] for step in said["steps"] for store in step["stores"])
    with pytest.raises(urllib.error.HTTPError, match="400"):
        urllib.request.urlopen(f"{query._served.url}/trace/orders-0@999", timeout=60)
    with pytest.raises(wm.ConfigError, match="topology='shop' names no topology"):
        trace.to_test("shop")


def test_a_query_says_which_records_made_a_row_in_every_way_it_is_asked(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(spark, tmp_path)
    query = shop.start(explain=True)
    try:
        for given in ((42, "ann", 3.0, 1), (43, "bob", 4.0, 2)):
            shop.order(*given)
            query.processAllAvailable()
        shop.customer("ann", "Bern", 3)
        query.processAllAvailable()
        shop.order(42, "ann", 5.0, 4)
        query.processAllAvailable()
        found = query.why("open-orders", 42)
        assert roles(found) == [("customers", 2, "made"), ("orders", 3, "made")]
        assert found.rows[0]["value"].asDict() == {"amount": 5.0, "city": "Bern"}
        assert (found.notes, found.batch) == ((), 3)
        tree = str(found)
        assert "orders, batch 3, row 0" in tree
        assert "bob" not in tree
        assert "flowchart" in found.to_mermaid()
        assert found.to_svg().startswith("<svg")
        absent = query.why("open-orders", 7)
        assert (absent.rows, absent.causes) == ((), ())
        assert absent.to_svg().startswith("<svg")

        check_http(query, found)
        with pytest.raises(wm.ConfigError, match="Unknown store 'nothing'"):
            query.why("nothing", 1)
        with pytest.raises(wm.ConfigError, match="not of the type"):
            query.why("open-orders", "x")
    finally:
        query.stop()
    monkeypatch.setattr("watersmeet.cli.commands.check_named", lambda named: None)
    monkeypatch.setattr("watersmeet.cli.commands.made_topology", lambda named, spark: shop.topology)
    told = CliRunner().invoke(
        main, ["why", shop.checkpoint, "shop:topology", "--table", "open-orders", "--key", "42", "--json"]
    )
    assert told.exit_code == 0, told.output
    assert json.loads(told.stdout)["causes"] == found.as_dict()["causes"]


def test_an_answer_is_of_one_batch_while_the_query_goes_on(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(spark, tmp_path)
    shop.customer("ann", "Bern", 1)
    shop.order(42, "ann", 0.0, 2)
    query = shop.start(explain=True)
    amounts = [0.0]

    def batch() -> None:
        amounts.append(float(len(amounts)))
        shop.order(42, "ann", amounts[-1], 2 + len(amounts))
        query.processAllAvailable()

    def and_a_batch(call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*given: Any, **options: Any) -> Any:
            found = call(*given, **options)
            batch()
            return found

        return called

    try:
        query.processAllAvailable()
        monkeypatch.setattr(provenance, "read_state", and_a_batch(provenance.read_state))
        monkeypatch.setattr(provenance.Journal, "of", and_a_batch(provenance.Journal.of))
        found = shop.why(42)
    finally:
        query.stop()
    assert amounts == [0.0, 1.0, 2.0]
    assert found.rows[0]["value"]["amount"] == found.batch
    assert found.notes == ()
    assert found.causes[-1].record.value["amount"] == found.batch


def test_a_batch_that_was_broken_off_is_no_part_of_the_journal_until_it_is_run_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    shop = Shop(spark, tmp_path)
    query = shop.start(explain="1 day")
    shop.order(42, "ann", 3.0, 1)
    shop.customer("ann", "Bern", 2)
    query.processAllAvailable()
    before = roles(shop.why(42))
    shop.fails = True
    shop.order(42, "ann", 5.0, 3)
    with pytest.raises(Exception, match="told to fail"):
        query.processAllAvailable()
    query.stop()
    broken_off = max(map(int, (each.name for each in shop.journal.iterdir())))
    assert list((shop.journal / str(broken_off)).glob("*.arrow")), "its tasks had written"
    (shop.journal / str(broken_off) / "records-0-9.7.new").write_bytes(b"half")
    assert roles(shop.why(42)) == before
    shop.fails = False
    query = shop.start(explain="1 day")
    query.processAllAvailable()
    query.stop()
    again = roles(shop.why(42))
    assert [each for each in again if each[1] == broken_off] == [("orders", broken_off, "made")]
    assert not list((shop.journal / str(broken_off)).glob("*.new"))


def test_a_journal_that_began_later_says_so_and_old_batches_leave_it(spark: SparkSession, tmp_path: Path) -> None:
    shop = Shop(spark, tmp_path)
    query = shop.start()
    shop.order(42, "ann", 3.0, 1)
    shop.customer("ann", "Bern", 2)
    query.processAllAvailable()
    with pytest.raises(wm.ConfigError, match="keeps no journal"):
        query.why("open-orders", 42)
    query.stop()
    with pytest.raises(wm.ConfigError, match="has no journal"):
        shop.why(42)

    query = shop.start(explain=True)
    shop.order(7, "ann", 1.0, 3)
    query.processAllAvailable()
    query.stop()
    (note,) = shop.why(42).notes
    assert "stood so before the journal began" in note
    (note,) = shop.why(7).notes
    assert "or earlier records have a part in it: those of the journal alone make nothing" in note

    query = shop.start(explain="1 ms")
    for number in range(3):
        shop.order(8 + number, "ann", 1.0, 4 + number)
        query.processAllAvailable()
    query.stop()
    assert len(list(shop.journal.iterdir())) <= 2


@pytest.mark.parametrize("given", [0, "soon", "0 ms", 3.5])
def test_an_explain_that_is_no_duration_is_refused(spark: SparkSession, tmp_path: Path, given: Any) -> None:
    with pytest.raises(wm.WatersmeetError, match="explain"):
        Shop(spark, tmp_path).start(explain=given)
