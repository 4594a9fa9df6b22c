"""Limits of an answer of a registry: its bytes, and the time until all of them are there.

The client of confluent-kafka bounds only how long it waits for the next byte, and keeps whatever comes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from watersmeet._worker.formats.guarded.budgets import ANSWER_BYTES
from watersmeet._worker.formats.registered.packages import needed
from watersmeet.errors import ConfigError

_RETRIES, _WAIT_MS, _MOST_WAIT_MS = 3, 1_000, 20_000
"""The client's own, where nothing else is said."""
_GRACE = 1.0
"""For what it does beside waiting, in seconds."""


class TooLarge(Exception):
    """An answer has more bytes than are taken."""


def seconds_of(settings: Mapping[str, Any]) -> float:
    """How long a call may take with all its retries, by the client's settings."""
    retries = int(settings.get("max.retries", _RETRIES))
    first, most = settings.get("retries.wait.ms", _WAIT_MS), settings.get("retries.max.wait.ms", _MOST_WAIT_MS)
    waits: float = sum(min(float(most), float(first) * 2.0**tried) for tried in range(retries)) / 1_000
    tries: float = (retries + 1) * float(settings.get("timeout") or 0)
    return len(str(settings.get("url", "")).split(",")) * (tries + waits) + _GRACE


def bounded(client: Any) -> Any:
    """The client, which takes no answer of more than so many bytes.

    Raises
    ------
    ConfigError : its version does not allow to limit answers.
    """
    try:
        session = client._rest_client.session
        hooks = session.event_hooks
        # a short answer may be a long one, packed
        session.headers["Accept-Encoding"] = "identity"
    except AttributeError as error:
        raise ConfigError(
            "The size of the Schema Registry's answers cannot be limited.",
            given=str(error),
            hint="Take a version of confluent-kafka that watersmeet is tested with: 2.12 to 2.16.",
        ) from None
    stream = needed("confluent_kafka.schema_registry.common._httpx_compat").httpx.SyncByteStream
    session.event_hooks = hooks | {"response": [*hooks["response"], lambda response: _bound(response, stream)]}
    return client


def _bound(response: Any, stream: Any) -> None:
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise TooLarge("an answer that is packed, which was not asked for")
    response.stream = _of(stream)(response.stream)


def _of(stream: Any) -> Any:
    class Bounded(stream):  # type: ignore[misc]
        """A stream of bytes that ends in an error behind the last that is taken."""

        def __init__(self, inner: Any) -> None:
            self._inner = inner

        def __iter__(self) -> Iterator[bytes]:
            count = 0
            for each in self._inner:
                count += len(each)
                if count > ANSWER_BYTES:
                    raise TooLarge(f"an answer of more than {ANSWER_BYTES} bytes")
                yield each

        def close(self) -> None:
            self._inner.close()

    return Bounded
