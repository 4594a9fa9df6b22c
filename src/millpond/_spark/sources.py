"""Sources as frames: Kafka topics and DataFrames become rows with root, ts, partition, offset, key and value.

All Kafka topics are read through one Spark source, so that Spark's rate limit lets them advance together.
Laws 2 (where offsets come from), 6 (undecodable bytes never vanish, nor pass for a tombstone) and 9 (a rate
limit by default). Called by `query`; `row_types` by `functions` when a topology is built.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, LongType, StructType, TimestampType

from millpond._plan.nodes import Source
from millpond._spark import formats, static
from millpond.errors import ConfigError, TopologyError
from millpond.options import DeadLetter, Kafka, Rows, Topic

NEGATIVE_TIMESTAMP, UNDECODABLE = 1, 2
REFUSED = {
    "minpartitions": "it gives one Kafka partition to several tasks, and records lose their order",
    "maxrecordsperpartition": "it gives one Kafka partition to several tasks, and records lose their order",
    "subscribe": "millpond names the topics itself",
    "subscribepattern": "millpond names the topics itself",
    "assign": "millpond names the topics itself",
    "includeheaders": "it follows from headers=True of a topic",
    "endingoffsets": "a stream has none",
}
# Parquet alone numbers the rows of its files; the time of a file orders the batches, its path makes it unique.
FILE_ORDER = ("_metadata.file_modification_time", "_metadata.file_path", "_metadata.row_index")


@dataclass(frozen=True)
class Scan:
    """A frame of source rows.

    Parameters
    ----------
    frame : root, ts, partition, offset, reason, headers where wanted, per source i s{i}_key and s{i}_value.
    roots : names of the sources in it.
    one_task : whether all rows of a batch are in one task, to be sorted by `order` and numbered there.
    order : the ordering columns.
    """

    frame: DataFrame
    roots: tuple[str, ...]
    one_task: bool = False
    order: tuple[str, ...] = ()


def scan(
    spark: SparkSession,
    sources: Sequence[Source],
    kafka: Kafka | None = None,
    checkpoint: str | None = None,
) -> list[Scan]:
    """The frames that the sources are read from: one for all topics, one for each DataFrame.

    Raises
    ------
    ConfigError : topics without a connection, settings that a source cannot take.
    """
    numbered = list(enumerate(sources))
    headers = any(_wants_headers(source) for source in sources)
    topics = [(number, source) for number, source in numbered if isinstance(source.origin, Topic)]
    scans = [_scan_topics(spark, topics, kafka, headers)] if topics else []
    plain = [(number, source) for number, source in numbered if isinstance(source.origin, Rows)]
    return scans + [_scan_rows(spark, number, source, checkpoint, headers) for number, source in plain]


def _wants_headers(source: Source) -> bool:
    return isinstance(source.origin, Topic) and source.origin.headers


# -- Kafka -------------------------------------------------------------------------------------------------


def reader_options(kafka: Kafka, topics: Sequence[str], headers: bool) -> dict[str, str]:
    """What Spark's Kafka source is told.

    Raises
    ------
    ConfigError : a setting that breaks the order of records, or that millpond makes itself.
    """
    options = {
        "subscribe": ",".join(sorted(set(topics))),
        "startingOffsets": "earliest",
        "failOnDataLoss": "true",
        "maxOffsetsPerTrigger": str(kafka.max_offsets_per_trigger),
        "includeHeaders": str(headers).lower(),
        # the broker's own default keeps each fetch of a small batch waiting for half a second
        "kafka.fetch.max.wait.ms": "5",
    }
    own = {"startingoffsets": "startingOffsets", "failondataloss": "failOnDataLoss"}
    # One turn per setting of the user.
    for name, value in {**kafka.options, **kafka.source}.items():
        lowered = name.lower().replace(".", "")
        if lowered in REFUSED:
            raise ConfigError(
                f"The Kafka source cannot take {name}.", given=f"{name}=...", hint=f"Leave it out: {REFUSED[lowered]}."
            )
        options[own.get(lowered, f"kafka.{name}")] = value
    return {**options, **_login(options), "kafka.bootstrap.servers": kafka.bootstrap_servers}


def _login(options: Mapping[str, str]) -> dict[str, str]:
    return {}


def _scan_topics(
    spark: SparkSession, topics: Sequence[tuple[int, Source]], kafka: Kafka | None, headers: bool
) -> Scan:
    names = [source.origin.name for _, source in topics]
    if kafka is None:
        raise ConfigError(
            "The topology reads Kafka topics, but nothing says where Kafka is.",
            given=f"topics {', '.join(sorted(set(names)))}",
            hint='topology.start(spark, checkpoint=..., kafka=mp.Kafka("host:9092"))',
        )
    reader = spark.readStream.format("kafka").options(**reader_options(kafka, names, headers))
    return Scan(topic_rows(reader.load(), topics, headers), tuple(source.name for _, source in topics))


def topic_rows(records: DataFrame, topics: Sequence[tuple[int, Source]], headers: bool) -> DataFrame:
    """Rows from records as Spark's Kafka source gives them."""
    frame = records.withColumn("root", _root(topics))
    # Each of these columns is used more than once below; on its own it is computed once.
    for number, source in topics:
        mine = F.col("root") == number
        parsed = {part: _parsed(source, part, mine) for part in ("key", "value")}
        frame = frame.withColumns({f"s{number}_{part}_parsed": column for part, column in parsed.items()})
    columns = [F.col("root"), F.unix_millis("timestamp").alias("ts"), F.col("partition"), F.col("offset")]
    decoded = {(n, part): _decoded(n, s, part) for n, s in topics for part in ("key", "value")}
    columns.append(_reason(topics, decoded).alias("reason"))
    columns += [F.col("headers")] if headers else []
    columns += [value.alias(f"s{number}_{part}") for (number, part), (value, _) in decoded.items()]
    columns += _dead_letters(topics)
    return frame.select(*columns)


