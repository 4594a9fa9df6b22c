"""Debezium's events in Avro: the same rows, deletions and refusals, by a schema of a registry or one that is given."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyspark.sql.types import LongType

import watersmeet as wm
from dev.registry import SchemaRegistryServer
from watersmeet._plan.nodes import Shape, SinkNode, SourceNode
from watersmeet._spark import formats
from watersmeet._worker.formats import schemas
from watersmeet._worker.formats.arrow_types import arrow_type
from watersmeet._worker.formats.formats import describe_format, serde_of, type_of
from watersmeet._worker.formats.registry import RegistryClient
from watersmeet.errors import TopologyError
from watersmeet.io.formats import Format

AT = 1_559_033_904_863
ROW = {
    "type": "record",
    "name": "Value",
    "namespace": "server.public.customers",
    "fields": [{"name": "id", "type": "int"}, {"name": "email", "type": ["null", "string"], "default": None}],
}
SOURCE = {
    "type": "record",
    "name": "SourceNode",
    "namespace": "io.debezium.connector.postgresql",
    "fields": [{"name": "connector", "type": "string"}, {"name": "ts_ms", "type": "long"}],
}
ENVELOPE = {
    "type": "record",
    "name": "Envelope",
    "namespace": "server.public.customers",
    "fields": [
        {"name": "before", "type": ["null", ROW], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "source", "type": SOURCE},
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"], "default": None},
    ],
}
KEY = {
    "type": "record",
    "name": "Key",
    "namespace": "server.public.customers",
    "fields": [{"name": "id", "type": "int"}],
}


def written(schema: Any, value: Any, number: int | None = None) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return (b"" if number is None else b"\0" + number.to_bytes(4, "big")) + out.getvalue()


def event(op: str, email: str | None, number: int | None = None, *, told: bool = True) -> bytes:
    after = {"id": 7, "email": email} if told else None
    source = {"connector": "postgresql", "ts_ms": AT}
    return written(ENVELOPE, {"before": None, "after": after, "source": source, "op": op, "ts_ms": AT + 5}, number)


@pytest.fixture
def server() -> Iterator[SchemaRegistryServer]:
    with SchemaRegistryServer().running() as running:
        # another test's server may have had the same port
        schemas.forget()
        yield running


def check(form: Format, number: int | None) -> None:
    events = [event("c", "a", number), event("u", None, number), event("d", None, number, told=False)]
    wrong = [event("t", None, number, told=False), event("u", None, number, told=False), event("c", "x", number)[:-3]]
    found = serde_of(form).read(pa.array([*events, None, *wrong], pa.binary()))
    found.values.validate(full=True)
    assert found.values.type == arrow_type(type_of(form))
    assert found.values.to_pylist() == [{"id": 7, "email": "a"}, {"id": 7, "email": None}, *[None] * 5]
    assert found.bad.tolist() == [False] * 4 + [True] * 3
    assert found.ts is not None
    assert found.ts.to_pylist() == [AT] * 3 + [None] * 4
    assert found.ignored is not None
    assert found.ignored.tolist() == [False] * 3 + [True] + [False] * 3
    assert "op t: the table was truncated" in serde_of(form).fault(wrong[0])
    assert all(serde_of(form).fault(raw) for raw in wrong)


def test_events_of_a_schema_that_is_given_are_rows_and_keys_their_column() -> None:
    form = wm.debezium(wm.avro(ENVELOPE))
    check(form, None)
    assert describe_format(form).startswith("debezium(avro(struct<before:struct<id:int,email:string>")
    key = serde_of(wm.debezium_key(wm.avro(KEY))).read(pa.array([written(KEY, {"id": 7}), b"", None], pa.binary()))
    assert (key.values.to_pylist(), key.bad.tolist()) == ([7, None, None], [False, True, False])


def test_events_of_a_registrys_schema_are_read_by_it_and_a_start_settles_it(server: SchemaRegistryServer) -> None:
    registry = wm.SchemaRegistry(server.url, max_retries=0)
    client = RegistryClient(registry.settings)
    number = client.id_of("customers-value", json.dumps(ENVELOPE), "AVRO", register=True)
    topic = wm.Topic("customers", key="long", value=wm.debezium(wm.avro(registry=registry)))
    form = Format.of(topic.value)
    check(form, number)
    node = SourceNode("customers", (), Shape("table", LongType(), type_of(form)), input="customers", origin=topic)
    known = formats.fix_schemas([node], [], {})
    assert known["reads"]["customers/value"]["subject"] == "customers-value"
    (made,) = formats.sources_with_schemas([node], known, formats.Registries(b"", (registry,)))
    inner = made.origin.value.inner
    assert made.origin.value.kind == "debezium"
    assert (inner.schema, inner.version) == (known["reads"]["customers/value"]["schema"], None)


def test_a_schema_within_a_windowed_key_is_registered_with_the_type_of_the_key(server: SchemaRegistryServer) -> None:
    registry = wm.SchemaRegistry(server.url, max_retries=0)
    target = wm.TopicSink("counts", wm.time_windowed(wm.avro(registry=registry)), "long")
    key = type_of(wm.time_windowed("string"))
    node = SinkNode("to", ("above",), Shape("stream", key, LongType()), output="o", target=target)
    known = formats.fix_schemas([], [node], {})
    (made,) = formats.sinks_with_schemas([node], known)
    values = pa.array([{"key": "a", "start": 5, "end": 15}, None], arrow_type(key))
    raw = serde_of(made.target.key, key).write(values).to_pylist()
    number = known["writes"]["to/key"]["id"]
    assert raw[0] is not None
    assert raw[0].startswith(b"\0" + number.to_bytes(4, "big"))
    assert raw[0].endswith(b"\x02a" + (5).to_bytes(8, "big"))
    assert raw[1] is None


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: type_of(wm.debezium(wm.avro(ROW))),
        lambda: type_of(wm.debezium(wm.avro("long"))),
        lambda: wm.debezium(wm.avro(ENVELOPE), documents=True),
    ],
)
def test_a_schema_of_something_else_is_refused_with_a_hint(wrong: Any) -> None:
    with pytest.raises(TopologyError, match="Hint: "):
        wrong()
