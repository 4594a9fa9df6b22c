"""Debezium's events as rows: the layouts of PostgreSQL, MySQL and MongoDB, and everything that is no such event.

The layouts are those that Debezium's documentation shows for its connectors: members of `source`, of keys and values,
and how each database's rows and documents stand in them.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from watersmeet._worker.formats.arrow_types import arrow_type
from watersmeet._worker.formats.debezium import UNAVAILABLE
from watersmeet._worker.formats.formats import describe_format, serde_of, type_of
from watersmeet._worker.formats.serdes import Decoded
from watersmeet.errors import FunctionError, SourceError, TopologyError
from watersmeet.io.formats import Format
from watersmeet.testing.driver import TopologyTestDriver

pytestmark = pytest.mark.usefixtures("spark")
COLUMNS = "id long, first_name string, email string"
ROW: dict[str, Any] = {"id": 1004, "first_name": "Anne", "last_name": "Kretchmar", "email": "annek@noanswer.org"}
READ = {"id": 1004, "first_name": "Anne", "email": "annek@noanswer.org"}
SOURCES: dict[str, dict[str, Any]] = {
    "postgresql": {
        "version": "3.1.0.Final",
        "connector": "postgresql",
        "name": "PostgreSQL_server",
        "ts_ms": 1559033904863,
        "ts_us": 1559033904863123,
        "ts_ns": 1559033904863123000,
        "snapshot": True,
        "db": "postgres",
        "sequence": '["24023119","24023128"]',
        "schema": "public",
        "table": "customers",
        "txId": 555,
        "lsn": 24023128,
        "xmin": None,
    },
    "mysql": {
        "version": "3.1.0.Final",
        "connector": "mysql",
        "name": "mysql-server-1",
        "ts_ms": 1465581029523,
        "snapshot": "false",
        "db": "inventory",
        "table": "customers",
        "server_id": 223344,
        "gtid": None,
        "file": "mysql-bin.000003",
        "pos": 484,
        "row": 0,
        "thread": 7,
        "query": None,
    },
    "mongodb": {
        "version": "3.1.0.Final",
        "connector": "mongodb",
        "name": "fulfillment",
        "ts_ms": 1558965508000,
        "snapshot": False,
        "db": "inventory",
        "rs": "rs0",
        "collection": "customers",
        "ord": 1,
        "h": None,
        "txnNumber": 1,
    },
}


def event(op: str | None, after: Any, connector: str = "postgresql", *, schema: bool = False, **more: Any) -> bytes:
    """A change event as Kafka Connect's JsonConverter writes it."""
    told = {"before": None, "after": after, "source": SOURCES[connector], "transaction": None, "op": op, **more}
    told |= {"ts_ms": 1559033904870, "ts_us": 1559033904870123}
    fields = [
        {"type": "struct", "optional": True, "name": "server.Value", "field": name}
        for name in ("before", "after", "source")
    ]
    fields.append({"type": "string", "optional": False, "field": "op"})
    described = {"type": "struct", "fields": fields, "optional": False, "name": "server.Envelope"}
    return json.dumps({"schema": described, "payload": told} if schema else told).encode()


def read(form: Format, raws: list[bytes | None]) -> Decoded:
    found = serde_of(form).read(pa.array(raws, pa.binary()))
    found.values.validate(full=True)
    assert found.values.type == arrow_type(type_of(form))
    return found


@pytest.mark.parametrize("schema", [False, True], ids=["bare", "with its schema"])
@pytest.mark.parametrize("connector", ["postgresql", "mysql"])
def test_created_read_and_updated_rows_are_rows_and_deleted_ones_null(connector: str, schema: bool) -> None:
    events = [event(op, ROW, connector, schema=schema) for op in "cru"]
    deleted = event("d", None, connector, schema=schema, before=ROW)
    found = read(wm.debezium(COLUMNS), [*events, deleted, None])
    assert found.values.to_pylist() == [READ, READ, READ, None, None]
    assert not found.bad.any()
    assert found.ts is not None
    assert found.ts.to_pylist() == [SOURCES[connector]["ts_ms"]] * 4 + [None]
    # Debezium's own tombstone says nothing that the deletion has not said
    assert found.ignored is not None
    assert found.ignored.tolist() == [False] * 4 + [True]


