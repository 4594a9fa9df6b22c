"""The Python client of served tables: one for the process of the query and for any other (`watersmeet.connect`)."""

from __future__ import annotations

import datetime as dt
import json
import os
import ssl
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.types import DataType, StructType

from watersmeet._engine.rows import WITH_ZONE
from watersmeet._spark.checkpoint.spark_logs import NO_BATCH
from watersmeet._spark.formats import Unfit, check_zones
from watersmeet._spark.serving.questions import BATCH, TableQuestion, answer, millis, store_of
from watersmeet._spark.serving.replica import SCHEMA, NotServed, Replica, changed_rows, error_of, from_json
from watersmeet._spark.stores.read import check_listed
from watersmeet._worker.ended_rows import own_headers
from watersmeet._worker.formats.arrow_types import arrow_type
from watersmeet._worker.formats.json import encoded
from watersmeet.errors import ConfigError, MissingName
from watersmeet.hints import answered, answering, answering_as, missing_name, public, refusing
from watersmeet.windows import check_seconds

Time = dt.datetime | str | int
_WAIT_SECONDS = 1.0
_TIMEOUT = 10.0


@answering_as(None)
class ServedRow(NamedTuple):
    """A row that a table has of a key.

    Parameters
    ----------
    batch : number of the batch that this is of.
    value : the value; of a struct a dictionary. None: the key has none.
    timestamp : of the row; None: there is none.
    headers : of the record that the row is of, as (name, bytes) pairs, where its table keeps them (`headers=True`).
    """

    batch: int
    value: Any
    timestamp: dt.datetime | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class TableChanged(NamedTuple):
    """The changes of a batch in a table.

    Parameters
    ----------
    batch : its number.
    rows : the columns of the table behind `batch` and `deleted`; of deleted rows the value is null.
    """

    batch: int
    rows: pa.Table


class TableSource(Protocol):
    """Where answers come from."""

    def schema(self, table: str) -> StructType: ...

    def read(self, read: TableQuestion) -> pa.Table:
        """The answer to a question, with its batch in the metadata."""
        ...

    def changes(self, table: str, since: int | None) -> Iterator[TableChanged]:
        """The changes of each batch, without end."""
        ...


