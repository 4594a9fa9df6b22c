"""A query's tables, served: the replica, what keeps it up with the query, and the servers before it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

from pyspark.sql import SparkSession

from watersmeet._spark.checkpoint.checkpoint import started_in
from watersmeet._spark.checkpoint.files import Folder
from watersmeet._spark.metrics.metrics import Metrics
from watersmeet._spark.serving.access import Access
from watersmeet._spark.serving.client import ReplicaSource, ServedTable
from watersmeet._spark.serving.follower import Follower
from watersmeet._spark.serving.replica import Replica
from watersmeet._spark.serving.stores import ServedStore
from watersmeet._spark.sinks.barrier import StopBarrier
from watersmeet.errors import ConfigError
from watersmeet.extras import installing

Tls = tuple[str | os.PathLike[str], str | os.PathLike[str]]
MAX_BYTES = 1 << 30
"""Of a replica, where nothing else is said."""
_NEEDED = ("starlette", "uvicorn", "prometheus_client")


class ServedTables:
    """The tables that a query serves, until `close` or the query's `stop`; a query that fails is still asked.

    Take it from `Query.serve`.
    """

    def __init__(self, replica: Replica, follower: Follower) -> None:
        self._replica, self._follower = replica, follower
        self._servers: Any = None
        self._closed = False

    def __repr__(self) -> str:
        return f"ServedTables({self.url or 'this process'}, {', '.join(self._replica.stores)})"

    @property
    def url(self) -> str | None:
        """The address over HTTP; None: there is none."""
        return None if self._servers is None else str(self._servers.url)

    @property
    def flight_url(self) -> str | None:
        """The address of Arrow Flight; None: there is none."""
        return None if self._servers is None else str(self._servers.flight_url)

    @property
    def is_closed(self) -> bool:
        """Whether nothing is served any more."""
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


def served(
    spark: SparkSession,
    checkpoint: str,
    barrier: StopBarrier,
    tables: Sequence[str],
    max_bytes: int,
    is_active: Callable[[], bool],
    servers: Callable[[Replica], Any] | None,
) -> ServedTables:
    """Serve tables of a running query.

    Parameters
    ----------
    barrier : the query's.
    servers : begins what listens, if anything does.

    Raises
    ------
    ConfigError : a table is none, or the query has no place where its batches are seen.
    """
    if not barrier.stands:
        raise ConfigError(
            "The batches of this query cannot be followed: its only output is one of Spark's own sinks.",
            given="wm.Writer(...) as the only output",
            hint="Write a second output, or the same rows by wm.ForeachBatch(function).",
        )
    if isinstance(tables, str) or not tables:
        raise ConfigError(f"tables={tables!r} is no list of names.", hint='tables=["open-orders"]')
    if max_bytes < 1:
        raise ConfigError(f"max_bytes={max_bytes!r} is no number of bytes.", hint="max_bytes=2 << 30")
    begun = started_in(Folder(spark, checkpoint))
    stores = [ServedStore.of(begun.facts, name) for name in dict.fromkeys(tables)]
    replica = Replica(stores, max_bytes)
    follower = Follower(spark, begun.place, replica, is_active)
    made = ServedTables(replica, follower)
    if servers is not None:
        made._servers = servers(replica)
    follower.begin(barrier)
    return made


class Servers:
    """What listens: HTTP and Arrow Flight.

    Parameters
    ----------
    replica : what is served.
    access : where, and to whom.
    name : the query's.
    failure, is_active : of the query.
    metrics : its numbers.

    Raises
    ------
    ConfigError : a port is taken, or a package is missing.
    """

    def __init__(
        self,
        replica: Replica,
        access: Access,
        name: str,
        failure: Callable[[], Exception | None],
        is_active: Callable[[], bool],
        metrics: Callable[[], Metrics],
    ) -> None:
        import uvicorn

        from watersmeet._spark.metrics.prometheus import text_of
        from watersmeet._spark.serving import limits
        from watersmeet._spark.serving.flight import FlightReplica
        from watersmeet._spark.serving.http import HttpReplica, QueryView

        self._socket = access.bound()
        try:
            self._flight = FlightReplica(replica, access)
        except BaseException:
            self._socket.close()
            raise
        view = QueryView(name, failure, is_active, text_of(name, metrics), self._flight.port)
        files = {} if access.tls is None else {"ssl_certfile": access.tls[0], "ssl_keyfile": access.tls[1]}
        config = uvicorn.Config(
            HttpReplica(replica, access, view).app,
            http=limits.BoundedConnection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            h11_max_incomplete_event_size=limits.HEAD_BYTES,
            timeout_keep_alive=int(limits.HEAD_SECONDS),
            timeout_graceful_shutdown=1,
            **files,  # type: ignore[arg-type]
        )
        config.load()
        host = f"[{access.host}]" if ":" in access.host else access.host
        self.url = f"http{'s' if access.tls else ''}://{host}:{self._socket.getsockname()[1]}"
        self.flight_url = f"grpc{'+tls' if access.tls else ''}://{host}:{self._flight.port}"
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name="watersmeet http", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._server.should_exit = True
        self._flight.close()
        self._thread.join()
        self._socket.close()


def check_packages() -> None:
    """Raise where a package is missing that serving needs.

    Raises
    ------
    ConfigError : so it is.
    """
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"Serving tables needs packages that are not installed: {', '.join(missing)}.",
            hint=f"{installing('serve')}; or leave the address out and ask in this process.",
        )
