"""DataFrames as rows: the columns that a user names, in the form that a scan has them.

Law 2: rows have no offsets of their own; their ordering columns are kept, and one task numbers the rows by
them: all of an input, or those of a partition by the hash of the key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, LongType, TimestampType

from watersmeet._spark.columns import analysed, flaw_of
from watersmeet._spark.sources.topics import TopicRows
from watersmeet.errors import TopologyError, did_you_mean
from watersmeet.functions import adapt
from watersmeet.io.inputs import CHANGE_TYPE, COMMIT_VERSION, FEED, Rows

# Parquet alone numbers the rows of its files; time and path bring the files into one order.
FILE_ORDER = ("_metadata.file_modification_time", "_metadata.file_path", "_metadata.row_index")
_PUTTING = ("insert", "update_postimage")
_MICROSECONDS = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
WHOLE_TIMES = {"timestampFormat": f"{_MICROSECONDS}XXX", "timestampNTZFormat": _MICROSECONDS}
"""Of JSON, so that two keys never have one text."""
PARTITIONS = 64
"""Of an input that is partitioned, whatever the number of tasks: so that another number gives the same results."""


def row_types(origin: Rows) -> tuple[DataType, DataType]:
    key, value = analysed(rows_of(origin, 0), F.col("s0_key"), F.col("s0_value"))
    return key, value


def rows_of(origin: Rows, number: int) -> DataFrame:
    """The DataFrame's rows in the columns of a scan, with those that order them as order_0, order_1, ..."""
    stamp, key, value = columns_of(origin)
    order = order_columns(origin)
    frame: DataFrame = origin.frame.select(
        F.lit(number).alias("root"),
        stamp.alias("ts"),
        _partition(origin).alias("partition"),
        F.lit(None).cast("bigint").alias("offset"),
        key.alias(f"s{number}_key"),
        value.alias(f"s{number}_value"),
        *order,
    )
    return frame.withColumn("reason", F.when(F.col("ts") < 0, 1).otherwise(0).cast("tinyint"))


def columns_of(origin: Rows) -> tuple[Column, Column, Column]:
    """Timestamp in ms, key and value."""
    # no timestamp at all is what Kafka writes as -1
    key = _picked(origin, origin.key, "key")
    value = _picked(origin, _value_names(origin) if origin.value is None else origin.value, "value")
    stamp = F.coalesce(_timestamp(origin, key, value), F.lit(-1)).cast("bigint")
    if origin.is_feed:
        value = F.when(_puts(), value)
    return stamp, key, value


def order_columns(origin: Rows) -> list[Column]:
    """The columns that order the rows, as order_0, order_1, ..."""
    if origin.is_feed:
        columns = (F.col(COMMIT_VERSION).cast("bigint"), _key_text(origin), _puts())
        return [column.alias(f"order_{i}") for i, column in enumerate(columns)]
    return [_column(origin, name).alias(f"order_{i}") for i, name in enumerate(order_of(origin))]


def order_of(origin: Rows) -> tuple[str, ...]:
    """The ordering columns: those that were named, or those that Parquet files have by themselves."""
    if origin.order is not None:
        for name in origin.order:  # each is checked
            _type(origin, _column(origin, name), "order")
        return tuple(origin.order)
    try:
        analysed(origin.frame, *map(F.col, FILE_ORDER))
    except AnalysisException:
        raise TopologyError(
            "The rows of this DataFrame need an order: order=None.",
            given="order=None, for a DataFrame that is not read from Parquet files",
            hint=f"Name the columns that order them: order=[...]. {_columns_hint(origin.frame)}",
        ) from None
    return FILE_ORDER


def _key_text(origin: Rows) -> Column:
    return F.to_json(F.struct(_picked(origin, origin.key, "key").alias("key")), WHOLE_TIMES)


def _partition(origin: Rows) -> Column:
    number = F.pmod(F.xxhash64(_key_text(origin)), F.lit(PARTITIONS)) if origin.partitioned else F.lit(0)
    return number.cast("int")


def _puts() -> Column:
    """Whether a change of a feed puts a row; the others take one away."""
    return F.coalesce(F.col(CHANGE_TYPE).isin(*_PUTTING), F.lit(False))


def _value_names(origin: Rows) -> list[str]:
    keys = [origin.key] if isinstance(origin.key, str) else origin.key
    reserved = {*(origin.order or ()), *(keys if isinstance(keys, list | tuple) else ())}
    reserved |= {origin.timestamp} if isinstance(origin.timestamp, str) else set()
    reserved |= {*FEED} if origin.is_feed else set()
    names = [name for name in origin.frame.columns if name not in reserved]
    if not names:
        raise TopologyError(
            "The DataFrame has no column left for the value: value=None.",
            given=", ".join(origin.frame.columns),
            hint="Name it: value=... (a null value is a tombstone).",
        )
    return names