@answering
@refusing("[...]", "[...] = ...", "loop", "len", "in")
class ServedTable:
    """A table that is served: every answer is of one committed batch, and says which.

    Take it from `Query.table` or `TableClient.table`.
    """

    def __init__(self, name: str, source: TableSource) -> None:
        self.name, self._source = name, source
        self._schema = source.schema(name)

    def __repr__(self) -> str:
        return f"ServedTable({self.name!r}, {self._schema.simpleString()})"

    @property
    def schema(self) -> StructType:
        """Columns: key, window where there are some, value, timestamp."""
        return self._schema

    def get(
        self, key: Any, *, as_of: Time | None = None, at_least: int | None = None, timeout: float = _TIMEOUT
    ) -> ServedRow:
        """The value of a key (Kafka Streams' `KeyQuery`, KIP-796; with `as_of` its `VersionedKeyQuery`, KIP-960).

        Parameters
        ----------
        key : a value of the type of the keys; a struct as a dict or a Row.
        as_of : of a versioned table, the time, as a datetime, ISO 8601, or ms since 1970; None: now.
        at_least : wait for this batch, so as to read what one has written.
        timeout : seconds to wait at most.

        Returns
        -------
        ServedRow : batch, value, timestamp and headers.

        Raises
        ------
        ConfigError : the key is of another type, or the table is one of windows.
        WatersmeetError : the batch was not there in time, or tables are not served any more.

        Examples
        --------
        >>> query.table("open-orders").get(42).value  # doctest: +SKIP
        {'customer': 'ann', 'open': 12.5}
        """
        if "window" in self._schema.names:
            raise ConfigError(
                f"get({key!r:.200}) of {self.name!r} has a value for each window, and no single one.",
                hint=f"table.windows({key!r}, from_=..., to=...)",
            )
        table = self._read(keys=(self._key(key),), as_of=_millis("as_of", as_of), at_least=at_least, timeout=timeout)
        rows = table.select(["value", *({"timestamp", "headers"} & set(table.column_names))]).to_pylist()
        row = rows[0] if rows else {}
        headers = tuple(own_headers(row.get("headers")))
        return ServedRow(batch_of(table), row.get("value"), row.get("timestamp"), headers)

    def get_all(self, keys: Sequence[Any], *, at_least: int | None = None, timeout: float = _TIMEOUT) -> pa.Table:
        """The rows of some keys, all of one batch."""
        check_listed(keys, "get_all")
        return self._read(keys=tuple(map(self._key, keys)), at_least=at_least, timeout=timeout)

    def range(
        self,
        from_: Any = None,
        to: Any = None,
        *,
        limit: int | None = None,
        at_least: int | None = None,
        timeout: float = _TIMEOUT,
    ) -> pa.Table:
        """The rows of keys from one to another, both included, in order (Kafka Streams' `RangeQuery`, KIP-805).

        Parameters
        ----------
        from_, to : None: without end.
        limit : rows at most.
        """
        ends = [None if key is None else self._key(key) for key in (from_, to)]
        bounds = {"from_": ends[0], "to": ends[1], "limit": limit or 1 << 40}
        return self._read(**bounds, at_least=at_least, timeout=timeout)

    def windows(
        self,
        key: Any = None,
        *,
        from_: Time | None = None,
        to: Time | None = None,
        at_least: int | None = None,
        timeout: float = _TIMEOUT,
    ) -> pa.Table:
        """The windows of a key, or of all, that begin between two times, both included (`WindowKeyQuery`, KIP-806)."""
        low, high = _millis("from_", from_), _millis("to", to)
        if low is not None and high is not None and low > high:
            raise ConfigError(
                f"windows of {self.name!r} end before they begin: from_={from_!r:.80}, to={to!r:.80}.",
                hint="from_= is the earlier time: the windows that begin between the two.",
            )
        window = (-(1 << 62) if low is None else low, (1 << 62) if high is None else high)
        keys = None if key is None else (self._key(key),)
        return self._read(keys=keys, window=window, at_least=at_least, timeout=timeout)

    def to_arrow(
        self,
        *,
        as_of: Time | None = None,
        versions: bool = False,
        at_least: int | None = None,
        batch: int | None = None,
        timeout: float = _TIMEOUT,
    ) -> pa.Table:
        """The whole table, in any order; `batch_of` says of which batch.

        Parameters
        ----------
        as_of : of a versioned table, as of this time; None: now.
        versions : of a versioned table, all versions that it keeps.
        batch : of just this batch, one of the last: so that several tables are of one.
        """
        options = {"as_of": _millis("as_of", as_of), "versions": versions, "at_least": at_least, "batch": batch}
        return self._read(**options, timeout=timeout)

    def changes(self, since: int | None = None) -> Iterator[TableChanged]:
        """The changes of each batch, in order and without end: of each row what the batch has left.

        Parameters
        ----------
        since : from the batch behind this one on, as an answer's batch says it; None: those that come.

        Raises
        ------
        ConfigError : changes that far back are not kept any more: read the table again.
        """
        if since is not None and type(since) is not int:
            raise ConfigError(
                f"since= takes the number of a batch: since={since!r:.80}.", hint="since=table.get(key).batch"
            )
        return self._source.changes(self.name, since)

    def _read(self, **options: Any) -> pa.Table:
        check_seconds(options["timeout"], "a served table", required=True)
        for name in {"at_least", "batch", "limit"} & options.keys():
            if options[name] is not None and (type(options[name]) is not int or options[name] < 0):
                raise ConfigError(
                    f"{name}= takes a whole number of 0 or more: {name}={options[name]!r:.80}.", hint=f"{name}=5"
                )
        return self._source.read(TableQuestion(self.name, **options))

    def _key(self, key: Any) -> Any:
        return key_as_json(self._schema["key"].dataType, key)


def batch_of(answer: pa.Table) -> int:
    """The number of the batch that an answer is of."""
    return int((answer.schema.metadata or {})[BATCH])


def key_as_json(kind: DataType, key: Any) -> Any:
    """What JSON has for a key."""
    try:
        check_zones(key, kind, "key")
    except Unfit as naive:
        what = f"A time within the key {key!r:.200} has no zone."
        raise ConfigError(what, given=naive.place, hint=WITH_ZONE) from None
    value = key.asDict(recursive=True) if isinstance(key, Row) else key
    try:
        (text,) = encoded(pa.array([value], arrow_type(kind)), kind).to_pylist()
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        text, cause = None, error
    else:
        cause = None
    if text is None:
        raise ConfigError(
            f"The key {key!r:.200} is not of the type of the table's keys, {kind.simpleString()}.",
            hint="Give a value of that type; a struct is given as a dict or a Row.",
        ) from cause
    return from_json(text)


