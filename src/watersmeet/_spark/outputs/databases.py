"""Outputs into tables of Spark's catalogs, in Delta or Iceberg, and into tables of databases.

A table of a catalog gets one `MERGE INTO` for each batch, with the batch's number in it. The number goes where the
format commits it with the rows: Delta remembers it for the writer and leaves a merge out that it has had; Iceberg keeps
it in the snapshot's summary, where it is looked up first. Who writes the table is a property of it, set at the start.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, reduce
from typing import Any, Protocol

from pyspark import StorageLevel
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType, VariantType

from watersmeet._engine import row_sizes
from watersmeet._engine.database_rows import CURRENT, VALID_FROM, VALID_TO, VERSION, DatabaseColumn, columns_of
from watersmeet._engine.rows import with_nulls
from watersmeet._plan.nodes import SinkNode
from watersmeet._spark.outputs.output import OutputBatch, OutputContext, OutputWriter
from watersmeet._spark.session import connecting
from watersmeet._spark.sources.iceberg import table_format
from watersmeet._worker.batch_plan import UNKNOWN, BatchPlan
from watersmeet._worker.databases import (
    CHANGES,
    DELETED,
    DIALECTS,
    MERGED,
    Database,
    ExistingColumn,
    LastChanges,
    Mark,
    check_columns,
    check_writer,
    has_batch,
    place,
    take_over,
)
from watersmeet._worker.formats.arrow_types import arrow_type
from watersmeet._worker.formats.json import readable
from watersmeet._worker.wire import SEQUENCE
from watersmeet._worker.writers.kafka import limit
from watersmeet.errors import ConfigError, TopologyError, installing
from watersmeet.io.databases import CatalogTable, DatabaseTable

WRITER = "watersmeet.writer"
_BATCH = "watersmeet.batch"
_PLAN = "watersmeet.plan"
_SQL = DIALECTS["spark"]


class _Format(Protocol):
    """How a format keeps the number of a batch with the rows."""

    def settings(self, mark: Mark) -> Mapping[str, str]:
        """Of the session, while the batch is merged."""

    def last(self, spark: SparkSession, table: str, writer: str) -> Mark:
        """The last batch of this writer's; -1: there is none that the table remembers."""


class _Delta:
    """Its own transactions by application (Delta's documentation, "Idempotent table writes")."""

    looked_at = 1000

    def settings(self, mark: Mark) -> Mapping[str, str]:
        delta = "spark.databricks.delta"
        return {
            # two that merge at once: Delta leaves the second one out
            f"{delta}.write.txnAppId": mark.writer,
            f"{delta}.write.txnVersion": str(mark.batch),
            # what Delta remembers of an application cannot be asked for, but the history can
            f"{delta}.commitInfo.userMetadata": f"{_BATCH} {mark.writer} {mark.batch} {mark.plan}".rstrip(),
        }

    def last(self, spark: SparkSession, table: str, writer: str) -> Mark:
        prefix = f"{_BATCH} {writer} "
        history = spark.sql(f"DESCRIBE HISTORY {table} LIMIT {self.looked_at}")
        commits = history.filter(F.col("userMetadata").startswith(prefix)).select("userMetadata")
        return max(
            (_mark_of(writer, text.removeprefix(prefix)) for (text,) in commits.collect()),
            key=_number,
            default=_none(writer),
        )


class _Iceberg:
    """Properties of a snapshot's summary (Iceberg's documentation, "Spark configuration", SQL options)."""

    def settings(self, mark: Mark) -> Mapping[str, str]:
        summary = "spark.sql.iceberg.snapshot-property"
        properties = {WRITER: mark.writer, _BATCH: str(mark.batch), _PLAN: mark.plan}
        return {f"{summary}.{name}": text for name, text in properties.items()}

    def last(self, spark: SparkSession, table: str, writer: str) -> Mark:
        summary = F.col("summary")
        ours = spark.table(f"{table}.snapshots").filter(summary[WRITER] == writer)
        number = summary[_BATCH].cast("bigint")
        row = ours.agg(F.max(F.struct(number.alias("batch"), summary[_PLAN].alias("plan"))).alias("last")).first()
        last = None if row is None else row["last"]
        return (
            _none(writer)
            if last is None or last["batch"] is None
            else Mark(writer, int(last["batch"]), last["plan"] or "")
        )


_FORMATS: dict[str, _Format] = {"delta": _Delta(), "iceberg": _Iceberg()}


def _none(writer: str) -> Mark:
    return Mark(writer, -1)


def _mark_of(writer: str, text: str) -> Mark:
    batch, _, plan = text.partition(" ")
    return Mark(writer, int(batch), plan)


def _number(mark: Mark) -> int:
    return mark.batch


