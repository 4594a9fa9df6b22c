"""A question to a table: a ticket of Arrow Flight, the query of an HTTP address, a call of the Python client.

All of them are this one value, and its JSON is the ticket that docs/serve.md describes.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from watersmeet._spark.serving.replica import (
    Moment,
    Replica,
    ServedStore,
    TableView,
    Unknown,
    from_json,
    json_rows,
    keys_of,
    to_json,
)
from watersmeet._worker.formats.json import encoded
from watersmeet.errors import ConfigError, WatersmeetError

LONGEST_WAIT = 60.0
"""Seconds that an answer may be waited for, at most."""
MOST_KEYS = 10_000
_ORDERED = ("from_", "to", "after", "limit")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True)
class TableQuestion:
    """A question to a table; keys are as JSON has them in topics."""

    table: str  # its name
    keys: tuple[Any, ...] | None = None  # of these keys alone; None: of all
    # from_, to: of keys from one to another, both included, in order; None: without end
    from_: Any = None
    to: Any = None
    window: tuple[int, int] | None = None  # of windows that begin between two times, in ms, both included
    as_of: int | None = None  # of a versioned table, what was valid at this time, in ms; None: the latest
    versions: bool = False  # of a versioned table, all versions
    limit: int | None = None  # rows at most, in order of the keys; None: all, in any order
    # key and window or version of the row behind which the answer begins: `next` of the answer before
    after: tuple[Any, ...] | None = None
    at_least: int | None = None  # wait for this batch, or a later one
    batch: int | None = None  # of just this batch, one of the last
    timeout: float = 10.0  # seconds to wait at most

    def __post_init__(self) -> None:
        bounds = [name.strip("_") for name in _ORDERED if getattr(self, name) is not None]
        if self.keys is not None and bounds:
            raise ConfigError(
                f"keys={list(self.keys)!r:.80} cannot be given with {', '.join(bounds)}.",
                hint="Leave one of them out: a question has single keys, or a range of them.",
            )
        if self.versions and self.as_of is not None:
            raise ConfigError(
                f"versions=True cannot be given with as_of={self.as_of!r}: a time has one version.",
                hint="Leave one of them out.",
            )
        if self.at_least is not None and self.batch is not None:
            raise ConfigError(
                f"at_least={self.at_least} and batch={self.batch} cannot be given together: both name a batch.",
                hint="Leave one of them out.",
            )

    @property
    def is_ordered(self) -> bool:
        """Whether the answer's rows are in order of the keys."""
        return any(getattr(self, name) is not None for name in _ORDERED)

    @property
    def wait(self) -> float:
        return min(self.timeout, LONGEST_WAIT)

    @property
    def wanted(self) -> int | None:
        """The batch that must be there; None: any."""
        return self.at_least if self.batch is None else self.batch

    def ticket(self) -> bytes:
        """The ticket's JSON, without what is left at its default."""
        values = {f.name.strip("_"): getattr(self, f.name) for f in dataclasses.fields(self)}
        plain = {f.name.strip("_"): f.default for f in dataclasses.fields(self)}
        if self.window is not None:
            values["window"] = {"from": self.window[0], "to": self.window[1]}
        return to_json({name: value for name, value in values.items() if value != plain[name]}).encode()


def question_of(ticket: bytes) -> TableQuestion:
    """The question of a ticket."""
    question = ticket_object(ticket)
    if "key" in question:
        keys = question.get("keys")
        question["keys"] = [*(() if keys is None else _keys("keys", keys)), question.pop("key")]
    options: dict[str, Any] = {}
    for name, value in question.items():
        parse = _KNOWN.get(name)
        if parse is None:
            raise _no_ticket(f"The option {name!r:.80}", f"Names are {', '.join(['key', *_KNOWN])}.")
        if value is not None:
            options["from_" if name == "from" else name] = parse(name, value)
    if "table" not in options:
        raise _no_ticket(to_json(question)[:200], 'The table is missing: {"table": "open-orders"}.')
    return TableQuestion(**options)


def ticket_object(ticket: bytes) -> dict[str, Any]:
    """The object that a ticket is."""
    try:
        question = from_json(ticket)
    except ValueError:
        question = None
    if not isinstance(question, dict):
        excerpt = ticket[:200].decode("utf-8", "replace")
        raise _no_ticket(excerpt, 'A ticket is a JSON object: {"table": "open-orders", "key": 42}.')
    return question