def test_mongodbs_documents_are_texts_and_its_updates_have_one_only_if_the_connector_is_told() -> None:
    document = '{"_id": {"$numberLong": "1004"},"first_name": "Anne Marie","email": "annek@noanswer.org"}'
    form = wm.debezium("_id struct<`$numberLong`: string>, first_name string", documents=True)
    deleted = event("d", None, "mongodb", before=document)
    changed = {"removedFields": None, "updatedFields": '{"first_name": "Anne Marie"}', "truncatedArrays": None}
    partly = event("u", None, "mongodb", updateDescription=changed)
    broken = [event("c", text, "mongodb") for text in ("{", '{"first_name": 7}', "null")] + [event("c", {}, "mongodb")]
    for schema in (False, True):
        whole = event("u", document, "mongodb", schema=schema, updateDescription=changed)
        found = read(form, [whole, deleted, partly, *broken])
        assert found.values.to_pylist()[:2] == [{"_id": {"$numberLong": "1004"}, "first_name": "Anne Marie"}, None]
        assert found.bad.tolist() == [False, False, True, True, True, True, True]
    serde = serde_of(form)
    assert "capture.mode=change_streams_update_full" in serde.fault(partly)
    assert serde.fault(broken[0]).startswith("after: not JSON of the type struct<_id")
    assert all(serde.fault(raw) for raw in broken)
    key = b'{"schema": {"type": "struct"}, "payload": {"id": "1004"}}'
    assert read(wm.debezium_key("id string"), [key, b'{"id": "{\\"$oid\\": \\"596e\\"}"}']).values.to_pylist() == [
        "1004",
        '{"$oid": "596e"}',
    ]


def test_keys_of_one_column_are_its_value_and_those_of_several_structs() -> None:
    both = [b'{"id": 1004}', b'{"schema": {"type": "struct", "name": "server.Key"}, "payload": {"id": 1004}}', None]
    assert read(wm.debezium_key("id long"), [*both]).values.to_pylist() == [1004, 1004, None]
    several = [b'{"schema": null, "payload": {"order": 1, "line": 2}}', b'{"order": 3, "line": null}', None]
    assert read(wm.debezium_key("order long, line int"), [*several]).values.to_pylist() == [
        {"order": 1, "line": 2},
        {"order": 3, "line": None},
        None,
    ]
    # another column, another case, none, another type, no object
    wrong = [b'{"number": 1}', b'{"ID": 1}', b"{}", b'{"payload": {}}', b'{"payload": null}', b'{"id": "1"}', b"1", b""]
    for columns in ("id long", "id long, line int"):
        found = read(wm.debezium_key(columns), [*wrong])
        assert found.bad.all()
        assert found.values.null_count == len(wrong)
        assert all(serde_of(wm.debezium_key(columns)).fault(raw) for raw in wrong)
    assert serde_of(wm.debezium_key("id long")).fault(wrong[0]) == "there is none of the columns id"


WRONG = {
    "op t: the table was truncated": event("t", None),
    "op m: a message": event("m", None, message={"prefix": "foo", "content": "Ymfy"}),
    "there is no op": json.dumps(ROW).encode(),
    "there is no op: ": event(None, ROW),
    "op 'x': there is no such operation": event("x", ROW),
    "op c: there is no row after it": event("c", None),
    "op u: there is no row after it": event("u", None, schema=True),
    "op d: there is a row after it": event("d", ROW),
    "there is no source.ts_ms": event("c", ROW).replace(b'"ts_ms": 1559033904863', b'"ts_sec": 1559033904'),
    "a bigint is wanted": event("c", ROW | {"id": "1004"}),
    "there is no field 'email', but one 'Email'": event("c", {"id": 1, "Email": "x"}),
    "did not send the column 'email'": event("u", ROW | {"email": UNAVAILABLE}),
    "not JSON": b"{",
    "not valid UTF-8": b"\xff",
    "there is no op: it is": b"null",
    "is wanted where there is": b"[]",
}


