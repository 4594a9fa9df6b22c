"""A query's tables, served: the replica, what keeps it up with the query, and the servers before it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import SparkSession

from watersmeet._spark.checkpoint.folders import Folder
from watersmeet._spark.checkpoint.record import started_in
from watersmeet._spark.metrics.lifetime import BatchReports
from watersmeet._spark.outputs.batch_gate import BatchGate
from watersmeet._spark.serving.client import ReplicaSource, ServedTable
from watersmeet._spark.serving.follower import Follower
from watersmeet._spark.serving.replica import Replica, ServedStore
from watersmeet.errors import ConfigError

Tls = tuple[str | os.PathLike[str], str | os.PathLike[str]]
MAX_BYTES = 1 << 30
"""Of a replica, where nothing else is said."""


class TableServer:
    """The tables that a query serves, until `close` or the query's `stop`; a query that fails is still asked.

    Take it from `Query.serve`.
    """

    def __init__(self, replica: Replica, follower: Follower) -> None:
        self._replica, self._follower = replica, follower
        self._servers: Any = None
        self._closed = False

    def __repr__(self) -> str:
        return f"TableServer({self.url or 'this process'}, {', '.join(self._replica.stores)})"

    @property
    def url(self) -> str | None:
        return None if self._servers is None else str(self._servers.url)

    @property
    def flight_url(self) -> str | None:
        """The address of Arrow Flight; None: there is none."""
        return None if self._servers is None else str(self._servers.flight_url)

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def batch(self) -> int | None:
        """The batch that answers are of; None: the checkpoint is being read."""
        return self._replica.batch

    def table(self, name: str) -> ServedTable:
        """A table, read in this process.

        Raises
        ------
        ConfigError : it is not served.
        """
        return ServedTable(name, ReplicaSource(self._replica))

    def close(self) -> None:
        """Serve no more; the query goes on."""
        if not self._closed:
            self._closed = True
            self._follower.close()
            if self._servers is not None:
                self._servers.close()


def check_served(tables: Any, max_bytes: Any) -> None:
    """Raise unless these can be the options of `serve`."""
    names = isinstance(tables, Sequence) and not isinstance(tables, str)
    if not (names and tables and all(isinstance(name, str) for name in tables)):
        raise ConfigError(f"tables={tables!r:.200} is no list of names.", hint='tables=["open-orders"]')
    if not isinstance(max_bytes, int) or isinstance(max_bytes, bool) or max_bytes < 1:
        raise ConfigError(
            f"max_bytes={max_bytes!r:.200} is no number of bytes.", hint=f"max_bytes={2 << 30}, for example: 2 GiB."
        )


def served(
    spark: SparkSession,
    checkpoint: str,
    gate: BatchGate,
    reports: BatchReports,
    tables: Sequence[str],
    max_bytes: int,
    is_active: Callable[[], bool],
    servers: Callable[[Replica], Any] | None,
) -> TableServer:
    """Serve tables of a running query.

    Parameters
    ----------
    gate, reports : the query's.
    servers : begins what listens, if anything does.
    """
    if not gate.stands:
        raise ConfigError(
            "The batches of this query cannot be followed: its only output is one of Spark's own sinks.",
            hint="Write a second output, or the same rows by wm.ForeachBatch(function).",
        )
    check_served(tables, max_bytes)
    metadata = started_in(Folder(spark, checkpoint))
    stores = [ServedStore.of(metadata.facts, name) for name in dict.fromkeys(tables)]
    replica = Replica(stores, max_bytes)
    follower = Follower(reports, metadata.spark_folder, replica, is_active)
    server = TableServer(replica, follower)
    if servers is not None:
        server._servers = servers(replica)
    follower.begin(gate)
    return server
