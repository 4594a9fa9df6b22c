"""Changes of tables of Iceberg as a stream: a file for each snapshot, in the checkpoint.

Iceberg streams what is appended and nothing else. So the driver reads what each snapshot has changed, by Iceberg's own
scans, and writes it as one file. The file's name has the place of the snapshot and its id, and a start that writes
behind a kill what is there already leaves it: Spark's stream of files, which knows files by their names, reads each
once, in this order, and removes it behind the commit of its batch. Between two files lies a job of Spark's, so no
listing can miss one of them and have the next.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from watersmeet._plan.nodes import SourceNode
from watersmeet._spark.batches.batches import QueryThread
from watersmeet._spark.checkpoint.folders import RESTORE, Folder
from watersmeet._spark.sources.bootstrap import ROWS_PER_FILE
from watersmeet._spark.sources.rows import WHOLE_TIMES
from watersmeet.errors import CorruptData, SourceError
from watersmeet.io.inputs import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION, FEED, ChangeRows

_POSITION, _COLUMNS = "_position", "_columns"
"""Files beside those of the rows: the last snapshot written, as place and id, and the columns. Spark reads neither."""
_NEW = "_new"
PER_BATCH = "maxFilesPerTrigger"
_FOR_EVER = "36500d"
_SECOND = 1_000
_ONE_WAY = ("append", "replace")
"""Operations that take no row away: compaction replaces files alone."""


def table_properties(spark: SparkSession, quoted: str) -> dict[str, str]:
    """The properties of a table in a catalog, by their names; the table's name is as SQL has it."""
    return {row["key"]: row["value"] for row in spark.sql(f"SHOW TBLPROPERTIES {quoted}").collect()}


def table_format(spark: SparkSession, quoted: str) -> str:
    """The format of a table in a catalog, or "none"; a column that is named Provider stands before it."""
    described = spark.sql(f"DESCRIBE TABLE EXTENDED {quoted}").filter("col_name = 'Provider'").collect()
    return str(described[-1]["data_type"]).lower() if described else "none"


def columns_of(frame: DataFrame) -> dict[str, str]:
    """The columns of a table or of its feed, and their types."""
    return {field.name: field.dataType.simpleString() for field in frame.schema.fields if field.name not in FEED}


@dataclass(frozen=True)
class LakeSnapshot:
    """A snapshot of a table of Iceberg."""

    id: int  # 0: the table has none any more
    parent: int | None
    operation: str
    ms: int  # when it was committed, since 1970
    plain: bool  # whether no file of deletions belongs to it or to the one before