@pytest.mark.parametrize("why", WRONG)
def test_what_is_no_change_of_a_row_has_a_reason_and_is_neither_a_row_nor_a_deletion(why: str) -> None:
    form, fine = wm.debezium(COLUMNS), event("c", ROW)
    found = read(form, [fine, WRONG[why], fine])
    assert found.bad.tolist() == [False, True, False]
    assert found.values.to_pylist() == [READ, None, READ]
    assert found.ignored is not None
    assert not found.ignored.any()
    assert why in serde_of(form).fault(WRONG[why])


def test_events_cut_off_or_with_a_byte_changed_are_the_same_row_or_refused() -> None:
    form, whole = wm.debezium(COLUMNS), event("c", ROW)
    assert read(form, [whole[:end] for end in range(len(whole))]).bad.all()
    changed = [whole[:at] + b"\x07" + whole[at + 1 :] for at in range(len(whole))]
    found = read(form, [*changed])
    assert [value for value in found.values.to_pylist() if value is not None] == [READ] * int((~found.bad).sum())


def test_columns_of_lists_and_bytes_that_were_not_told_are_refused_and_empty_ones_are_not() -> None:
    import base64

    form = wm.debezium("id long, tags array<string>, picture binary")
    fine = [{"id": 1, "tags": ["a"], "picture": "aGk="}, {"id": 2, "tags": [], "picture": None}, {"id": 3}]
    untold = [{"id": 4, "tags": [UNAVAILABLE]}, {"id": 5, "picture": base64.b64encode(UNAVAILABLE.encode()).decode()}]
    found = read(form, [event("u", row) for row in [*fine, *untold]])
    assert found.bad.tolist() == [False, False, False, True, True]


def test_the_time_of_the_record_needs_no_source_and_tombstones_may_delete() -> None:
    form = wm.debezium(COLUMNS, time="record", tombstones=True)
    found = read(form, [WRONG["there is no source.ts_ms"], None])
    assert found.ts is None
    assert found.ignored is None
    assert not found.bad.any()
    assert describe_format(form) == (
        "debezium(json(struct<id:bigint,first_name:string,email:string>), tombstones, record time)"
    )


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: wm.debezium(None),
        lambda: wm.debezium(wm.json()),
        lambda: wm.debezium("id long", time="now"),
        lambda: wm.debezium_key(Format("long")),
        lambda: wm.TopicSink("t", value=wm.debezium("id long")),
        lambda: wm.StreamsBuilder("d").table("t", key=wm.debezium_key("long"), value="long"),
        lambda: wm.StreamsBuilder("d").table("t", key=wm.debezium_key("payload long"), value="long"),
        lambda: wm.StreamsBuilder("d").table("t", key="long", value=wm.debezium("lung")),
    ],
)
def test_a_format_that_cannot_be_is_refused_where_it_is_written_with_a_hint(wrong: Any) -> None:
    with pytest.raises(TopologyError, match="Hint: "):
        wrong()


def topology(on_undecodable: Any = "fail") -> wm.Topology:
    builder = wm.StreamsBuilder("debezium")
    form = wm.debezium(COLUMNS)
    table = builder.table("customers", key=wm.debezium_key("id long"), value=form, on_undecodable=on_undecodable)
    table.map_values(lambda row: row["email"]).to("emails")
    return builder.build()


def test_the_test_driver_takes_events_as_production_does_and_rows() -> None:
    driver = TopologyTestDriver(topology("skip"))
    key, at = b'{"id": 1004}', SOURCES["postgresql"]["ts_ms"]
    driver.pipe("customers", key=key, value=event("c", ROW), ts=5)
    driver.pipe("customers", key=key, value=event("t", None), ts=6)
    driver.pipe("customers", key=key, value=event("d", None), ts=7)
    driver.pipe("customers", key=key, value=None, ts=8)
    driver.pipe("customers", key=1005, value=READ | {"id": 1005}, ts=9)
    found = [(record.key, record.value, record.ts) for record in driver.read("emails")]
    assert found == [(1004, READ["email"], at), (1004, None, at), (1005, READ["email"], 9)]
    # five were piped: four pass, one of them the tombstone of an ordinary deletion, and one is a drop
    assert sum(driver.drops.values()) == driver.drops["customers", "undecodable"] == 1
    with pytest.raises(SourceError, match=r"value as debezium: op t: the table was truncated"):
        TopologyTestDriver(topology()).pipe("customers", key=key, value=event("t", None), ts=6)


