"""Changes of tables in catalogs as rows: of Delta by its own stream, which begins with the table as it is; of Iceberg
by files of each snapshot's changes.

Law 2: rows are ordered by commit and key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from watersmeet._spark.session import connecting
from watersmeet._spark.sources.iceberg import PER_BATCH, LakeRows, LakeTable, table_format, table_properties
from watersmeet.errors import TopologyError
from watersmeet.io.inputs import COMMIT_TIMESTAMP, COMMIT_VERSION, FEED, ChangeRows, Changes
from watersmeet.io.topics import Snapshot

_DELTA_FEED = "delta.enableChangeDataFeed"
_ALL = str((1 << 31) - 1)
_FILES_OF_A_BATCH = "1000"
"""Where options do not say it: the default of Delta."""
_BEGUN = "To go on with a checkpoint that has begun, leave the option out."


def opened(changes: Changes, kind: str) -> tuple[ChangeRows, Snapshot | None]:
    """The feed as the rows of a DataFrame, and what the table begins with besides.

    Parameters
    ----------
    kind : "stream", "table" or "global".

    Raises
    ------
    TopologyError : the table is not there, has no feed, or lacks a column.
    ConfigError : the format's connector does not work with the running Spark.
    """
    if not isinstance(changes.table, str):
        return _rows(changes, changes.table, _key(changes)), None
    if kind == "global" and changes.begins:
        raise TopologyError(
            f"A global table takes no {changes.begins}: every start reads it as it is.", hint="Leave it out."
        )
    spark = _session(changes.table)
    parts = changes.table.split(".")
    if len(parts) == 1:  # `name`.snapshots would be a table of a schema
        parts = [spark.catalog.currentCatalog(), *spark.catalog.currentDatabase().split("."), *parts]
    table = ".".join(f"`{name}`" for name in parts)
    with connecting(spark, changes.table):
        provider = _provider(spark, changes.table, table)
        if provider == "delta":
            return _delta(spark, changes, table, kind)
        if provider == "iceberg":
            return _iceberg(LakeTable(spark, changes.table, table), changes, kind), None
    raise TopologyError(
        f"The table {changes.table!r} has the format {provider}, which has no feed of changes that watersmeet knows.",
        hint="Delta and Iceberg have. Where its catalog has changes of its own: "
        'wm.Changes(spark.readStream.option("startingVersion", ...).changes(name), key=...).',
    )


def _key(changes: Changes, identifier: Sequence[str] = ()) -> Any:
    """The columns that identify a row: the user's, or the table's own."""
    if changes.key is not None:
        return changes.key
    if not identifier:
        raise TopologyError(
            f"wm.Changes({changes.table_text}) needs the columns that identify a row: key=None.",
            hint='Name them: key="order_id", or key=["shop", "number"].',
        )
    return identifier[0] if len(identifier) == 1 else identifier


def _rows(changes: Changes, frame: Any, key: Any) -> ChangeRows:
    missing = [name for name in FEED if name not in frame.columns]
    if missing:
        raise TopologyError(
            f"The DataFrame is no feed of changes: it lacks {', '.join(missing)}.",
            hint='Read it with option("readChangeFeed", "true") of Delta, or spark.readStream.changes(name).',
        )
    timestamp = COMMIT_TIMESTAMP if changes.timestamp is None else changes.timestamp
    return ChangeRows(frame, key, changes.value, timestamp, partitioned=True)


def _session(table: str) -> SparkSession:
    spark = SparkSession.getActiveSession()
    if spark is None:
        raise TopologyError(
            f"wm.Changes({table!r}) asks Spark's catalogs for the table, and there is no session.",
            hint='spark = wm.session("orders", ...), in the line above.',
        )
    return spark


def _provider(spark: SparkSession, name: str, table: str) -> str:
    try:
        return table_format(spark, table)
    except AnalysisException:
        raise TopologyError(
            f"Unknown table {name!r}: no catalog of the session has it.",
            hint='Write its whole name, "catalog.schema.table"; spark.catalog.listTables() has the names.',
        ) from None


# Iceberg: a start writes what the snapshots have changed.


def _iceberg(table: LakeTable, changes: Changes, kind: str) -> LakeRows:
    options = dict(changes.options)
    per_batch = options.pop(PER_BATCH, _FILES_OF_A_BATCH)
    if options:
        raise TopologyError(
            f"wm.Changes({changes.table!r}) knows no option {next(iter(options))!r} of a table of Iceberg.",
            hint=f'options={{"{PER_BATCH}": "100"}}: so many snapshots make a batch at most.',
        )
    line, start = table.history()[0] if changes.begins else [], changes.starting_version
    if changes.starting_timestamp is not None:
        start = _version_at(changes, {snapshot.id: snapshot.ms for snapshot in line})
    elif start is not None and all(snapshot.id != start for snapshot in line):
        raise _no_version(changes, f"SELECT * FROM {changes.table}.snapshots")
    frame = table.spark.readStream.table(table.quoted)
    for name, type_name in zip(FEED, ("string", "bigint", "timestamp"), strict=True):
        frame = frame.withColumn(name, F.lit(None).cast(type_name))
    later = kind == "stream" and start is not None
    facts: dict[str, Any] = {"table": table, "start": start, "later": later}
    rows = _rows(changes, frame, _key(changes, table.identifier))
    return LakeRows(**vars(rows), per_batch=None if kind == "global" else per_batch, **facts)


# Delta: its source begins with the table as it is and goes on with the version behind it.


def _delta(spark: SparkSession, changes: Changes, table: str, kind: str) -> tuple[ChangeRows, Snapshot | None]:
    if table_properties(spark, table).get(_DELTA_FEED, "false").lower() != "true":
        raise TopologyError(
            f"The table {changes.table!r} writes no change data feed: {_DELTA_FEED} is not set.",
            hint=f"ALTER TABLE {changes.table} SET TBLPROPERTIES ({_DELTA_FEED} = true): commits from then on have it.",
        )
    key, options, snapshot = _key(changes), dict(changes.options), None
    if kind == "global":  # all of it is one batch
        options = {name: text for name, text in options.items() if not name.endswith("PerTrigger")}
        options[PER_BATCH] = _ALL
    version = changes.starting_version
    if changes.begins:
        times = _delta_times(spark, table)
        version, newest = _version_at(changes, times) if version is None else version, max(times)
        if version > newest:
            raise _no_version(changes, f"DESCRIBE HISTORY {changes.table}")
        # Delta knows no version that is yet to come, so there the version's own changes are read, and left out
        options["startingVersion"] = str(min(version + 1, newest))
        if kind != "stream":
            timestamp = COMMIT_TIMESTAMP if changes.timestamp is None else changes.timestamp
            snapshot = Snapshot(
                _delta_rows(spark, changes, table, version, times.get(version)),
                key,
                value=changes.value,
                timestamp=None if callable(timestamp) else timestamp,
            )
    frame = spark.readStream.format("delta").option("readChangeFeed", "true").options(**options).table(table)
    frame = frame if version is None else frame.filter(F.col(COMMIT_VERSION) > version)
    return _rows(changes, frame, key), snapshot


def _delta_rows(spark: SparkSession, changes: Changes, table: str, version: int, ms: int | None) -> DataFrame:
    """The table of a version, with the columns that came later, and the time of its commit if no other is asked."""
    try:
        rows = spark.sql(f"SELECT * FROM {table} VERSION AS OF {version}")
    except AnalysisException:
        raise _no_version(changes, f"DESCRIBE HISTORY {changes.table}") from None
    rows = rows.unionByName(spark.table(table).limit(0), allowMissingColumns=True)
    return rows if changes.timestamp is not None else rows.withColumn(COMMIT_TIMESTAMP, F.timestamp_millis(F.lit(ms)))


def _delta_times(spark: SparkSession, table: str) -> dict[int, int]:
    """When each version that is left was committed, in ms since 1970."""
    history = spark.sql(f"DESCRIBE HISTORY {table}").select("version", F.unix_millis("timestamp").alias("ms")).collect()
    return {row["version"]: row["ms"] for row in history}


def _no_version(changes: Changes, history: str) -> TopologyError:
    return TopologyError(
        f"The table {changes.table!r} has no version {changes.starting_version}: {changes.begins}.",
        hint=f"{history} has those that are left. {_BEGUN}",
    )


def _version_at(changes: Changes, times: Mapping[int, int]) -> int:
    """The last version that the table had at the time of the start.

    Parameters
    ----------
    times : of each version that is left, in ms since 1970.
    """
    ms = changes.starting_timestamp
    assert isinstance(ms, int)
    earlier = [(at, version) for version, at in times.items() if at <= ms]
    if not earlier:
        first = min(times.values(), default=None)
        raise TopologyError(
            f"The table {changes.table!r} has no version of starting_timestamp={_text(ms)} or before.",
            given="an empty history" if first is None else f"the first that is left is of {_text(first)}",
            hint=f"Take a later time. {_BEGUN}",
        )
    return max(earlier)[1]


def _text(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1_000, UTC).isoformat(" ", "milliseconds")
