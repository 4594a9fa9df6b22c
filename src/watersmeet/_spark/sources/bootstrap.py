"""Bootstraps of inputs: copied into the checkpoint at the first start, in their order, read as a stream of files.

A snapshot is one batch, the first. A history is read file by file, before anything that lives; how far the query is in
it follows from Spark's own logs. The record of the first start holds: a restart reads the copy, even if the program has
changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, reduce
from typing import Any
from urllib.parse import quote

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from watersmeet._plan.nodes import SourceNode
from watersmeet._spark.checkpoint.folders import RESTORE, Folder
from watersmeet._spark.checkpoint.record import TOPICS
from watersmeet._spark.checkpoint.spark_logs import committed_ends
from watersmeet._spark.columns import streams_in
from watersmeet._spark.session import warn
from watersmeet._spark.sources.rows import columns_of, order_columns
from watersmeet.errors import ChangedTopology, ConfigError, CorruptData
from watersmeet.io.inputs import Rows
from watersmeet.io.topics import Bootstrap

# Static DataFrames beside streams: written once under the checkpoint, read as a stream of files.
#
# Spark refuses the union of static and streaming frames. The copy is taken at the first start and stays: a
# restart must find the rows that the checkpoint has counted. Where the DataFrame has others by then, it is said.

ROWS_PER_FILE = 1_000_000
_PART = "part-*"
_CONTENT = "_content.json"
"""Beside a copy's files, when all of them are there; Spark reads no file of such a name."""


@dataclass(frozen=True)
class Content:
    """The content of the rows."""

    rows: int  # how many
    digest: str  # a sum over all of them, in any order; of columns that Spark has hashes for
    schema: str  # their types

    @classmethod
    def of(cls, rows: DataFrame) -> Content:
        """The content of a scan's rows: what is in them, not where they lie."""
        kinds = {name: kind for name, kind in rows.dtypes if not name.startswith("order_")}
        hashed = [name for name, kind in kinds.items() if "map<" not in kind and "variant" not in kind]
        digest = F.sum(F.xxhash64(*hashed).cast("decimal(38,0)")).cast("string")
        summary = rows.agg(F.count(F.lit(1)).alias("rows"), F.coalesce(digest, F.lit("0")).alias("digest")).collect()[0]
        return cls(summary["rows"], summary["digest"], _schema(rows))


def as_stream(
    rows: DataFrame, order: Sequence[str], folder: Folder, name: str, *, at_once: bool = False, is_restart: bool = False
) -> DataFrame:
    """The rows of a scan, ordered by their ordering columns, as a stream.

    Parameters
    ----------
    folder, name : where the copy lies.
    at_once : whether all its rows make one batch.
    is_restart : whether the checkpoint's sources have begun, so that the copy must be there. Else it is taken (anew).
    """
    copy = folder.below(quote(name, safe=""))
    if is_restart:
        _check(rows, copy, name)
    else:
        take(rows, order, copy)
    reader = folder.spark.readStream.schema(rows.schema)
    return (reader if at_once else reader.option("maxFilesPerTrigger", 1)).parquet(copy.path)


def take(rows: DataFrame, order: Sequence[str], copy: Folder) -> None:
    """Write the rows of a scan, ordered, as files, and behind them what they are."""
    # one task writes one file after the other, so that their order in time is the order of the rows
    ordered = rows.coalesce(1).sortWithinPartitions(*(F.col(name).asc_nulls_last() for name in order))
    ordered.write.option("maxRecordsPerFile", ROWS_PER_FILE).mode("overwrite").parquet(copy.path)
    content = Content.of(copy.spark.read.schema(rows.schema).parquet(copy.path))
    copy.put(_CONTENT, json.dumps({"files": len(copy.names(_PART)), **asdict(content)}))


def check_whole(copy: Folder, subject: str) -> int:
    """How many files a copy has."""
    expected, count = _description(copy), len(copy.names(_PART))
    if expected is None or expected[0] != count:
        raise CorruptData(
            f"The checkpoint's copy of the {subject} is incomplete.",
            given=f"{copy}: {count} files, "
            + ("their number is not recorded" if expected is None else f"{expected[0]} expected"),
            hint=RESTORE,
        )
    return count


