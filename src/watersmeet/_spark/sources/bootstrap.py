"""Bootstraps of inputs: copied into the checkpoint at the first start, in their order, read as a stream of files.

A snapshot is one batch, the first. A history is read file by file, before anything that lives; how far the query is in
it follows from Spark's own logs. The record of the first start holds: a restart reads the copy, even if the program has
changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Any
from urllib.parse import quote

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from watersmeet._plan.nodes import SourceNode
from watersmeet._spark.analysis.analysed_plan import streams_in
from watersmeet._spark.checkpoint.batches import last_committed
from watersmeet._spark.checkpoint.files import Folder
from watersmeet._spark.checkpoint.offsets import TOPICS
from watersmeet._spark.sources import static
from watersmeet._spark.sources.rows import columns_of, order_columns
from watersmeet.errors import ChangedTopology, ConfigError
from watersmeet.io.bootstrap import Bootstrap
from watersmeet.io.dataframes import Rows

Recorded = Mapping[str, Mapping[str, Any]]
"""By the name of its source, of each copy: its columns (`schema`), and whether it is a `snapshot`."""


def begin_of(name: str) -> str:
    """The name, among Spark's sources, of what an input begins with."""
    return f"begin {name}"


def types_of(begin: Bootstrap) -> tuple[DataType, DataType]:
    """Types of key and value.

    Raises
    ------
    TopologyError : a column that is not there, a timestamp of another type, rows without an order.
    """
    kinds = {field.name: field.dataType for field in _columns(begin).schema}
    return kinds["key"], kinds["value"]


def recorded(sources: Sequence[SourceNode], known: Recorded | None) -> Recorded:
    """The bootstraps of a checkpoint's inputs.

    Parameters
    ----------
    known : what is recorded already; None: nothing has begun upon it.

    Raises
    ------
    ChangedTopology : the program has something of an input that has begun without.
    """
    given = {source.name: source.bootstrap for source in sources if source.bootstrap is not None}
    if known is None:
        return {
            name: {"snapshot": begin.is_snapshot, "schema": _columns(begin).schema.jsonValue()}
            for name, begin in given.items()
        }
    late = sorted(set(given) - set(known))
    if late:
        raise ChangedTopology(
            f"The checkpoint has begun without the bootstrap= of {', '.join(late)}.",
            given=f"bootstrap= of {', '.join(late)}",
            hint="Leave it out, or begin a new checkpoint.",
        )
    # a change of the topology may have left inputs out
    return {source.name: known[source.name] for source in sources if source.name in known}


@dataclass(frozen=True)
class Begins:
    """The bootstraps of a checkpoint's inputs, and how far the query is in them.

    Parameters
    ----------
    folder : the checkpoint's.
    recorded : what is recorded.
    ends : where the sources of Spark's query were at the end of the last batch that was committed, by their names; none
        before that.
    """

    folder: Folder
    recorded: Recorded
    ends: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Folder, recorded: Recorded, logs: Folder, inputs: Sequence[str]) -> Begins:
        """As the checkpoint has it.

        Parameters
        ----------
        logs : where Spark's logs lie.
        inputs : the name of each of Spark's sources, in the order of its plans.
        """
        ends = last_committed(logs) if recorded else []
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

    def check(self, *, available_now: bool, together: bool) -> None:
        """Raise if a history waits, and the start is not one that processes it.

        Parameters
        ----------
        available_now : whether it takes what is there, and ends.
        together : whether it keeps topics together, which wait for the history.

        Raises
        ------
        ConfigError : so it is.
        """
        if self.waiting and (together or not available_now):
            names = ", ".join(self.waiting)
            without = " and without max_task_idle" if together else ""
            raise ConfigError(
                f"The bootstrap= of {names} has not been processed yet.",
                given=f"bootstrap= of {names}",
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
        copy, done = self._copy(name)
        return static.check_whole(copy, done, f"history of {name!r}")

    def stream(self, source: SourceNode, number: int, *, begun: bool) -> tuple[DataFrame, tuple[str, ...]]:
        """The copy's rows in the columns of a scan, and its ordering columns.

        Parameters
        ----------
        number : of the source in the plan.
        begun : whether the checkpoint's sources have begun, so that the copy must be there. Else it is taken (anew).

        Raises
        ------
        CorruptData : the copy is not whole any more.
        """
        said = self.recorded[source.name]
        (copy, done), schema = self._copy(source.name), StructType.fromJson(said["schema"])
        order = tuple(name for name in schema.names if name.startswith("order_"))
        if begun:
            static.check_whole(copy, done, f"{'snapshot' if said['snapshot'] else 'history'} of {source.name!r}")
        else:
            static.take(_columns(source.bootstrap), order, copy, done)
        reader = self.folder.spark.readStream.schema(schema)
        rows = (reader if said["snapshot"] else reader.option("maxFilesPerTrigger", 1)).parquet(copy.path)
        return source_rows(rows, number, order), order

    def nothing_yet(self, frame: DataFrame) -> DataFrame:
        """A stream with the columns of one that waits, which has no rows: in Spark's logs it is nowhere yet.

        It is made of as many sources of Spark's, since Spark knows them by their places.
        """
        copy, _ = self._copy(self.names[0])
        reader = self.folder.spark.readStream.schema("ts bigint").option("pathGlobFilter", "none")
        none = reduce(DataFrame.union, [reader.parquet(copy.path) for _ in range(streams_in(frame) or 1)])
        return none.select(*(F.lit(None).cast(each.dataType).alias(each.name) for each in frame.schema))

    def _copy(self, name: str) -> tuple[Folder, Folder]:
        home, place = self.folder.below("watersmeet/bootstrap"), quote(name, safe="")
        return home.below(place), home.below(f"{place}.done")


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


def _columns(begin: Bootstrap) -> DataFrame:
    """The copied columns: ts, key, value, and the order of the rows."""
    if not begin.is_snapshot:
        rows = Rows(begin.frame, begin.key, begin.value, begin.timestamp, begin.order)
        stamp, key, value = columns_of(rows)
        order = order_columns(rows)
    else:
        at = F.lit(0).cast("bigint") if begin.timestamp is None else begin.timestamp
        stamp, key, value = columns_of(Rows(begin.frame, begin.key, begin.value, at))
        # rows of a key have an order by their times; what is left to chance stays as it is, since it is copied
        order = [stamp.alias("order_0"), F.monotonically_increasing_id().alias("order_1")]
    frame: DataFrame = begin.frame.select(stamp.alias("ts"), key.alias("key"), value.alias("value"), *order)
    return frame
