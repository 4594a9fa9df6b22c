"""Values beside Java's libraries: what they refuse is refused here, and what they read has their value here."""

from __future__ import annotations

import base64
import json
import re
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from google.protobuf.descriptor_pool import DescriptorPool

from dev.peers.java import Peers, peers
from tests.formats.fuzz.pairs import (
    IMPORTED,
    AvroPair,
    avro_bytes,
    json_schema,
    json_text,
    protobuf_bytes,
    protobuf_file,
)
from tests.formats.fuzz.run import broken
from watersmeet._worker.formats import protobuf, schemas
from watersmeet._worker.formats.avro import Avro, names_of, written_schema
from watersmeet._worker.formats.registry import BadSchema, Refused, SchemaReading, WriterValues
from watersmeet.io.formats import json_schema as json_schema_format
from watersmeet.io.topics import Topic

ROOT = Path(__file__).resolve().parents[2]
SEED = 20261128
FEW, MANY = 60, 2_000
# Java's $ also stands before a last end of a line; in JavaScript, as JSON Schema has it, nothing follows
JAVAS_END = r"(\\[nr]|\\u0085|\\u202[89]|[\x85\u2028\u2029])\" does not match .*\$"
# Java's validator takes 2 and 2.0 for two elements, where JSON Schema compares numbers by their value
TWICE = "has an element twice"
# Java's library reads a zero of ten bytes as 2**62, and as 0 where its bytes are read one by one
OVERLONG_ZERO = re.compile(rb"\x80{9}\x00")
CASES = pytest.mark.parametrize("cases", [FEW, MANY, pytest.param(20_000, marks=pytest.mark.proof)])


@pytest.fixture(scope="module")
def java() -> Iterator[Peers]:
    with peers() as running:
        yield running


@CASES
def test_a_text_is_valid_as_javas_validator_says(java: Peers, cases: int) -> None:
    counts: Counter[bool] = Counter()
    for number in range(cases):
        draw = Random(f"json {SEED} {number}")
        schema = {"type": "object", "properties": {"a": json_schema(draw)}}
        form: Any = Topic("t", key="long", value=json_schema_format(schema, validate=True)).value
        texts = [json_text(draw, schema) for _ in range(6)]
        flaws = schemas.reader(form).decode(pa.array([each.encode() for each in texts], pa.binary()))[1]
        for row, text in enumerate(texts):
            valid = java.ask("json_schema", schema=schema, text=text).get("valid")
            if valid and (re.search(JAVAS_END, flaws.get(row, "")) or (TWICE in flaws.get(row, "") and ".0" in text)):
                continue
            assert valid == (row not in flaws), (number, schema, text, flaws.get(row))
            counts[valid] += 1
    assert min(counts.values()) > cases // 2, counts


def read(reading: SchemaReading, writer: WriterValues, data: bytes) -> tuple[Any, str]:
    """The value, or why the bytes have none."""
    try:
        value = writer.value(data)
    except Refused as error:
        return None, str(error)
    column, flaws = reading.columns([value])
    return (None, flaws[0]) if flaws else (plain(column[0]), "")


def plain(value: Any) -> Any:
    """A scalar of Arrow as what is equal where all its bits are, a map in the order of its keys."""
    kind = value.type
    if not value.is_valid:
        return None
    if pa.types.is_map(kind):
        return sorted(([plain(pair["key"]), plain(pair["value"])] for pair in value.values), key=lambda pair: pair[0])
    if pa.types.is_struct(kind):
        return {name: plain(value[name]) for name in kind.names}
    if pa.types.is_list(kind):
        return [plain(each) for each in value.values]
    if pa.types.is_temporal(kind):
        return value.value
    return repr(value.as_py()) if pa.types.is_floating(kind) else value.as_py()


@dataclass(frozen=True)
class Rule:
    """What is refused by one side alone, for a reason that the pages give.

    Parameters
    ----------
    page : words of docs/formats.md or docs/bad_records.md.
    here, there : how the reason begins, of what is refused here, or by Java.
    """

    page: str
    here: str = "(?!)"
    there: str = "(?!)"


AVRO_RULES = (
    Rule("although Avro's rules ignore logical types", r".* there, and read as "),
    Rule("beyond the range of its type", r"a timestamp is beyond|a decimal (has more than|is empty)"),
    Rule(
        "everything that is not exactly a value of the writer's schema",
        r"\S+ has no symbol of|a union has no branch|a boolean is 0 or 1|a string is not valid|a map has a key twice|"
        r"a block has another|the bytes end|a number (does not fit|has more than)|a length is neg|no value of its",
    ),
    Rule("nesting of records, arrays and maps, in Avro", r"it has more than 256 levels"),
    Rule("even if it is empty", r"the schema to read by does not take it: [Ss]chema mismatch: .*(array|map)"),
    Rule("without their namespace", there=r".*Found \S*\.\w+, expecting "),
)


def tally(counts: Counter[str], rules: Sequence[Rule], why: str, theirs: str, case: Any) -> bool:
    """Whether both have a value; one is missing on both sides, or for a reason that has a rule."""
    if bool(why) == bool(theirs):
        counts["refused" if why else "read"] += 1
        return not why
    # some reasons begin with the place
    reason = re.sub(r"^[\w.\[\]]+: ", "", why)
    rule = next((each for each in rules if re.match(each.here, reason) or re.match(each.there, theirs)), None)
    assert rule is not None, (why or "read here", theirs or "read there", case)
    counts[rule.page] += 1
    return False