@dataclass(frozen=True)
class LakeTable:
    """A table of Iceberg.

    Parameters
    ----------
    name, quoted : as the user wrote it, and in SQL.
    """

    spark: SparkSession
    name: str
    quoted: str

    @property
    def properties(self) -> Mapping[str, str]:
        """The table's own, and what Iceberg says of it."""
        # the catalog's cache would not see what others commit
        self.spark.sql(f"REFRESH TABLE {self.quoted}")
        return table_properties(self.spark, self.quoted)

    @property
    def current(self) -> int | None:
        """The snapshot that it has; None: it has had none yet."""
        name = self.properties["current-snapshot-id"]
        return None if name == "none" else int(name)

    @property
    def identifier(self) -> list[str]:
        """Names of the identifier fields, none where it has none."""
        return [name for name in self.properties.get("identifier-fields", "[]")[1:-1].split(",") if name]

    def snapshots(self) -> dict[int, LakeSnapshot]:
        """Those that are left, by their ids."""
        summary = "summary['total-delete-files'] = '0' AND summary['removed-delete-files'] IS NULL"
        columns = ("snapshot_id", "parent_id", "operation", "unix_millis(committed_at)", f"coalesce({summary}, false)")
        rows = self.spark.table(f"{self.quoted}.snapshots").selectExpr(*columns).collect()
        return {row[0]: LakeSnapshot(*row) for row in rows}

    def history(self, since: int | None = None) -> tuple[list[LakeSnapshot], Mapping[int, LakeSnapshot]]:
        """The snapshots that lead to the current one, from behind `since` or the oldest that is left; and all."""
        current = self.current
        if current == since:
            return [], {}
        snapshots, line, at = self.snapshots(), list[LakeSnapshot](), current
        while at != since and at in snapshots:
            line.insert(0, snapshots[at])
            at = snapshots[at].parent or 0
        return line, snapshots

    def rows(self, snapshot: int | None) -> DataFrame:
        """The table as it was; without rows where there was no snapshot."""
        if not snapshot:
            return self.spark.table(self.quoted).limit(0)
        return self.spark.sql(f"SELECT * FROM {self.quoted} VERSION AS OF {snapshot}")

    def steps(self, since: int | None) -> Sequence[LakeSnapshot]:
        """The snapshots behind one that has been read.

        A table that was rolled back, to a snapshot before or beside it, or replaced by an empty one makes one step.

        Raises
        ------
        SourceError : they have been expired.
        """
        line, snapshots = self.history(since)
        is_complete = not snapshots or (bool(line) and line[0].parent == since)
        if not is_complete and since is not None and since in snapshots:
            # without a snapshot the table has no rows, since it was replaced
            last = line[-1] if line else replace(snapshots[since], id=0)
            return [replace(last, parent=since, operation="rollback", plain=False)]
        # with the snapshot before, the files went that had the rows which this one takes away
        parents = (step.parent for step in line if step.operation not in _ONE_WAY)
        if is_complete and all(parent is None or parent in snapshots for parent in parents):
            return line
        raise SourceError(
            f"Snapshots of the table {self.name!r} have been expired that this query has yet to read.",
            given=f"it has read up to snapshot {since}, the oldest left behind it is {line[0].id if line else 'none'}",
            hint="Begin a new checkpoint, which begins with the table as it is. Keep snapshots for longer than the "
            f"query rests: ALTER TABLE {self.name} SET TBLPROPERTIES ('history.expire.max-snapshot-age-ms' = '...').",
        )

    def changes(self, step: LakeSnapshot) -> DataFrame:
        """The rows that a snapshot puts and takes away, with the type of the change."""
        since = {} if step.parent is None else {"start-snapshot-id": step.parent}
        part = self.spark.read.options(**since, **{"end-snapshot-id": step.id})
        if step.operation == "append":
            rows = part.table(self.quoted) if since else self.rows(step.id)
            return rows.withColumn(CHANGE_TYPE, F.lit("insert"))
        if step.plain:
            rows = part.table(f"{self.quoted}.changes")
            signed = rows.withColumn("_sign", F.when(F.col(CHANGE_TYPE) == "INSERT", 1).otherwise(-1))
            return net_changes(signed.drop(CHANGE_TYPE, "_change_ordinal", "_commit_snapshot_id"))
        # merged on read: Iceberg's scan of changes refuses its files, so the two states are compared
        new, old = (self.rows(of).withColumn("_sign", F.lit(sign)) for of, sign in ((step.id, 1), (step.parent, -1)))
        return net_changes(new.unionByName(old, allowMissingColumns=True))


def net_changes(signed: DataFrame) -> DataFrame:
    """Changes without the rows that stay and were written anew: a row that comes as often as it goes is none."""
    row = F.struct(*[F.col(f"`{name}`") for name in signed.columns if name != "_sign"])
    # as a text, since maps cannot be compared
    groups = signed.groupBy(F.to_json(row, WHOLE_TIMES)).agg(F.sum("_sign").alias("net"), F.first(row).alias("row"))
    kind = F.when(F.col("net") > 0, "insert").otherwise("delete").alias(CHANGE_TYPE)
    copies = F.array_repeat("row", F.abs("net").cast("int"))
    rows = groups.filter("net != 0").select(F.explode(copies).alias("row"), kind)
    return rows.select("row.*", CHANGE_TYPE)