def _check(rows: DataFrame, copy: Folder, name: str) -> None:
    check_whole(copy, f"static DataFrame {name!r}")
    description = _description(copy)
    assert description is not None
    content, schema = description[1], _schema(rows)
    if content.schema != schema:
        raise ChangedTopology(
            f"The static DataFrame {name!r} has other types than the copy of it in the checkpoint.",
            given=f"{schema}; the copy has {content.schema}",
            hint="Give it the types that it had at the first start, or begin a new checkpoint.",
        )
    current = Content.of(rows)
    if current != content:
        difference = (
            f"{current.rows} rows, {content.rows} in the copy"
            if current.rows != content.rows
            else "as many rows, others"
        )
        warn(
            f"The static DataFrame {name!r} has changed since the first start ({difference}), which has a copy of it.",
            "begin a new checkpoint to take it as it is now; read what changes as a stream.",
        )


def _schema(rows: DataFrame) -> str:
    """Names and types; what may be null is another matter where rows come from files."""
    return ", ".join(f"{name} {kind}" for name, kind in rows.dtypes)


def _description(copy: Folder) -> tuple[int, Content] | None:
    """How many files a copy has, and what is in them; None: it was not made, or not to its end."""
    try:
        written = json.loads(copy.text(_CONTENT))
        return int(written.pop("files")), Content(**written)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


Recorded = Mapping[str, Mapping[str, Any]]
"""By the name of its source, of each copy: its columns (`schema`), and whether it is a `snapshot`."""


def begin_of(name: str) -> str:
    """The name, among Spark's sources, of what an input begins with."""
    return f"begin {name}"


def types_of(bootstrap: Bootstrap) -> tuple[DataType, DataType]:
    kinds = {field.name: field.dataType for field in _columns(bootstrap).schema}
    return kinds["key"], kinds["value"]


def begins_to_record(sources: Sequence[SourceNode], previous: Recorded | None) -> Recorded:
    """The bootstraps of a checkpoint's inputs.

    Parameters
    ----------
    previous : what is recorded already; None: nothing has begun upon it.
    """
    bootstraps = {source.name: source.bootstrap for source in sources if source.bootstrap is not None}
    if previous is None:
        return {
            name: {"snapshot": bootstrap.is_snapshot, "schema": _columns(bootstrap).schema.jsonValue()}
            for name, bootstrap in bootstraps.items()
        }
    added = sorted(set(bootstraps) - set(previous))
    if added:
        raise ChangedTopology(
            f"The checkpoint has begun without the bootstrap= of {', '.join(added)}.",
            hint="Leave it out, or begin a new checkpoint.",
        )
    # a change of the topology may have left inputs out
    return {source.name: previous[source.name] for source in sources if source.name in previous}


