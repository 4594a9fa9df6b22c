"""Servers before a replica, HTTP and Arrow Flight, in threads of their own; and the widget of a notebook."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from watersmeet._spark.serving.access import Access
from watersmeet._spark.serving.page import QueryStatus
from watersmeet._spark.serving.replica import Replica
from watersmeet.errors import ConfigError, installing, missing

_NEEDED = ("starlette", "uvicorn", "prometheus_client")
_NEEDED_BY_WIDGETS = ("anywidget", "starlette", "uvicorn")


class Servers:
    """The servers of a replica: HTTP and Arrow Flight.

    Parameters
    ----------
    replica : what is served.
    access : where, and to whom.
    query : what is shown of the query.
    why : its answers about rows; None: it keeps no journal.
    """

    def __init__(
        self,
        replica: Replica,
        access: Access,
        query: QueryStatus,
        why: Callable[[str, Any], Any] | None = None,
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
        view = QueryView(query, text_of(query.name, query.metrics), self._flight.port, why)
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
    lacking = missing(_NEEDED)
    if lacking:
        raise ConfigError(
            f"Serving tables needs packages that are not installed: {', '.join(lacking)}.",
            hint=f"{installing('serve')}; or leave the address out and ask in this process.",
        )


def widget_of(status: QueryStatus, replica: Replica | None, explain: Callable[[str, Any], Any] | None) -> Any:
    """The page of a query as a widget.

    Parameters
    ----------
    status : the query's.
    replica : its served tables; None: none are served.
    explain : its answers about rows; None: it keeps no journal.
    """
    lacking = missing(_NEEDED_BY_WIDGETS)
    if lacking:
        raise ConfigError(
            f"query.widget() needs packages that are not installed: {', '.join(lacking)}.",
            hint=f"{installing('notebook')}.",
        )
    # of packages that are extras
    from watersmeet._spark.serving.http import HttpReplica, QueryView
    from watersmeet._spark.serving.widget import QueryWidget

    served = Replica([], 1) if replica is None else replica
    view = QueryView(status, lambda: b"", 0, explain)
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