@dataclass(frozen=True, eq=False)
class LakeRows(ChangeRows):
    """The changes of a table of Iceberg; its frame has the columns alone until a start writes them.

    Parameters
    ----------
    table : the table.
    start : the snapshot that it begins with; None: the table as it is at the first start.
    per_batch : how many snapshots a batch has at most; None: any.
    later : whether only what comes behind the start is read.
    """

    table: Any = field(kw_only=True)
    start: int | None = field(default=None, kw_only=True)
    per_batch: str | None = field(kw_only=True)
    later: bool = field(kw_only=True)

    shown = "changes of Iceberg"
    writes_snapshots = True

    def streamed(self, name: str, checkpoint: Folder, *, is_restart: bool) -> LakeRows:
        """The same with the stream of the files in a checkpoint, which has what is there by now.

        Parameters
        ----------
        name : of the input.
        is_restart : whether the checkpoint has begun with it.
        """
        folder, columns = folder_of(checkpoint, name), columns_of(self.frame)
        if not is_restart:
            self._copy_table(folder)
        elif not folder.text(_POSITION):
            raise CorruptData(
                f"The checkpoint's files of the changes of {self.table.name!r} are missing.",
                given=f"{folder}: no {_POSITION}",
                hint=RESTORE,
            )
        elif not (kinds := json.loads(folder.text(_COLUMNS) or "{}")).items() <= columns.items():
            raise self._changed(kinds, "Begin a new checkpoint: the files of this one have the old columns.")
        folder.put(_COLUMNS, json.dumps(columns))
        self.write(folder)
        options = {"cleanSource": "delete", "maxFileAge": _FOR_EVER}
        options |= {} if self.per_batch is None else {PER_BATCH: self.per_batch}
        reader = folder.spark.readStream.schema(self.frame.schema).options(**options)
        return replace(self, frame=reader.parquet(folder.path))

    def write(self, folder: Folder) -> None:
        """Write a file for each snapshot that has come."""
        place, _, last = folder.text(_POSITION).partition(" ")
        steps = self.table.steps(int(last) if last else None)
        if steps and (columns := columns_of(self.table.rows(None))) != columns_of(self.frame):
            raise self._changed(columns, "Build the topology again; where a column was added, start with evolve=True.")
        for number, step in enumerate(steps, start=int(place) + 1):
            if step.operation != "replace":
                self._put(folder, self.table.changes(step).coalesce(1), number, step)
            folder.put(_POSITION, f"{number} {step.id or ''}")

    def _changed(self, columns: Mapping[str, str], hint: str) -> SourceError:
        differences = ", ".join(map(" ".join, sorted({*columns_of(self.frame).items()} ^ {*columns.items()})))
        return SourceError(f"The columns of the table {self.table.name!r} have changed.", given=differences, hint=hint)

    def _copy_table(self, folder: Folder) -> None:
        folder.remove()
        at = self.table.current if self.start is None else self.start
        if at is not None and not self.later:
            rows = self.table.rows(at).withColumn(CHANGE_TYPE, F.lit("insert"))
            self._put(folder, rows, 0, self.table.snapshots()[at])
        folder.put(_POSITION, f"0 {'' if at is None else at}", durable=True)

    def _put(self, folder: Folder, rows: DataFrame, number: int, step: LakeSnapshot) -> None:
        name, new = f"{number:010d}-{step.id}", folder.below(_NEW)
        if number and folder.names(f"{name}-*"):
            return
        # an old snapshot may lack a column; one with another name or type would be read as null
        if not (columns := columns_of(rows)).items() <= columns_of(self.frame).items():
            raise self._changed(columns, f"Begin behind the change of columns: snapshot {step.id} has the old ones.")
        rows = rows.withColumn(COMMIT_VERSION, F.lit(number).cast("bigint"))
        rows = rows.withColumn(COMMIT_TIMESTAMP, F.timestamp_millis(F.lit(step.ms)))
        rows.write.mode("overwrite").option("maxRecordsPerFile", 0 if number else ROWS_PER_FILE).parquet(new.path)
        for part, file in enumerate(sorted(new.names("part-*"))):
            # Spark takes files in the order of their times
            folder.date(f"{_NEW}/{file}", (number + 1) * _SECOND)
            folder.move(f"{_NEW}/{file}", f"{name}-{part:05d}.parquet")


def folder_of(checkpoint: Folder, name: str) -> Folder:
    """The folder of an input's files."""
    return checkpoint.below(f"watersmeet/snapshots/{quote(name, safe='')}")


class SnapshotThread(QueryThread):
    """Writes the snapshots that come while a query runs.

    Parameters
    ----------
    query : the query.
    inputs : what it reads of Iceberg, with the folder of each.
    seconds : between two looks.
    """

    def __init__(self, query: StreamingQuery, inputs: Iterable[tuple[LakeRows, Folder]], seconds: float) -> None:
        self._inputs, self._seconds, self._lock = list(inputs), seconds, threading.Lock()
        super().__init__(query, "snapshots")

    @classmethod
    def of(
        cls, query: StreamingQuery, sources: Iterable[SourceNode], checkpoint: Folder, trigger: Mapping[str, Any]
    ) -> SnapshotThread | None:
        """Of a query that goes on; None: nothing is read of Iceberg, or the query takes what is there."""
        inputs = [(s.origin, folder_of(checkpoint, s.name)) for s in sources if s.origin.writes_snapshots]
        interval = str(trigger.get("processingTime", "")).partition(" ")[0]
        return cls(query, inputs, max(1.0, int(interval) / _SECOND)) if inputs and interval else None

    def wait_for_all(self) -> None:
        """Write what is there."""
        with self._lock:
            for rows, folder in self._inputs:
                rows.write(folder)

    def follow(self) -> None:
        while self.pause_for(self._seconds):
            self.wait_for_all()
