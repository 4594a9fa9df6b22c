"""Rows that an output's format refuses end there under `on_error`: wherever the driver runs, and in each format."""

from __future__ import annotations

import json
from collections import Counter
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.wrappers_pb2 import Int64Value
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from watersmeet._engine.exchange import Outlet, ShardCounts
from watersmeet._worker.ended_rows import DeadLetterWriter
from watersmeet._worker.formats.serdes import UuidSerde
from watersmeet._worker.wire import Encoding, encode_and_route
from watersmeet.errors import EncodingError, TopologyError
from watersmeet.testing.driver import TopologyTestDriver

BAD = wm.DeadLetter("bad")
UUID = "123e4567-e89b-12d3-a456-4266141740%02d"
ORDER = "id string, amount long"
AVRO = json.dumps({"type": "record", "name": "Amount", "fields": [{"name": "amount", "type": "long"}]})
JSON_SCHEMA = json.dumps({"type": "object", "required": ["amount"], "properties": {"amount": {"type": "integer"}}})


def topology(policy: Any, *, joined: bool = False) -> wm.Topology:
    """Orders to outputs of several formats, each of which refuses some, and to one that takes them all."""
    builder = wm.StreamsBuilder("unencodable", on_error=policy)
    orders = builder.stream("orders", key="string", value=wm.json(ORDER), headers=True, on_error="fail")
    if joined:
        names = builder.table("names", key="string", value="string")
        orders = orders.left_join(names, lambda order, _: order)
    # a null is no amount
    amounts = orders.map_values(lambda order: F.struct(order["amount"].alias("amount")))
    orders.map_values(lambda order: order["id"]).to("ids", value="uuid", name="ids")
    amounts.to("avro", value=wm.avro(AVRO), name="avro")
    amounts.to("json_schema", value=wm.json_schema(JSON_SCHEMA), name="json_schema")
    messages = orders.map_values(lambda order: F.struct(order["amount"].alias("value")))
    messages.to("protobuf", value=wm.protobuf(Int64Value), name="protobuf")
    size = F.lit(10).cast("long")
    windows = orders.map(
        lambda key, order: (F.struct(key.alias("key"), order["amount"].alias("start"), size.alias("end")), order["id"])
    )
    windows.to("windowed", key=wm.time_windowed("string", "10 ms"), name="windowed")
    orders.map(lambda key, order: (order["id"], order["id"])).to("both", key="uuid", value="uuid", name="both")
    orders.to("all", name="all")
    return builder.build()


def piped(driver: TopologyTestDriver, numbers: range = range(8)) -> TopologyTestDriver:
    """Every fourth has no id and every fourth, another one, no amount; of all windows only those at 0 are some."""
    for number in numbers:
        identity = UUID % number if number % 4 else "none"
        amount = None if number % 4 == 2 else 0 if number == 1 else number
        driver.pipe("orders", f"k{number}", (identity, amount), ts=number, headers=[("n", b"%d" % number)])
    return driver


@pytest.mark.parametrize("joined", [False, True], ids=["before a level", "behind one"])
@pytest.mark.parametrize("policy", ["skip", BAD], ids=["skip", "letters"])
def test_an_output_goes_without_what_its_format_refuses_and_all_others_have_it(
    spark: SparkSession, policy: Any, joined: bool
) -> None:
    driver = piped(TopologyTestDriver(topology(policy, joined=joined)))
    assert driver.runs_in == "process", driver.why_spark
    refused = {"ids": {0, 4}, "avro": {2, 6}, "json_schema": {2, 6}, "protobuf": {2, 6}, "both": {0, 4}}
    refused["windowed"] = {*range(2, 8)}
    for output, gone in refused.items():
        assert [record.ts for record in driver.read(output)] == sorted({*range(8)} - gone), output
    assert len(driver.read("all")) == 8
    reason = "unencodable" if policy == "skip" else "dead_letter"
    assert driver.drops == {(output, reason): len(gone) for output, gone in refused.items()}
    if policy == BAD:
        letters = driver.read("bad")
        told = [dict(letter.headers or ()) for letter in letters]
        found = Counter((each["__streams.errors.operator"] or b"").decode() for each in told)
        assert found == {output: len(gone) for output, gone in refused.items()}
        assert {each["__streams.errors.reason"] for each in told} == {b"unencodable"}
        assert {each["__streams.errors.exception"] for each in told} == {b"watersmeet.errors.EncodingError"}
        # all of a key stand in the order of its records
        assert [letter.ts for letter in letters] == sorted(letter.ts for letter in letters)
        last = {each["__streams.errors.operator"]: (letter, each) for letter, each in zip(letters, told, strict=True)}
        letter, each = last[b"avro"]
        assert (letter.key, letter.value, letter.ts, each["n"]) == (b"k6", b'{"amount":null}', 6, b"6")
        assert each["__streams.errors.message"] == (
            b"A value does not fit the schema of its sink. "
            b"Given: the values of the topic 'avro': value.amount is null, and may not be"
        )
        letter, each = last[b"windowed"]
        assert (letter.key, letter.value) == (b'{"key":"k7","start":7,"end":10}', (UUID % 7).encode())
        assert b"another size" in (each["__streams.errors.message"] or b"")
        letter, each = last[b"both"]
        assert (letter.key, letter.value) == (b"none", b"none")


