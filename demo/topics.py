"""The demo's records into Kafka topics and out again, with a plain producer and a plain consumer.

Nothing here knows of watersmeet: whatever else reads and writes Kafka could stand in its place.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.json as pj
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

PARTITIONS = 4
_AT_ONCE = 10_000
_WAIT_SECONDS = 0.5
_PATIENCE_SECONDS = 60.0

# pyarrow would take a column without any value for one without a type
_FIELDS = {
    "departures": pa.schema(
        [
            *[(name, pa.string()) for name in ("flight", "carrier", "origin", "dest")],
            ("scheduled", pa.timestamp("us", "UTC")),
            ("tailnum", pa.string()),
            ("departed", pa.timestamp("us", "UTC")),
            ("delay", pa.int32()),
        ]
    ),
    "flights-by-plane": pa.schema(
        [
            *[(name, pa.string()) for name in ("flight", "origin", "dest")],
            ("departed", pa.timestamp("us", "UTC")),
            ("delay", pa.int32()),
            *[(name, pa.string()) for name in ("manufacturer", "model")],
            *[(name, pa.int32()) for name in ("year", "seats")],
        ]
    ),
    "flights": pa.schema(
        [
            *[(name, pa.string()) for name in ("airline", "flight", "origin", "dest", "tailnum")],
            ("departed", pa.timestamp("us", "UTC")),
            ("delay", pa.int32()),
            *[(name, pa.string()) for name in ("manufacturer", "model")],
            *[(name, pa.int32()) for name in ("year", "seats")],
        ]
    ),
}


def produce(servers: str, topic: str, frame: pd.DataFrame, key: str, fields: Iterable[str]) -> None:
    """Write one record for each row, in order: its key, its fields as JSON, at its time.

    A row that is `cancelled` becomes a tombstone: a record without a value.
    """
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 20, "log_level": 3})
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: Any) -> None:
        if error is not None:
            failed.append(error)

    times = (frame["at"].astype("int64") // 1000).tolist()
    for record_key, value, at in zip(frame[key], _values(frame, list(fields)), times, strict=True):
        while True:
            try:
                producer.produce(topic, key=record_key, value=value, timestamp=at, on_delivery=delivered)
                break
            except BufferError:
                # librdkafka's queue is full: let it send some of it
                producer.poll(0.1)
        producer.poll(0)
    left = producer.flush(_PATIENCE_SECONDS)
    if failed or left:
        raise RuntimeError(f"{len(failed) + left} records did not get to {topic!r}: {failed[:1]}")


def _values(frame: pd.DataFrame, fields: list[str]) -> Iterator[bytes | None]:
    plain = frame[fields].copy()
    for name in plain.select_dtypes("datetimetz"):
        plain[name] = plain[name].dt.strftime("%Y-%m-%dT%H:%M:%SZ")
    rows = pa.Table.from_pandas(plain, preserve_index=False).to_pylist()
    cancelled = frame["cancelled"] if "cancelled" in frame else [False] * len(frame)
    for no_value, row in zip(cancelled, rows, strict=True):
        yield None if no_value else json.dumps(row).encode()


def consume(servers: str, topic: str) -> pa.Table:
    """All records of an output topic, each partition's in order, as a `read_committed` reader sees them.

    Returns
    -------
    key, and value as a struct (null for a tombstone).
    """
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "demo-reader",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        keys, values = _drained(consumer)
    finally:
        consumer.close()
    return _as_table(keys, values, _FIELDS[topic])


def _drained(consumer: Consumer) -> tuple[list[bytes], list[bytes | None]]:
    keys: list[bytes] = []
    values: list[bytes | None] = []
    ends = silence = 0
    while ends < PARTITIONS:
        # it waits for as many messages as asked for, or so long
        messages = consumer.consume(_AT_ONCE, _WAIT_SECONDS)
        silence = 0 if messages else silence + 1
        if silence * _WAIT_SECONDS > _PATIENCE_SECONDS:
            raise RuntimeError(f"Kafka sent nothing for {_PATIENCE_SECONDS:.0f} s.")
        for message in messages:
            error = message.error()
            if error is None:
                keys.append(message.key() or b"")
                values.append(message.value())
            elif error.code() == KafkaError._PARTITION_EOF:
                ends += 1
            else:
                raise KafkaException(error)
    return keys, values


def _as_table(keys: list[bytes], values: list[bytes | None], schema: pa.Schema) -> pa.Table:
    lines = io.BytesIO(b"\n".join(b"{}" if value is None else value for value in values))
    options = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
    parsed = pj.read_json(lines, parse_options=options).combine_chunks()
    absent = pa.array([value is None for value in values])
    rows = parsed.to_struct_array().combine_chunks()
    kept = pa.StructArray.from_arrays(
        [rows.field(i) for i in range(rows.type.num_fields)], fields=list(schema), mask=absent
    )
    return pa.table({"key": pa.array(keys, pa.binary()).cast(pa.string()), "value": kept})
