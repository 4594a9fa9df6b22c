"""A query's tables, served: replica, what keeps it up with the query, listeners; and the widget of a notebook."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from pyspark.sql import SparkSession

from watersmeet._spark.checkpoint.folders import Folder
from watersmeet._spark.checkpoint.record import started_in
from watersmeet._spark.metrics.lifetime import BatchReports
from watersmeet._spark.outputs.batch_gate import BatchGate
from watersmeet._spark.serving.access import Access
from watersmeet._spark.serving.client import ReplicaSource, ServedTable
from watersmeet._spark.serving.follower import Follower
from watersmeet._spark.serving.page import Explainer, QueryStatus
from watersmeet._spark.serving.replica import Replica, ServedStore
from watersmeet.errors import ConfigError, installing, missing_packages

Tls = tuple[str | os.PathLike[str], str | os.PathLike[str]]
MAX_BYTES = 1 << 30
"""Of a replica, where nothing else is said."""
_NEEDED = ("starlette", "uvicorn", "prometheus_client")
_NEEDED_BY_WIDGETS = ("anywidget", "starlette", "uvicorn")


class TableServer:
    """The tables that a query serves, until `close` or the query's `stop`; a query that fails is still asked.

    Take it from `Query.serve`.
    """

    def __init__(self, replica: Replica, follower: Follower) -> None:
        self._replica, self._follower = replica, follower
        self._listeners: Listeners | None = None
        self._closed = False
        self._is_extended = self._is_due = False

    def __repr__(self) -> str:
        return f"TableServer({self.url or 'this process'}, {', '.join(self._replica.stores)})"

    @property
    def url(self) -> str | None:
        return None if self._listeners is None else self._listeners.url

    @property
    def flight_url(self) -> str | None:
        """The address of Arrow Flight; None: there is none."""
        return None if self._listeners is None else self._listeners.flight_url

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

    @property
    def place(self) -> dict[str, Any]:
        """Options with which `Query.serve` listens at the same addresses; empty if nothing listens."""
        if self._listeners is None:
            return {}
        ports = {"flight_port": urlsplit(self._listeners.flight_url).port}
        return {"address": urlsplit(self._listeners.url).netloc, **ports}

    @contextmanager
    def extension(self) -> Iterator[None]:
        """Keep answering inside the `with` block, even if `close` is called: the next query starts meanwhile."""
        self._is_extended = True
        try:
            yield
        finally:
            self._is_extended = False
            if self._is_due:
                self.close()

    def close(self) -> None:
        """Serve no more; the query goes on."""
        self._is_due = True
        if not (self._closed or self._is_extended):
            self._closed = True
            self._follower.close()
            if self._listeners is not None:
                self._listeners.close()


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
    listen: Callable[[Replica], Listeners] | None,
) -> TableServer:
    """Serve tables of a running query.

    Parameters
    ----------
    gate, reports : the query's.
    listen : begins to listen; None: this process alone asks.
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
    if listen is not None:
        server._listeners = listen(replica)
    follower.begin(gate)
    return server


# What listens, and the widget of a notebook.


class Listeners:
    """Listen for questions to a replica: HTTP and Arrow Flight, in threads of their own.

    Parameters
    ----------
    replica : what is served.
    access : where, and to whom.
    query : what is shown of the query.
    explainer : its answers from its journal; None: it keeps none.
    """

    def __init__(
        self, replica: Replica, access: Access, query: QueryStatus, explainer: Explainer | None = None
    ) -> None:
        import uvicorn

        from watersmeet._spark.metrics.exporters import text_of
        from watersmeet._spark.serving.flight import FlightReplica
        from watersmeet._spark.serving.http import HttpReplica, QueryView

        self._socket = access.bound()
        try:
            self._flight = FlightReplica(replica, access)
        except BaseException:
            self._socket.close()
            raise
        view = QueryView(query, text_of(query.name, query.metrics), self._flight.port, explainer)
        host = f"[{access.host}]" if ":" in access.host else access.host
        self.url = f"http{'s' if access.tls else ''}://{host}:{self._socket.getsockname()[1]}"
        self.flight_url = f"grpc{'+tls' if access.tls else ''}://{host}:{self._flight.port}"
        self._http = HttpReplica(replica, access, view)
        self._server = uvicorn.Server(_config(self._http.app, access))
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name="watersmeet http", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._server.should_exit = True
        self._http.close()
        self._flight.close()
        self._thread.join()
        self._socket.close()


def check_packages() -> None:
    """Raise where a package is missing that serving needs."""
    lacking = missing_packages(_NEEDED)
    if lacking:
        raise ConfigError(
            f"Serving tables needs packages that are not installed: {', '.join(lacking)}.",
            hint=f"{installing('serve')}; or leave the address out and ask in this process.",
        )


def widget_of(status: QueryStatus, replica: Replica | None, explainer: Explainer | None) -> Any:
    """The page of a query as a widget.

    Parameters
    ----------
    status : the query's.
    replica : its served tables; None: none are served.
    explainer : its answers from its journal; None: it keeps none.
    """
    lacking = missing_packages(_NEEDED_BY_WIDGETS)
    if lacking:
        raise ConfigError(
            f"query.widget() needs packages that are not installed: {', '.join(lacking)}.",
            hint=f"{installing('notebook')}.",
        )
    # of packages that are extras
    from watersmeet._spark.serving.http import HttpReplica, QueryView
    from watersmeet._spark.serving.widget import QueryWidget

    served = Replica([], 1) if replica is None else replica
    view = QueryView(status, lambda: b"", 0, explainer)
    application = HttpReplica(served, Access.of("127.0.0.1:0", None, None, None), view).unguarded
    return QueryWidget(application, status.is_active)


def _config(app: Any, access: Access) -> Any:
    import uvicorn

    from watersmeet._spark.serving import http

    files: dict[str, Any] = {}
    if access.tls is not None:
        files = {"ssl_certfile": access.tls[0], "ssl_keyfile": access.tls[1]}
    config = uvicorn.Config(
        app,
        http=http.BoundedConnection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        h11_max_incomplete_event_size=http.HEAD_BYTES,
        timeout_keep_alive=int(http.HEAD_SECONDS),
        timeout_graceful_shutdown=1,
        **files,
    )
    # a certificate that does not fit its key is said now
    config.load()
    return config
