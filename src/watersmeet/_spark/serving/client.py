"""The Python client of served tables: one for the process of the query and for any other (`watersmeet.connect`)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.types import DataType, StructType

from watersmeet._spark.serving.answers import BATCH, answer, store_of
from watersmeet._spark.serving.reads import TableQuestion, millis
from watersmeet._spark.serving.replica import NONE, Replica, changed_rows
from watersmeet._spark.serving.stores import from_json
from watersmeet._worker.formats.arrow_types import arrow_type
from watersmeet._worker.formats.json_encode import encoded
from watersmeet.errors import ConfigError

Time = dt.datetime | str | int
_WAIT_SECONDS = 1.0
_TIMEOUT = 10.0


class ServedRow(NamedTuple):
    """A row that a table has of a key.

    Parameters
    ----------
    batch : number of the batch that this is of.
    value : the value; of a struct a dictionary. None: the key has none.
    timestamp : of the row; None: there is none.
    """

    batch: int
    value: Any
    timestamp: dt.datetime | None


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

    def schema(self, table: str) -> StructType:
        """The columns of a table."""
        ...

    def read(self, read: TableQuestion) -> pa.Table:
        """The answer to a question, with its batch in the metadata."""
        ...

    def changes(self, table: str, since: int | None) -> Iterator[TableChanged]:
        """The changes of each batch, without end."""
        ...


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
        ServedRow : batch, value and timestamp.

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
        found = self._read(keys=(self._key(key),), as_of=_millis(as_of), at_least=at_least, timeout=timeout)
        rows = found.select(["value", *({"timestamp"} & set(found.column_names))]).to_pylist()
        row = rows[0] if rows else {}
        return ServedRow(batch_of(found), row.get("value"), row.get("timestamp"))

    def get_all(self, keys: Sequence[Any], *, at_least: int | None = None, timeout: float = _TIMEOUT) -> pa.Table:
        """The rows of some keys, all of one batch."""
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
        given = {"from_": ends[0], "to": ends[1], "limit": limit or 1 << 40}
        return self._read(**given, at_least=at_least, timeout=timeout)

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
        low, high = _millis(from_), _millis(to)
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
        given = {"as_of": _millis(as_of), "versions": versions, "at_least": at_least, "batch": batch}
        return self._read(**given, timeout=timeout)

    def changes(self, since: int | None = None) -> Iterator[TableChanged]:
        """The changes of each batch, in order and without end: of each row what the batch has left.

        Parameters
        ----------
        since : from the batch behind this one on, as an answer's batch says it; None: those that come.

        Raises
        ------
        ConfigError : changes that far back are not kept any more: read the table again.
        """
        return self._source.changes(self.name, since)

    def _read(self, **given: Any) -> pa.Table:
        return self._source.read(TableQuestion(self.name, **given))

    def _key(self, key: Any) -> Any:
        return key_as_json(self._schema["key"].dataType, key)


def batch_of(answer: pa.Table) -> int:
    """The number of the batch that an answer is of."""
    return int((answer.schema.metadata or {})[BATCH])


def key_as_json(kind: DataType, key: Any) -> Any:
    """What JSON has for a key.

    Raises
    ------
    ConfigError : it is not of the type.
    """
    given = key.asDict(recursive=True) if isinstance(key, Row) else key
    try:
        (text,) = encoded(pa.array([given], arrow_type(kind)), kind).to_pylist()
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        text, why = None, error
    else:
        why = None
    if text is None:
        raise ConfigError(
            f"The key {key!r:.200} is not of the type of the table's keys, {kind.simpleString()}.",
            hint="Give a value of that type; a struct is given as a dict or a Row.",
        ) from why
    return from_json(text)


class ReplicaSource:
    """Answers from a replica in this process."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    def schema(self, table: str) -> StructType:
        """See `TableSource`."""
        return store_of(self._replica, table).shown.schema

    def read(self, read: TableQuestion) -> pa.Table:
        """See `TableSource`."""
        return answer(self._replica, read).as_arrow()

    def changes(self, table: str, since: int | None) -> Iterator[TableChanged]:
        """See `TableSource`."""
        now = self._replica.batch
        last = (NONE if now is None else now) if since is None else since
        return self._changes(table, last)

    def _changes(self, table: str, since: int) -> Iterator[TableChanged]:
        store = store_of(self._replica, table)
        while True:
            for each in self._replica.changes(since, _WAIT_SECONDS):
                since = each.batch
                yield TableChanged(each.batch, changed_rows(store, each))


def _millis(time: Time | None) -> int | None:
    if time is None:
        return None
    return millis("time", time.isoformat() if isinstance(time, dt.datetime) else time)