def millis(name: str, value: Any) -> int:
    """A time in ms since 1970: as a number, or as ISO 8601, in UTC where it names no zone."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= 1 << 62:
        return value
    if isinstance(value, str):
        if re.fullmatch(r"-?\d{1,18}", value):
            return int(value)
        try:
            time = dt.datetime.fromisoformat(value)
        except ValueError:
            time = None
        if time is not None:
            aware = time if time.tzinfo is not None else time.replace(tzinfo=dt.UTC)
            return (aware - _EPOCH) // dt.timedelta(milliseconds=1)
    raise _no_ticket(f"{name}={value!r}"[:200], "A time is ms since 1970, or ISO 8601.")


def integer(name: str, value: Any) -> int:
    """A number of a batch or of rows, as a number or as text."""
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,18}", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 1 << 62:
        raise _no_ticket(f"{name}={value!r}"[:200], "It is a whole number.")
    return value


def _limit(name: str, value: Any) -> int:
    limit = integer(name, value)
    if limit < 1:
        raise _no_ticket(f"{name}={limit}", "It is 1 or more.")
    return limit


def seconds(name: str, value: Any) -> float:
    """A time to wait."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = -1.0
    if not 0 <= number < float("inf"):
        raise _no_ticket(f"{name}={value!r}"[:200], "It is a number of seconds.")
    return number


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _no_ticket(f"{name}={value!r}"[:200], "It is true or false.")
    return value


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _no_ticket(f"{name}={value!r}"[:200], "It is text.")
    return value


def _keys(name: str, value: Any) -> tuple[Any, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) > MOST_KEYS:
        raise _no_ticket(f"{name}={value!r}"[:200], f"It is a list, of {MOST_KEYS} at most.")
    return tuple(value)


def _window(name: str, value: Any) -> tuple[int, int]:
    if not isinstance(value, Mapping) or not set(value) <= {"from", "to"}:
        raise _no_ticket(f"{name}={value!r}"[:200], 'It is an object: {"from": 0, "to": "2026-01-01T00:00:00Z"}.')
    low, high = value.get("from"), value.get("to")
    return (
        -(1 << 62) if low is None else millis("window.from", low),
        (1 << 62) if high is None else millis("window.to", high),
    )


def _any(name: str, value: Any) -> Any:
    return value


_KNOWN = {
    "table": _text,
    "keys": _keys,
    "from": _any,
    "to": _any,
    "window": _window,
    "as_of": millis,
    "versions": _flag,
    "limit": _limit,
    "after": _keys,
    "at_least": integer,
    "batch": integer,
    "timeout": seconds,
}


def _no_ticket(subject: str, hint: str) -> ConfigError:
    return ConfigError(f"{subject} cannot be asked of a table.", hint=hint)


# Answers to what is asked of the replica's tables: rows as they are shown, all of one batch.

LOG = logging.getLogger("watersmeet.serving")
BATCH = b"watersmeet.batch"
"""In the metadata of an answer's Arrow schema: the number of its batch."""
NEXT = b"watersmeet.next"
"""In the metadata of an answer's Arrow schema: `after` of what comes next, as JSON, where there is more."""


@dataclass(frozen=True)
class TableAnswer:
    """An answer."""

    store: ServedStore  # the table
    batch: int  # the batch that it is of
    rows: pa.Table  # as they are shown
    next: tuple[Any, ...] | None = None  # where there are more, `after` of the next question

    def as_arrow(self) -> pa.Table:
        """The rows, with the batch in the metadata of their schema."""
        metadata = {**self.store.schema.metadata, BATCH: str(self.batch).encode()}
        if self.next is not None:
            metadata[NEXT] = to_json(self.next).encode()
        return self.rows.replace_schema_metadata(metadata)

    def as_json(self) -> str:
        rows = ",".join(json_rows(self.rows, self.store.shown.schema))
        cursor = "null" if self.next is None else to_json(self.next)
        return f'{{"table":{to_json(self.store.name)},"batch":{self.batch},"rows":[{rows}],"next":{cursor}}}'


def store_of(replica: Replica, name: str) -> ServedStore:
    """A served table."""
    store = replica.stores.get(name)
    if store is None:
        raise Unknown(
            f"No table {name!r:.200} is served.",
            hint=f"Tables: {', '.join(sorted(replica.stores))}.",
        )
    return store


def answer(replica: Replica, read: TableQuestion) -> TableAnswer:
    store_of(replica, read.table)
    return answer_at(replica.moment(at_least=read.at_least, batch=read.batch, timeout=read.wait), read)


@contextmanager
def unfit() -> Iterator[None]:
    """A question that a library refuses in its own words, as the error that it is."""
    try:
        yield
    except WatersmeetError:
        raise
    except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError, pa.ArrowException) as error:
        # a fault of our own looks the same
        LOG.warning("A question cannot be answered.", exc_info=error)
        raise ConfigError(
            f"The question cannot be answered: {error!s:.200}",
            hint="docs/serve.md says what each kind of table answers.",
        ) from error