def test_on_spark_the_driver_shows_the_same(spark: SparkSession) -> None:
    builder = wm.StreamsBuilder("on spark", on_error=BAD)
    ids = builder.stream("ids", key="string", value="string", on_error="fail")
    ids.to("out", value="uuid", name="out")
    ids.group_by_key().reduce(lambda _, value: value).to_stream().to("last", value="uuid", name="last")
    driver = TopologyTestDriver(builder.build(), spark)
    for number in range(6):
        driver.pipe("ids", "a", UUID % number if number % 2 else "none", ts=number)
    assert [record.ts for record in driver.read("out")] == [1, 3, 5]
    assert [record.ts for record in driver.read("last")] == [1, 3, 5]
    assert [(letter.key, letter.value, letter.ts) for letter in driver.read("bad")] == [
        (b"a", b"none", ts) for ts in (0, 2, 4) for _ in range(2)
    ]
    assert driver.drops == {("out", "dead_letter"): 3, ("last", "dead_letter"): 3}


def test_results_do_not_depend_on_where_the_records_are_cut(spark: SparkSession) -> None:
    chance, count = Random(3), 200
    records = [(f"k{chance.randrange(5)}", "none" if chance.random() < 0.3 else UUID % (n % 100)) for n in range(count)]
    found = []
    for cut in (count, 7, 1):
        builder = wm.StreamsBuilder("cuts", on_error=BAD)
        ids = builder.stream("ids", key="string", value="string")
        ids.to("out", value="uuid", name="out")
        ids.group_by_key().count(name="counts").to_stream().to("counts")
        driver = TopologyTestDriver(builder.build(), shards=3)
        results: dict[str, list[Any]] = {"out": [], "bad": [], "counts": []}
        for number, (key, value) in enumerate(records):
            driver.pipe("ids", key, value, ts=number)
            if number % cut == cut - 1:
                for output, read in results.items():
                    read += driver.read(output)
        for output, read in results.items():
            read += driver.read(output)
        # nothing is lost: a record is a result of the output or a dead letter, and counts in either case
        assert len(results["out"]) + len(results["bad"]) == len(results["counts"]) == count
        assert driver.drops == {("out", "dead_letter"): len(results["bad"])}
        found.append({name: [(r.key, r.value, r.ts, r.headers) for r in read] for name, read in results.items()})
    assert found[0] == found[1] == found[2]
    assert len(found[0]["bad"]) > 30


def test_what_is_refused_fails_the_query_where_nothing_else_is_said() -> None:
    rows = pa.table(
        {name: [0] for name in ("order_ts", "srcpart", "offset", "p0", "ts")} | {"key": ["a"], "value": [""]}
    )
    outlet = Outlet("out", 3, 0, "key", "value")
    with pytest.raises(EncodingError, match="A sink of UUIDs gets a text that is not a UUID"):
        list(
            encode_and_route(
                rows,
                (outlet,),
                ShardCounts(1),
                1,
                DeadLetterWriter(),
                {3: Encoding({"value": UuidSerde()}, False, True, "out")},
            )
        )


def test_a_format_that_does_not_write_the_type_is_still_an_error_of_the_topology() -> None:
    builder = wm.StreamsBuilder("misfit", on_error="skip")
    numbers = builder.stream("numbers", key="long", value="long")
    with pytest.raises(TopologyError, match="'uuid' cannot write the values of the output 'ids'"):
        numbers.to("ids", value="uuid")


