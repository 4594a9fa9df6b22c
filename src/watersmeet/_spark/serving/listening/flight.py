"""The replica behind Arrow Flight: a ticket is the JSON of a question, an answer carries its batch in the metadata."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl

from watersmeet._spark.serving.answers import answer, store_of
from watersmeet._spark.serving.errors import NotServed, TooEarly, Unknown
from watersmeet._spark.serving.listening.access import Access
from watersmeet._spark.serving.reads import TableQuestion, read_of, said_by, whole
from watersmeet._spark.serving.replica import Replica, changed_rows, changes_schema
from watersmeet.errors import ConfigError, WatersmeetError

SUBSCRIBERS = 64
"""Readers of changes at a time: each keeps a thread."""
WAIT_SECONDS = 1.0
"""Between two looks whether a reader of changes is still there."""
ROWS = 65_536
"""Of a record batch of an answer."""


class FlightReplica(fl.FlightServerBase):  # type: ignore[misc]  # pyarrow has no types
    """Serves a replica until `shutdown`.

    Parameters
    ----------
    replica : what is served.
    access : where, and to whom.

    Raises
    ------
    ConfigError : the port is taken.
    """

    def __init__(self, replica: Replica, access: Access) -> None:
        self._replica = replica
        self._subscribers = threading.BoundedSemaphore(SUBSCRIBERS)
        self._closed = threading.Event()
        host = f"[{access.host}]" if ":" in access.host else access.host
        given: dict[str, Any] = {"middleware": {"access": _Admission(access)}}
        if access.tls is not None:
            certificate, key = (file.read_bytes() for file in access.tls)
            given["tls_certificates"] = [(certificate, key)]
        try:
            super().__init__(f"grpc{'+tls' if access.tls else ''}://{host}:{access.flight_port}", **given)
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
        """The columns of an answer."""
        with _flight_errors():
            return fl.SchemaResult(self._schema(_ticket(descriptor)))

    def do_get(self, context: Any, ticket: Any) -> Any:
        """An answer; or, where the ticket has `changes`, the changes of each batch, without end."""
        with _flight_errors():
            said = said_by(ticket.ticket)
            if "changes" not in said:
                return fl.RecordBatchStream(answer(self._replica, read_of(ticket.ticket)).as_arrow())
            name, since = self._subscription(said)
            store = store_of(self._replica, name)
            if not self._subscribers.acquire(blocking=False):
                raise NotServed(
                    f"{SUBSCRIBERS} readers of changes are the most.", hint="Try again later, or end one of them."
                )
            return fl.GeneratorStream(changes_schema(store), self._changes(context, name, since))

    def _changes(self, context: Any, name: str, since: int) -> Iterator[Any]:
        store = self._replica.stores[name]
        try:
            with _flight_errors():
                while not self._closed.is_set() and not context.is_cancelled():
                    for each in self._replica.changes(since, WAIT_SECONDS):
                        since, said = each.batch, pa.py_buffer(json.dumps({"batch": each.batch}).encode())
                        batches = changed_rows(store, each).combine_chunks().to_batches(max_chunksize=ROWS)
                        for batch in batches or [pa.RecordBatch.from_pylist([], changes_schema(store))]:
                            yield batch, said
        finally:
            self._subscribers.release()

    def _subscription(self, said: dict[str, Any]) -> tuple[str, int]:
        changes = said["changes"]
        if set(said) != {"table", "changes"} or not isinstance(changes, dict) or set(changes) - {"since"}:
            raise ConfigError(
                f"A question for changes has a table and changes alone: {said!s:.200}.",
                hint='{"table": "open-orders", "changes": {"since": 17}}; without since, those from now on.',
            )
        since = changes.get("since")
        # without a batch yet, all that come
        now = self._replica.batch
        return str(said["table"]), (-1 if now is None else now) if since is None else whole("since", since)

    def _info(self, descriptor: Any, ticket: bytes) -> Any:
        return fl.FlightInfo(self._schema(ticket), descriptor, [fl.FlightEndpoint(ticket, [])], -1, -1)

    def _schema(self, ticket: bytes) -> pa.Schema:
        said = said_by(ticket)
        if "changes" in said:
            return changes_schema(store_of(self._replica, self._subscription(said)[0]))
        return store_of(self._replica, read_of(ticket).table).schema


class _Admission(fl.ServerMiddlewareFactory):  # type: ignore[misc]
    """Refuses a reader without the token."""

    def __init__(self, access: Access) -> None:
        super().__init__()
        self._access = access

    def start_call(self, info: Any, headers: Any) -> None:
        """Called before each method; one that raises ends the call."""
        given = next((values for name, values in headers.items() if name.lower() == "authorization"), [None])
        if not self._access.admits(given[0]):
            raise fl.FlightUnauthenticatedError("The token is missing or wrong: authorization: Bearer <token>.")


def _ticket(descriptor: Any) -> bytes:
    if descriptor.path:
        return TableQuestion(descriptor.path[0].decode("utf-8", "replace")).ticket()
    return bytes(descriptor.command)


@contextmanager
def _flight_errors() -> Iterator[None]:
    """Errors as Flight's statuses."""
    try:
        yield
    except Unknown as error:
        raise pa.ArrowKeyError(str(error)) from None
    except TooEarly as error:
        raise fl.FlightTimedOutError(str(error)) from None
    except NotServed as error:
        raise fl.FlightUnavailableError(str(error)) from None
    except ConfigError as error:
        raise pa.ArrowInvalid(str(error)) from None
    except WatersmeetError as error:
        raise fl.FlightServerError(str(error)) from None
