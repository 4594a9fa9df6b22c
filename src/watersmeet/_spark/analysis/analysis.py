"""Asking Spark about columns: their types, and whether each is a function of one row alone.

Law 1: what a record gives does not depend on its batch, nor on its neighbours there; law 2: a batch that is run again
writes the same bytes. A column that breaks one of them is found by what Spark lets nowhere but into a projection.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from operator import or_

from pyspark.errors import AnalysisException
from pyspark.logger import PySparkLogger
from pyspark.sql import Column, DataFrame
from pyspark.sql.types import DataType

_PYSPARK_LOGS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
_CLOCK = re.compile(r"(?<![\w.`])(?<! AS )(?:current_timestamp|now|current_date|localtimestamp|current_time)\(\d*\)")
_SESSION = re.compile(
    r"(?<![\w.`])(?<! AS )(?:current_user|session_user|user|current_schema|current_database|current_catalog)\(\)"
)
_COMPARED_WITH_NULL = re.compile(r" (?:=|<|>|<=|>=) NULL\)")
_SUBQUERY = re.compile(r"(?<![\w.])scalarsubquery\(")


@dataclass(frozen=True)
class Flaw:
    """Why a column is no function of its row alone: what it does, and what to do instead."""

    what: str
    hint: str
    names: tuple[str, ...] = ()
    """Names that Spark takes for a call of a function, without parentheses, where no column is called so."""


_MANY = Flaw(
    "makes several rows of one",
    "Give an array to flat_map or flat_map_values: F.array(...), or the array itself without explode.",
)
_NEIGHBOURS = Flaw(
    "looks at more than one record",
    "A function gets one record at a time, and which others are in its batch is chance: leave aggregates, window "
    "functions and F.window out of it. group_by_key().agg(total=wm.sum(...)) looks at the records of a key, "
    "group_by_key().windowed_by(...) at those of a window.",
)
_STAR = Flaw(
    "takes all columns, '*'",
    "A function gets its Columns as arguments: name what you want of them. group_by_key().count() counts records.",
)
_CHANCE = Flaw(
    "returns another result at each evaluation",
    "A batch that is run again must write what it wrote: make the value from the record, as F.xxhash64(...) or "
    "F.sha2(...) in place of a random number, F.sha1 in place of a uuid. A UDF that always gives the same must not be "
    "marked asNondeterministic().",
)
_OF_NOW = Flaw(
    "reads the clock",
    "A record must give the same result at each reading: put the time into a field of the record when it is written.",
    ("current_timestamp", "current_date", "current_time"),
)
_OF_SESSION = Flaw(
    "reads who runs the query, and where",
    "A record must give the same result for all users: take it from a field of the record, as value['user'], or "
    "give it "
    "as a constant, F.lit(...).",
    ("user", "current_user", "session_user"),
)
_OF_OTHERS = Flaw(
    "asks a query of its own", "Its result would depend on the batch: read the other data as a table, and join it."
)
_OF_NULL = Flaw(
    "compares with None, which is null for every record and neither true nor false",
    "Write a.isNull() for a == None, a.isNotNull() for a != None; a.eqNullSafe(b) compares what may be null.",
)
_CONDITIONS = {
    "INVALID_USAGE_OF_STAR_OR_REGEX": _STAR,
    "UNSUPPORTED_GENERATOR": _MANY,
    "UNSUPPORTED_EXPR_FOR_OPERATOR": _NEIGHBOURS,
    "INVALID_NON_DETERMINISTIC_EXPRESSIONS": _CHANCE,
}


def analysed(frame: DataFrame, *columns: Column) -> list[DataType]:
    """Types of the columns over the frame; nothing runs.

    Raises
    ------
    pyspark.errors.AnalysisException : they do not fit it.
    """
    with quietly():
        named = [column.alias(f"it{number}") for number, column in enumerate(columns)]
        return [field.dataType for field in frame.select(*named).schema.fields]


def flaw_of(frame: DataFrame, columns: Sequence[Column]) -> Flaw | None:
    """Why the columns are no functions of a row of the frame alone; None where they are, or fit no frame at all.

    A text constant that reads as a call of the clock or of the session, "now()", is taken for one; so is one that reads
    as a comparison with null.
    """
    present = [column.isNotNull() for column in columns]
    other = frame.sparkSession.range(0).toDF("watersmeet_other")
    with quietly():
        try:
            # Spark takes nothing for the condition of a join but what a pair of rows decides
            frame.join(other, reduce(or_, present))
            texts = frame.select(*present).schema.names
        except AnalysisException as error:
            return _CONDITIONS.get((error.getCondition() or "").partition(".")[0])
        except Exception:
            # F.window and its like are replaced in projections alone; elsewhere Spark falls over them
            return _NEIGHBOURS
    if any(_CLOCK.search(text) for text in texts):
        return _OF_NOW
    if any(_SESSION.search(text) for text in texts):
        return _OF_SESSION
    if any(_COMPARED_WITH_NULL.search(text) for text in texts):
        return _OF_NULL
    return _OF_OTHERS if any(_SUBQUERY.search(text) for text in texts) else None


@contextmanager
def quietly() -> Iterator[None]:
    """While it lasts, analysis errors are raised and not logged as well: PySpark logs them before anybody can catch."""
    # whoever asks for a logger first decides its class, and PySpark logs with arguments that only its own takes
    logs = [PySparkLogger.getLogger(name) for name in _PYSPARK_LOGS]
    before = [log.disabled for log in logs]
    for log in logs:
        log.disabled = True
    try:
        yield
    finally:
        for log, was in zip(logs, before, strict=True):
            log.disabled = was
