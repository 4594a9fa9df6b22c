"""Rows of two versions of a topology, compared: the difference in a store or an output, as a value and as text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

LISTED_ROWS = 20
"""Rows that a comparison shows of an output or a store, if the caller names no other number."""
_TEXT = 100


@dataclass(frozen=True)
class RowDifference:
    """A row of a store or an output that the two topologies have otherwise.

    Parameters
    ----------
    key : its key, as Spark has it.
    times : of its window or version, in ms since 1970; of a record of a stream its timestamp. Else empty.
    old, new : its value with the previous topology, and with this one. None also stands for no row: `kind` tells.
    kind : "added", "changed" or "removed".
    """

    key: Any
    times: tuple[int, ...]
    old: Any
    new: Any
    kind: str

    def __str__(self) -> str:
        key = ", ".join([text_of(self.key), *(f"{time} ms" for time in self.times)])
        if self.kind == "changed":
            return f"{key}: {text_of(self.old)} -> {text_of(self.new)}"
        return f"{key}: {self.kind} {text_of(self.new if self.kind == 'added' else self.old)}"


@dataclass(frozen=True)
class Comparison:
    """The rows of one store, or of one output, in which two topologies differ.

    Parameters
    ----------
    name : "store ..." or "output ...".
    equal : number of equal rows.
    added, changed, removed : numbers of rows that only the new topology has, that have another value in it, and that
        only the previous topology has. An output of a table has a row for each key, its last one; in one of a stream
        each record is a row, which is added or removed.
    rows : the first of these.
    """

    name: str
    equal: int
    added: int
    changed: int
    removed: int
    rows: tuple[RowDifference, ...]

    @property
    def is_empty(self) -> bool:
        """Whether all rows are equal."""
        return not (self.added or self.changed or self.removed)

    def as_dict(self) -> dict[str, Any]:
        """Its content as dicts, lists and values that JSON has."""
        return {**vars(self), "rows": [plain(vars(row)) for row in self.rows]}

    def __str__(self) -> str:
        if self.is_empty:
            return f"{self.name}: {self.equal} rows, all equal"
        counts = f"{self.added} rows added, {self.changed} rows changed, {self.removed} rows removed"
        lines = [f"{self.name}: {counts}, {self.equal} rows equal", *(f"  {row}" for row in self.rows)]
        unlisted = self.added + self.changed + self.removed - len(self.rows)
        return "\n".join([*lines, *([f"  and {unlisted} more"] if unlisted else [])])


def text_of(value: Any) -> str:
    """A value as JSON, cut where it is long."""
    text = json.dumps(plain(value), ensure_ascii=False, default=str)
    return text if len(text) <= _TEXT else f"{text[:_TEXT]}..."


def plain(value: Any) -> Any:
    """A value as JSON has it: a struct as an object, bytes as hexadecimal digits."""
    if isinstance(value, Row):
        return {name: plain(item) for name, item in value.asDict().items()}
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return bytes(value).hex() if isinstance(value, bytes | bytearray) else value


# Two stores of any size, compared by Spark.
#
# A row is the same if its value is the same as JSON, where a field without a value is left out: so a store with wider
# types, or with a further field that is empty, is equal.

_KINDS = ("equal", "added", "changed", "removed")


def compare_frames(name: str, old: DataFrame, new: DataFrame, limit: int = LISTED_ROWS) -> Comparison:
    """The difference of two stores, as `read_state` gives them, by the key and the window of each row.

    Parameters
    ----------
    limit : number of rows that are listed.
    """
    sides = _texts(old, "old").unionByName(_texts(new, "new"))
    values = {side: F.collect_list(F.when(F.col("side") == side, F.col("value"))) for side in ("old", "new")}
    pairs = sides.groupBy("key", "times").agg(*(F.array_sort(of).alias(side) for side, of in values.items()))
    kind = F.when(F.col("old") == F.col("new"), "equal").when(F.size("old") == 0, "added")
    rows = pairs.select("*", kind.when(F.size("new") == 0, "removed").otherwise("changed").alias("kind")).persist()
    try:
        counts = {row["kind"]: int(row["count"]) for row in rows.groupBy("kind").count().collect()}
        listed = rows.filter(F.col("kind") != "equal").orderBy("key", "times").limit(limit).collect()
    finally:
        rows.unpersist()
    equal, added, changed, removed = (counts.get(kind, 0) for kind in _KINDS)
    return Comparison(name, equal, added, changed, removed, tuple(map(_difference, listed)))


def _texts(store: DataFrame, side: str) -> DataFrame:
    """The rows of a store as texts: its key, the times of its window in ms, its value."""
    window = (F.unix_millis("window.start"), F.unix_millis("window.end")) if "window" in store.columns else ()
    times = F.array(*window) if window else F.array().cast("array<long>")
    key, value = (_as_json(F.col(column)) for column in ("key", "value"))
    rows = store.where("value IS NOT NULL")
    return rows.select(key.alias("key"), times.alias("times"), value.alias("value"), F.lit(side).alias("side"))


def _as_json(value: Column) -> Column:
    return F.to_json(F.struct(value.alias("of")))


def _difference(row: Row) -> RowDifference:
    times = tuple(time for time in row["times"] if time is not None)
    key, old, new = _value([row["key"]]), _value(row["old"]), _value(row["new"])
    return RowDifference(key, times, old, new, row["kind"])


def _value(texts: Iterable[str]) -> Any:
    """The value of some texts, or, if a key has several rows, a list."""
    values = [json.loads(text).get("of") for text in texts]
    return values[0] if len(values) == 1 else values or None
