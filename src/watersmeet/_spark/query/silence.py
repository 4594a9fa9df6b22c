"""A query that waits for Kafka: what is said of it while it waits, and how it is stopped all the same (law 6).

Spark asks Kafka for the ends of its topics before each batch, and says nothing while no answer comes: it asks as often
as `fetchOffset.numRetries` says, each time for `default.api.timeout.ms`, and then fails. Its stop waits for the answer.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import suppress
from datetime import datetime
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from watersmeet._spark.session.settings import overridden

LOG = logging.getLogger("watersmeet.query")
SECONDS = 2.0
"""Between two looks."""
SAID_AFTER = 10.0
"""Seconds without an answer before the first warning; each of the next comes after twice the time."""
STOP_MS = 3_000
"""How long a stop waits for Spark's thread before it looks what that waits for."""
_TIMEOUT = "spark.sql.streaming.stopTimeout"
_ASKING = "Getting offsets from "
_BROKEN_OFF = "Stopped"
"""Said when a query has left its batches for good and closes its sources, where a client of Kafka's waits as well."""
_stopping = threading.Lock()
"""The timeout is a setting of the session: of two stops at once one would leave the other's behind."""


class Silence:
    """Follows one query: warns while Kafka does not answer it, and says when it does again.

    Parameters
    ----------
    query : the query; followed by a thread until it ends or `close`.

    Attributes
    ----------
    lasts : whether Kafka has not answered for so long that it was said.
    """

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query
        self._closed = threading.Event()
        self.lasts = False
        self._left = False
        threading.Thread(target=self._follow, name=f"silence of {query.runId}", daemon=True).start()

    def close(self) -> None:
        """Stop following."""
        self._closed.set()

    def stop(self, spark: SparkSession) -> bool:
        """Stop the query as `StreamingQuery.stop` does, but without waiting for a Kafka that does not answer.

        Returns
        -------
        bool : whether it has ended. False: no batch is under way, and none is to come; it ends when Kafka answers,
            or when its client gives up.
        """
        while not self._left:  # a turn each time that the thread has not ended in time
            try:
                with _stopping, overridden(spark, {_TIMEOUT: str(STOP_MS)}):
                    self._query.stop()
                return True
            except Exception as error:  # what a timeout is raised as differs with Spark's version
                if _TIMEOUT not in str(error):
                    raise
                if asks(self._query) or self._query.status["message"] == _BROKEN_OFF:
                    self._left = True
                    LOG.warning(_LEFT)
        return False

    def _follow(self) -> None:
        since, said = None, 0.0
        with suppress(PySparkException, OSError):  # Spark itself has ended
            while not self._closed.wait(min(SECONDS, SAID_AFTER)) and self._query.isActive:
                asking = asks(self._query)
                if not asking and said:
                    LOG.warning("Kafka answers again, after %.0f seconds.", time.monotonic() - since[0])  # type: ignore[index]
                since = (since or (time.monotonic(), datetime.now())) if asking else None
                waited = time.monotonic() - since[0] if since else 0.0
                if since is None:
                    said, self.lasts = 0.0, False
                elif waited >= max(SAID_AFTER, 2 * said):
                    said = waited
                    self.lasts = True
                    LOG.warning(_TEXT, since[1].isoformat(" ", "seconds"), waited)


_TEXT = (
    "Kafka has not answered since %s (%.0f seconds). The query waits and asks again; it fails after "
    "fetchOffset.numRetries (source=, default 3) times default.api.timeout.ms (consumer=, default 60000) of wm.Kafka."
)
_LEFT = (
    "The query is stopped, but closing its sources takes long, as where Kafka does not answer: that ends in the "
    "background. Until then nobody else gets the checkpoint; a start in this process waits for it."
)


def asks(query: StreamingQuery) -> bool:
    """Whether the query waits for a source to say how far it reaches."""
    status: dict[str, Any] = query.status
    return str(status["message"]).startswith(_ASKING)
