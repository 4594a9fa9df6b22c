"""Times that users' functions give to records of topics, before a record's place in the sequence is known.

Law 1: the times decide the order in which inputs are merged, so they are known before rows are stamped. Law 6: a record
without a time goes by its input's policy, and is counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.arrays import Bools
from watersmeet._engine.expressions.errors import EvaluationError
from watersmeet._engine.expressions.program import Program
from watersmeet._engine.rows.columns import array, ints
from watersmeet._engine.rows.topic_slots import place_of
from watersmeet._worker.formats.dead_letters import OnError, ended, said, set_numbers, topics_of
from watersmeet._worker.formats.deserializers import INVALID_TIMESTAMP, NEGATIVE_TIMESTAMP, REASONS
from watersmeet.errors import SourceError
from watersmeet.windows.durations import LONGEST_MS

_ELSEWHERE = -1
"""The root of no source: a function of a source's records is not called there."""
_OF_TIMES = (NEGATIVE_TIMESTAMP, INVALID_TIMESTAMP)
_HINT = (
    'set on_invalid_timestamp="own" to take the topic\'s own time, "skip", or wm.DeadLetter("topic") to have such '
    "records there; a time is a timestamp, or a long of milliseconds since 1970."
)


def time_column(number: int) -> str:
    """Name of the column that has the times which a source's extractor gives."""
    return f"s{number}_ts"


@dataclass(frozen=True)
class Extractor:
    """The policy for the times that the extractor of one source makes.

    Parameters
    ----------
    number, source, topic : its source.
    policy : what becomes of a record that it gives no time: "fail", "skip", "own", or "letter".
    dead_letter_source : number of the source of dead letters that they become rows of.
    """

    number: int
    source: str
    topic: str
    policy: str = "fail"
    dead_letter_source: int | None = None

    def resolved(self, frame: pa.Table, errors: Mapping[int, Exception]) -> pa.Table:
        """The frame with these times in place of the records' own."""
        told, ts = array(frame, time_column(self.number)), ints(frame, "ts")
        times = pc.fill_null(told, _ELSEWHERE).to_numpy(zero_copy_only=False).astype(np.int64)
        mine = (ints(frame, "root") == self.number) & (ints(frame, "reason") == 0)
        good = mine & (times >= 0) & (times <= LONGEST_MS)
        frame = set_numbers(frame, "ts", np.where(good, times, ts))
        bad = mine & ~good
        return self._left(frame, bad, told, errors) if bad.any() else frame

    def _left(self, frame: pa.Table, bad: Bools, told: pa.Array, errors: Mapping[int, Exception]) -> pa.Table:
        """The frame, when these records have been given no time."""
        rows = np.flatnonzero(bad)
        if self.policy == "fail":
            first, topic = int(rows[0]), topics_of(frame, rows, self.topic)[0]
            raise SourceError(
                f"The timestamp extractor of {self.source} returns no time for a record.",
                given=f"topic {topic}, {_place(frame, first)}: {_why(told, errors, first)}",
                hint=_HINT,
            )
        if self.policy == "own":
            negative = bad & (ints(frame, "ts") < 0)
            return set_numbers(frame, "reason", np.where(negative, NEGATIVE_TIMESTAMP, ints(frame, "reason")))
        texts = {row: f"The timestamp extractor returns no time: {_why(told, errors, row)}." for row in rows.tolist()}
        way = OnError(self.topic, self.source, self.dead_letter_source, REASONS[INVALID_TIMESTAMP], SourceError)
        return ended(frame, texts, {self.number: way}, INVALID_TIMESTAMP)


@dataclass(frozen=True)
class Extraction:
    """The times of the records of a source stage.

    Parameters
    ----------
    extractors : one for each source that has its times by a function.
    program : makes their columns, where Spark has not.
    """

    extractors: tuple[Extractor, ...] = ()
    program: Program = field(default_factory=Program)

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the columns that it reads: of times, where Spark has made them; else what these are made of."""
        made = tuple(time_column(each.number) for each in self.extractors)
        return made if self.program.idle else self.program.reads

    def __call__(self, frame: pa.Table) -> pa.Table:
        """The frame with all records' times.

        Raises
        ------
        SourceError : a record has none, and such a record is to fail the query.
        """
        if not self.extractors:
            return frame
        frame, errors = self._made(self._opened(frame))
        for each in self.extractors:
            frame = each.resolved(frame, errors)
        return frame.drop_columns([time_column(each.number) for each in self.extractors])

    def _opened(self, frame: pa.Table) -> pa.Table:
        """The frame with nothing said of the times: the own ones do not count, and `resolved` judges the others."""
        reason, mine = ints(frame, "reason"), np.isin(ints(frame, "root"), [e.number for e in self.extractors])
        return set_numbers(frame, "reason", np.where(mine & np.isin(reason, _OF_TIMES), 0, reason))

    def _made(self, frame: pa.Table) -> tuple[pa.Table, Mapping[int, Exception]]:
        """The frame with the columns of times, and what is raised for which rows."""
        if self.program.idle:
            return frame, {}
        try:
            return self.program(frame), {}
        except EvaluationError:
            errors = self.program.failing(frame)
            if not errors:
                raise
        root = ints(frame, "root")
        called = np.array(root)
        called[list(errors)] = _ELSEWHERE
        made = self.program(set_numbers(frame, "root", called))
        return set_numbers(made, "root", root), errors


def _place(frame: pa.Table, row: int) -> str:
    if "partition" in frame.column_names:
        return f"partition {frame.column('partition')[row].as_py()}, offset {frame.column('offset')[row].as_py()}"
    _, partition = place_of(int(ints(frame, "srcpart")[row]))
    return f"partition {partition}, offset {frame.column('offset')[row].as_py()}"


def _why(told: pa.Array, errors: Mapping[int, Exception], row: int) -> str:
    if row in errors:
        return said(errors[row]).rstrip(".")
    given = told[row].as_py()
    if given is None:
        return "it gives null"
    return f"it gives {given} ms, and 0 to {LONGEST_MS} are allowed"