class MergedTable:
    """A table of a catalog, as a `TableWriter`.

    Parameters
    ----------
    spark : a session that has the table's catalog.
    target : as the user named it.
    key, value : types of the output.
    identity : names the application and its checkpoint.
    """

    def __init__(
        self, spark: SparkSession, target: CatalogTable, key: DataType, value: DataType, identity: str
    ) -> None:
        self._spark, self._target, self._identity = spark, target, identity
        self._columns = columns_of(target, with_nulls(arrow_type(key)), with_nulls(arrow_type(value)))
        self._table = _SQL.quoted(*target.table.split("."))

    def begin(self, planned: int | None) -> None:
        """See `TableWriter`; the user makes the table, and chooses how it is stored."""
        schema = [(column.name, _SQL.type_of(column.kind)) for column in self._columns]
        statement = _SQL.statement(_SQL.definition, self._table, self._columns)
        with connecting(self._spark, self._target.table):
            if not self._is_there():
                raise ConfigError(
                    f"Unknown table {self._target!r}: the catalog does not have it.", hint=f"Create it: {statement}"
                )
            self._format = self._found_format(statement)
        check_columns(self._target, schema, self._actual_columns(), _SQL.fits, statement)
        take_over(self, self._target, self._identity, planned)

    def write(
        self, rows: DataFrame, batch: int, plan: BatchPlan = UNKNOWN, guard: Callable[[], None] = lambda: None
    ) -> None:
        """See `TableWriter`."""
        of_batch = every_change if self._target.keeps_versions else last_of_each_key
        # once, whatever the merge reads and however often: the levels' state is saved with it
        changes = of_batch(rows, self._columns).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            if changes.count():
                self._merge(changes, batch, plan, guard)
        finally:
            changes.unpersist()

    def is_empty(self) -> bool:
        return self._spark.table(self._table).isEmpty()

    def mark(self) -> Mark | None:
        """The mark of the table; None: nobody has written it."""
        writer = self._writer(self._spark)
        return None if writer is None else self._format.last(self._spark, self._table, writer)

    def set_mark(self, mark: Mark) -> None:
        """Write down who writes it; the batch goes with its rows."""
        self._spark.sql(f"ALTER TABLE {self._table} SET TBLPROPERTIES ({_text(WRITER)} = {_text(mark.writer)})")

    def _merge(self, changes: DataFrame, batch: int, plan: BatchPlan, guard: Callable[[], None]) -> None:
        spark, kind = changes.sparkSession, self._format
        writer = self._writer(spark)
        check_writer(None if writer is None else Mark(writer, -1), self._target, self._identity)
        if has_batch(kind.last(spark, self._table, self._identity), self._target, batch, plan):
            return
        guard()
        text = _SQL.upsert
        if self._target.keeps_versions:
            text, changes = _SQL.version, versions_of(changes, self._columns, spark.table(self._table))
        changes.createOrReplaceTempView(MERGED)
        try:
            with _set(spark, kind.settings(Mark(self._identity, batch, plan.text()))):
                spark.sql(_SQL.statement(text, self._table, self._columns))
        finally:
            spark.catalog.dropTempView(MERGED)

    def _is_there(self) -> bool:
        try:
            return self._spark.catalog.tableExists(self._table)
        except AnalysisException:
            # nor is the catalog
            return False

    def _found_format(self, statement: str) -> _Format:
        provider = table_format(self._spark, self._table)
        if provider not in _FORMATS:
            raise ConfigError(
                f"watersmeet cannot merge into tables of the format {provider}: they do not store the batch's "
                "number with the rows.",
                given=f"{self._target!r}: {provider}",
                hint=f"Delta and Iceberg do: {statement}. Or append changes: wm.Writer(...), and read wm.latest(...).",
            )
        return _FORMATS[provider]

    def _actual_columns(self) -> list[ExistingColumn]:
        # Spark does not tell capitals apart
        ours = {column.name.casefold(): column.name for column in self._columns}
        fields = self._spark.table(self._table).schema
        return [
            ExistingColumn(
                ours.get(field.name.casefold(), field.name), field.dataType.simpleString(), not field.nullable
            )
            for field in fields
        ]

    def _writer(self, spark: SparkSession) -> str | None:
        properties = spark.sql(f"SHOW TBLPROPERTIES {self._table}").filter(F.col("key") == WRITER)
        return next((str(row["value"]) for row in properties.collect()), None)


def last_of_each_key(rows: DataFrame, columns: tuple[DatabaseColumn, ...]) -> DataFrame:
    """The last change of each key, in the table's columns by their places, and whether it deletes."""
    keys = [_values(column).alias(place(number)) for number, column in enumerate(columns) if column.is_key]
    values = [_values(column).alias(place(number)) for number, column in enumerate(columns) if not column.is_key]
    last = F.max_by(F.struct(*values, F.col("value").isNull().alias(DELETED)), SEQUENCE)
    return rows.groupBy(*keys).agg(last.alias("last")).select(*(place(n) for n in range(len(keys))), "last.*")


