"""The replica behind Arrow Flight: a ticket is the JSON of a question, an answer carries its batch in the metadata."""

from __future__ import annotations

import json
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl

from watersmeet._spark.serving.access import Access
from watersmeet._spark.serving.questions import (
    LOG,
    TableAnswer,
    TableQuestion,
    answer_at,
    integer,
    question_of,
    store_of,
    ticket_object,
    unfit,
)
from watersmeet._spark.serving.replica import (
    Busy,
    NotServed,
    Replica,
    TooEarly,
    changed_rows,
    changes_schema,
    error_text,
)
from watersmeet.errors import ConfigError, WatersmeetError

SUBSCRIBERS = 64
"""Readers of changes at a time: each keeps a thread."""
WAITERS = 64
"""Questions that wait for a batch at a time: each keeps a thread."""
WAIT_SECONDS = 1.0
"""Between two looks whether a reader of changes is still there."""
ROWS = 65_536
"""Of a record batch of an answer."""
ERROR = b"watersmeet.error"
"""In the metadata of a schema without columns: why there is none."""


class FlightReplica(fl.FlightServerBase):  # type: ignore[misc]  # pyarrow has no types
    """Serves a replica until `shutdown`.

    Parameters
    ----------
    replica : what is served.
    access : where, and to whom.
    """

    def __init__(self, replica: Replica, access: Access) -> None:
        self._replica = replica
        self._subscribers = threading.BoundedSemaphore(SUBSCRIBERS)
        self._waiters = threading.BoundedSemaphore(WAITERS)
        self._closed = threading.Event()
        host = f"[{access.host}]" if ":" in access.host else access.host
        options: dict[str, Any] = {"middleware": {"access": _Admission(access)}}
        if access.tls is not None:
            certificate, key = (file.read_bytes() for file in access.tls)
            options["tls_certificates"] = [(certificate, key)]
        try:
            super().__init__(f"grpc{'+tls' if access.tls else ''}://{host}:{access.flight_port}", **options)
        except (pa.ArrowException, OSError) as error:
            raise access.taken(access.flight_port, str(error).splitlines()[0]) from None

    def close(self) -> None:
        """Stop; readers of changes end."""
        self._closed.set()
        self.shutdown()

    def list_flights(self, context: Any, criteria: bytes) -> Iterator[Any]:
        """Each served table."""
        with _flight_errors():
            for name in self._replica.stores:
                yield self._info(
                    fl.FlightDescriptor.for_command(TableQuestion(name).ticket()), TableQuestion(name).ticket()
                )

    def get_flight_info(self, context: Any, descriptor: Any) -> Any:
        """How a table is read: by its name as a path, or by a ticket as a command."""
        with _flight_errors():
            return self._info(descriptor, _ticket(descriptor))

    def get_schema(self, context: Any, descriptor: Any) -> Any:
        """The columns of an answer; where there is none, no columns and the reason.

        pyarrow sends the traceback of any error of this method, of Flight's own too.
        """
        try:
            with _flight_errors():
                return fl.SchemaResult(self._schema(_ticket(descriptor)))
        except fl.FlightError as error:
            return fl.SchemaResult(pa.schema([], metadata={ERROR: str(error)}))

    def do_get(self, context: Any, ticket: Any) -> Any:
        """An answer; or, where the ticket has `changes`, the changes of each batch, without end."""
        with _flight_errors():
            question = ticket_object(ticket.ticket)
            if "changes" not in question:
                return fl.RecordBatchStream(self._answer(context, question_of(ticket.ticket)).as_arrow())
            name, since = self._subscription(question)
            store = store_of(self._replica, name)
            if not self._subscribers.acquire(blocking=False):
                raise Busy(
                    f"{SUBSCRIBERS} readers of changes are the most.", hint="Try again later, or end one of them."
                )
            changes = self._changes(context, name, since)
            # a stream whose reader leaves before it begins is never run, and so ends by no `finally`
            weakref.finalize(changes, self._subscribers.release)
            return fl.GeneratorStream(changes_schema(store), changes)

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        raise _no_question()

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        raise _no_question()

    def do_action(self, context: Any, action: Any) -> None:
        raise _no_question()

    def list_actions(self, context: Any) -> None:
        raise _no_question()

    def _answer(self, context: Any, read: TableQuestion) -> TableAnswer:
        """The answer; who has left is waited for no longer than a look lasts."""
        store_of(self._replica, read.table)
        with self._waiting_slot(read):
            end = time.monotonic() + read.wait
            while not self._replica.answers(read.wanted):
                left = end - time.monotonic()
                if left <= 0 or self._closed.is_set() or context.is_cancelled():
                    break
                with suppress(TooEarly):
                    self._replica.moment(at_least=read.wanted, timeout=min(left, WAIT_SECONDS))
        return answer_at(self._replica.moment(at_least=read.at_least, batch=read.batch), read)

    @contextmanager
    def _waiting_slot(self, read: TableQuestion) -> Iterator[None]:
        """One of the slots of those who wait, for a question that has to."""
        if not read.wait or self._replica.answers(read.wanted):
            yield
            return
        if not self._waiters.acquire(blocking=False):
            raise Busy(
                f"{WAITERS} questions that wait for a batch are the most over Arrow Flight.",
                hint="Ask again later, or over HTTP.",
            )
        try:
            yield
        finally:
            self._waiters.release()

    def _changes(self, context: Any, name: str, since: int) -> Iterator[Any]:
        store = self._replica.stores[name]
        with _flight_errors():
            while not self._closed.is_set() and not context.is_cancelled():
                for changes in self._replica.changes(since, WAIT_SECONDS):
                    since, metadata = changes.batch, pa.py_buffer(json.dumps({"batch": changes.batch}).encode())
                    batches = changed_rows(store, changes).combine_chunks().to_batches(max_chunksize=ROWS)
                    for batch in batches or [pa.RecordBatch.from_pylist([], changes_schema(store))]:
                        yield batch, metadata

    def _subscription(self, question: dict[str, Any]) -> tuple[str, int]:
        changes = question["changes"]
        if set(question) != {"table", "changes"} or not isinstance(changes, dict) or set(changes) - {"since"}:
            raise ConfigError(
                f"A question for changes has a table and changes alone: {question!s:.200}.",
                hint='{"table": "open-orders", "changes": {"since": 17}}; without since, those from now on.',
            )
        since = changes.get("since")
        # without a batch yet, all that come
        batch = self._replica.batch
        return str(question["table"]), (-1 if batch is None else batch) if since is None else integer("since", since)

    def _info(self, descriptor: Any, ticket: bytes) -> Any:
        return fl.FlightInfo(self._schema(ticket), descriptor, [fl.FlightEndpoint(ticket, [])], -1, -1)

    def _schema(self, ticket: bytes) -> pa.Schema:
        question = ticket_object(ticket)
        if "changes" in question:
            return changes_schema(store_of(self._replica, self._subscription(question)[0]))
        return store_of(self._replica, question_of(ticket).table).schema


