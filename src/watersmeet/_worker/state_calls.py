"""Calls to Spark's state server: answers are read later, manifests of many labels come at once (law 8: faster alone).

Spark's client waits for the answer of each call, some tenths of a millisecond, and a shard with a few rows makes ten of
them. The server handles one call after the other and answers in this order. So calls that answer nothing but that they
have succeeded are read before the next answer that counts, and the calls for many manifests are sent together. An error
is raised later than by Spark's client, but in the same task: its end waits for all answers. Where the client looks
otherwise than in PySpark 4.3, its own ways are taken.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

from pyspark.errors import PySparkRuntimeError

T = TypeVar("T")
AHEAD = 32
"""Manifests that are asked for together."""
MOST = 96
"""Answers that may be outstanding: they must fit into a socket, else both ends would wait for each other."""
_NEEDED = ("set_implicit_key", "_send_proto_message", "_receive_proto_message", "_deserialize_from_bytes")
_RECEIVE = "_receive_"


class StateCalls:
    """The calls of one task.

    Parameters
    ----------
    client : Spark's; its ways to receive are replaced.
    keeps : whether a label has state that its operator reads.
    """

    def __init__(self, client: Any, keeps: Callable[[int], bool]) -> None:
        self._client = client
        self._keeps = keeps
        self._late = False
        self._outstanding: deque[Callable[[bytes], None] | None] = deque()
        self._coming: deque[int] = deque()
        self._known: dict[int, bytes | None] = {}
        self._recording, self._get = False, b""
        self._receive, self._send = client._receive_proto_message, client._send_proto_message
        for name in [each for each in dir(client) if each.startswith(_RECEIVE)]:
            setattr(client, name, partial(self._received, getattr(client, name)))
        client._receive_proto_message, client._send_proto_message = self._received_or_late, self._sent

    @classmethod
    def of(cls, client: Any, keeps: Callable[[int], bool]) -> StateCalls | None:
        """The calls of a client; None: it is not as it was known."""
        return cls(client, keeps) if all(hasattr(client, name) for name in _NEEDED) else None

    def late(self, call: Callable[..., T], *given: Any) -> T:
        """Call what only writes, and leave its answers for later."""
        self._late = True
        try:
            return call(*given)
        finally:
            self._late = False

    def settle(self) -> None:
        """Read all answers that are outstanding.

        Raises
        ------
        PySparkRuntimeError : one of them is an error.
        """
        while self._outstanding:
            answered = self._outstanding.popleft()
            status, error, value = self._receive()
            if status != 0:
                raise PySparkRuntimeError(f"Error in a call to the state server: {error}")
            if answered is not None:
                answered(value)

    def coming(self, labels: Iterable[int]) -> None:
        """Labels that come next, in this order."""
        self._coming.extend(labels)

    def fetch_ahead(self, label: int) -> None:
        """A label's turn comes: ask for its manifest, and for those of labels behind it, where they are not known."""
        # how Spark asks for one is known when it has asked for the first
        if label in self._known or not self._get or not self._keeps(label):
            return
        # a label whose rows lie in two batches is named by both, and is done by now
        while self._coming and self._coming.popleft() != label:
            pass
        self._ask(label)
        for _ in range(min(AHEAD - 1, len(self._coming))):
            following = self._coming.popleft()
            if self._keeps(following):
                self._ask(following)
        self.settle()

    def manifest(self, label: int, ask: Callable[[], bytes | None]) -> bytes | None:
        """The label's manifest, asked for now if it has not been."""
        if label in self._known:
            return self._known.pop(label)
        self._recording = True
        try:
            return ask()
        finally:
            self._recording = False

    def _ask(self, label: int) -> None:
        def answered(value: bytes) -> None:
            row = self._client._deserialize_from_bytes(value) if len(value) else None
            self._known[label] = None if row is None else bytes(row[0])

        self.late(self._client.set_implicit_key, (label,))
        self._send(self._get)
        self._outstanding.append(answered)

    def _sent(self, message: bytes) -> None:
        if self._recording:
            self._get = message
        self._send(message)

    def _received_or_late(self) -> Any:
        if not self._late:
            return self._received(self._receive)
        self._outstanding.append(None)
        if len(self._outstanding) >= MOST:
            self.settle()
        return 0, "", b""

    def _received(self, receive: Callable[[], Any]) -> Any:
        self.settle()
        return receive()