def every_change(rows: DataFrame, columns: tuple[DatabaseColumn, ...]) -> DataFrame:
    """All changes of each key, in the table's columns by their places, with time and order, and whether it deletes."""
    of_rows = [(number, column) for number, column in enumerate(columns) if column.part != VERSION]
    values = (_values(column).alias(place(number)) for number, column in of_rows)
    return rows.select(*values, F.col("value").isNull().alias(DELETED), "timestamp", SEQUENCE)


def versions_of(changes: DataFrame, columns: tuple[DatabaseColumn, ...], table: DataFrame) -> DataFrame:
    """The rows of a merge, in the table's columns by their places: each version that is added, and for a key that has a
    current row one that closes it, marked as deleting.

    A version holds from its time on, or from the time from which the one before it holds, or to which it held, if that
    is later. A deletion of a key without a row changes nothing, whichever batches the changes come in (law 1).

    Parameters
    ----------
    changes : of a batch, as `every_change` gives them.
    columns : the table's.
    table : as it is before the batch.
    """
    keys = [place(number) for number, column in enumerate(columns) if column.is_key]
    is_same = reduce(Column.__and__, (F.col(f"t_{key}").eqNullSafe(F.col(key)) for key in keys))
    names = (F.col(_SQL.quoted(column.name)).alias(f"t_{key}") for key, column in zip(keys, columns, strict=False))
    end = F.coalesce(VALID_TO.name, VALID_FROM.name).alias("last_end")
    existing = table.select(*names, end, F.col(CURRENT.name).alias("is_there"))
    existing = existing.join(changes.select(*keys).distinct(), is_same, "left_semi")
    existing = existing.groupBy(*(f"t_{key}" for key in keys)).agg(
        F.max("last_end").alias("last_end"), F.max("is_there").alias("is_there")
    )
    # read at once: the source of a merge must not lead to the table itself (Spark 4.1 has no plan for that)
    existing = existing.localCheckpoint()
    of_key = Window.partitionBy(*keys).orderBy(SEQUENCE)
    was_there = F.coalesce(~F.lag(DELETED).over(of_key), "is_there", F.lit(False))
    effective = changes.join(existing, is_same, "left").withColumn("was_there", was_there)
    effective = effective.filter(F.col("was_there") | ~F.col(DELETED))
    start = F.greatest(F.max("timestamp").over(of_key), "last_end")
    timed = effective.withColumn("start", start).withColumn("first", F.row_number().over(of_key) == 1)
    timed = timed.withColumn("end", F.lead("start").over(of_key))
    # one row for what is closed, and one for what is added: no union, which would read the batch twice
    closes = F.when(F.col("first") & F.col("was_there"), F.lit(True))
    rows = timed.withColumn(DELETED, F.explode(F.array_compact(F.array(closes, F.when(~F.col(DELETED), F.lit(False))))))
    version = {
        VALID_FROM: F.col("start"),
        VALID_TO: F.when(F.col(DELETED), F.col("start")).otherwise(F.col("end")),
        CURRENT: F.col("end").isNull(),
    }
    values = (version.get(column, F.col(place(n))).alias(place(n)) for n, column in enumerate(columns))
    return rows.select(*values, DELETED)


def _values(column: DatabaseColumn) -> Column:
    expression = F.col(column.part)
    for name in column.path:
        expression = expression.getField(name)
    return expression


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