class ReplicaSource:
    """Answers from a replica in this process."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    def schema(self, table: str) -> StructType:
        return store_of(self._replica, table).shown.schema

    def read(self, read: TableQuestion) -> pa.Table:
        return answer(self._replica, read).as_arrow()

    def changes(self, table: str, since: int | None) -> Iterator[TableChanged]:
        """See `ServedTable.changes`."""
        batch = self._replica.batch
        last = (NO_BATCH if batch is None else batch) if since is None else since
        self._replica.changes(last, 0.0)  # what cannot be answered is refused here
        return self._changes(table, last)

    def _changes(self, table: str, since: int) -> Iterator[TableChanged]:
        store = store_of(self._replica, table)
        while True:
            for changes in self._replica.changes(since, _WAIT_SECONDS):
                since = changes.batch
                yield TableChanged(changes.batch, changed_rows(store, changes))


def _millis(option: str, time: Time | None) -> int | None:
    if time is None:
        return None
    if not isinstance(time, dt.datetime):
        return millis(option, time)
    if time.utcoffset() is None:
        raise ConfigError(f"{option}= is a time without a zone: {option}={time!r}.", hint=WITH_ZONE)
    return millis(option, time.isoformat())


# Served tables of a query in another process: over Arrow Flight, at an address that is asked for over HTTP.


@dataclass(frozen=True)
class TableServerAddress:
    """Where a query serves its tables over HTTP; see `connect`."""

    url: str  # the address
    token: str | None = field(default=None, repr=False)  # of `query.serve`; None: none
    tls_roots: str | os.PathLike[str] | None = None  # file of certificates that are trusted

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            hint = 'wm.connect("http://127.0.0.1:8815"); `watersmeet top http://127.0.0.1:8815`.'
            raise ConfigError(f"url={self.url!r:.200} is no address of served tables.", hint=hint)

    def text(self, path: str, query: Sequence[tuple[str, str]] = (), timeout: float = _TIMEOUT) -> str:
        """The answer at a path."""
        parts = urlsplit(self.url)
        request = urllib.request.Request(f"{parts.scheme}://{parts.netloc}/{path}?{urlencode(query)}".rstrip("?"))
        if self.token is not None:
            # a redirect to another address must not get it
            request.add_unredirected_header("Authorization", f"Bearer {self.token}")
        try:
            with urllib.request.urlopen(request, timeout=timeout, context=self._tls()) as response:
                return str(response.read().decode())
        except HTTPError as error:
            raise _refused(self.url, error) from None
        except (OSError, ValueError, HTTPException) as error:
            raise self._missing(error) from None

    def json(self, path: str) -> dict[str, Any]:
        """The object at a path; see `text`."""
        text = self.text(path)
        try:
            body: dict[str, Any] = json.loads(text)
        except ValueError as error:
            raise self._missing(error) from None
        return body

    def _tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=None if self.tls_roots is None else os.fspath(self.tls_roots))

    def _missing(self, error: Exception) -> ConfigError:
        reason = getattr(error, "reason", error)
        hint = "query.serve(...).url is the address; see whether it runs."
        if "WRONG_VERSION_NUMBER" in str(reason):
            hint = (
                f"It is served without TLS: {self.url.replace('https', 'http', 1)!r}; or query.serve(..., tls=(...))."
            )
        return ConfigError(f"No tables are served at {self.url}: {reason}.", hint=hint)


def _refused(url: str, error: HTTPError) -> ConfigError:
    """The error of a status: with the server's own text and hint, if it has sent some."""
    if error.code == 401:
        cure = "wm.connect(url, token=...); the commands take the token from the variable WATERSMEET_TOKEN."
        return ConfigError(f"The server at {url} refuses to answer: the token is missing or wrong.", hint=cure)
    try:
        text = str(json.load(error)["error"])
    except (OSError, ValueError, LookupError, TypeError):
        text = f"The server at {url} refuses to answer: status {error.code}."
    message, _, hint = text.partition("\nHint: ")
    return ConfigError(message, hint=hint or "docs/serve.md says what is answered.")


