"""A table that is kept in a database: one transaction of the driver's for each batch, with the batch's number in it.

The tasks hand back the last change of each key (`changes`): what is little with the job itself, what is much stays with
Spark and comes a task at a time while the transaction is open, so that the driver holds no more than one task's. A
batch that is run again finds its number and changes nothing; a query fails if another one has taken its table over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType, VariantType

from watersmeet._engine.databases.columns import columns_of
from watersmeet._engine.rows import blob
from watersmeet._engine.rows.types import with_nulls
from watersmeet._worker.batch_plan import UNKNOWN, BatchPlan
from watersmeet._worker.databases.changes import CHANGES, LastChanges
from watersmeet._worker.databases.checks import Mark, check_writer, has_batch, take_over
from watersmeet._worker.databases.postgres import PostgresTable
from watersmeet._worker.databases.sqlite import SqliteTable
from watersmeet._worker.formats.arrow_types import arrow_type
from watersmeet._worker.formats.json_types import readable
from watersmeet._worker.writers.driver_commit import limit
from watersmeet.errors import ConfigError, TopologyError
from watersmeet.extras import installing
from watersmeet.io.databases import DatabaseTable

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
        kind = SqliteTable if target.dialect == "sqlite" else PostgresTable
        self._database = kind(target, self._columns)

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
            told = pieces.select("small", F.when(F.col("small"), F.col("changes")).alias("changes")).collect()
            small = [bytes(row["changes"]) for row in told if row["small"]]
            self._commit(batch, plan, guard, small, pieces, len(told))
        finally:
            pieces.unpersist()

    def _commit(
        self,
        batch: int,
        plan: BatchPlan,
        guard: Callable[[], None],
        small: list[bytes],
        pieces: DataFrame,
        count: int,
    ) -> None:
        with self._database.transaction() as transaction:
            mark = check_writer(transaction.mark(), self._target, self._identity)
            # behind the lock of the mark: who takes the checkpoint over later waits for it, and sees what is done here
            guard()
            if has_batch(mark, self._target, batch, plan):
                return
            for piece in small:
                transaction.apply(blob.decode(piece))
            if len(small) < count:
                for piece in _large(pieces):
                    transaction.apply(blob.decode(piece))
            transaction.set_mark(Mark(self._identity, batch, plan.text()))
            transaction.commit()


def _large(pieces: DataFrame) -> Iterator[bytes]:
    """Large changes, a task at a time."""
    rows: Any = pieces.filter(~F.col("small")).select("changes").toLocalIterator()
    for row in rows:
        yield bytes(row["changes"])


def _check_json(target: DatabaseTable, value: DataType) -> None:
    whole = target.value is not None or not isinstance(value, StructType)
    fields = [StructField(target.value or "value", value)] if whole else value.fields  # type: ignore[attr-defined]
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
