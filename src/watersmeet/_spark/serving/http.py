"""The replica over HTTP: JSON as topics have it, server-sent events, health, and the query's numbers.

A question is a `questions.TableQuestion`, as it is for Arrow Flight. One reader may take so much and no more.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import unquote

import anyio
import anyio.to_thread
import pyarrow as pa
from pyspark.sql.types import BooleanType, StructField, StructType
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from watersmeet._spark.checkpoint.spark_logs import NO_BATCH
from watersmeet._spark.serving import page
from watersmeet._spark.serving.access import Access
from watersmeet._spark.serving.page import SECONDS, Explainer, QueryStatus
from watersmeet._spark.serving.questions import (
    LONGEST_WAIT,
    TableQuestion,
    answer,
    answer_at,
    answers_of_keys,
    integer,
    millis,
    question_of,
    seconds,
    store_of,
    ticket_object,
    unfit,
)
from watersmeet._spark.serving.replica import (
    BatchChanges,
    Busy,
    Moment,
    NotServed,
    Replica,
    ServedStore,
    TooEarly,
    Unknown,
    changed_rows,
    from_json,
    json_rows,
    key_of_text,
    keys_of,
    to_json,
)
from watersmeet.errors import ConfigError, SinkError, WatersmeetError, did_you_mean

# Limits of one reader of the HTTP server: connections, time for a request's head and body, time to take an answer.
#
# uvicorn bounds neither how long a head may come in nor how slowly an answer is taken; each connection here has to.

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

HEAD_SECONDS = 10.0
"""In which a request's head comes, from the connection's begin or the first byte behind the request before."""
CONNECTIONS = 1_000
HEAD_BYTES = 16 << 10
BODY_BYTES = 1 << 20
PIECE_SECONDS = 30.0
"""In which a reader takes what is written to it and not yet on its way, or sends a body."""


class BoundedConnection(H11Protocol):
    """A connection that is closed if no request arrives in time; the number of connections is bounded."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head: asyncio.TimerHandle | None = None
        self._piece: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See `asyncio.Protocol`."""
        if len(self.connections) >= CONNECTIONS:
            transport.abort()
            return
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        if self._is_between() and self._head is None:
            self._await_head()
        super().data_received(data)
        if not self._is_between():
            self._forget_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._forget_head()
        self._forget_piece()
        if self in self.connections:
            super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        # aborted, not closed: to close waits until the reader has taken what is written
        self._piece = self.loop.call_later(PIECE_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        self._forget_piece()
        super().resume_writing()

    def _is_between(self) -> bool:
        """Whether no request is answered, so that the next bytes are of a head."""
        cycle: Any = self.cycle
        return cycle is None or bool(cycle.response_complete)

    def _await_head(self) -> None:
        self._head = self.loop.call_later(HEAD_SECONDS, self._too_late)

    def _forget_head(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _forget_piece(self) -> None:
        if self._piece is not None:
            self._piece.cancel()
            self._piece = None

    def _too_late(self) -> None:
        self._head = None
        if self._is_between():
            self.transport.abort()


class BodyTooLarge(Exception):
    """A body is larger than allowed."""


class BodyTooSlow(Exception):
    """A body did not arrive in time."""


def bounded(app: App) -> App:
    """The application, with bodies of bounded size that must arrive in time."""

    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        size = 0
        incomplete = True
        end = asyncio.get_running_loop().time() + PIECE_SECONDS

        async def received() -> Message:
            nonlocal size, incomplete
            try:
                # behind the body nothing but the reader's leave is waited for, which may take as long as it likes
                async with asyncio.timeout_at(end if incomplete else None):
                    message = await receive()
            except TimeoutError as error:
                raise BodyTooSlow from error
            size += len(message.get("body", b""))
            incomplete = incomplete and bool(message.get("more_body", False))
            if size > BODY_BYTES:
                raise BodyTooLarge
            return message

        await app(scope, received, send)

    return served


# Lookups of single keys over HTTP: those that come at one time are answered at once.
#
# A lookup of one key costs about a millisecond, and one of a hundred keys hardly more: the engine looks up, and JSON is
# written, for all of them by the same few kernels.


class KeyLookups:
    """Answers lookups; all calls are of one event loop.

    Parameters
    ----------
    replica : what is asked.
    """

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._waiting: list[tuple[TableQuestion, asyncio.Future[str]]] = []

    @staticmethod
    def takes(read: TableQuestion) -> bool:
        """Whether a question is one that is answered here: for a key, and nothing besides."""
        return read.keys is not None and len(read.keys) == 1 and read == TableQuestion(read.table, keys=read.keys)

    async def answer(self, read: TableQuestion) -> str:
        """The answer's JSON; there is a batch."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._answer_all)
        future: asyncio.Future[str] = loop.create_future()
        self._waiting.append((read, future))
        return await future

    def _answer_all(self) -> None:
        waiting, self._waiting = self._waiting, []
        for table in dict.fromkeys(read.table for read, _ in waiting):
            group = [(read, future) for read, future in waiting if read.table == table]
            keys = [key for read, _ in group for key in read.keys or ()]
            try:
                texts = answers_of_keys(self._replica.moment(), table, keys)
            except Exception:
                # of one of them: each gets its own
                for read, future in group:
                    self._answer_one(read, future)
                continue
            for (_, future), text in zip(group, texts, strict=True):
                if not future.done():
                    future.set_result(text)

    def _answer_one(self, read: TableQuestion, future: asyncio.Future[str]) -> None:
        try:
            text = answer(self._replica, read).as_json()
        except Exception as error:
            if not future.done():
                future.set_exception(error)
            return
        if not future.done():
            future.set_result(text)


