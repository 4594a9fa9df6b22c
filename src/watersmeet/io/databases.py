"""Tables of databases and of Spark's catalogs as outputs of tables: the words for them."""

from __future__ import annotations

import os
import re
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from watersmeet.errors import ConfigError, TopologyError, did_you_mean
from watersmeet.hints import answering
from watersmeet.io.kafka import setting_in_error
from watersmeet.io.outputs import KeyTexts, Names, SinkTarget

if TYPE_CHECKING:
    from watersmeet.functions import FunctionBackend

BATCHES = "watersmeet_batches"
"""The table beside those of a query which says what each of them has."""
Dialect = Literal["sqlite", "postgresql", "spark"]
_DIALECTS: dict[str, Dialect] = {"sqlite": "sqlite", "postgresql": "postgresql", "postgres": "postgresql"}
_NAME = re.compile(r"[^\W\d]\w*")
_MOST_NAMES: dict[Dialect, int] = {"sqlite": 1, "postgresql": 2, "spark": 9}
"""Of a table, one within the other."""
_LONGEST_NAME = 63
"""Of Postgres, in bytes; what is longer it cuts off."""
_OPEN_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_PARAMETERS = frozenset(
    """
    application_name channel_binding client_encoding connect_timeout dbname fallback_application_name gssdelegation
    gssencmode gsslib host hostaddr keepalives keepalives_count keepalives_idle keepalives_interval krbsrvname
    load_balance_hosts max_protocol_version min_protocol_version oauth_client_id oauth_client_secret oauth_issuer
    oauth_scope options passfile password port replication require_auth requirepeer scram_client_key scram_server_key
    service ssl_max_protocol_version ssl_min_protocol_version sslcert sslcertmode sslcompression sslcrl sslcrldir sslkey
    sslkeylogfile sslmode sslnegotiation sslpassword sslrootcert sslsni target_session_attrs tcp_user_timeout user
    """.split()  # noqa: SIM905
)
"""Those of a connection that libpq 18 has."""
_URLS = "sqlite:////data/orders.db for a file, or postgresql://user:password@host:5432/database."


class TableTarget(SinkTarget):
    """A table outside of Kafka, which is kept as a KTable is: one row for each key, and one query that writes it.

    Attributes
    ----------
    keeps_versions : whether it has a row for each version of a key's, with the time that it held, instead.
    """

    keeps_versions: ClassVar[bool] = False

    table: str
    key: tuple[str, ...] | None
    value: str | None
    adopt: bool

    keeps_rows = True

    @property
    @abstractmethod
    def dialect(self) -> Dialect:
        """The dialect of SQL."""

    @property
    @abstractmethod
    def place(self) -> str:
        """Where it is, without secrets; it and the table's name are those of no other table."""

    @property
    def default_name(self) -> str:
        return self.table

    @property
    def claim(self) -> tuple[str, str, str]:
        return ("table", self.place, self.table)

    def check_types(self, functions: FunctionBackend, key: Any, value: Any) -> None:
        functions.check_columns(self, key, value)

    def check_beside(self, other: Any, names: Names, keys: KeyTexts) -> None:
        raise TopologyError(
            f"Two outputs write {self!r}: a table has one writer.",
            given=f"{self!r}: {names[0]!r} and {names[1]!r}",
            hint="Give each a table of its own; or merge the streams behind them: "
            "one.to_stream().merge(other.to_stream()).to_table().to(...).",
        )