class FlightSource:
    """Answers over Arrow Flight."""

    def __init__(self, location: str, token: str | None, roots: bytes | None) -> None:
        import pyarrow.flight as fl

        self._client = fl.FlightClient(location, **({} if roots is None else {"tls_root_certs": roots}))
        sent = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
        self._options = fl.FlightCallOptions(headers=sent)
        self._flight = fl

    def schema(self, table: str) -> StructType:
        """See `TableSource`."""
        with self._translated():
            descriptor = self._flight.FlightDescriptor.for_command(TableQuestion(table).ticket())
            schema = self._client.get_flight_info(descriptor, self._options).schema
        return StructType.fromJson(json.loads(schema.metadata[SCHEMA]))

    def read(self, read: TableQuestion) -> pa.Table:
        with self._translated():
            table: pa.Table = self._client.do_get(self._flight.Ticket(read.ticket()), self._options).read_all()
            return table

    def changes(self, table: str, since: int | None) -> Iterator[TableChanged]:
        """See `TableSource`."""
        question = {"table": table, "changes": {} if since is None else {"since": since}}
        with self._translated():
            reader = self._client.do_get(self._flight.Ticket(json.dumps(question).encode()), self._options)
        return self._changes(reader)

    def _changes(self, reader: Any) -> Iterator[TableChanged]:
        try:
            with self._translated():
                for chunk in reader:
                    batch = json.loads(chunk.app_metadata.to_pybytes())["batch"]
                    yield TableChanged(batch, pa.Table.from_batches([chunk.data]))
        finally:
            reader.cancel()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Flight's statuses as the errors that they were."""
        fl = self._flight
        try:
            yield
        except fl.FlightUnauthenticatedError:
            raise ConfigError(
                "token= is missing or wrong: the server asks for the one of query.serve.",
                hint="wm.connect(url, token=...)",
            ) from None
        except (fl.FlightTimedOutError, fl.FlightUnavailableError, fl.FlightServerError) as error:
            hint = "See whether the query still runs, and serves."
            raise error_of(error.extra_info) or NotServed(_first(error), hint=hint) from None

    def close(self) -> None:
        self._client.close()


def _first(error: Exception) -> str:
    return str(error).split("gRPC client debug context")[0].split("Detail:")[0].strip() or type(error).__name__


@answering
@refusing("[...]", "in", "loop", "len")
class TableClient:
    """The served tables of a query in another process: what `watersmeet.connect` gives."""

    def __init__(self, source: FlightSource, names: Sequence[str], url: str) -> None:
        self._source, self._names, self._url = source, tuple(names), url

    def __repr__(self) -> str:
        return f"TableClient({self._url!r}, {', '.join(self._names)})"

    def __enter__(self) -> TableClient:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    @property
    def tables(self) -> tuple[str, ...]:
        return self._names

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in self.__dict__.get("_names", ()):
                raise MissingName(f"TableClient has no {name!r}.", hint=f"Take the table: tables.table({name!r}).")
            raise missing_name("TableClient", public(TableClient), name)

    def table(self, name: str) -> ServedTable:
        """A table.

        Raises
        ------
        ConfigError : it is not served.
        """
        return ServedTable(name, self._source)

    def close(self) -> None:
        """Close the connection; a table of the client answers no more."""
        self._source.close()


@answered
def connect(url: str, *, token: str | None = None, tls_roots: str | os.PathLike[str] | None = None) -> TableClient:
    """Connect to the tables that a query serves, from any process.

    Parameters
    ----------
    url : as `query.serve(...)` says it: "http://127.0.0.1:8815", or "https://...".
    token : the one that `query.serve(token=...)` was given.
    tls_roots : file of certificates in PEM that are trusted; None: those of the system.

    Raises
    ------
    ConfigError : nothing answers there, or the token is another.

    Examples
    --------
    >>> with wm.connect("http://127.0.0.1:8815") as tables:  # doctest: +SKIP
    ...     tables.table("open-orders").get(42).value
    """
    parts = urlsplit(url)
    body = TableServerAddress(url, token, tls_roots).json("tables")
    roots = None if tls_roots is None else Path(tls_roots).read_bytes()
    host = f"[{parts.hostname}]" if parts.hostname and ":" in parts.hostname else parts.hostname
    kind = "grpc+tls" if parts.scheme == "https" else "grpc"
    source = FlightSource(f"{kind}://{host}:{body['flight_port']}", token, roots)
    return TableClient(source, [table["name"] for table in body["tables"]], url)
