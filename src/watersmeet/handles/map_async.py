"""Values that a coroutine function gives: `map_async` of streams. Handle layer."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from watersmeet._plan.nodes import MapAsyncNode, Shape
from watersmeet._plan.nodes.map_async import AsyncMap
from watersmeet.errors import FunctionError, TopologyError
from watersmeet.functions import adapt
from watersmeet.handles import factory as made
from watersmeet.handles.handle import Handle
from watersmeet.io.policies import OnError, Policies, named_policies
from watersmeet.names import answering
from watersmeet.windows import Duration
from watersmeet.windows.durations import positive_ms

if TYPE_CHECKING:
    from watersmeet.handles.kstream import KStream

Coroutine = Callable[..., Awaitable[Any]]
Client = Callable[[], AbstractAsyncContextManager[Any]]
_ROLE = "coroutine function"


@answering
class Asynchronous(Handle):
    """Lookups elsewhere, many at once: part of `KStream`."""

    def map_async(
        self,
        function: Coroutine,
        *,
        returns: Any,
        concurrency: int = 100,
        timeout: Duration | None = "30 seconds",
        client: Client | None = None,
        on_error: OnError | None = None,
        name: str | None = None,
    ) -> KStream:
        """Each record with a new value, for which a coroutine function asks elsewhere: a web service, a database.

        Many calls are under way at once; results keep the order of their records. The function is called in Spark's
        Python workers, on plain Python values. A record without a value is passed on, and no call is made for it.
        **Calls are made at least once.** A batch that is not finished is run again, and asks again; it may get other
        answers, and the results are those of the run that is committed. So a call should change nothing, or may be
        repeated. All operators and outputs below see the same answer. See docs/functions.md.

        Parameters
        ----------
        function : ``async def`` function of (value) or (key, value), and of the client behind them, if there is one.
            Values are as for `wm.python`.
        returns : type of what it gives, in Spark's words ("long", "struct<n: long>") or as a DataType.
        concurrency : calls that are under way at once, at most, in each task. Spark runs as many tasks as it has cores.
        timeout : how long a call may take, a duration ("5 seconds"); None: without end. A call that takes longer is an
            error of its record.
        client : gives an asynchronous context manager, as `httpx.AsyncClient` does. It is entered before the first call
            of a batch in a task and left after the last one, and the function gets what entering it gives.
        on_error : what becomes of a record for which the function raises, or does not answer in time: "fail", "skip" or
            a `wm.DeadLetter`, with the error's text; None: as the builder says.
        name : name of the operator.

        Raises
        ------
        FunctionError : it is no coroutine function, or takes other arguments, or `returns` is no type.
        TopologyError : `concurrency` is no number from 1 on, or `timeout` is no duration.

        Examples
        --------
        >>> async def length(order):
        ...     return len(order["customer"])
        >>> results(orders.map_async(length, returns="long"))
        [(1, 3), (2, 3), (3, 3)]

        With a client of a web service:

        >>> async def rating(order, client):
        ...     answer = await client.get(f"https://ratings.example/{order['customer']}")
        ...     return answer.json()["rating"]
        >>> rated = orders.map_async(rating, returns="double", client=httpx.AsyncClient)  # doctest: +SKIP
        """
        construction = self._construction
        adapted = adapt(function, ("key", "value", *(() if client is None else ("client",))), _ROLE)
        called = getattr(function, "__name__", type(function).__name__)
        if not _is_coroutine_function(function):
            raise FunctionError(
                f"The function {called} is no coroutine function.",
                given=repr(function)[:80],
                hint=f"Write async def {called}(value): ...; a plain function is for map_values(wm.python(...)).",
            )
        if client is not None and not callable(client):
            raise FunctionError(
                f"client={client!r:.80} is no function.",
                hint="A class, or a function without parameters that makes one: client=httpx.AsyncClient. It is made "
                "in the workers.",
            )
        how = AsyncMap(adapted, client, called, _number(concurrency), _timeout_ms(timeout))
        kind = construction.functions.named_type(returns)
        name = construction.name(name, MapAsyncNode.stem, self.name)
        node = self._attach(MapAsyncNode(name, (self.name,), Shape("stream", self.key_type, kind), how=how))
        if on_error is not None:
            construction.set_policies(name, named_policies(name, Policies(on_error=on_error)))
        return made.stream(construction, node)


def _is_coroutine_function(function: Any) -> bool:
    """Whether it is one, or an object that is called as one."""
    return any(map(inspect.iscoroutinefunction, (function, type(function).__call__)))


def _number(concurrency: Any) -> int:
    if not isinstance(concurrency, int) or isinstance(concurrency, bool) or concurrency < 1:
        raise TopologyError(
            f"concurrency={concurrency!r:.80} must be a whole number from 1 on.",
            hint="concurrency=100; 1 makes one call after the other.",
        )
    return concurrency


def _timeout_ms(timeout: Any) -> int | None:
    if timeout is None:
        return None
    hint = "timeout='5 seconds'; timeout=None waits without end."
    return positive_ms(timeout, "timeout", "time that a call may take", hint)