@answering
@dataclass(frozen=True, init=False, repr=False)
class CatalogTable(TableTarget):
    """A table of one of Spark's catalogs, in the format of Delta or Iceberg, which is kept as a KTable is: one row for
    each key.

    A batch is one `MERGE INTO`, which leaves the batch's number in the table's log: a batch that is run again changes
    nothing (docs/databases.md). The table must be there.

    Parameters
    ----------
    table : its name, as Spark's SQL has it: "orders", "shop.orders", "lake.shop.orders".
    key : names of the columns of the key: one for each of its fields, inner fields too. Left out: "key", or the fields'
        own names.
    value : name of one column for the whole value. Left out: a column for each field of a struct, by its name, else
        "value".
    adopt : take the table as it is: rows that another query has written stay until their key changes, and what earlier
        batches of this query changed without it is not made up for. Left out, such a table is refused.

    Examples
    --------
    >>> CatalogTable("lake.shop.orders", key="order_id")
    CatalogTable('lake.shop.orders')
    """

    table: str
    key: tuple[str, ...] | None
    value: str | None
    adopt: bool

    def __init__(
        self, table: str, *, key: str | Sequence[str] | None = None, value: str | None = None, adopt: bool = False
    ) -> None:
        _check_table(table, self.dialect)
        object.__setattr__(self, "table", table)
        object.__setattr__(self, "adopt", adopt)
        _set_columns(self, key, value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.table!r})"

    @property
    def dialect(self) -> Dialect:
        """Spark's."""
        return "spark"

    @property
    def place(self) -> str:
        """Spark's catalogs, of which the table's name names one."""
        return "catalog"


@answering
@dataclass(frozen=True, init=False, repr=False)
class History(CatalogTable):
    """A table of Delta or Iceberg with every version of a KTable's rows: a slowly changing dimension of type 2.

    Behind the columns of key and value it has `valid_from` and `valid_to`, timestamps, and `current`, a boolean. A
    change closes the key's current row at its time, and adds one, which has no `valid_to`; a deletion closes the row
    alone. Several changes of a key in a batch add as many rows. Changes hold in the order in which the topology makes
    them: if one has an earlier time than the one before it, it holds from that one's time on. A row that is replaced at
    the time from which it holds has `valid_to` equal to `valid_from`. So at most one row of a key has
    `valid_from <= t AND (valid_to > t OR current)`.

    A batch is one `MERGE INTO`, which leaves the batch's number in the table's log: a batch that is run again changes
    nothing (docs/databases.md). The table must be there; the error of a start has the statement that makes it.

    Parameters as for `CatalogTable`.

    Raises
    ------
    TopologyError : the name of the table or of a column cannot be one.

    Examples
    --------
    >>> History("lake.shop.prices", key="product")
    History('lake.shop.prices')
    """

    keeps_versions = True


@answering
@dataclass(frozen=True, init=False, repr=False)
class DatabaseTable(TableTarget):
    """A table of a database, which is kept as a KTable is: one row for each key. Its repr shows no secrets.

    A batch is one transaction, in which its number is written too, into the table `watersmeet_batches`: a batch that is
    run again changes nothing (docs/databases.md).

    Parameters
    ----------
    url : "sqlite:////folder/file.db" (three slashes and the path), or "postgresql://user:password@host:5432/database",
        with libpq's parameters behind a question mark. A password that is left out is looked for where libpq does
        (PGPASSWORD, ~/.pgpass).
    table : its name; of Postgres also "schema.table".
    key : names of the columns of the key: one for each of its fields, inner fields too. Left out: "key", or the fields'
        own names.
    value : name of one column for the whole value; a struct is JSON there. Left out: a column for each field of a
        struct, by its name, else "value".
    create : make the table where it is missing.
    adopt : take the table as it is: rows that another query has written stay until their key changes, and what earlier
        batches of this query changed without it is not made up for. Left out, such a table is refused.

    Examples
    --------
    >>> DatabaseTable("postgresql://ann:canary@db:5432/shop", table="orders", key="order_id")
    DatabaseTable('postgresql://db:5432/shop', table='orders')
    """

    url: str
    table: str
    key: tuple[str, ...] | None
    value: str | None
    create: bool
    adopt: bool

    def __init__(
        self,
        url: str,
        *,
        table: str,
        key: str | Sequence[str] | None = None,
        value: str | None = None,
        create: bool = False,
        adopt: bool = False,
    ) -> None:
        dialect = _check_url(url)
        _check_table(table, dialect)
        object.__setattr__(self, "url", url)
        object.__setattr__(self, "table", table)
        _set_columns(self, key, value)
        object.__setattr__(self, "create", create)
        object.__setattr__(self, "adopt", adopt)

    def __repr__(self) -> str:
        return f"DatabaseTable({self.place!r}, table={self.table!r})"

    @property
    def dialect(self) -> Dialect:
        """Which database it is."""
        return _DIALECTS[urlsplit(self.url).scheme]

    @property
    def place(self) -> str:
        """Where the database is, without user, password and parameters."""
        if self.dialect == "sqlite":
            return f"sqlite:///{self.file}"
        parts = urlsplit(self.url)
        host = parts.netloc.rpartition("@")[2] or dict(parse_qsl(parts.query)).get("host", "")
        return f"{self.dialect}://{host}{parts.path}"

    @property
    def file(self) -> str:
        """Of SQLite: the file's whole path."""
        return os.path.abspath(_path_of(self.url))

    @property
    def connection(self) -> dict[str, str]:
        """Of Postgres: the parameters of its connection, as libpq calls them. They hold secrets."""
        parts = urlsplit(self.url)
        user, _, password = parts.netloc.rpartition("@")[0].partition(":")
        host, _, port = _host_and_port(parts)
        parameters = {"user": user, "password": password, "host": host, "port": port, "dbname": parts.path.lstrip("/")}
        return {name: unquote(text) for name, text in parameters.items() if text} | dict(parse_qsl(parts.query))