# -- columns that keep their stored value ------------------------------------------------------------------

STORED = wm.debezium("id long, email string, n long", unavailable_columns="stored")
UNSENT = event("u", {"id": 1, "email": UNAVAILABLE, "n": 2})


def joined(on_undecodable: Any, **options: Any) -> wm.Topology:
    """Customers that their join alone stores, beside the countries that they refer to."""
    b = wm.StreamsBuilder("joined", on_drop="skip")
    customers = b.table(
        "customers", key=wm.debezium_key("id long"), value=STORED, on_undecodable=on_undecodable, **options
    )
    countries = b.table("countries", key="long", value="string")
    joined = customers.join(countries, lambda row, name: F.concat(row["email"], name), foreign_key=lambda row: row["n"])
    joined.to("addresses")
    return b.build()


@pytest.mark.parametrize("options", [{}, {"ttl": "1 hour"}, {"history": "1 day"}, {"store": "customers"}])
@pytest.mark.parametrize("shards", [1, 3])
def test_a_join_gets_the_stored_value_of_a_column_that_was_not_sent(options: dict[str, Any], shards: int) -> None:
    driver = TopologyTestDriver(joined("fail", **options), shards=shards)
    driver.pipe("countries", 2, "@2", ts=0)
    driver.pipe("customers", b'{"id": 1}', event("c", {"id": 1, "email": "ann", "n": 1}), ts=0)
    driver.pipe("customers", b'{"id": 1}', UNSENT, ts=0)
    driver.pipe("customers", 1, {"id": 1, "email": "a dict", "n": 2}, ts=SOURCES["postgresql"]["ts_ms"])
    driver.pipe("customers", b'{"id": 1}', UNSENT, ts=0)
    assert [record.value for record in driver.read("addresses")] == ["ann@2", "a dict@2", "a dict@2"]


def test_a_row_that_no_stored_one_completes_follows_on_undecodable() -> None:
    driver = TopologyTestDriver(joined("fail"))
    driver.pipe("customers", b'{"id": 1}', UNSENT, ts=0)
    with pytest.raises(FunctionError, match="key 1 cannot be decoded: the database did not send the column 'email'"):
        driver.read("addresses")
    for policy, reason in (("skip", "undecodable"), (wm.DeadLetter("bad"), "dead_letter")):
        driver = TopologyTestDriver(joined(policy))
        for value in (event("c", {"id": 1, "email": "ann", "n": 1}), event("d", None), UNSENT, UNSENT):
            driver.pipe("customers", b'{"id": 1}', value, ts=0)
        # of the deletion
        assert [record.value for record in driver.read("addresses")] == [None]
        assert {pair: count for pair, count in driver.drops.items() if count} == {("process-customers", reason): 2}
    (letter, _) = driver.read("bad")
    assert dict(letter.headers or ())["__streams.errors.reason"] == b"undecodable"


@pytest.mark.parametrize("kind", ["stream", "global_table"])
def test_stored_columns_are_refused_where_nothing_stores_rows(kind: str) -> None:
    with pytest.raises(TopologyError, match="needs a table's stored rows, and the input 'customers' is a"):
        getattr(wm.StreamsBuilder("none"), kind)("customers", key="long", value=STORED)
    with pytest.raises(TopologyError, match="Unknown unavailable_columns='keep'"):
        wm.debezium("id long", unavailable_columns="keep")  # type: ignore[arg-type]


def test_stored_columns_and_a_snapshot_are_refused(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(1, "ann", 1)], "id long, email string, n long")
    snapshot = wm.Snapshot(frame, key="id", starting_offsets={0: 0})
    with pytest.raises(TopologyError, match="and bootstrap= of the input 'customers' do not go together"):
        wm.StreamsBuilder("none").table("customers", key="long", value=STORED, bootstrap=snapshot)
