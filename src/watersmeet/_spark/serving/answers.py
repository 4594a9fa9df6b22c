"""Answers to what is asked of the replica's tables: rows as they are shown, all of one batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from watersmeet._spark.serving.errors import Unknown
from watersmeet._spark.serving.reads import TableQuestion
from watersmeet._spark.serving.replica import Moment, Replica
from watersmeet._spark.serving.stores import ServedStore, from_json, json_rows, keys_of, to_json
from watersmeet._spark.serving.views import TableView
from watersmeet._worker.formats.json_encode import encoded
from watersmeet.errors import ConfigError

BATCH = b"watersmeet.batch"
"""In the metadata of an answer's Arrow schema: the number of its batch."""
NEXT = b"watersmeet.next"
"""In the metadata of an answer's Arrow schema: `after` of what comes next, as JSON, where there is more."""


@dataclass(frozen=True)
class TableAnswer:
    """An answer.

    Parameters
    ----------
    store : the table.
    batch : the batch that it is of.
    rows : as they are shown.
    next : where there are more, `after` of the next question.
    """

    store: ServedStore
    batch: int
    rows: pa.Table
    next: tuple[Any, ...] | None = None

    def as_arrow(self) -> pa.Table:
        """The rows, with the batch in the metadata of their schema."""
        said = {**self.store.schema.metadata, BATCH: str(self.batch).encode()}
        if self.next is not None:
            said[NEXT] = to_json(self.next).encode()
        return self.rows.replace_schema_metadata(said)

    def as_json(self) -> str:
        """The batch and the rows as JSON has them in topics."""
        rows = ",".join(json_rows(self.rows, self.store.shown.schema))
        more = "null" if self.next is None else to_json(self.next)
        return f'{{"table":{to_json(self.store.name)},"batch":{self.batch},"rows":[{rows}],"next":{more}}}'


def store_of(replica: Replica, name: str) -> ServedStore:
    """A served table.

    Raises
    ------
    Unknown : it is not served.
    """
    found = replica.stores.get(name)
    if found is None:
        raise Unknown(
            f"No table {name!r:.200} is served.",
            hint=f"Tables: {', '.join(sorted(replica.stores))}.",
        )
    return found


def answer(replica: Replica, read: TableQuestion) -> TableAnswer:
    """The answer to a question.

    Raises
    ------
    ConfigError : it does not fit the table.
    TooEarly, NotServed : as `Replica.moment` says.
    """
    store_of(replica, read.table)
    return answer_at(replica.moment(at_least=read.at_least, batch=read.batch, timeout=read.wait), read)


def answer_at(moment: Moment, read: TableQuestion) -> TableAnswer:
    """The answer, as of a moment.

    Raises
    ------
    ConfigError : the question does not fit the table.
    """
    view = moment.tables[read.table]
    keys = None if read.keys is None else keys_of(view.store.key_type, read.keys)
    rows = _found(view, read, keys)
    following = None
    if read.is_ordered:
        bounds = _one(view, read.from_), _one(view, read.to)
        rows = view.ordered(rows, bounds, _after(view, read.after))
        if read.limit is not None and rows is not None and len(rows) > read.limit:
            rows = rows.slice(0, read.limit)
            following = _place(view, rows)
    return TableAnswer(view.store, moment.batch, view.store.answer_rows(rows), following)


def answers_of_keys(moment: Moment, table: str, keys: Sequence[Any]) -> list[str]:
    """The JSON of the answer to each of some keys, put together at once: the engine's lookups are of many keys.

    Raises
    ------
    ConfigError : one of the keys does not fit the table.
    """
    view = moment.tables[table]
    store, kind = view.store, view.store.key_type
    asked = keys_of(kind, keys)
    rows = store.answer_rows(_found(view, TableQuestion(table, keys=tuple(keys)), asked))
    texts: dict[bytes, list[str]] = {}
    found = rows.column("key").combine_chunks()
    found = found.chunk(0) if isinstance(found, pa.ChunkedArray) else found
    for key, text in zip(encoded(found, kind).to_pylist(), json_rows(rows, store.shown.schema), strict=True):
        texts.setdefault(key, []).append(text)
    head = f'{{"table":{to_json(store.name)},"batch":{moment.batch},"rows":['
    return [f'{head}{",".join(texts.get(key, ()))}],"next":null}}' for key in encoded(asked, kind).to_pylist()]


def _found(view: TableView, read: TableQuestion, keys: pa.Array | None) -> pa.Table | None:
    if read.window is not None:
        if not view.store.is_windowed:
            raise _not(view, f"window={list(read.window)}", "has no windows")
        return view.between(keys, *read.window)
    if view.is_versioned and not read.versions:
        return view.as_of(keys, read.as_of)
    if view.shards and not view.is_versioned and (read.versions or read.as_of is not None):
        raise _not(view, f"versions={read.versions}, as_of={read.as_of}", "keeps no versions")
    return view.live if keys is None else view.of_keys(keys)


def _one(view: TableView, key: Any) -> pa.Array | None:
    return None if key is None else keys_of(view.store.key_type, [key])


def _after(view: TableView, after: Sequence[Any] | None) -> list[pa.Array] | None:
    """The key of a row, and the numbers that tell it apart, as arrays of one."""
    if after is None or not view.shards:
        return None
    shard = next(iter(view.shards.values()))
    if len(after) != 1 + len(view.identity):
        raise _not(view, f"after={to_json(after)}"[:200], f"has rows by {', '.join(['key', *view.identity])}")
    try:
        rest = [
            pa.array([value], shard.schema.field(name).type)
            for name, value in zip(view.identity, after[1:], strict=True)
        ]
    except (pa.ArrowException, TypeError, OverflowError) as error:
        raise _not(view, f"after={to_json(after)}"[:200], f"has rows of other types: {error}") from None
    return [keys_of(view.store.key_type, after[:1]), *rest]


def _place(view: TableView, rows: pa.Table) -> tuple[Any, ...]:
    """The values that identify the last row, as JSON has them."""
    last = rows.slice(len(rows) - 1)
    (key,) = json_rows(view.store.answer_rows(last).select(["key"]), StructType([view.store.shown.schema["key"]]))
    rest = [last.column(name)[0].as_py() for name in view.identity]
    if not all(isinstance(each, int) for each in rest):
        raise _not(view, "limit", f"has rows by {', '.join(['key', *view.identity])}, and is not read in parts")
    return (from_json(key)["key"], *rest)


def _not(view: TableView, given: str, why: str) -> ConfigError:
    return ConfigError(
        f"{given} does not fit the table {view.store.name!r}, which {why}.",
        hint="docs/serve.md says what each kind of table answers.",
    )