def _root(topics: Sequence[tuple[int, Source]]) -> Column:
    """The number of the record's source; a topic that is read twice gives each record twice."""
    roots: dict[str, list[int]] = {}
    # One turn per source.
    for number, source in topics:
        roots.setdefault(source.origin.name, []).append(number)
    if all(len(numbers) == 1 for numbers in roots.values()):
        pairs = [(F.col("topic") == topic, F.lit(numbers[0])) for topic, numbers in roots.items()]
        return reduce(lambda case, pair: case.when(*pair), pairs[1:], F.when(*pairs[0]))
    lists = [
        (F.col("topic") == topic, F.array(*[F.lit(n) for n in numbers])) for topic, numbers in roots.items()
    ]
    return F.explode(reduce(lambda case, pair: case.when(*pair), lists[1:], F.when(*lists[0])))


def _parsed(source: Source, part: str, mine: Column) -> Column:
    return formats.parse(getattr(source.origin, part), F.when(mine, F.col(part)))


def _decoded(number: int, source: Source, part: str) -> tuple[Column, Column]:
    raw = F.when(F.col("root") == number, F.col(part))
    return formats.decoded(getattr(source.origin, part), raw, F.col(f"s{number}_{part}_parsed"))


def _reason(
    topics: Sequence[tuple[int, Source]], decoded: Mapping[tuple[int, str], tuple[Column, Column]]
) -> Column:
    """0, or why the record does not pass; where the policy is to fail, reading this column fails."""
    reason = F.lit(0).cast("tinyint")
    reason = F.when(F.col("timestamp") < F.timestamp_millis(F.lit(0)), NEGATIVE_TIMESTAMP).otherwise(reason)
    # One turn per key or value of a topic; the last `when` stands outermost and is asked first.
    for number, source in topics:
        for part in ("value", "key"):
            fault = decoded[number, part][1]
            if source.origin.on_undecodable == "fail":
                outcome = F.raise_error(_complaint(source.origin, part, fault)).cast("tinyint")
            else:
                outcome = F.lit(UNDECODABLE)
            reason = F.when(fault.isNotNull(), outcome).otherwise(reason)
    return reason.cast("tinyint")


def _complaint(topic: Topic, part: str, fault: Column) -> Column:
    return F.concat(
        F.lit(f"The {part} of a record cannot be decoded.\nGiven: topic {topic.name}, partition "),
        F.col("partition").cast("string"),
        F.lit(", offset "),
        F.col("offset").cast("string"),
        F.lit(f", {part} as {getattr(topic, part).kind}: "),
        fault,
        F.lit('\nHint: change the format, or set on_undecodable="skip" or mp.DeadLetter("topic").'),
    )


def _dead_letters(topics: Sequence[tuple[int, Source]]) -> list[Column]:
    """The raw bytes of what a dead-letter policy sends on."""
    numbers = [number for number, source in topics if isinstance(source.origin.on_undecodable, DeadLetter)]
    if not numbers:
        return []
    kept = F.col("root").isin(numbers)
    return [F.when(kept, F.col(part)).alias(f"dead_{part}") for part in ("key", "value")]


def partition_counts(spark: SparkSession, topics: Sequence[str], kafka: Kafka) -> dict[str, int]:
    """Number of partitions of each topic, as Spark's own connector sees them."""
    raise NotImplementedError


# -- DataFrames --------------------------------------------------------------------------------------------


