"""Which captures there are: of each, the database, the script of SQL that makes it, and the settings of Debezium.

A capture is named `<database>.<script>.<mode>`. Its file in `tests/recordings/debezium` is read here, too.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dev.jars import ROOT

INTO = ROOT / "tests" / "recordings" / "debezium"

Event = tuple[str, bytes | None, bytes | None]
"""Topic, key and value, as they lie in Kafka."""

_TRANSACTIONS = {"provide.transaction.metadata": "true"}
_FLAT = {"transforms": "flat", "transforms.flat.type": "io.debezium.transforms.ExtractNewRecordState"}
_REWRITTEN = {**_FLAT, "transforms.flat.delete.tombstone.handling.mode": "rewrite"}
_FIELDS = {**_REWRITTEN, "transforms.flat.add.fields": "op,table,source.ts_ms"}
SCHEMAS = {"converter.schemas.enable": "true"}
_AVRO = {
    "converter": "io.apicurio.registry.utils.converter.AvroConverter",
    "converter.apicurio.registry.auto-register": "true",
    # the bytes of Confluent's converter: 0, four bytes of the schema's number, the datum
    "converter.apicurio.registry.as-confluent": "true",
    "converter.apicurio.registry.use-id": "contentId",
    "schema.name.adjustment.mode": "avro",
    "field.name.adjustment.mode": "avro",
}

MODES: Mapping[str, Mapping[str, str]] = {
    "json": {},
    "schemas": SCHEMAS,
    "avro": _AVRO,
    # events and keys without their schema, and the topic of transactions
    "transactions": _TRANSACTIONS,
    "transactions_schemas": {**_TRANSACTIONS, **SCHEMAS},
    "transactions_avro": {**_TRANSACTIONS, **_AVRO},
    # how numbers, times and others may be written besides
    "string": {**SCHEMAS, "decimal.handling.mode": "string"},
    "decimals_as_text": {"decimal.handling.mode": "string"},
    "double": {**SCHEMAS, "decimal.handling.mode": "double"},
    "connect": {**SCHEMAS, "time.precision.mode": "connect"},
    "isostring": {**SCHEMAS, "time.precision.mode": "isostring"},
    "microseconds": {**SCHEMAS, "time.precision.mode": "microseconds"},
    "nanoseconds": {**SCHEMAS, "time.precision.mode": "nanoseconds"},
    "avro_connect": {**_AVRO, "time.precision.mode": "connect"},
    "unknown": {**SCHEMAS, "include.unknown.datatypes": "true"},
    "texts": {
        **SCHEMAS,
        "hstore.handling.mode": "map",
        "interval.handling.mode": "string",
        "binary.handling.mode": "base64",
        "money.fraction.digits": "4",
    },
    "hex": {**SCHEMAS, "binary.handling.mode": "hex", "bigint.unsigned.handling.mode": "precise"},
    "hstore_map": {"hstore.handling.mode": "map"},
    # the placeholder of users' own
    "placeholder": {"unavailable.value.placeholder": "__gone"},
    # truncates are skipped without it
    "unskipped": {"skipped.operations": "none"},
    "unskipped_schemas": {"skipped.operations": "none", **SCHEMAS},
    # with it an update of a key is no delete with a tombstone and an insert
    "flat": _FLAT,
    "flat_schemas": {**_FLAT, **SCHEMAS},
    "flat_avro": {**_FLAT, **_AVRO},
    "flat_rewritten": _REWRITTEN,
    "flat_fields_schemas": {**_FIELDS, **SCHEMAS},
    "no_tombstones": {"tombstones.on.delete": "false"},
    "heartbeats": {"heartbeat.interval.ms": "200", **_TRANSACTIONS},
    "heartbeats_schemas": {"heartbeat.interval.ms": "200", **SCHEMAS},
}

_OF_POSTGRES: Mapping[str, str] = {
    "types": "json schemas avro string double connect isostring microseconds nanoseconds avro_connect texts hex "
    "unknown",
    "changes": "json schemas avro transactions transactions_schemas transactions_avro flat flat_schemas flat_avro "
    "flat_rewritten flat_fields_schemas no_tombstones",
    "interleaved": "transactions transactions_schemas",
    "toast": "json schemas avro hstore_map placeholder flat flat_schemas",
    "truncated": "unskipped unskipped_schemas transactions",
    "altered": "json schemas avro flat_schemas",
    "names": "transactions transactions_schemas transactions_avro",
    "messages": "transactions schemas",
    "quiet": "heartbeats heartbeats_schemas",
    "shop": "decimals_as_text",
}
_OF_MARIADB: Mapping[str, str] = {
    "types": "json schemas avro string double connect isostring hex",
    "changes": "json schemas avro transactions transactions_schemas flat flat_schemas unskipped",
    "interleaved": "transactions transactions_schemas",
    "names": "transactions transactions_avro",
}


@dataclass(frozen=True)
class Capture:
    """One capture.

    Parameters
    ----------
    database : "postgres" or "mariadb".
    script : name of the file of SQL, without its ending.
    mode : of MODES.
    """

    database: str
    script: str
    mode: str

    @property
    def name(self) -> str:
        """Of its file, without the ending."""
        return f"{self.database}.{self.script}.{self.mode}"


CAPTURES = [
    Capture(database, script, mode)
    for database, scripts in (("postgres", _OF_POSTGRES), ("mariadb", _OF_MARIADB))
    for script, modes in scripts.items()
    for mode in modes.split()
]
"""All of them, in the order in which they are made."""


def write(name: str, events: Iterable[Event], schemas: Mapping[int, Any], into: Path = INTO) -> Path:
    """Write a capture's file: a line of JSON per event, and one per schema that its bytes name by number."""
    lines = [{"topic": topic, "key": _text(key), "value": _text(value)} for topic, key, value in events]
    lines += [{"schema": number, "avro": schema} for number, schema in sorted(schemas.items())]
    text = "".join(json.dumps(line, separators=(",", ":"), ensure_ascii=False) + "\n" for line in lines)
    path = into / f"{name}.jsonl.gz"
    into.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
    return path


def events_of(name: str, topic: str | None = None) -> list[Event]:
    """The events of a capture, in their order; with `topic` those of one topic."""
    return [
        (line["topic"], _bytes(line["key"]), _bytes(line["value"]))
        for line in _lines(name)
        if "topic" in line and topic in (None, line["topic"])
    ]


def schemas_of(name: str) -> dict[int, Any]:
    """The schemas of a capture in Avro, by the numbers that its bytes name them by."""
    return {line["schema"]: line["avro"] for line in _lines(name) if "schema" in line}


def _lines(name: str) -> list[dict[str, Any]]:
    text = gzip.decompress((INTO / f"{name}.jsonl.gz").read_bytes()).decode()
    return [json.loads(line) for line in text.splitlines()]


def _text(value: bytes | None) -> Any:
    """What JSON has of bytes: the text that they are, or else base64."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def _bytes(value: Any) -> bytes | None:
    if value is None:
        return None
    return base64.b64decode(value["base64"]) if isinstance(value, dict) else str(value).encode()
