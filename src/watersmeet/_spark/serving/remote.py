"""Served tables of a query in another process: over Arrow Flight, at an address that is asked for over HTTP."""

from __future__ import annotations

import json
import os
import ssl
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit

import pyarrow as pa
from pyspark.sql.types import StructType

from watersmeet._spark.serving.client import ServedTable, TableChanged
from watersmeet._spark.serving.errors import NotServed, TooEarly, Unknown
from watersmeet._spark.serving.reads import TableQuestion
from watersmeet._spark.serving.stores import SCHEMA
from watersmeet.errors import ConfigError

_TIMEOUT = 10.0


@dataclass(frozen=True)
class TableServerAddress:
    """Where a query serves its tables over HTTP; see `connect`.

    Parameters
    ----------
    url : the address.
    token : of `query.serve`; None: none.
    tls_roots : file of certificates that are trusted.

    Raises
    ------
    ConfigError : it is no address.
    """

    url: str
    token: str | None = field(default=None, repr=False)
    tls_roots: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(
                f"url={self.url!r:.200} is no address of served tables.", hint='wm.connect("http://127.0.0.1:8815")'
            )

    def text(self, path: str, query: Sequence[tuple[str, str]] = (), timeout: float = _TIMEOUT) -> str:
        """The answer at a path.

        Raises
        ------
        ConfigError : nothing answers there, the token is another, or the server refuses the question.
        """
        parts = urlsplit(self.url)
        asked = urllib.request.Request(f"{parts.scheme}://{parts.netloc}/{path}?{urlencode(query)}".rstrip("?"))
        if self.token is not None:
            # a redirect to another address must not get it
            asked.add_unredirected_header("Authorization", f"Bearer {self.token}")
        try:
            with urllib.request.urlopen(asked, timeout=timeout, context=self._tls()) as given:
                return str(given.read().decode())
        except HTTPError as error:
            raise _refused(self.url, error) from None
        except (OSError, ValueError, HTTPException) as error:
            raise self._missing(error) from None

    def json(self, path: str) -> dict[str, Any]:
        """The object at a path; see `text`."""
        text = self.text(path)
        try:
            found: dict[str, Any] = json.loads(text)
        except ValueError as error:
            raise self._missing(error) from None
        return found

    def _tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=None if self.tls_roots is None else os.fspath(self.tls_roots))

    def _missing(self, error: Exception) -> ConfigError:
        return ConfigError(
            f"No tables are served at {self.url}: {error}.",
            hint="query.serve(...).url is the address; see whether it runs.",
        )


def _refused(url: str, error: HTTPError) -> ConfigError:
    """The error of a status: with the server's own text and hint, if it has sent some."""
    if error.code == 401:
        cure = "wm.connect(url, token=...); the commands take the token from the variable WATERSMEET_TOKEN."
        return ConfigError(f"The server at {url} refuses to answer: the token is missing or wrong.", hint=cure)
    try:
        said = str(json.load(error)["error"])
    except (OSError, ValueError, LookupError, TypeError):
        said = f"The server at {url} refuses to answer: status {error.code}."
    message, _, hint = said.partition("\nHint: ")
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
        with self._named():
            asked = self._flight.FlightDescriptor.for_command(TableQuestion(table).ticket())
            schema = self._client.get_schema(asked, self._options).schema
        return StructType.fromJson(json.loads(schema.metadata[SCHEMA]))

    def read(self, read: TableQuestion) -> pa.Table:
        """See `TableSource`."""
        with self._named():
            found: pa.Table = self._client.do_get(self._flight.Ticket(read.ticket()), self._options).read_all()
            return found

    def changes(self, table: str, since: int | None) -> Iterator[TableChanged]:
        """See `TableSource`."""
        said = {"table": table, "changes": {} if since is None else {"since": since}}
        with self._named():
            reader = self._client.do_get(self._flight.Ticket(json.dumps(said).encode()), self._options)
        return self._changes(reader)

    def _changes(self, reader: Any) -> Iterator[TableChanged]:
        try:
            with self._named():
                for chunk in reader:
                    batch = json.loads(chunk.app_metadata.to_pybytes())["batch"]
                    yield TableChanged(batch, pa.Table.from_batches([chunk.data]))
        finally:
            reader.cancel()

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Flight's statuses as the errors that they were."""
        fl = self._flight
        try:
            yield
        except fl.FlightUnauthenticatedError:
            raise ConfigError(
                "token= is missing or wrong: the server asks for the one of query.serve.",
                hint="wm.connect(url, token=...)",
            ) from None
        except fl.FlightTimedOutError:
            raise TooEarly(None, None) from None
        except fl.FlightUnavailableError as error:
            raise NotServed(_first(error), hint="See whether the query still runs, and serves.") from None
        except pa.ArrowKeyError as error:
            raise Unknown(_first(error), hint="wm.connect(url).tables lists the tables.") from None
        except pa.ArrowInvalid as error:
            raise ConfigError(_first(error), hint="docs/serve.md says what each kind of table answers.") from None

    def close(self) -> None:
        """End the connection."""
        self._client.close()


def _first(error: Exception) -> str:
    text = str(error).strip("'\"").replace("\\n", "\n")
    return text.split("gRPC client debug context")[0].split("Detail:")[0].strip() or type(error).__name__


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
        """Names of the tables."""
        return self._names

    def table(self, name: str) -> ServedTable:
        """A table.

        Raises
        ------
        ConfigError : it is not served.
        """
        return ServedTable(name, self._source)

    def close(self) -> None:
        """End the connection."""
        self._source.close()


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
    said = TableServerAddress(url, token, tls_roots).json("tables")
    roots = None if tls_roots is None else Path(tls_roots).read_bytes()
    host = f"[{parts.hostname}]" if parts.hostname and ":" in parts.hostname else parts.hostname
    kind = "grpc+tls" if parts.scheme == "https" else "grpc"
    source = FlightSource(f"{kind}://{host}:{said['flight_port']}", token, roots)
    return TableClient(source, [table["name"] for table in said["tables"]], url)