def _column(origin: Rows, name: str) -> Column:
    """The column of that name; else the expression that the name is (a field of a struct)."""
    return F.col(f"`{name}`") if name in origin.frame.columns and "`" not in name else F.col(name)


def _picked(origin: Rows, selector: Any, role: str) -> Column:
    column = selector
    if isinstance(selector, str):
        column = _column(origin, selector)
    elif isinstance(selector, list | tuple) and selector and all(isinstance(name, str) for name in selector):
        column = F.struct(*[_column(origin, name).alias(name) for name in selector])
    if not isinstance(column, Column):
        raise TopologyError(
            f"The {role} of a DataFrame must be a column name, several names, or a Column, and not {selector!r:.80}.",
            hint=_columns_hint(origin.frame),
        )
    _type(origin, column, role)
    # a static one is evaluated once, into a copy in the checkpoint
    flaw = flaw_of(origin.frame, [column]) if origin.frame.isStreaming else None
    if flaw:
        raise TopologyError(f"The {role} of a DataFrame {flaw.what}.", given=str(column), hint=flaw.hint)
    return column


def _type(origin: Rows, column: Column, role: str) -> DataType:
    try:
        return analysed(origin.frame, column)[0]
    except AnalysisException as error:
        parameters: dict[str, str] = error.getMessageParameters() or {}
        name = parameters.get("objectName", str(column).removeprefix("Column<'").removesuffix("'>")).strip("`")
        suffix = f"Name it: {role}=... {_columns_hint(origin.frame)}"
        hint = did_you_mean(name, origin.frame.columns, form=f"{role}={{!r}}".format, suffix=suffix)
        raise TopologyError(f"The {role} is no column of the DataFrame: {role}={name!r}.", hint=hint) from None


def _columns_hint(frame: DataFrame) -> str:
    return f"Its columns are {', '.join(frame.columns)}."


def _timestamp(origin: Rows, key: Column, value: Column) -> Column:
    timestamp = origin.timestamp
    if callable(timestamp) and not isinstance(timestamp, Column):
        timestamp = adapt(timestamp, ("key", "value"), "timestamp extractor")(key, value)
    column = _picked(origin, timestamp, "timestamp")
    kind = _type(origin, column, "timestamp")
    if isinstance(kind, TimestampType):
        return F.unix_millis(column)
    if isinstance(kind, LongType):
        return column
    raise TopologyError(
        f"The timestamp must be a timestamp, or a long of milliseconds since 1970, and {origin.timestamp!s:.80} is "
        f"{kind.simpleString()}.",
        hint='Change it: timestamp=F.to_timestamp("name"), or F.col("name").cast("timestamp").',
    )


# Source rows, as packing takes them in: those of topics as bytes, which are decoded where somebody needs that.


@dataclass(frozen=True)
class Scan:
    """A frame of source rows."""

    # rows with the columns root (number of the source in the plan), ts (ms), partition, offset, reason (0 fine, 1
    # negative timestamp, 2 undecodable), headers where a topic keeps them, and per source n s{n}_key and s{n}_value,
    # null in the rows of others, and of topics with plain formats alone raw_key, raw_value; raw_headers where a topic
    # has dead letters; their source has s{n}_headers, too
    made: DataFrame | TopicRows
    roots: tuple[str, ...]  # names of the sources in it
    # columns by which all rows of a partition and batch are sorted and numbered, in one task; none: they have places
    order: tuple[str, ...] = ()
    partitioned: bool = False  # whether the rows have several partitions, which several tasks may read
    begins: bool = False  # whether the rows are what a source begins with, which no policy of its topic's is for
    snapshot: bool = False  # whether they are a table's snapshot
    changes: bool = False  # whether they are changes of a table, ordered by commit, key and whether they put a row

    @property
    def topics(self) -> TopicRows | None:
        """The rows, where keys and values come as bytes, which the workers decode."""
        return self.made if isinstance(self.made, TopicRows) else None

    @property
    def frame(self) -> DataFrame:
        """The rows as functions of Spark's need them."""
        return self.made.frame if isinstance(self.made, TopicRows) else self.made

    @property
    def bare(self) -> DataFrame:
        """The rows with what comes as bytes as it came."""
        return self.made.bare if isinstance(self.made, TopicRows) else self.made