ROWS, MOST_ROWS = 1_000, 10_000
"""Of an answer: as a rule, and at most. `next` says where the next one begins."""
MOST_READS = 100
"""Questions that are answered together."""
SUBSCRIBERS = 64
"""Readers of changes at a time."""
BEAT_SECONDS = 5.0
"""After which a reader of changes hears something, also where nothing changes."""
_OPEN = frozenset({"/healthz", "/readyz", *page.PATHS})
_JSON = "application/json"
_OPTIONS: Mapping[str, Callable[[str, Any], Any]] = {
    "limit": integer,
    "at_least": integer,
    "batch": integer,
    "timeout": seconds,
    "as_of": millis,
}


@dataclass(frozen=True)
class QueryView:
    """The parts of the query that are shown beside its tables."""

    status: QueryStatus  # of the query
    numbers: Callable[[], bytes]  # for Prometheus, as text
    flight_port: int  # where Arrow Flight listens
    explainer: Explainer | None = None  # its answers from its journal; None: it keeps none


class HttpReplica:
    """The application that serves a replica.

    Parameters
    ----------
    replica : what is served.
    access : to whom.
    query : what is shown of the query.
    """

    def __init__(self, replica: Replica, access: Access, query: QueryView) -> None:
        self._replica, self._access, self._query = replica, access, query
        self._closed = False
        self._lookups = KeyLookups(replica)
        self._readers = anyio.CapacityLimiter(SUBSCRIBERS)
        self._explaining = anyio.CapacityLimiter(1)
        self._looking = anyio.CapacityLimiter(1)
        routes = [
            Route("/healthz", self._health),
            Route("/readyz", self._ready),
            Route("/metrics", self._numbers),
            Route("/status", self._status),
            Route("/dead-letters", self._dead_letters),
            Route("/topology.svg", self._drawn),
            Route("/topology.txt", self._described),
            Route("/tables", self._tables),
            Route("/tables/{place:path}", self._rows),
            Route("/read", self._read_many, methods=["POST"]),
            Route("/changes", self._changes),
            *([] if query.explainer is None else self._routes_of(query.explainer)),
            *(_route_of_file(path, *file) for path, file in page.FILES.items()),
        ]
        handlers: dict[Any, Any] = {
            WatersmeetError: _failed,
            HTTPException: _refused,
            BodyTooLarge: _too_large,
            BodyTooSlow: _too_slow,
            Exception: _broken,
        }
        self._app = Starlette(routes=routes, exception_handlers=handlers)

    @property
    def app(self) -> App:
        """As uvicorn takes it."""
        return bounded(self._admitted)

    def close(self) -> None:
        """End the streams of changes; readers that wait for a batch are answered."""
        self._closed = True
        self._replica.wake()

    @property
    def unguarded(self) -> App:
        """The same for callers in this process, who are asked neither for a token nor for a host."""
        return self._app

    async def _admitted(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name.lower(): value.decode("latin-1") for name, value in scope.get("headers", ())}
        if not self._access.is_addressed(headers.get(b"host")):
            await _error(403, "The request names another host than this machine.")(scope, receive, send)
        elif scope["path"] not in _OPEN and not self._access.admits(headers.get(b"authorization")):
            refused = _error(401, "The token is missing or wrong: Authorization: Bearer <token>.")
            refused.headers["WWW-Authenticate"] = "Bearer"
            await refused(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    # -- tables ------------------------------------------------------------------------------------------------

    async def _tables(self, request: Request) -> Response:
        tables = [
            {"name": name, "key": store.key_type.jsonValue(), "schema": store.shown.schema.jsonValue()}
            for name, store in self._replica.stores.items()
        ]
        body = {"query": self._query.status.name, "batch": self._replica.batch, "flight_port": self._query.flight_port}
        return JSONResponse({**body, "why": self._query.explainer is not None, "tables": tables})

    async def _rows(self, request: Request) -> Response:
        name, key = _table_and_key(request)
        kind = store_of(self._replica, name).key_type
        if key is not None:
            options = _options(request, {"window_from", "window_to", "versions"})
            options["keys"] = [key_of_text(kind, key)]
            return await self._answered(request, _read(request, name, options))
        options = _options(request, {"from", "to", "after", "window_from", "window_to", "key", "versions"})
        keys = [key_of_text(kind, text) for text in request.query_params.getlist("key")]
        if keys:
            options["keys"] = keys
        else:
            options["limit"] = min(options.get("limit", ROWS), MOST_ROWS)
        for end in ("from", "to"):
            if end in request.query_params:
                options[end] = key_of_text(kind, request.query_params[end])
        if "after" in request.query_params:
            options["after"] = _json(request.query_params["after"], "after")
        return await self._answered(request, _read(request, name, options))

    def _routes_of(self, explainer: Explainer) -> list[Route]:
        async def why(request: Request) -> Response:
            return await self._explained(partial(_why_text, request, explainer, *self._row(request)))

        async def trace(request: Request) -> Response:
            return await self._explained(partial(_trace_text, request, explainer))

        return [Route("/why/{place:path}", why), Route("/trace/{place:path}", trace)]

    async def _explained(self, answer: Callable[[], str]) -> Response:
        """An answer from the journal; a second question meanwhile is refused, since each reads the whole journal."""
        try:
            self._explaining.acquire_nowait()
        except anyio.WouldBlock:
            raise Busy("The server explains another row or record.", hint="Ask again when it has its answer.") from None
        try:
            return Response(await anyio.to_thread.run_sync(answer), media_type=_JSON)
        finally:
            self._explaining.release()

    def _row(self, request: Request) -> tuple[str, Any]:
        """The table and the key that the address of a request names."""
        name, text = _table_and_key(request)
        if text is None:
            raise ConfigError(f"/why/{name:.80} names no key.", hint=f"Write it behind the table: /why/{name:.80}/42.")
        kind = store_of(self._replica, name).key_type
        with unfit():
            (key,) = keys_of(kind, [key_of_text(kind, text)]).to_pylist()
        return name, key

    async def _arrived(self, request: Request, batch: int | None, wait: float) -> None:
        """Wait for a batch, without a thread, no longer than the reader is there."""
        loop, news = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with suppress(RuntimeError):
                # the loop may have ended
                loop.call_soon_threadsafe(news.set)

        async def left(scope: anyio.CancelScope) -> None:
            with suppress(BodyTooLarge, BodyTooSlow):
                while (await request.receive())["type"] != "http.disconnect":
                    pass
            scope.cancel()

        with self._replica.watched(wake), anyio.move_on_after(min(wait, LONGEST_WAIT)):
            if self._is_answered(batch):
                return
            async with anyio.create_task_group() as group:
                group.start_soon(left, group.cancel_scope)
                while not self._is_answered(batch):
                    await news.wait()
                    news.clear()
                group.cancel_scope.cancel()

    def _is_answered(self, batch: int | None) -> bool:
        return self._closed or self._replica.answers(batch)

    async def _answered(self, request: Request, read: TableQuestion) -> Response:
        await self._arrived(request, read.wanted, read.wait)
        if self._lookups.takes(read) and self._replica.answers(None):
            text = await self._lookups.answer(read)
        else:
            moment = self._replica.moment(at_least=read.at_least, batch=read.batch)
            text = await anyio.to_thread.run_sync(lambda: _text(moment, read))
        return Response(text, media_type=_JSON)

    async def _read_many(self, request: Request) -> Response:
        """Several questions, all answered of one batch."""
        body = ticket_object(await request.body())
        reads = body.pop("reads", None)
        if not isinstance(reads, list) or not reads or len(reads) > MOST_READS or set(body) - {*_OPTIONS}:
            raise ConfigError(
                f"reads must be a list of 1 to {MOST_READS} questions: {to_json({**body, 'reads': reads}):.200}.",
                hint=f'{{"reads": [{{"table": "open-orders", "key": 42}}]}}; beside it {", ".join(sorted(_OPTIONS))}.',
            )
        questions = [question_of(_limited(question)) for question in reads]
        for read in questions:
            store_of(self._replica, read.table)
        options = {name: _OPTIONS[name](name, value) for name, value in body.items()}
        at_least, batch = options.get("at_least"), options.get("batch")
        await self._arrived(request, at_least if batch is None else batch, options.get("timeout", 10.0))
        moment = self._replica.moment(at_least=at_least, batch=batch)

        def answered() -> str:
            return f'{{"batch":{moment.batch},"answers":[{",".join(_text(moment, read) for read in questions)}]}}'

        return Response(await anyio.to_thread.run_sync(answered), media_type=_JSON)

    # -- changes -----------------------------------------------------------------------------------------------

    async def _changes(self, request: Request) -> Response:
        names = request.query_params.getlist("table") or list(self._replica.stores)
        stores = [store_of(self._replica, name) for name in dict.fromkeys(names)]
        last = request.headers.get("last-event-id") or request.query_params.get("since")
        batch = self._replica.batch
        since = (NO_BATCH if batch is None else batch) if last is None else integer("since", last)
        # what is not kept any more is refused before the stream begins
        self._replica.changes(since, 0.0)
        return _Changes(self._events(request, stores, since), self._readers)

    async def _events(self, request: Request, stores: list[ServedStore], since: int) -> AsyncIterator[str]:
        try:
            yield ": changes\n\n"
            while not self._closed:
                await self._arrived(request, since + 1, BEAT_SECONDS)
                batches = self._replica.changes(since, 0.0)
                for changes in batches:
                    since = changes.batch
                    for event in _events(stores, changes):
                        yield event
                if not batches:
                    yield ": nothing\n\n"
        except WatersmeetError as late:
            yield f"event: error\ndata: {json.dumps(str(late))}\n\n"

    # -- the query ---------------------------------------------------------------------------------------------

    async def _health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def _ready(self, request: Request) -> Response:
        problem = await anyio.to_thread.run_sync(self._not_ready)
        is_admitted = self._access.admits(request.headers.get("authorization"))
        body: dict[str, Any] = {"ready": problem is None, "batch": self._replica.batch}
        return JSONResponse({**body, "error": problem} if problem and is_admitted else body, 503 if problem else 200)

    def _not_ready(self) -> str | None:
        failure = self._query.status.failure()
        if failure is not None:
            return str(failure)
        if self._replica.refused is not None:
            return str(self._replica.refused)
        if not self._query.status.is_active():
            return "The query has ended."
        return None if self._replica.batch is not None else "The tables are being read from the checkpoint."

    async def _numbers(self, request: Request) -> Response:
        text = await anyio.to_thread.run_sync(self._query.numbers)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    async def _status(self, request: Request) -> Response:
        status = await anyio.to_thread.run_sync(self._query.status.as_json)
        refused = self._replica.refused
        served = {
            "tables": list(self._replica.stores),
            "batch": self._replica.batch,
            "error": None if refused is None else str(refused),
        }
        return JSONResponse({**status, "served": served}, headers={"Cache-Control": "no-store"})

    async def _dead_letters(self, request: Request) -> Response:
        """The last dead letters; one reader at a time, as each asks Kafka. Nobody waits longer than a look lasts."""
        try:
            with anyio.fail_after(SECONDS):
                await self._looking.acquire()
        except TimeoutError:
            raise Busy("Others are looking at the dead letters.", hint="Look again later.") from None
        try:
            letters = await anyio.to_thread.run_sync(self._query.status.last_dead_letters)
        finally:
            self._looking.release()
        return JSONResponse({"letters": letters}, headers={"Cache-Control": "no-store"})

    async def _described(self, request: Request) -> Response:
        return PlainTextResponse(self._query.status.text)

    async def _drawn(self, request: Request) -> Response:
        drawn = self._query.status.svgs["levels" if "levels" in request.query_params else "picture"]
        return Response(drawn, media_type="image/svg+xml", headers=page.HEADERS)


class _Changes(StreamingResponse):
    """A stream of changes, which has a place from its begin to its end, however that comes."""

    def __init__(self, events: AsyncIterator[str], readers: anyio.CapacityLimiter) -> None:
        super().__init__(events, media_type="text/event-stream", headers={"Cache-Control": "no-store"})
        self._readers = readers
        try:
            readers.acquire_on_behalf_of_nowait(self)
        except anyio.WouldBlock:
            raise Busy(
                f"{SUBSCRIBERS} readers of changes are the most.", hint="Try again later, or end one of them."
            ) from None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._readers.release_on_behalf_of(self)


def _table_and_key(request: Request) -> tuple[str, str | None]:
    """The table and the key that an address names; a slash in the name of a table is written %2F."""
    name, *key = request.scope["raw_path"].decode("latin-1").split("/", 3)[2:] or [""]
    return unquote(name), unquote(key[0]) if key else None


def _why_text(request: Request, explainer: Explainer, table: str, key: Any) -> str:
    explanation = explainer.why(table, key)
    text = str(explanation.as_json())
    if request.query_params.get("picture") == "true":
        text = f'{text[:-1]}, "picture": {json.dumps(explanation.to_svg())}}}'
    return text


def _trace_text(request: Request, explainer: Explainer) -> str:
    trace, test = explainer.trace(request.path_params["place"]), request.query_params.get("test")
    answer = trace.as_dict() if test is None else {**trace.as_dict(), "test": trace.to_test(test)}
    return json.dumps(answer, default=str)


def _text(moment: Moment, read: TableQuestion) -> str:
    with unfit():
        return answer_at(moment, read).as_json()


def _events(stores: list[ServedStore], changes: BatchChanges) -> list[str]:
    """The server-sent events of a batch: the rows of each table, then one event with the batch's number."""
    events = []
    for store in stores:
        rows = changed_rows(store, changes).drop_columns(["batch"])
        kind = StructType([StructField("deleted", BooleanType()), *store.shown.schema.fields])
        head = f'{{"batch":{changes.batch},"table":{json.dumps(store.name)},"rows":['
        for start in range(0, len(rows), ROWS):
            part = pa.Table.from_batches(rows.slice(start, ROWS).to_batches(), schema=rows.schema)
            events.append(f"event: rows\ndata: {head}{','.join(json_rows(part, kind))}]}}\n\n")
    events.append(f'event: batch\nid: {changes.batch}\ndata: {{"batch":{changes.batch}}}\n\n')
    return events


def _options(request: Request, extra: set[str]) -> dict[str, Any]:
    unknown = set(request.query_params) - {*_OPTIONS, *extra}
    if unknown:
        options = sorted({*_OPTIONS, *extra})
        name, suffix = re.sub("[.-]", "_", sorted(unknown)[0]).lower(), f"Options: {', '.join(options)}."
        raise ConfigError(
            f"Unknown option of the address: {', '.join(sorted(unknown)):.200}.",
            hint=did_you_mean(name, options, suffix=suffix),
        )
    return {
        name: parse(name, request.query_params[name])
        for name, parse in _OPTIONS.items()
        if name in request.query_params
    }


def _read(request: Request, table: str, options: dict[str, Any]) -> TableQuestion:
    """The question, through the same door as a ticket."""
    params = request.query_params
    window = {end: params[f"window_{end}"] for end in ("from", "to") if f"window_{end}" in params}
    if window:
        options["window"] = window
    if "versions" in params:
        options["versions"] = _json(params["versions"], "versions")
    return question_of(to_json({"table": table, **options}).encode())


def _limited(question: Any) -> bytes:
    """A question in the body of a request, with a bound for its rows."""
    if isinstance(question, dict) and "key" not in question and "keys" not in question:
        limit = question.get("limit")
        question = {**question, "limit": min(limit, MOST_ROWS) if isinstance(limit, int) else ROWS}
    return to_json(question).encode()


def _json(text: str, name: str) -> Any:
    try:
        return from_json(text)
    except ValueError:
        raise ConfigError(f"{name}={text:.200} is no JSON.", hint="Write it as an answer has it.") from None


def _error(status: int, text: str) -> Response:
    return JSONResponse({"error": text.encode("utf-8", "replace").decode()}, status)


async def _failed(request: Request, error: Exception) -> Response:
    kinds = ((Unknown, 404), (NotServed, 410), (Busy, 503), (SinkError, 503), (TooEarly, 504), (ConfigError, 400))
    return _error(next((status for kind, status in kinds if isinstance(error, kind)), 500), str(error))


async def _broken(request: Request, error: Exception) -> Response:
    # the server logs it
    return _error(500, f"The question failed: {type(error).__name__}.")


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path = request.url.path
    if error.status_code == 404:
        return _error(404, f"Nothing is served at {path:.200}.\nHint: {_near_path(path, request.app)}")
    if error.status_code == 405:
        cure = "questions of several tables are posted to /read" if request.method == "POST" else "post it"
        return _error(405, f"{request.method} {path:.200} is not answered.\nHint: Take another method: {cure}.")
    return _error(error.status_code, error.detail)


def _near_path(path: str, app: Starlette) -> str:
    """The path that was meant, or all that answer; those of the page's own files are left out."""
    first, slash, after = path.lstrip("/").partition("/")
    routes = [route.path for route in app.routes if isinstance(route, Route) and route.path not in page.PATHS]
    paths = list(dict.fromkeys(path.strip("/").partition("/")[0] for path in routes))
    suffix = f"There are {', '.join(f'/{name}' for name in paths)}."
    return did_you_mean(first, paths, form=lambda near: f"/{near}{slash}{after:.100}", suffix=suffix)


async def _too_large(request: Request, error: Exception) -> Response:
    return _error(413, "The request's body is too large.")


async def _too_slow(request: Request, error: Exception) -> Response:
    refused = _error(408, "The request's body did not arrive in time.")
    refused.headers["Connection"] = "close"
    return refused


def _route_of_file(path: str, name: str, kind: str) -> Route:
    content = page.file_of(name)

    async def answer_file(request: Request) -> Response:
        return Response(content, headers=page.HEADERS, media_type=f"{kind}; charset=utf-8")

    return Route(path, answer_file)