class _Admission(fl.ServerMiddlewareFactory):  # type: ignore[misc]
    """Refuses a reader without the token."""

    def __init__(self, access: Access) -> None:
        super().__init__()
        self._access = access

    def start_call(self, info: Any, headers: Any) -> None:
        """Called before each method; one that raises ends the call."""
        authorization = next((values for name, values in headers.items() if name.lower() == "authorization"), [None])
        if not self._access.admits(authorization[0]):
            raise fl.FlightUnauthenticatedError("The token is missing or wrong: authorization: Bearer <token>.")


def _ticket(descriptor: Any) -> bytes:
    if descriptor.path:
        return TableQuestion(descriptor.path[0].decode("utf-8", "replace")).ticket()
    return bytes(descriptor.command)


def _no_question() -> Any:
    return fl.FlightServerError("Tables are only read: ask by do_get; docs/serve.md has the tickets.")


@contextmanager
def _flight_errors() -> Iterator[None]:
    """Errors as Flight's own: pyarrow sends the traceback of any other."""
    try:
        with unfit():
            yield
    except WatersmeetError as error:
        kind = fl.FlightServerError
        if isinstance(error, TooEarly):
            kind = fl.FlightTimedOutError
        elif isinstance(error, NotServed | Busy):
            kind = fl.FlightUnavailableError
        raise kind(str(error), error_text(error)) from None
    except Exception as error:
        LOG.exception("A question has failed.")
        failure = WatersmeetError(
            f"The question failed: {type(error).__name__}.", hint="The log of the query says why."
        )
        raise fl.FlightServerError(str(failure), error_text(failure)) from None