def check_name(name: Any, dialect: Dialect) -> None:
    """Raise where a column or a table cannot have this name.

    Raises
    ------
    TopologyError : it cannot.
    """
    if isinstance(name, str) and name and "\0" not in name:
        if dialect != "postgresql" or (len(name.encode()) <= _LONGEST_NAME and "%" not in name):
            return
        raise TopologyError(
            f"The column name {name!r} must have at most 63 bytes and no per cent sign.",
            hint="Rename the field: table.map_values(...), or key=...",
        )
    raise TopologyError(f"A column's name must be a text, not {name!r:.80}.", hint='key="order_id", value="total"')


def _set_columns(target: TableTarget, key: str | Sequence[str] | None, value: str | None) -> None:
    if key is not None and not isinstance(key, str | list | tuple):
        raise TopologyError(f"key= takes names of columns: key={key!r:.80}.", hint='key="order_id", or a list of names')
    columns: Any = (key,) if isinstance(key, str) else None if key is None else tuple(key)
    for name in (*(columns or ()), *(() if value is None else (value,))):
        check_name(name, target.dialect)
    object.__setattr__(target, "key", columns)
    object.__setattr__(target, "value", value)


def _check_table(table: Any, dialect: Dialect) -> None:
    names = table.split(".") if isinstance(table, str) else []
    if not 1 <= len(names) <= _MOST_NAMES[dialect] or not all(map(_NAME.fullmatch, names)):
        raise TopologyError(
            f"table={table!r:.120} cannot be the name of a table.",
            hint='Letters, digits and "_"; of Postgres also "schema.table", of a catalog "catalog.schema.table".',
        )
    for name in names:
        check_name(name, dialect)
    if dialect != "spark" and names[-1].lower() == BATCHES:
        raise TopologyError(
            f"table={table!r:.120} is reserved: there watersmeet records the writer and the last batch of each table.",
            hint="Give the results a table of another name.",
        )


