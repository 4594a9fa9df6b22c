"""Spark columns of the encoded records of all Kafka sinks; `KafkaWrite` writes them."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from watersmeet._spark.dataflow.selection import Selection
from watersmeet._spark.formats.columns import ENCODING, encode, encode_combined
from watersmeet._spark.session.settings import overridden
from watersmeet._worker.formats.dead_letters import HEADERS
from watersmeet._worker.formats.formats import check_writable, format_for
from watersmeet._worker.wire.encoding import ENCODED_KEY
from watersmeet.io.formats import Format
from watersmeet.io.topics import TopicSink


def kafka_rows(frame: DataFrame, sinks: Sequence[tuple[TopicSink, Selection]], ends: str | None = None) -> DataFrame:
    """Encoded records of all these sinks, of each row in the sinks' order.

    Columns are topic (number of the sink), key, value, ts and, where the frame has them, headers; where a sink's
    keys are combined or windowed, also prefix: the bytes that decide the partition, null where the key does. End rows,
    told by the column `ends`, keep their number in `topic`.
    """
    placed = any(chosen.combined or _placed_by(sink) for sink, chosen in sinks)
    letters = any(chosen.headers for _, chosen in sinks)
    parts_of = ["key", "value", *(["prefix"] if placed else []), *(["headers"] if letters else [])]
    carried = ["ts", *(["headers"] if "headers" in frame.columns and not letters else [])]
    # the frame's own numbers of end rows are negative
    number = F.lit(0) if ends is None else F.least(F.coalesce(F.col(ends).cast("int"), F.lit(0)), F.lit(0))
    with overridden(frame.sparkSession, ENCODING):
        if len(sinks) == 1:
            # a row is a record or an end, in which all columns are null
            (sink, chosen) = sinks[0]
            _, *columns = _record(frame, 0, sink, chosen, parts_of)
            return frame.filter((number < 0) | chosen.condition).select(number.alias("topic"), *columns, *carried)
        parts = [
            F.when((number == 0) & chosen.condition, F.struct(*_record(frame, place, sink, chosen, parts_of)))
            for place, (sink, chosen) in enumerate(sinks)
        ]
        if ends is not None:
            nothing = [F.lit(None).cast(HEADERS if name == "headers" else "binary").alias(name) for name in parts_of]
            parts.append(F.when(number < 0, F.struct(number.alias("topic"), *nothing)))
        several = frame.select(*carried, F.explode(F.array_compact(F.array(*parts))).alias("record"))
        return several.select("record.*", *carried)


def check_formats(frame: DataFrame, sinks: Sequence[tuple[TopicSink, Selection]]) -> None:
    """Raise unless each sink's formats can write the types of the frame's columns."""
    for sink, chosen in sinks:
        for part in ("key", "value"):
            if part not in chosen.encoded:
                _format(frame, sink, chosen, part)


def _record(frame: DataFrame, number: int, sink: TopicSink, chosen: Selection, parts: Sequence[str]) -> list[Column]:
    encoded = {"value": _encoded(frame, sink, chosen, "value"), "prefix": F.lit(None).cast("binary")}
    headers = chosen.headers or ("headers" if "headers" in frame.columns else None)
    encoded["headers"] = F.lit(None).cast(HEADERS) if headers is None else F.col(headers)
    if chosen.combined:
        prefix, suffix = (format_for(field.dataType) for field in _key_fields(frame, chosen))
        encoded["prefix"] = encode(prefix, F.col(chosen.key)["prefix"])
    elif (within := _placed_by(sink)) is not None:
        # as Kafka Streams' WindowedStreamPartitioner
        key, *_ = _key_fields(frame, chosen)
        encoded["prefix"] = encode(within, F.col(chosen.key)["key"], key.dataType)
    if "key" in chosen.encoded:
        encoded["key"] = F.col(f"{chosen.key.removesuffix('_key')}_{ENCODED_KEY}")
    elif chosen.combined and sink.key is None:
        encoded["key"] = encode_combined(prefix, suffix, F.col(chosen.key))
    else:
        encoded["key"] = _encoded(frame, sink, chosen, "key")
    return [F.lit(number).cast("int").alias("topic"), *(encoded[part].alias(part) for part in parts)]


def _placed_by(sink: TopicSink) -> Format | None:
    return sink.key.placed_by if isinstance(sink.key, Format) else None


def _key_fields(frame: DataFrame, chosen: Selection) -> list[StructField]:
    """The fields of a struct key: prefix and suffix of a one-to-many join, or key, start and end of a window."""
    kind = frame.schema[chosen.key].dataType
    assert isinstance(kind, StructType)
    return kind.fields


def _encoded(frame: DataFrame, sink: TopicSink, chosen: Selection, part: str) -> Column:
    name = getattr(chosen, part)
    if part in chosen.encoded:
        return F.col(name)
    return encode(_format(frame, sink, chosen, part), F.col(name), frame.schema[name].dataType)


def _format(frame: DataFrame, sink: TopicSink, chosen: Selection, part: str) -> Format:
    kind = frame.schema[getattr(chosen, part)].dataType
    format: Format = getattr(sink, part) or format_for(kind)
    check_writable(format, kind, f"{part}s of the sink {sink.name!r}")
    return format