def _scan_rows(spark: SparkSession, number: int, source: Source, checkpoint: str | None, headers: bool) -> Scan:
    rows = rows_of(source.origin, number)
    frame = rows
    if not source.origin.frame.isStreaming:
        if checkpoint is None:
            raise ConfigError(
                "A static DataFrame is copied into the checkpoint's folder, and there is none.",
                given=f"source {source.name!r}",
                hint="Start the topology with checkpoint=...",
            )
        frame = static.as_stream(spark, rows, f"{checkpoint}/millpond/static", source.name)
    if headers:
        frame = frame.withColumn("headers", F.lit(None).cast("array<struct<key:string,value:binary>>"))
    order = tuple(name for name in frame.columns if name.startswith("order_"))
    return Scan(frame.coalesce(1), (source.name,), one_task=True, order=order)


def row_types(origin: Rows) -> tuple[DataType, DataType]:
    """Types of key and value.

    Raises
    ------
    TopologyError : a column that is not there, a timestamp of another type, rows without an order.
    """
    schema = rows_of(origin, 0).schema
    return schema["s0_key"].dataType, schema["s0_value"].dataType


def rows_of(origin: Rows, number: int) -> DataFrame:
    """The DataFrame's rows in the columns of a scan, with their ordering columns."""
    key = _picked(origin, origin.key, "key")
    stamp = _timestamp(origin)
    value = _picked(origin, _value_names(origin) if origin.value is None else origin.value, "value")
    order = _order(origin)
    frame = origin.frame.select(
        F.lit(number).alias("root"),
        F.coalesce(stamp, F.lit(-1)).cast("bigint").alias("ts"),
        F.lit(0).alias("partition"),
        F.lit(None).cast("bigint").alias("offset"),
        key.alias(f"s{number}_key"),
        value.alias(f"s{number}_value"),
        *[F.col(name).alias(f"order_{i}") for i, name in enumerate(order)],
    )
    reason = F.when(F.col("ts") < 0, NEGATIVE_TIMESTAMP).otherwise(0).cast("tinyint")
    return frame.withColumn("reason", reason)


def _value_names(origin: Rows) -> list[str]:
    taken = {origin.timestamp, *(origin.order or ())} if isinstance(origin.timestamp, str) else set(origin.order or ())
    keys = [origin.key] if isinstance(origin.key, str) else origin.key
    taken |= set(keys) if isinstance(keys, list | tuple) else set()
    return [name for name in origin.frame.columns if name not in taken]


def _picked(origin: Rows, what: Any, role: str) -> Column:
    if isinstance(what, str):
        what = _column(what)
    elif isinstance(what, list | tuple) and what and all(isinstance(name, str) for name in what):
        what = F.struct(*[_column(name).alias(name) for name in what])
    if not isinstance(what, Column):
        raise TopologyError(
            f"The {role} of a DataFrame is a column name, several names, or a Column.",
            given=repr(what),
            hint=_known(origin.frame),
        )
    _type(origin, what, role)
    return what


def _column(name: str) -> Column:
    return F.col(f"`{name}`") if "`" not in name and "." not in name else F.col(name)


def _type(origin: Rows, column: Column, role: str) -> DataType:
    try:
        return origin.frame.select(column.alias("it")).schema["it"].dataType
    except AnalysisException as error:
        raise TopologyError(
            f"The {role} names what the DataFrame does not have.",
            given=str(error).strip().split("\n")[0],
            hint=_known(origin.frame),
        ) from None


def _known(frame: DataFrame) -> str:
    return f"Its columns are {', '.join(frame.columns)}."


def _timestamp(origin: Rows) -> Column:
    column = _picked(origin, origin.timestamp, "timestamp")
    kind = _type(origin, column, "timestamp")
    if isinstance(kind, TimestampType):
        return F.unix_millis(column)
    if isinstance(kind, LongType):
        return column
    raise TopologyError(
        "The timestamp is a timestamp, or a long of milliseconds since 1970.",
        given=f"{kind.simpleString()}",
        hint='Change it: F.to_timestamp("name"), or F.col("name").cast("timestamp").',
    )


def _order(origin: Rows) -> tuple[str, ...]:
    if origin.order is not None:
        # One turn per column.
        for name in origin.order:
            _type(origin, F.col(name), "order")
        return tuple(origin.order)
    try:
        origin.frame.select(*FILE_ORDER)
    except AnalysisException:
        raise TopologyError(
            "The rows of this DataFrame have no order.",
            given="order=None for a DataFrame that does not come from Parquet files",
            hint=f"Name the columns that order the rows of a batch: order=[...]. {_known(origin.frame)}",
        ) from None
    return FILE_ORDER


def describe_origin(origin: Any) -> str:
    """An origin in describe() and in the checkpoint: one line without secrets."""
    if isinstance(origin, Topic):
        return f"topic {origin.name} (key {origin.key}, value {origin.value})"
    kind = "streaming" if origin.frame.isStreaming else "static"
    return f"{kind} DataFrame"


__all__ = ["Scan", "StructType", "describe_origin", "partition_counts", "row_types", "scan"]