def _check_url(url: Any) -> Dialect:
    # the url itself is not shown: it may hold a password
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
    except ValueError:
        parts = None
    dialect = None if parts is None else _DIALECTS.get(parts.scheme)
    suffix = _url_suffix(url)
    if parts is None or dialect is None:
        suffix = suffix or (f", of {parts.scheme!r}" if parts and parts.scheme else "")
        message = f"watersmeet cannot write to the database of this address{suffix}."
        raise ConfigError(message, hint=_meant(url) or f"Write {_URLS}")
    if dialect == "sqlite" and (not _path_of(url) or _path_of(url) == ":memory:"):
        reason = "what is in memory is gone with the query" if ":memory:" in url else "three slashes and its path"
        raise ConfigError(f"SQLite needs a file, {reason}{suffix}.", hint=_meant(url) or f"Write {_URLS}")
    if dialect == "sqlite" and _path_of(url).lstrip("/").startswith(("~", "$")):
        path = os.path.expandvars(os.path.expanduser(_path_of(url).lstrip("/")))
        path = "/data/orders.db" if path.startswith(("~", "$")) else path
        raise ConfigError(f"The path of SQLite's file is no whole path{suffix}.", hint=f"Write 'sqlite:///{path}'.")
    if dialect == "postgresql" and not _is_whole(parts):
        # a part of the password would be taken for something else, and shown
        raise ConfigError(
            "The address of the database cannot be parsed: its port is not a number, or a sign is misplaced.",
            hint=f"Write @, :, /, ? and # in a password as %40, %3A, %2F, %3F and %23. {_URLS}",
        )
    if dialect == "postgresql":
        _check_parameters(parts)
    return dialect


def _check_parameters(parts: SplitResult) -> None:
    """Raise unless an address of Postgres has a host, and parameters that libpq knows; a value may be a secret."""
    parameters = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name in parameters.keys() - _PARAMETERS:
        hint = did_you_mean(name, _PARAMETERS, "Those of libpq are known: sslmode, connect_timeout, options.")
        raise ConfigError(f"The address of the database has an unknown parameter: {name!r:.80}.", hint=hint)
    if parameters.get("sslmode", "prefer") not in _OPEN_MODES:
        message = f"The address of the database has no valid sslmode={setting_in_error(parameters['sslmode'])}."
        raise ConfigError(message, hint=f"sslmode= is one of {', '.join(_OPEN_MODES)}.")
    for name in ("connect_timeout", "port", "keepalives", "keepalives_idle", "tcp_user_timeout"):
        if not re.fullmatch(r"-?\d+", parameters.get(name, "0")):
            message = f"The address of the database has no valid {name}={setting_in_error(parameters[name])}."
            raise ConfigError(message, hint=f"{name}= is a whole number, such as {name}=10.")
    known_elsewhere = parameters.keys() & {"host", "hostaddr", "service"} or os.environ.keys() & {"PGHOST", "PGSERVICE"}
    if not _host_and_port(parts)[0] and not known_elsewhere:
        raise ConfigError(
            "The address of the database names no host.",
            hint="Write postgresql://user:password@host:5432/database; through a socket of this machine "
            "postgresql:///database?host=/var/run/postgresql.",
        )


def _url_suffix(url: Any) -> str:
    """An address behind a colon, where it cannot hold a password."""
    return f": {url!r:.120}" if not isinstance(url, str) or not re.search(r"[@?]", url) else ""


def _meant(url: Any) -> str | None:
    """The hint for a file's address that lacks slashes."""
    match = re.fullmatch(r"(?:sqlite:(?://)?)?([\w.-]+\.(?:db|sqlite3?))", url) if isinstance(url, str) else None
    if match is None:
        return None
    return f"Write 'sqlite:///{match[1]}' for the file {match[1]!r} of this folder, four slashes for a whole path."


def _is_whole(parts: SplitResult) -> bool:
    _, colon, port = _host_and_port(parts)
    return (port.isdecimal() or not colon) and not parts.fragment and "@" not in parts.path + parts.query


def _path_of(url: str) -> str:
    return unquote(url.removeprefix("sqlite://").removeprefix("/")) if url.startswith("sqlite:///") else ""


def _host_and_port(parts: SplitResult) -> tuple[str, str, str]:
    """(host, colon, port); an address of version 6 stands in brackets."""
    host = parts.netloc.rpartition("@")[2]
    if host.startswith("["):
        inner, _, suffix = host[1:].partition("]")
        return inner, suffix[:1], suffix[1:]
    return host.partition(":")