@contextmanager
def _set(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Settings of a session for a while: left there, Delta would take the next merge for this one."""
    previous = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, earlier in previous.items():
            if earlier is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, earlier)


# A table that is kept in a database: one transaction of the driver's for each batch, with the batch's number in it.
#
# The tasks hand back the last change of each key (`changes`): what is little with the job itself, what is much stays
# with Spark and comes a task at a time while the transaction is open, so that the driver holds no more than one task's.
# A batch that is run again finds its number and changes nothing; a query fails if another one has taken its table over.

_INTO_JSON = (ArrayType, MapType, StructType, VariantType)


class DatabaseTableWriter:
    """A table of a database, as a `TableWriter`.

    Parameters
    ----------
    target : as the user named it.
    key, value : types of the output.
    identity : names the application and its checkpoint.
    """

    def __init__(self, target: DatabaseTable, key: DataType, value: DataType, identity: str) -> None:
        self._target, self._identity = target, identity
        _check_json(target, value)
        self._columns = columns_of(target, with_nulls(arrow_type(key)), with_nulls(arrow_type(value)))
        _check_driver(target)
        self._database = Database(target, self._columns)

    def begin(self, planned: int | None) -> None:
        """See `TableWriter`."""
        with self._database.transaction() as transaction:
            transaction.prepare()
            take_over(transaction, self._target, self._identity, planned)
            transaction.commit()

    def write(
        self, rows: DataFrame, batch: int, plan: BatchPlan = UNKNOWN, guard: Callable[[], None] = lambda: None
    ) -> None:
        """See `TableWriter`."""
        tasks = int(rows.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
        last = LastChanges(self._columns, self._target.dialect, limit(tasks))
        pieces = rows.select("key", "value").mapInArrow(last, CHANGES)
        # once: the levels' state is saved with it
        pieces = pieces.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            results = pieces.select("small", F.when(F.col("small"), F.col("changes")).alias("changes")).collect()
            small = [bytes(row["changes"]) for row in results if row["small"]]
            self._commit(batch, plan, guard, small, pieces, len(results))
        finally:
            pieces.unpersist()

    def _commit(
        self, batch: int, plan: BatchPlan, guard: Callable[[], None], small: list[bytes], pieces: DataFrame, count: int
    ) -> None:
        with self._database.transaction() as transaction:
            mark = check_writer(transaction.mark(), self._target, self._identity)
            # behind the lock of the mark: who takes the checkpoint over later waits for it, and sees what is done here
            guard()
            if has_batch(mark, self._target, batch, plan):
                return
            for piece in small:
                transaction.apply(row_sizes.decode(piece))
            if len(small) < count:
                for piece in _large(pieces):
                    transaction.apply(row_sizes.decode(piece))
            transaction.set_mark(Mark(self._identity, batch, plan.text()))
            transaction.commit()


def _large(pieces: DataFrame) -> Iterator[bytes]:
    rows: Any = pieces.filter(~F.col("small")).select("changes").toLocalIterator()
    for row in rows:
        yield bytes(row["changes"])


def _check_json(target: DatabaseTable, value: DataType) -> None:
    is_single = target.value is not None or not isinstance(value, StructType)
    fields = [StructField(target.value or "value", value)] if is_single else value.fields  # type: ignore[attr-defined]
    for field in fields:
        if isinstance(field.dataType, _INTO_JSON) and not readable(field.dataType):
            raise TopologyError(
                f"The field {field.name!r} is {field.dataType.simpleString():.200}, which JSON cannot hold.",
                given=f"{field.name!r}: {field.dataType.simpleString()}",
                hint="JSON has maps by strings, and no variants or intervals: table.map_values(lambda value: ...).",
            )


def _check_driver(target: DatabaseTable) -> None:
    if target.dialect == "postgresql":
        try:
            import psycopg  # noqa: F401
        except ImportError:
            raise ConfigError(
                "Tables of Postgres are written through psycopg, which is not installed.",
                given=repr(target),
                hint=f"{installing('postgres')}.",
            ) from None


# The outputs of a topology that are kept as tables, in databases and in catalogs: what they have in common.


class TableWriter(Protocol):
    """Writes the batches of one such output."""

    def begin(self, planned: int | None) -> None:
        """Check the table, make it if it may be made, and take it over.

        Parameters
        ----------
        planned : number of the last batch that the checkpoint has a plan of; -1: none; None: not known.
        """

    def write(
        self, rows: DataFrame, batch: int, plan: BatchPlan = UNKNOWN, guard: Callable[[], None] = lambda: None
    ) -> None:
        """Write a batch: a frame with the columns key, value and sequence.

        Parameters
        ----------
        plan : of the batch.
        guard : raises where the checkpoint is another query's; asked when the table is locked, before the commit.
        """


# Tables of databases and catalogs as outputs: each has a writer of its own, which the driver commits.


class TableOutputWriter(OutputWriter):
    """Writes one table."""

    turn = 2

    @classmethod
    def of(cls, context: OutputContext, sinks: Sequence[SinkNode]) -> Sequence[OutputWriter]:
        writers = [cls(context, (sink,)) for sink in sinks]
        for writer in writers:
            _ = writer.table  # raises before anything is taken over
        return writers

    @cached_property
    @abstractmethod
    def table(self) -> TableWriter:
        """Its writer."""

    def begin(self) -> None:
        written = self.context.written
        self.table.begin(None if written is None else written.planned)

    def write(self, batch: OutputBatch) -> None:
        self.table.write(batch.rows(self.sink), batch.number, batch.plan, batch.guard)


class DatabaseWriter(TableOutputWriter):
    """Writes a table of a database."""

    @cached_property
    def table(self) -> TableWriter:
        shape = self.sink.shape
        return DatabaseTableWriter(self.target, shape.key, shape.value, self.context.identity)


class CatalogWriter(TableOutputWriter):
    """Writes a table of a catalog."""

    @cached_property
    def table(self) -> TableWriter:
        shape, context = self.sink.shape, self.context
        return MergedTable(context.spark, self.target, shape.key, shape.value, context.identity)
