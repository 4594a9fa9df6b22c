"""map_async: a coroutine function called for the records of a batch, many at once (docs/functions.md).

Results stand where their records do, whichever call ends first (law 1). They are made once for a batch and shard, and
everything behind the operator has the same ones.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import AsyncExitStack
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet._engine.aggregates.folds import with_owner
from watersmeet._engine.operator import Events, Failed, OperatorContext, failed_rows
from watersmeet._engine.operators.process_state import Checked, checked, plain_values
from watersmeet._engine.row_sizes import Picked
from watersmeet._engine.state.runs import State
from watersmeet._plan.operators.processors import AsyncMap, MapAsyncParams
from watersmeet.errors import FunctionError

Call = tuple[int, Any, Any]
"""Number of a record, its key and its value."""


def run(context: OperatorContext, inputs: Mapping[int, pa.Table], state: State) -> Iterator[pa.Table | Failed]:
    """See `operators.run_operator`."""
    events, params = Events(context, inputs, sides=1), context.params(MapAsyncParams)
    values = plain_values(events.tables[0].column("value").take(pa.array(events.own)))
    keys = plain_values(events.key)
    calls = [(row, keys[row], value) for row, value in enumerate(values) if value is not None]
    results: list[Any] = [None] * len(values)
    errors: dict[int, Exception] = {}
    if calls:
        runner = _Calls(params.how, checked(params.result, _sentence(params.how, "gives a value")), results, errors)
        try:
            _in_own_loop(lambda: runner.all(calls, tolerates_errors=context.tolerates_errors))
        except FunctionError as error:
            raise with_owner(error, context.operator.node) from None
    rows = np.setdiff1d(np.arange(len(values)), np.fromiter(errors, dtype=np.int64, count=len(errors)))
    if len(rows):
        out: dict[str, pa.Array | Picked] = events.meta(rows, events.ts[rows])
        # answers are Python's, one by one
        out["value"] = pa.array([results[row] for row in rows.tolist()], params.result)
        yield from context.in_pieces(out)
    yield from failed_rows(events, errors)


class _Calls:
    """The calls of one batch and shard; what they give and raise stands in `found` and `errors`."""

    def __init__(self, settings: AsyncMap, check: Checked, results: list[Any], errors: dict[int, Exception]) -> None:
        self._settings, self._check, self._results, self._errors = settings, check, results, errors
        self._limit = None if settings.timeout_ms is None else settings.timeout_ms / 1000

    async def all(self, calls: list[Call], *, tolerates_errors: bool) -> None:
        """Make them, so many at once; without `tolerates_errors` the first error ends them all."""
        async with AsyncExitStack() as stack:
            clients = (
                () if self._settings.client is None else (await stack.enter_async_context(self._settings.client()),)
            )
            waiting = iter(calls)

            async def work() -> None:
                for row, key, value in waiting:
                    await self._call(row, key, value, clients)
                    if self._errors and not tolerates_errors:
                        raise self._errors[row]

            workers = [asyncio.create_task(work()) for _ in range(min(self._settings.concurrency, len(calls)))]
            try:
                await asyncio.gather(*workers)
            finally:
                for worker in workers:
                    worker.cancel()
                await asyncio.gather(*workers, return_exceptions=True)

    async def _call(self, row: int, key: Any, value: Any, clients: tuple[Any, ...]) -> None:
        try:
            async with asyncio.timeout(self._limit) as limit:
                answer = await self._settings.function(key, value, *clients)
            self._results[row] = self._check(answer)
        except TimeoutError as error:
            timed_out = limit.expired()
            self._errors[row] = self._timeout_error() if timed_out else self._raised(error)
        except FunctionError as error:
            self._errors[row] = error
        except Exception as error:  # a user's function may raise anything
            self._errors[row] = self._raised(error)

    def _timeout_error(self) -> FunctionError:
        return FunctionError(
            _sentence(self._settings, f"has not answered in time: timeout={self._settings.timeout_ms} ms."),
            hint="A longer timeout= gives it more time, a lower concurrency= asks less at once; on_error= says what "
            "becomes of such records.",
        )

    def _raised(self, error: Exception) -> FunctionError:
        return FunctionError(
            _sentence(self._settings, f"raises {type(error).__name__}: {str(error).removesuffix('.')}."),
            hint="on_error= says what becomes of records for which it raises.",
        )


def _sentence(settings: AsyncMap, does: str) -> str:
    return f"The coroutine function {settings.called} {does}"


def _in_own_loop(create: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a coroutine to its end, also beneath a loop that runs already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(create())
        return
    raised: list[BaseException] = []

    def ran() -> None:
        try:
            asyncio.run(create())
        except BaseException as error:  # what is raised there is raised here
            raised.append(error)

    thread = threading.Thread(target=ran, name="watersmeet-calls")
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
