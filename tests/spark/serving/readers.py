"""Readers that ask for a row of a served table all the time: the batches that they see, and what is refused to them."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.client import HTTPException
from typing import Any

import watersmeet as wm
from watersmeet._spark.serving.replica import NotServed, TooEarly

Answer = tuple[int, Any]
"""The batch of an answer, and the value."""


def row_over_http(url: str, table: str, key: Any) -> Answer | None:
    """The answer; None: nobody listens, or the tables are being read."""
    try:
        with urllib.request.urlopen(f"{url}/tables/{table}/{key}", timeout=60) as given:
            body = json.loads(given.read())
    except urllib.error.HTTPError as error:
        if error.code == HTTPStatus.GATEWAY_TIMEOUT:
            return None
        raise
    except (OSError, HTTPException):
        return None
    return body["batch"], body["rows"][0]["value"] if body["rows"] else None


def row_over_flight(served: Any, key: Any) -> Answer | None:
    """The answer by a client that stays the same; None as `row_over_http` has it."""
    try:
        row = served.get(key)
    except (NotServed, TooEarly):
        return None
    return row.batch, row.value


class Reader:
    """A thread that asks until it is ended.

    Attributes
    ----------
    answers : one for each batch and value, in order.
    refusals : number of questions that nobody took.
    failure : what else it has met.
    """

    def __init__(self, ask: Callable[[], Answer | None]) -> None:
        self.answers: list[Answer] = []
        self.refusals = 0
        self.failure: Exception | None = None
        self._ask, self._ended = ask, threading.Event()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    @property
    def value(self) -> Any:
        """The last value that was seen; None: nothing was answered yet."""
        return self.answers[-1][1] if self.answers else None

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def _read(self) -> None:
        try:
            while not self._ended.wait(0.02):
                answer = self._ask()
                self.refusals += answer is None
                if answer is not None and answer != next(reversed(self.answers), None):
                    self.answers.append(answer)
        except Exception as failure:
            self.failure = failure

    def check(self) -> None:
        """Raise where a batch came before one that was seen, or something else than silence was met."""
        assert self.failure is None, self.failure
        batches = [batch for batch, _ in self.answers]
        assert batches == sorted(batches)
        assert len(set(batches)) > 1


@contextmanager
def reading(url: str, table: str, key: Any) -> Iterator[list[Reader]]:
    """A reader over HTTP and one over Arrow Flight, which read until the end and are checked then."""
    with wm.connect(url) as client:
        served = client.table(table)
        readers = [Reader(lambda: row_over_http(url, table, key)), Reader(lambda: row_over_flight(served, key))]
        try:
            yield readers
        finally:
            for reader in readers:
                reader.end()
    for reader in readers:
        reader.check()
