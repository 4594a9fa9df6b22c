"""What a record, a schema or a registry's answer may ask for: beyond it stands a reason, and nothing is fetched."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import duration_pb2, timestamp_pb2
from pyspark.sql.types import DecimalType, LongType, StructField, StructType

import watersmeet as wm
from tests.formats.fuzz.draws import MIN, zigzag
from tests.formats.fuzz.registered import DEEP, EMPTIES, LIST, READ, WITHIN, _list, doubled, framed
from watersmeet._worker.formats import formats, registry, schemas
from watersmeet._worker.formats.avro import WriterSchema, columns_of, schema_of, written_schema
from watersmeet._worker.formats.json import decode
from watersmeet._worker.formats.json_schema import JsonSchema, refused, validator
from watersmeet._worker.formats.limits import AVRO_LEVELS, JSON_LEVELS, SCHEMA_LEVELS, VALIDATED_LEVELS
from watersmeet._worker.formats.protobuf import columns_of as messages_of
from watersmeet._worker.formats.registry import BadSchema, Endless, Refused, RegistryClient
from watersmeet.errors import EncodingError, SourceError, TopologyError

# -- Avro ----------------------------------------------------------------------------------------------------


def test_values_of_a_writer_that_holds_itself_are_read_and_those_too_deep_have_a_reason() -> None:
    writer = WriterSchema(written_schema(json.dumps(LIST)), schema_of(json.dumps(READ)))
    assert [writer.value(_list(n)) for n in DEEP[:WITHIN]] == [{"a": 1}] * WITHIN
    assert writer.value(_list(AVRO_LEVELS)) == {"a": 1}
    for deep in (AVRO_LEVELS + 1, 1_500, 100_000):
        with pytest.raises(Refused, match=f"more than {AVRO_LEVELS} levels"):
            writer.value(_list(deep))
    with pytest.raises(Refused, match="1 bytes behind"):
        writer.value(_list(100) + b"x")


def test_elements_without_bytes_are_counted_before_they_are_made() -> None:
    writer = WriterSchema(written_schema(json.dumps(EMPTIES)), schema_of(json.dumps(READ)))
    assert writer.value(zigzag(1_000) + b"\0\2") == {"a": 1}
    for count in (10**6, 3 * 10**7, 1 << 61):
        with pytest.raises(Refused, match="values that take no bytes"):
            writer.value(zigzag(count) + b"\0\2")


def test_a_schema_whose_types_double_at_each_step_is_refused() -> None:
    with pytest.raises(BadSchema, match="more than 100000 fields"):
        written_schema(json.dumps(doubled(60)))
    with pytest.raises(BadSchema, match=f"more than {SCHEMA_LEVELS} levels"):
        written_schema("[" * 10_000)


@pytest.mark.parametrize("logical", ["timestamp-millis", "local-timestamp-millis"])
def test_the_first_and_the_last_millisecond_are_no_others(logical: str) -> None:
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "t", "type": {"type": "long", "logicalType": logical}}],
    }
    most = (1 << 63) // 1_000 - 1
    made, flaws = columns_of(
        schema, [{"t": n} for n in (MIN, MIN + 1, -most - 1, -most, most, most + 1, (1 << 63) - 1)]
    )
    assert sorted(flaws) == [0, 1, 2, 5, 6]
    assert [each is not None for each in made.field("t").cast(pa.timestamp("us")).view(pa.int64()).to_pylist()] == [
        *(False, False, False, True, True, False, False)
    ]


# -- JSON ----------------------------------------------------------------------------------------------------

A = StructType([StructField("a", LongType())])


def test_names_that_the_type_has_not_are_checked_as_json_and_left() -> None:
    texts = [f'{{"a":{n},"b{n}":{{"c":[{{"d":"x{n}"}}],"e":1.5}},"f":null,"a{n}":true}}' for n in range(4_097)]
    for other in ("NaN", "01", '"\\ud800"', "[1,]", "{", "tru"):
        values, flaws = decode(A, pa.array([*texts, f'{{"a":1,"g":{{"h":[{other}]}}}}', "{}"]))
        assert list(flaws) == [4_097]
        assert values.field("a").to_pylist() == [*range(4_097), None, None]


def test_a_text_of_too_many_levels_has_a_reason_also_where_nobody_looks() -> None:
    texts = ['{"a":1,"x":' + "[" * n + "]" * n + "}" for n in (1, JSON_LEVELS - 1, JSON_LEVELS, 5_000)]
    assert decode(A, pa.array(texts))[1] == dict.fromkeys((2, 3), f"it has more than {JSON_LEVELS} levels")


@pytest.mark.parametrize("digits", ["9" * 28 + "." + "9" * 10, "-" + "9" * 28 + "." + "9" * 10])
def test_the_largest_decimal_of_a_type_fits_it(digits: str) -> None:
    kind = StructType([StructField("a", DecimalType(38, 10))])
    values, flaws = decode(kind, pa.array([f'{{"a":{digits}}}', f'{{"a":"{digits}"}}', f'{{"a":{digits}9}}']))
    assert values.field("a").to_pylist() == [Decimal(digits), Decimal(digits), None]
    assert list(flaws) == [2]


# -- Protobuf ------------------------------------------------------------------------------------------------


def moments(kind: Any, *given: tuple[int, int]) -> list[bool]:
    """Which seconds and nanoseconds are read."""
    message = holding(kind)
    values = []
    for seconds, nanos in given:
        values.append(message())
        values[-1].at.seconds, values[-1].at.nanos = seconds, nanos
    made, flaws = messages_of(message.DESCRIPTOR, values)
    assert made.is_valid().to_pylist() == [n not in flaws for n in range(len(given))]
    return [n not in flaws for n in range(len(given))]


def holding(kind: Any) -> Any:
    from google.protobuf import descriptor_pb2
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message_factory import GetMessageClass

    file = descriptor_pb2.FileDescriptorProto(name="h.proto", package="h", syntax="proto3")
    file.dependency.append(kind.DESCRIPTOR.file.name)
    file.message_type.add(name="H").field.add(
        name="at", number=1, type=11, label=1, type_name=f".{kind.DESCRIPTOR.full_name}"
    )
    pool = DescriptorPool()
    pool.AddSerializedFile(kind.DESCRIPTOR.file.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName("h.H"))


FIRST, LAST = -62_135_596_800, 253_402_300_799


def test_a_timestamp_is_of_the_years_1_to_9999_and_its_nanoseconds_of_one_second() -> None:
    good = [(0, 0), (FIRST, 0), (LAST, 999_999_999), (-1, 999_999_999)]
    bad = [(FIRST - 1, 0), (LAST + 1, 0), (0, 10**9), (1, 2 * 10**9), (0, -1), (MIN, 0), ((1 << 63) - 1, 2**31 - 1)]
    assert moments(timestamp_pb2.Timestamp, *good) == [True] * len(good)
    assert moments(timestamp_pb2.Timestamp, *bad) == [False] * len(bad)


def test_a_duration_has_one_sign_and_10000_years_at_most() -> None:
    most = 315_576_000_000
    good = [(0, 0), (0, -999_999_999), (most, 0), (-most, -5), (1, 5)]
    bad = [(most + 1, 0), (-most - 1, 0), (1, -1), (-1, 1), (0, 10**9), (0, -(10**9))]
    assert moments(duration_pb2.Duration, *good) == [True] * len(good)
    assert moments(duration_pb2.Duration, *bad) == [False] * len(bad)


def test_a_time_that_a_message_has_not_is_not_written() -> None:
    form = wm.protobuf(holding(timestamp_pb2.Timestamp))
    kind = formats.type_of(form)
    column = pa.array([(LAST + 1) * 10**6], pa.int64()).view(pa.timestamp("us", "UTC"))
    with pytest.raises(EncodingError, match=r"value\.at: a timestamp is beyond its range"):
        formats.serde_of(form, kind).write(pa.StructArray.from_arrays([column], ["at"]))


# -- JSON Schema ---------------------------------------------------------------------------------------------


def of(more: dict[str, Any], **top: Any) -> str:
    return json.dumps({"type": "object", "properties": {"a": {"type": "string"}, **more}, **top})


def whole(text: str) -> str:
    return JsonSchema().whole(text)


@pytest.mark.parametrize(
    ("top", "keyword"),
    [
        ({"$schema": "http://json-schema.org/draft-03/schema#", "extends": {"$ref": "http://h/e"}}, "extends"),
        ({"$schema": "http://json-schema.org/draft-03/schema#", "disallow": [{"$ref": "http://h/d"}]}, "disallow"),
        ({"not": {"items": [{"$ref": "http://h/i"}]}}, "something else than a schema"),
        ({"not": {"$schema": "http://json-schema.org/draft-03/schema#", "type": [{"$ref": "http://h/t"}]}}, "."),
        ({"contains": {"$ref": "file:///etc/passwd"}}, "not in the document"),
    ],
)
def test_no_keyword_of_any_draft_fetches_a_schema(monkeypatch: pytest.MonkeyPatch, top: Any, keyword: str) -> None:
    def fetched(*given: Any, **more: Any) -> None:
        raise AssertionError(given)

    monkeypatch.setattr("urllib.request.urlopen", fetched)
    with pytest.raises(BadSchema, match=keyword):
        validator(whole(of({}, **top)))


def test_a_keyword_that_a_draft_has_not_says_nothing() -> None:
    assert list(refused(whole(of({}, extends={"$ref": "http://h/e"}, then={"$ref": "http://h"})), ['{"a":"x"}'])) == []


def test_a_pattern_is_searched_in_one_pass_as_javascript_means_it() -> None:
    schema = whole(of({"a": {"type": "string", "pattern": "^(a+)+$"}}))
    assert [row for row, _ in refused(schema, ['{"a":"' + "a" * 100_000 + '!"}', '{"a":"aaa"}'])] == [0]
    digit = whole(of({"a": {"type": "string", "pattern": r"^\d\u0061$"}}))
    found = refused(digit, ['{"a":"1a"}', '{"a":"1a\\n"}', '{"a":"\\u0661a"}'])
    assert [row for row, _ in found] == [1, 2]


@pytest.mark.parametrize("pattern", ["^(?=.*[A-Z])", r"(a)\1", "(", "(a{900}){900}"])
def test_a_pattern_that_cannot_be_searched_so_is_refused_when_the_topology_is_built(pattern: str) -> None:
    form = wm.json_schema(json.loads(of({"a": {"type": "string", "pattern": pattern}})), validate=True)
    with pytest.raises(TopologyError, match=r"The schema of the values of .* has no type of Spark"):
        formats.type_of(form)


@pytest.mark.parametrize(
    ("items", "unique"),
    [
        ([1, 2], True),
        ([1, 1.0], False),
        ([1, True], True),
        ([{"x": [1]}, {"x": [1.0]}], False),
        ([0, False, None, ""], True),
    ],
)
def test_elements_are_unique_as_json_schema_compares_them(items: Any, unique: bool) -> None:
    schema = whole(json.dumps({"type": "object", "properties": {"a": {"type": "integer"}}, "contains": {}, "not": {}}))
    schema = json.dumps({"type": "array", "uniqueItems": True, "items": json.loads(schema)["contains"]})
    assert (list(refused(schema, [json.dumps(items)])) == []) is unique


def test_unique_elements_of_a_large_array_are_found_by_sorting() -> None:
    schema = whole(
        of(
            {
                "u": {
                    "type": "array",
                    "uniqueItems": True,
                    "items": {"type": "object", "additionalProperties": {"type": "integer"}},
                }
            }
        )
    )
    assert list(refused(schema, [json.dumps({"u": [{"x": n} for n in range(20_000)]})])) == []


def test_a_deep_text_and_a_number_of_5000_digits_have_a_reason_under_validate() -> None:
    deep = '{"a":"x","z":' + "[" * (VALIDATED_LEVELS + 1) + "]" * (VALIDATED_LEVELS + 1) + "}"
    digits = '{"a":"x","z":' + "9" * 5_000 + "}"
    read = JsonSchema().reading(whole(of({})), validate=True)
    assert sorted(read.columns(['{"a":"x"}', deep, digits])[1]) == [1, 2]


# -- the registry --------------------------------------------------------------------------------------------

Answer = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def answering(answer: Answer) -> Iterator[tuple[str, list[str]]]:
    """The address of a server that answers so, and what it was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            answer(self)

        def log_message(self, *given: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    schemas.forget()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def reply(status: int, content: bytes, **headers: str) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(content)

    return answer


def client(url: str, **more: Any) -> RegistryClient:
    return RegistryClient(wm.SchemaRegistry(url, max_retries=0, **more).settings)


@pytest.mark.parametrize(
    ("status", "content"),
    [
        (404, b"default backend - 404"),
        (404, b'{"error_code": 404, "message": "HTTP 404 Not Found"}'),
        (404, b'{"error_code": 40401, "message": "Subject not found."}'),
        (500, b'{"error_code": 40403, "message": "?"}'),
        (200, b'{"schema": null}'),
        (200, b'{"schema": 7}'),
        (200, b"[" * 100_000),
    ],
)
def test_what_is_not_the_registrys_own_answer_makes_nothing_undecodable(status: int, content: bytes) -> None:
    with answering(reply(status, content, content_type="application/json")) as (url, _):
        form = wm.avro(READ, registry=wm.SchemaRegistry(url, max_retries=0))
        with pytest.raises(SourceError, match="The Schema Registry"):
            schemas.reader(form).decode(pa.array([framed(1, b"\2")], pa.binary()))


def test_numbers_that_the_registry_has_not_are_not_asked_for_in_every_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(schemas, "monotonic", lambda: now[0])
    with answering(reply(404, b'{"error_code": 40403, "message": "no"}')) as (url, asked):
        reader = schemas.reader(wm.avro(READ, registry=wm.SchemaRegistry(url, max_retries=0)))
        raw = pa.array([framed(7 + n % 30, b"\2") for n in range(60)], pa.binary())
        for _ in range(3):
            assert len(reader.decode(raw)[1]) == 60
        assert len(asked) == 30
        # by then it may have them
        now[0] = 6.0
        assert len(reader.decode(raw)[1]) == 60
        assert len(asked) == 60


def test_references_in_a_circle_have_a_reason() -> None:
    reference = {"name": "A", "subject": "A", "version": 1}
    circle = {"subject": "A", "version": 1, "id": 9, "schema": '"string"', "references": [reference]}
    with answering(reply(200, json.dumps(circle).encode(), content_type="application/json")) as (url, _):
        with pytest.raises(Endless, match="A refers to itself"):
            client(url).by_id(5)
        form = wm.avro(READ, registry=wm.SchemaRegistry(url, max_retries=0))
        flaws = schemas.reader(form).decode(pa.array([framed(5, b"\2")], pa.binary()))[1]
        assert flaws == {0: "schema 5: the registry's schema A refers to itself"}


def endless(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    try:
        for _ in range(600):
            handler.wfile.write(b" " * (1 << 20))
    except OSError:
        pass


def test_an_answer_that_is_too_large_or_packed_is_not_taken() -> None:
    for answer in (endless, reply(200, b"\x1f\x8b", content_encoding="gzip")):
        with answering(answer) as (url, _), pytest.raises(SourceError, match="TooLarge"):
            client(url).by_id(4)


def test_an_answer_that_comes_a_byte_at_a_time_ends_with_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()
    monkeypatch.setattr(registry, "_GRACE", 0.2)

    def dripping(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        try:
            while not go_on.wait(0.05):
                handler.wfile.write(b" ")
                handler.wfile.flush()
        except OSError:
            pass

    with answering(dripping) as (url, _):
        try:
            with pytest.raises(SourceError, match="TookTooLong"):
                client(url, timeout=0.3).by_id(3)
        finally:
            go_on.set()


def test_a_call_may_take_as_long_as_all_its_tries() -> None:
    given = {"timeout": 30, "max.retries": 2, "url": "http://a,http://b"}
    assert registry.seconds_of(given) == 2 * (3 * 30 + 1 + 2) + 1
