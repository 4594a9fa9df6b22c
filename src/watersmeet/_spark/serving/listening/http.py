"""The replica over HTTP: JSON as topics have it, server-sent events, health, and the query's numbers.

A question is `reads.TableQuestion`, as it is for Arrow Flight. One reader may take so much and no more: see `limits`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.to_thread
import pyarrow as pa
from pyspark.sql.types import BooleanType, StructField, StructType
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from watersmeet._spark.serving.answers import answer, answer_at, store_of
from watersmeet._spark.serving.dead_letters import SECONDS
from watersmeet._spark.serving.errors import Busy, NotServed, TooEarly, Unknown
from watersmeet._spark.serving.listening.access import Access
from watersmeet._spark.serving.listening.limits import App, BodyTooLarge, BodyTooSlow, Receive, Scope, Send, bounded
from watersmeet._spark.serving.listening.lookups import KeyLookups
from watersmeet._spark.serving.page import files
from watersmeet._spark.serving.page.status import QueryStatus
from watersmeet._spark.serving.reads import TableQuestion, millis, read_of, said_by, seconds, whole
from watersmeet._spark.serving.replica import NONE, BatchChanges, Replica, changed_rows
from watersmeet._spark.serving.stores import ServedStore, from_json, json_rows, key_of_text, keys_of, to_json
from watersmeet.errors import ConfigError, SinkError, WatersmeetError

ROWS, MOST_ROWS = 1_000, 10_000
"""Of an answer: as a rule, and at most. `next` says where the next one begins."""
MOST_READS = 100
"""Questions that are answered together."""
SUBSCRIBERS = 64
"""Readers of changes at a time: each keeps a thread."""
BEAT_SECONDS = 5.0
"""After which a reader of changes hears something, also where nothing changes."""
_OPEN = frozenset({"/healthz", "/readyz", *files.PATHS})
_JSON = "application/json"
_OPTIONS: Mapping[str, Callable[[str, Any], Any]] = {
    "limit": whole,
    "at_least": whole,
    "batch": whole,
    "timeout": seconds,
    "as_of": millis,
}


@dataclass(frozen=True)
class QueryView:
    """The parts of the query that are shown beside its tables.

    Parameters
    ----------
    status : of the query.
    numbers : for Prometheus, as text.
    flight_port : where Arrow Flight listens.
    why : says which input records a row comes from, by table and key; None: the query keeps no journal.
    """

    status: QueryStatus
    numbers: Callable[[], bytes]
    flight_port: int
    why: Callable[[str, Any], Any] | None = None


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
        self._lookups = KeyLookups(replica)
        self._subscribers = anyio.CapacityLimiter(SUBSCRIBERS)
        self._readers = 0
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
            Route("/tables/{name}", self._rows),
            Route("/tables/{name}/{key:path}", self._key),
            Route("/read", self._together, methods=["POST"]),
            Route("/changes", self._changes),
            *([] if query.why is None else [Route("/why/{name}/{key:path}", self._why)]),
            *files.routes(),
        ]
        handlers: dict[Any, Any] = {
            WatersmeetError: _failed,
            HTTPException: _refused,
            BodyTooLarge: _too_large,
            BodyTooSlow: _too_slow,
        }
        self._app = Starlette(routes=routes, exception_handlers=handlers)

    @property
    def app(self) -> App:
        """As uvicorn takes it."""
        return bounded(self._admitted)

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
        found = [
            {"name": name, "key": store.key_type.jsonValue(), "schema": store.shown.schema.jsonValue()}
            for name, store in self._replica.stores.items()
        ]
        said = {"query": self._query.status.name, "batch": self._replica.batch, "flight_port": self._query.flight_port}
        return JSONResponse({**said, "why": self._query.why is not None, "tables": found})

    async def _rows(self, request: Request) -> Response:
        name = request.path_params["name"]
        store = store_of(self._replica, name)
        kind = store.key_type
        said = _options(request, {"from", "to", "after", "window_from", "window_to", "key", "versions"})
        keys = [key_of_text(kind, text) for text in request.query_params.getlist("key")]
        if keys:
            said["keys"] = keys
        else:
            said["limit"] = min(said.get("limit", ROWS), MOST_ROWS)
        for end in ("from", "to"):
            if end in request.query_params:
                said[end] = key_of_text(kind, request.query_params[end])
        if "after" in request.query_params:
            said["after"] = _json(request.query_params["after"], "after")
        return await self._answered(_read(request, name, said))

    async def _key(self, request: Request) -> Response:
        name = request.path_params["name"]
        store = store_of(self._replica, name)
        said = _options(request, {"window_from", "window_to", "versions"})
        said["keys"] = [key_of_text(store.key_type, request.path_params["key"])]
        return await self._answered(_read(request, name, said))

    async def _why(self, request: Request) -> Response:
        """The input records that a row comes from; one question at a time, since each reads the whole journal."""
        name, why = request.path_params["name"], self._query.why
        kind = store_of(self._replica, name).key_type
        (key,) = keys_of(kind, [key_of_text(kind, request.path_params["key"])]).to_pylist()
        assert why is not None
        try:
            self._explaining.acquire_nowait()
        except anyio.WouldBlock:
            raise Busy("Another row is being explained.", hint="Ask again when it has its answer.") from None
        try:
            found = await anyio.to_thread.run_sync(why, name, key)
        finally:
            self._explaining.release()
        text = found.as_json()
        if request.query_params.get("picture") == "true":
            text = f'{text[:-1]}, "picture": {json.dumps(found.to_svg())}}}'
        return Response(text, media_type=_JSON)

    async def _answered(self, read: TableQuestion) -> Response:
        now = self._replica.batch
        wanted = read.at_least if read.batch is None else read.batch
        is_there = now is not None and (wanted is None or now >= wanted)
        if is_there and self._lookups.takes(read):
            text = await self._lookups.answer(read)
        else:
            text = await anyio.to_thread.run_sync(lambda: answer(self._replica, read).as_json())
        return Response(text, media_type=_JSON)

    async def _together(self, request: Request) -> Response:
        """Several questions, all answered of one batch."""
        said = said_by(await request.body())
        reads = said.pop("reads", None)
        if not isinstance(reads, list) or not reads or len(reads) > MOST_READS or set(said) - {*_OPTIONS}:
            raise ConfigError(
                f"reads must be a list of 1 to {MOST_READS} questions: {to_json({**said, 'reads': reads}):.200}.",
                hint=f'{{"reads": [{{"table": "open-orders", "key": 42}}]}}; beside it {", ".join(sorted(_OPTIONS))}.',
            )
        asked = [read_of(_limited(each)) for each in reads]
        for read in asked:
            store_of(self._replica, read.table)
        given = {name: _OPTIONS[name](name, value) for name, value in said.items()}

        def answered() -> str:
            moment = self._replica.moment(
                at_least=given.get("at_least"), batch=given.get("batch"), timeout=given.get("timeout", 10.0)
            )
            found = [answer_at(moment, read).as_json() for read in asked]
            return f'{{"batch":{moment.batch},"answers":[{",".join(found)}]}}'

        return Response(await anyio.to_thread.run_sync(answered), media_type=_JSON)

    # -- changes -----------------------------------------------------------------------------------------------

    async def _changes(self, request: Request) -> Response:
        names = request.query_params.getlist("table") or list(self._replica.stores)
        stores = [store_of(self._replica, name) for name in dict.fromkeys(names)]
        last = request.headers.get("last-event-id") or request.query_params.get("since")
        now = self._replica.batch
        since = (NONE if now is None else now) if last is None else whole("since", last)
        if self._readers >= SUBSCRIBERS:
            raise NotServed(
                f"{SUBSCRIBERS} readers of changes are the most.", hint="Try again later, or end one of them."
            )
        # what is not kept any more is refused before the stream begins
        self._replica.changes(since, 0.0)
        headers = {"Cache-Control": "no-store"}
        return StreamingResponse(self._events(stores, since), media_type="text/event-stream", headers=headers)

    async def _events(self, stores: list[ServedStore], since: int) -> AsyncIterator[str]:
        self._readers += 1
        try:
            yield ": changes\n\n"
            while True:
                found = await anyio.to_thread.run_sync(
                    self._replica.changes, since, BEAT_SECONDS, limiter=self._subscribers, abandon_on_cancel=True
                )
                for each in found:
                    since = each.batch
                    for event in _events(stores, each):
                        yield event
                if not found:
                    yield ": nothing\n\n"
        except NotServed as late:
            yield f"event: error\ndata: {json.dumps(str(late))}\n\n"
        finally:
            self._readers -= 1

    # -- the query ---------------------------------------------------------------------------------------------

    async def _health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def _ready(self, request: Request) -> Response:
        why = await anyio.to_thread.run_sync(self._not_ready)
        told = self._access.admits(request.headers.get("authorization"))
        said: dict[str, Any] = {"ready": why is None, "batch": self._replica.batch}
        return JSONResponse({**said, "error": why} if why and told else said, 503 if why else 200)

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
        said = await anyio.to_thread.run_sync(self._query.status.as_json)
        refused = self._replica.refused
        served = {
            "tables": list(self._replica.stores),
            "batch": self._replica.batch,
            "error": None if refused is None else str(refused),
        }
        return JSONResponse({**said, "served": served}, headers={"Cache-Control": "no-store"})

    async def _dead_letters(self, request: Request) -> Response:
        """The last dead letters; one reader at a time, as each asks Kafka. Nobody waits longer than a look lasts."""
        try:
            with anyio.fail_after(SECONDS):
                await self._looking.acquire()
        except TimeoutError:
            raise Busy("Others are looking at the dead letters.", hint="Look again later.") from None
        try:
            found = await anyio.to_thread.run_sync(self._query.status.last_dead_letters)
        finally:
            self._looking.release()
        return JSONResponse({"letters": found}, headers={"Cache-Control": "no-store"})

    async def _described(self, request: Request) -> Response:
        return PlainTextResponse(self._query.status.text)

    async def _drawn(self, request: Request) -> Response:
        return Response(self._query.status.svg, media_type="image/svg+xml", headers=files.HEADERS)


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


def _options(request: Request, more: set[str]) -> dict[str, Any]:
    """The options of an address that are the same for all questions."""
    unknown = set(request.query_params) - {*_OPTIONS, *more}
    if unknown:
        raise ConfigError(
            f"Unknown option of the address: {', '.join(sorted(unknown)):.200}.",
            hint=f"Options: {', '.join(sorted({*_OPTIONS, *more}))}.",
        )
    return {
        name: each(name, request.query_params[name]) for name, each in _OPTIONS.items() if name in request.query_params
    }


def _read(request: Request, table: str, said: dict[str, Any]) -> TableQuestion:
    """The question, through the same door as a ticket."""
    given = request.query_params
    window = {end: given[f"window_{end}"] for end in ("from", "to") if f"window_{end}" in given}
    if window:
        said["window"] = window
    if "versions" in given:
        said["versions"] = _json(given["versions"], "versions")
    return read_of(to_json({"table": table, **said}).encode())


def _limited(said: Any) -> bytes:
    """A question in the body of a request, with a bound for its rows."""
    if isinstance(said, dict) and "key" not in said and "keys" not in said:
        limit = said.get("limit")
        said = {**said, "limit": min(limit, MOST_ROWS) if isinstance(limit, int) else ROWS}
    return to_json(said).encode()


def _json(text: str, name: str) -> Any:
    try:
        return from_json(text)
    except (ValueError, RecursionError):
        raise ConfigError(f"{name}={text:.200} is no JSON.", hint="Write it as an answer has it.") from None


def _error(status: int, text: str) -> Response:
    return JSONResponse({"error": text}, status)


async def _failed(request: Request, error: Exception) -> Response:
    kinds = ((Unknown, 404), (NotServed, 410), (Busy, 503), (SinkError, 503), (TooEarly, 504), (ConfigError, 400))
    return _error(next((status for kind, status in kinds if isinstance(error, kind)), 500), str(error))


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _error(error.status_code, error.detail)


async def _too_large(request: Request, error: Exception) -> Response:
    return _error(413, "The request's body is too large.")


async def _too_slow(request: Request, error: Exception) -> Response:
    refused = _error(408, "The request's body did not arrive in time.")
    refused.headers["Connection"] = "close"
    return refused