def same(ours: Any, theirs: Any) -> bool:
    """Whether values are equal; a long is read as a float by way of a double, which may change its last bit."""
    if isinstance(ours, list | dict) and type(ours) is type(theirs) and len(ours) == len(theirs):
        inner = [(ours[each], theirs[each]) for each in (ours if isinstance(ours, dict) else range(len(ours)))]
        return all(same(*each) for each in inner)
    return ours == theirs or (
        isinstance(ours, str)
        and np.nextafter(np.float32(ours), np.float32(theirs)) == np.float32(theirs)
        and abs(float(ours)) > 1 << 53
    )


def unreadable(reader: str, writer: str) -> str:
    """Why one of two schemas is none."""
    try:
        Avro().reading(reader, validate=False)
        written_schema(writer)
    except BadSchema as error:
        return str(error)
    return ""


@CASES
def test_a_value_of_avro_is_read_as_javas_library_resolves_it(java: Peers, cases: int) -> None:
    counts: Counter[str] = Counter()
    for number in range(cases):
        draw = Random(f"avro {SEED} {number}")
        pair = AvroPair(draw)
        reader, writer = json.dumps(pair.reader), json.dumps(pair.writer)
        broken_schema = unreadable(reader, writer)
        if broken_schema:
            theirs = java.ask("avro", written=pair.writer, read=pair.reader, bytes=b"")
            assert "refused" in theirs or "no bytes" in broken_schema, (number, broken_schema, reader, writer)
            continue
        reading, whole = Avro().reading(reader, validate=False), written_schema(writer)
        try:
            values, why = reading.written(writer, ()), ""
        except Refused as error:
            values, why = reading.bare(), str(error)
        raws = [avro_bytes(draw, whole, names_of(whole)) for _ in range(3)]
        for raw in [*raws, broken(draw, raws[0], raws)]:
            theirs = java.ask("avro", written=pair.writer, read=pair.reader, bytes=raw)
            value, fault = (None, why) if why else read(reading, values, raw)
            case = number, reader, writer, raw
            if tally(counts, AVRO_RULES, fault, theirs.get("refused", ""), case):
                assert same(value, read(reading, reading.bare(), theirs["bytes"])[0]), (value, theirs, case)
    assert min(counts["read"], counts["refused"]) > cases, counts


PROTOBUF_RULES = (
    Rule("a number outside an open enum", r"\S+ has no value of number"),
    Rule("other values are undecodable", r"a (timestamp|duration) is beyond"),
    Rule("an entry of a map", r"an entry of a map has more"),
    Rule("a string of proto2 in invalid UTF-8", r"a string is not valid UTF-8"),
    Rule("in a field of a `oneof` that a later one replaces", there=r".*(invalid tag \(zero\)|invalid UTF-8)"),
    Rule("a number with too many bits", r"the bytes are no message"),
)


def message_of(file: Any) -> Any:
    pool = DescriptorPool()
    for each in IMPORTED:
        pool.AddSerializedFile(each.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    return pool.FindMessageTypeByName("fuzz.M")


def as_read(message: Any, answer: dict[str, Any]) -> Any:
    """What Java answers as our values are."""
    inner = {field.name: _field_as_read(field, answer[field.name]) for field in message.fields}
    if message.file.package != "google.protobuf":
        return inner
    return inner["value"] if "value" in inner else inner["seconds"] * 10**6 + inner["nanos"] // 1000


def _field_as_read(field: Any, answer: Any) -> Any:
    if answer is None:
        return None
    if protobuf.is_map(field):
        pairs = [as_read(field.message_type, each) for each in answer]
        return [[key, value] for key, value in sorted({each["key"]: each["value"] for each in pairs}.items())]
    if field.is_repeated:
        return [_leaf_as_read(field, each) for each in answer]
    return _leaf_as_read(field, answer)


def _leaf_as_read(field: Any, answer: Any) -> Any:
    if field.message_type is not None:
        return as_read(field.message_type, answer)
    if field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
        return repr(struct.unpack("<d", struct.pack("<q", answer))[0])
    return base64.b64decode(answer) if field.type == field.TYPE_BYTES else answer


@CASES
def test_a_message_of_protobuf_is_read_as_javas_library_reads_it(java: Peers, cases: int) -> None:
    counts: Counter[str] = Counter()
    imported = [each.DESCRIPTOR.serialized_pb for each in IMPORTED]
    for number in range(cases):
        draw = Random(f"protobuf {SEED} {number}")
        file = protobuf_file(draw)
        message = message_of(file)
        files = [base64.b64encode(each).decode() for each in (*imported, file.SerializeToString())]
        reading = protobuf.Protobuf().reading(json.dumps({"message": "fuzz.M", "files": files}), validate=False)
        raws = [protobuf_bytes(draw, message) for _ in range(3)]
        for raw in [*raws, broken(draw, raws[0], raws)]:
            # only broken bytes have numbers with too many bits
            rules = PROTOBUF_RULES[:-1] if raw in raws else PROTOBUF_RULES
            theirs = java.ask("protobuf", files=files, message="M", bytes=raw)
            value, fault = read(reading, reading.bare(), raw)
            case = number, str(file), raw
            if raw not in raws and OVERLONG_ZERO.search(raw):
                continue
            if tally(counts, rules, fault, theirs.get("refused", ""), case):
                assert value == as_read(message, theirs["value"]), (value, theirs, case)
    assert min(counts["read"], counts["refused"]) > cases // 2, counts


def test_what_only_one_side_reads_has_a_sentence_on_the_page() -> None:
    pages = (ROOT / "docs" / f"{name}.md" for name in ("formats", "bad_records"))
    page = re.sub(r"\s+", " ", " ".join(each.read_text(encoding="utf-8") for each in pages))
    assert [each.page for each in (*AVRO_RULES, *PROTOBUF_RULES) if each.page not in page] == []
