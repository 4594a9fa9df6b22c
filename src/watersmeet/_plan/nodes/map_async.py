"""map_async: what a user declares (docs/functions.md)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from watersmeet._plan.nodes.base import Node


@dataclass(frozen=True)
class AsyncMap:
    """A coroutine function of records, and how it is called.

    Parameters
    ----------
    function : of the plain values (key, value), and of the client behind them where there is one; it gives an
        awaitable.
    client : gives what is entered before the first call of a batch, as `async with` does it; None: nothing.
    called : what the function is called in texts.
    concurrency : calls that are under way at once, at most.
    timeout_ms : how long a call may take; None: without end.
    """

    function: Callable[..., Any] = field(compare=False, repr=False)
    client: Callable[[], Any] | None = field(compare=False, repr=False)
    called: str
    concurrency: int
    timeout_ms: int | None


@dataclass(frozen=True)
class MapAsyncNode(Node):
    """The records of a stream with new values, which a coroutine function gives.

    Parameters
    ----------
    how : the function.
    """

    how: AsyncMap = field(kw_only=True)

    stem = "map_async"

    def details(self) -> tuple[tuple[str, str], ...]:
        limit = self.how.timeout_ms
        timeout = "none" if limit is None else f"{limit} ms"
        return (("function", self.how.called), ("concurrency", str(self.how.concurrency)), ("timeout", timeout))