@unfit()
def answer_at(moment: Moment, read: TableQuestion) -> TableAnswer:
    """The answer, as of a moment."""
    view = moment.tables[read.table]
    keys = None if read.keys is None else keys_of(view.store.key_type, read.keys)
    rows = _lookup(view, read, keys)
    following = None
    if read.is_ordered:
        bounds = _key_array(view, read.from_), _key_array(view, read.to)
        rows = view.ordered(rows, bounds, _begin_cursor(view, read.after))
        if read.limit is not None and rows is not None and len(rows) > read.limit:
            rows = rows.slice(0, read.limit)
            following = _end_cursor(view, rows)
    return TableAnswer(view.store, moment.batch, view.store.answer_rows(rows), following)


@unfit()
def answers_of_keys(moment: Moment, table: str, keys: Sequence[Any]) -> list[str]:
    """The JSON of the answer to each of some keys, put together at once: the engine's lookups are of many keys."""
    view = moment.tables[table]
    store, kind = view.store, view.store.key_type
    lookup_keys = keys_of(kind, keys)
    rows = store.answer_rows(_lookup(view, TableQuestion(table, keys=tuple(keys)), lookup_keys))
    texts: dict[bytes, list[str]] = {}
    row_keys = rows.column("key").combine_chunks()
    row_keys = row_keys.chunk(0) if isinstance(row_keys, pa.ChunkedArray) else row_keys
    for key, text in zip(encoded(row_keys, kind).to_pylist(), json_rows(rows, store.shown.schema), strict=True):
        texts.setdefault(key, []).append(text)
    head = f'{{"table":{to_json(store.name)},"batch":{moment.batch},"rows":['
    return [f'{head}{",".join(texts.get(key, ()))}],"next":null}}' for key in encoded(lookup_keys, kind).to_pylist()]


def _lookup(view: TableView, read: TableQuestion, keys: pa.Array | None) -> pa.Table | None:
    if read.window is not None:
        if not view.store.is_windowed:
            raise _misfit(view, f"window={list(read.window)}", "has no windows")
        return view.between(keys, *read.window)
    if view.is_versioned and not read.versions:
        return view.as_of(keys, read.as_of)
    if view.shards and not view.is_versioned and (read.versions or read.as_of is not None):
        raise _misfit(view, f"versions={read.versions}, as_of={read.as_of}", "keeps no versions")
    return view.whole() if keys is None else view.of_keys(keys)


def _key_array(view: TableView, key: Any) -> pa.Array | None:
    return None if key is None else keys_of(view.store.key_type, [key])


def _begin_cursor(view: TableView, position: Sequence[Any] | None) -> list[pa.Array] | None:
    """The key of a row, and the numbers that tell it apart, as arrays of one."""
    if position is None or not view.shards:
        return None
    shard = next(iter(view.shards.values()))
    if len(position) != 1 + len(view.identity):
        raise _misfit(view, f"after={to_json(position)}"[:200], f"has rows by {', '.join(['key', *view.identity])}")
    try:
        identifiers = [
            pa.array([value], shard.schema.field(name).type)
            for name, value in zip(view.identity, position[1:], strict=True)
        ]
    except (pa.ArrowException, TypeError, OverflowError) as error:
        raise _misfit(view, f"after={to_json(position)}"[:200], f"has rows of other types: {error}") from None
    return [keys_of(view.store.key_type, position[:1]), *identifiers]


def _end_cursor(view: TableView, rows: pa.Table) -> tuple[Any, ...]:
    """The values that identify the last row, as JSON has them."""
    last = rows.slice(len(rows) - 1)
    (key,) = json_rows(view.store.answer_rows(last).select(["key"]), StructType([view.store.shown.schema["key"]]))
    identifiers = [last.column(name)[0].as_py() for name in view.identity]
    if not all(isinstance(identifier, int) for identifier in identifiers):
        raise _misfit(view, "limit", f"has rows by {', '.join(['key', *view.identity])}, and is not read in parts")
    return (from_json(key)["key"], *identifiers)


def _misfit(view: TableView, subject: str, reason: str) -> ConfigError:
    return ConfigError(
        f"{subject} does not fit the table {view.store.name!r}, which {reason}.",
        hint=f"Leave it out{_WANTED.get(reason, '')}. docs/serve.md says what each kind of table answers.",
    )


_WANTED = {"has no windows": ": its rows are asked by key alone", "keeps no versions": ", or give the table history="}