@dataclass(frozen=True)
class Begins:
    """The bootstraps of a checkpoint's inputs, and how far the query is in them."""

    folder: Folder  # the checkpoint's
    recorded: Recorded  # what is recorded
    # where the sources of Spark's query were at the end of the last batch that was committed, by their names; none
    # before that
    ends: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Folder, recorded: Recorded, spark_folder: Folder, inputs: Sequence[str]) -> Begins:
        """As the checkpoint has it.

        Parameters
        ----------
        spark_folder : of the checkpoint.
        inputs : the name of each of Spark's sources, in the order of its plans.
        """
        ends = committed_ends(spark_folder) if recorded else []
        return cls(folder, recorded, dict(zip(inputs, ends, strict=bool(ends))))

    @property
    def names(self) -> list[str]:
        """Names of the inputs, in the order in which the query has these sources."""
        return sorted(self.recorded)

    @cached_property
    def waiting(self) -> tuple[str, ...]:
        """Names of the inputs with a history that has not been processed yet: until then live records wait."""
        histories = (name for name in self.names if not self.recorded[name]["snapshot"])
        return tuple(name for name in histories if not self._read(name))

    def check(self, *, available_now: bool, aligned: bool) -> None:
        """Raise if a history waits, and the start is not one that processes it.

        Parameters
        ----------
        available_now : whether it takes what is there, and ends.
        aligned : whether it keeps topics together, which wait for the history.
        """
        if self.waiting and (aligned or not available_now):
            names = ", ".join(self.waiting)
            without = " and without max_task_idle" if aligned else ""
            raise ConfigError(
                f"The bootstrap= of {names} has not been processed yet.",
                hint=f"First start it with available_now=True{without} and wait for its end: that processes the rest "
                "of the history.",
            )

    @property
    def topics_begun(self) -> bool:
        """Whether topics are where Spark's logs have them, and not where they begin."""
        return not self.recorded or self.ends.get(TOPICS) is not None

    def _read(self, name: str) -> bool:
        """Whether all of a copy has been read: each file is a batch of its source."""
        if not self.ends:
            return False
        end = self.ends.get(begin_of(name))
        return (int(end["logOffset"]) + 1 if isinstance(end, dict) else 0) >= self._files(name)

    def _files(self, name: str) -> int:
        return check_whole(self._copy(name), f"history of {name!r}")

    def stream(self, source: SourceNode, number: int, *, is_restart: bool) -> tuple[DataFrame, tuple[str, ...]]:
        """The copy's rows in the columns of a scan, and its ordering columns.

        Parameters
        ----------
        number : of the source in the plan.
        is_restart : whether the checkpoint's sources have begun, so that the copy must be there; else it is taken.
        """
        record = self.recorded[source.name]
        copy, schema = self._copy(source.name), StructType.fromJson(record["schema"])
        order = tuple(name for name in schema.names if name.startswith("order_"))
        if is_restart:
            check_whole(copy, f"{'snapshot' if record['snapshot'] else 'history'} of {source.name!r}")
        else:
            take(_columns(source.bootstrap), order, copy)
        reader = self.folder.spark.readStream.schema(schema)
        rows = (reader if record["snapshot"] else reader.option("maxFilesPerTrigger", 1)).parquet(copy.path)
        return source_rows(rows, number, order), order

    def nothing_yet(self, frame: DataFrame) -> DataFrame:
        """A stream with the columns of one that waits, which has no rows: in Spark's logs it is nowhere yet.

        It is made of as many sources of Spark's, since Spark knows them by their places.
        """
        copy = self._copy(self.names[0])
        reader = self.folder.spark.readStream.schema("ts bigint").option("pathGlobFilter", "none")
        none = reduce(DataFrame.union, [reader.parquet(copy.path) for _ in range(streams_in(frame) or 1)])
        return none.select(*(F.lit(None).cast(column.dataType).alias(column.name) for column in frame.schema))

    def _copy(self, name: str) -> Folder:
        return self.folder.below(f"watersmeet/bootstrap/{quote(name, safe='')}")


def source_rows(rows: DataFrame, number: int, order: Sequence[str]) -> DataFrame:
    """Rows with key, value and ts in ms in the columns of a scan.

    Parameters
    ----------
    number : of the source in the plan.
    order : the ordering columns, which the rows have.
    """
    frame: DataFrame = rows.select(
        F.lit(number).alias("root"),
        "ts",
        F.lit(0).alias("partition"),
        F.lit(None).cast("bigint").alias("offset"),
        F.col("key").alias(f"s{number}_key"),
        F.col("value").alias(f"s{number}_value"),
        *order,
        F.when(F.col("ts") < 0, 1).otherwise(0).cast("tinyint").alias("reason"),
    )
    return frame


def _columns(bootstrap: Bootstrap) -> DataFrame:
    """The copied columns: ts, key, value, and the order of the rows."""
    if not bootstrap.is_snapshot:
        rows = Rows(bootstrap.frame, bootstrap.key, bootstrap.value, bootstrap.timestamp, bootstrap.order)
        stamp, key, value = columns_of(rows)
        order = order_columns(rows)
    else:
        at = F.lit(0).cast("bigint") if bootstrap.timestamp is None else bootstrap.timestamp
        stamp, key, value = columns_of(Rows(bootstrap.frame, bootstrap.key, bootstrap.value, at))
        # rows of a key have an order by their times; what is left to chance stays as it is, since it is copied
        order = [stamp.alias("order_0"), F.monotonically_increasing_id().alias("order_1")]
    frame: DataFrame = bootstrap.frame.select(stamp.alias("ts"), key.alias("key"), value.alias("value"), *order)
    return frame