def test_nothing_is_written_twice_where_nothing_is_refused() -> None:
    asked = []

    class Counting(UuidSerde):
        def write(self, values: pa.Array) -> pa.Array:
            asked.append(len(values))
            return super().write(values)

    columns = {name: [*range(100)] for name in ("order_ts", "srcpart", "offset", "p0", "ts")}
    values = [UUID % number for number in range(100)]
    rows = pa.table(columns | {"key": values, "value": values, "mine": [n % 2 == 0 for n in range(100)]})
    outlet = Outlet("out", 3, 0, "key", "value", active="mine")
    encodings = {3: Encoding({"key": Counting(), "value": Counting()}, True, True, "out")}
    (batch,) = encode_and_route(rows, (outlet,), ShardCounts(1), 1, DeadLetterWriter(), encodings)
    assert asked == [50, 50]
    assert batch.rows["value"].to_pylist() == [value.encode() for value in values[::2]]
    assert batch.rows["encoded_key"].to_pylist() == batch.rows["value"].to_pylist()
    assert batch.rows["key"].to_pylist() == values[::2]


@pytest.mark.spark
def test_a_driver_raises_what_ends_the_query_and_the_record_can_be_taken_back(spark: SparkSession) -> None:
    builder = wm.StreamsBuilder("failing")
    builder.stream("names", key="long", value="string").to("ids", value="uuid")
    driver = TopologyTestDriver(builder.build())
    driver.pipe("names", key=1, value="ann", ts=0)
    with pytest.raises(EncodingError, match="a text that is not a UUID"):
        driver.read("ids")
    assert driver.read("ids") == []
    driver.pipe("names", key=1, value=UUID % 7, ts=1)
    assert [record.value for record in driver.read("ids")] == [UUID % 7]


NOWHERE = wm.SchemaRegistry("http://127.0.0.1:9")


@pytest.mark.spark
def test_a_driver_writes_what_a_registry_would_number_and_asks_no_registry(spark: SparkSession) -> None:
    builder = wm.StreamsBuilder("registered")
    names = builder.stream("names", key="long", value="string")
    names.to("texts", value=wm.avro(registry=NOWHERE))
    names.to("made", value=wm.json_schema(registry=NOWHERE))
    names.to("given", value=wm.avro('{"type": "enum", "name": "Name", "symbols": ["ann"]}', registry=NOWHERE))
    driver = TopologyTestDriver(builder.build())
    driver.pipe("names", key=1, value="ann", ts=0)
    for output in ("texts", "made", "given"):
        assert [record.value for record in driver.read(output)] == ["ann"]
    driver.pipe("names", key=1, value="bob", ts=1)
    with pytest.raises(EncodingError, match="'bob' is not a symbol of Name"):
        driver.read("given")


def paid_by() -> Any:
    """The class of a message with a oneof."""
    file = descriptor_pb2.FileDescriptorProto(name="paid.proto", package="shop", syntax="proto3")
    made = file.message_type.add(name="Paid")
    made.oneof_decl.add(name="means")
    for number, name in enumerate(("card", "cash"), 1):
        made.field.add(name=name, number=number, type=9, label=1, oneof_index=0)
    pool = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("shop.Paid"))


@pytest.mark.spark
def test_a_driver_refuses_two_fields_of_a_oneof_as_a_query_does(spark: SparkSession) -> None:
    for registry in (None, NOWHERE):
        builder = wm.StreamsBuilder("oneof")
        paid = builder.stream("paid", key="long", value=wm.json("card string, cash string"))
        paid.to("messages", value=wm.protobuf(paid_by(), registry=registry))
        driver = TopologyTestDriver(builder.build())
        driver.pipe("paid", key=1, value={"card": "c", "cash": None}, ts=0)
        assert driver.read("messages")[0].value.card == "c"
        driver.pipe("paid", key=1, value={"card": "c", "cash": ""}, ts=1)
        with pytest.raises(EncodingError, match="the oneof means has card and cash"):
            driver.read("messages")


@pytest.mark.spark
def test_a_driver_names_a_field_that_no_made_schema_can_have(spark: SparkSession) -> None:
    builder = wm.StreamsBuilder("names")
    names = builder.stream("names", key="long", value=wm.json("`first name` string"))
    names.to("made", value=wm.avro(registry=NOWHERE))
    topology = builder.build()
    with pytest.raises(TopologyError, match="first name"):
        TopologyTestDriver(topology)
