"""Where a query's numbers are shown while it runs: to Prometheus, in a line of the terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable

from pyspark.sql import SparkSession

from watersmeet._spark.metrics.live import Live, check, is_interactive
from watersmeet._spark.metrics.metrics import Metrics
from watersmeet._spark.metrics.prometheus import Address, Endpoint


class MetricsView:
    """The view of one query's numbers; usually none.

    Parameters
    ----------
    address : where Prometheus asks; None: it does not.
    progress : whether a line is drawn, where somebody sees it.
    application : the topology's name.

    Raises
    ------
    ConfigError : the port is taken, or a package is missing.
    """

    def __init__(self, address: Address | None, application: str, *, progress: bool) -> None:
        if progress:
            check()
        self._progress, self._application = progress, application
        self._live: Live | None = None
        # before the query starts: a port that is taken is no reason to stop one
        self._endpoint = None if address is None else Endpoint(address, application)

    @property
    def port(self) -> int | None:
        """The port at which Prometheus asks, if it does."""
        return None if self._endpoint is None else self._endpoint.port

    def begin(self, spark: SparkSession, read: Callable[[], Metrics]) -> None:
        """Show these numbers."""
        if self._endpoint is not None:
            self._endpoint.serve(read)
        if self._progress and is_interactive(sys.stderr):
            self._live = Live(spark, self._application, read, sys.stderr)

    def close(self) -> None:
        """End showing them; nothing listens or draws behind this."""
        if self._endpoint is not None:
            self._endpoint.close()
        if self._live is not None:
            self._live.close()
