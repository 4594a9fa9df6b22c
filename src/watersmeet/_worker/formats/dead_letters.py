"""Dead letters: records as they came, with headers that say why they ended, as rows of a source of their own.

Law 6: nothing vanishes silently. Who reads the dead-letter topic finds key, value and headers byte for byte, and behind
the record's own headers those that Kafka Streams writes (KIP-1034, `__streams.errors.*`), as UTF-8 text. There is no
stack trace, since what was wrong is in the bytes, and three that Kafka Streams does not have: the record's timestamp
(the letter's own cannot be before 1970), the operator where the record ended, and the reason as `query.drops` has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import ArrayType, BinaryType, DataType, StringType, StructField, StructType

from watersmeet._engine.expressions.program import Program
from watersmeet._engine.expressions.tree import EvaluationError
from watersmeet._engine.rows import HEADERS as HEADERS_ARROW
from watersmeet._engine.rows import TOPIC, Bools, Int64s, array
from watersmeet.errors import FunctionError, WatersmeetError

HEADERS = ArrayType(StructType([StructField("key", StringType(), True), StructField("value", BinaryType(), True)]))
Kept = Mapping[int, tuple[int, ...]]
"""See `Deserializers.kept`."""
RAW_HEADERS = "raw_headers"
"""The column that has a record's headers as they came, whatever its topic keeps of them."""
PREFIX = "__streams.errors."
Header = tuple[str, bytes | None]


class SourcePart(Protocol):
    """The keys, or the values, of one source, as `Deserializer` has them."""

    @property
    def part(self) -> str:
        """Key or value."""

    @property
    def topic(self) -> str:
        """The topic."""

    @property
    def source(self) -> str:
        """The source's name."""

    @property
    def dead_letter_source(self) -> int | None:
        """Number of the source of its dead letters, where it has any."""

    def errors(self, raw: pa.Array, places: Sequence[tuple[str, int, int]]) -> Sequence[WatersmeetError]:
        """The errors for bytes that are not of the format, at these topics, partitions and offsets."""


Faults = Sequence[tuple[SourcePart, Bools]]


def column(source: int, part: str) -> str:
    return f"s{source}_{part}"


def letter_columns(parts: Sequence[SourcePart], letter_sources: Kept) -> list[tuple[str, DataType]]:
    sources = _sources(parts, letter_sources)
    kinds = {"key": BinaryType(), "value": BinaryType(), "headers": HEADERS}
    return [(column(source, part), kind) for source in sources for part, kind in kinds.items()]


def _sources(parts: Sequence[SourcePart], letter_sources: Kept) -> list[int]:
    direct = [part.dead_letter_source for part in parts if part.dead_letter_source is not None]
    return list(dict.fromkeys([*direct, *(to for targets in letter_sources.values() for to in targets)]))


@dataclass(frozen=True)
class BadRecordOrigin:
    """Where a bad record came from, and where it ended."""

    # topic, partition, offset, ts: of the record; the time in ms. Without a topic nothing is said of its place
    topic: str | None
    partition: int
    offset: int
    ts: int
    operator: str  # the operator's name
    reason: str  # why it ended, as `query.drops` would name it

    def headers(self, error: WatersmeetError) -> list[Header]:
        """The headers of a dead letter, behind the record's own headers."""
        return self.error_headers(type(error), complaint(error))

    def error_headers(self, error: type[WatersmeetError] | None, text: str) -> list[Header]:
        """The same of an error of this class, if it is one, with this text."""
        texts = {} if error is None else {"exception": f"{error.__module__}.{error.__name__}"}
        texts |= {"message": text}
        if self.topic is not None:
            texts |= {"topic": self.topic, "partition": str(self.partition), "offset": str(self.offset)}
        texts |= {
            "timestamp": str(self.ts),
            "operator": self.operator,
            "reason": self.reason,
        }
        return [(PREFIX + name, text.encode()) for name, text in texts.items()]


def complaint(error: WatersmeetError) -> str:
    """The text of an error in a dead letter: all but the hint."""
    return error.message if error.given is None else f"{error.message} Given: {error.given}"


def error_text(error: Exception) -> str:
    """The text of a function's error in a dead letter, as a sentence: the function's name follows."""
    if isinstance(error, WatersmeetError):
        return complaint(error) if error.given is None else f"{complaint(error)}."
    return str(error)


def of_peek(error: Exception) -> FunctionError:
    return FunctionError("A function of peek raises.", given=repr(error))


def sorted_out(frame: pa.Table, faults: Faults, raw: Mapping[str, pa.Array], letter_sources: Kept) -> pa.Table:
    """The frame with the records that cannot be decoded as rows of the sources of dead letters.

    Parameters
    ----------
    frame : root, partition, offset, ts, reason, raw_headers, and what has been decoded.
    faults : which records each part of a source cannot be decoded of.
    raw : keys and values as they came.
    letter_sources : see `Deserializers`.
    """
    root = _numbers(frame, "root")
    headers = array(frame, RAW_HEADERS)
    for source in _sources([part for part, _ in faults], letter_sources):
        source_faults = [(part, bad) for part, bad in faults if part.dead_letter_source == source]
        dead = (
            np.logical_or.reduce([bad for _, bad in source_faults])
            if source_faults
            else np.zeros(len(frame), dtype=np.bool_)
        )
        mask = dead | np.isin(root, [number for number, to in letter_sources.items() if source in to])
        original = {"key": raw["key"], "value": raw["value"], "headers": headers}
        columns = {
            n: content if mask.all() else pc.if_else(pa.array(mask), content, None) for n, content in original.items()
        }
        rows = np.flatnonzero(dead)
        columns["headers"] = _replaced(
            columns["headers"], rows, _headers(frame, source_faults, raw) if len(rows) else []
        )
        for name, values in columns.items():
            frame = frame.append_column(column(source, name), values)
        frame = _moved(frame, dead, source)
    return frame.drop_columns([RAW_HEADERS])


@dataclass(frozen=True)
class OnError:
    """The policy for the records of a source for which a function raises."""

    # topic, source: where they come from
    topic: str
    source: str
    # number of the source of dead letters that they become rows of; None: they are left out
    dead_letter_source: int | None
    # reason, error: why they end, and the class of error that a dead letter names
    reason: str = "function_error"
    error: type[WatersmeetError] = FunctionError


def evaluated(
    frame: pa.Table, program: Program, policies: Mapping[int, OnError], code: int
) -> tuple[pa.Table, pa.Table]:
    """The rows, and what a program makes of them; those for which it fails end.

    Parameters
    ----------
    policies : by the number of a source.
    code : the reason why they end, where they are no dead letters.
    """
    try:
        return frame, program(frame)
    except EvaluationError:
        failed = program.failing(frame) if policies else {}
        roots = frame.column("root").take(pa.array(list(failed), pa.int64())).to_pylist()
        if not failed or not policies.keys() >= {*roots}:
            raise
        texts = {row: f"{error_text(error)} In a function behind {program.owner}." for row, error in failed.items()}
        frame = divert_failures(frame, texts, policies, code)
        return frame, program(frame)


def without_failures(
    frame: pa.Table, failed: Mapping[int, Exception], program: Program, policies: Mapping[int, OnError], code: int
) -> pa.Table:
    """The rows with the columns of a program, when a function of `peek` has raised for some: these end.

    Parameters
    ----------
    failed : the rows, and what was raised; that is raised anew where a row's source does not say that it ends.
    program, policies, code : see `evaluated`.
    """
    roots = frame.column("root").take(pa.array(list(failed), pa.int64())).to_pylist()
    for error, root in zip(failed.values(), roots, strict=True):
        if root not in policies:
            raise error
    texts = {row: error_text(of_peek(error)) for row, error in failed.items()}
    return program(divert_failures(frame, texts, policies, code))


def divert_failures(frame: pa.Table, failed: Mapping[int, str], policies: Mapping[int, OnError], code: int) -> pa.Table:
    """The frame without rows that end for what the texts say: they have a reason, or are dead letters."""
    root, rows = _numbers(frame, "root"), np.array(sorted(failed), dtype=np.int64)
    for number, policy in policies.items():
        failing = rows[root[rows] == number]
        mask = np.zeros(len(frame), dtype=np.bool_)
        mask[failing] = True
        if policy.dead_letter_source is None:
            frame = set_numbers(frame, "reason", np.where(mask, code, _numbers(frame, "reason")))
        elif len(failing):
            name = column(policy.dead_letter_source, "headers")
            current = array(frame, name)
            header_lists = current.take(pa.array(failing)).to_pylist()
            places = _origins(frame, failing, policy.topic)
            origins = (BadRecordOrigin(*place, policy.source, policy.reason) for place in places)
            texts = (failed[row] for row in failing.tolist())
            replacements = [
                own_headers(headers) + origin.error_headers(policy.error, text)
                for headers, origin, text in zip(header_lists, origins, texts, strict=True)
            ]
            frame = frame.set_column(
                frame.schema.get_field_index(name), name, _replaced(current, failing, replacements)
            )
            frame = _moved(frame, mask, policy.dead_letter_source)
    return frame


def _numbers(frame: pa.Table, name: str) -> Int64s:
    numbers: Int64s = array(frame, name).fill_null(-1).to_numpy()
    return numbers


def set_numbers(frame: pa.Table, name: str, values: Int64s) -> pa.Table:
    at = frame.schema.get_field_index(name)
    return frame.set_column(at, name, pa.array(values).cast(frame.schema.field(name).type))


def _moved(frame: pa.Table, rows: Bools, source: int) -> pa.Table:
    """The frame with these rows as those of a source of dead letters, which have no reason to end."""
    for name, values in (("root", source), ("reason", 0)):
        frame = set_numbers(frame, name, np.where(rows, values, _numbers(frame, name)))
    ts = _numbers(frame, "ts")
    return set_numbers(frame, "ts", np.where(rows, letter_times(ts), ts))


def _replaced(column: pa.Array, rows: Int64s, replacements: Sequence[list[Header]]) -> pa.Array:
    """A column of headers with others in these rows."""
    if not len(rows):
        return column
    pointers = np.arange(len(column), dtype=np.int64)
    pointers[rows] = len(column) + np.arange(len(rows))
    return pa.concat_arrays([column.cast(HEADERS_ARROW), pa.array(replacements, HEADERS_ARROW)]).take(
        pa.array(pointers)
    )


def own_headers(headers: Sequence[Mapping[str, Any]] | None) -> list[Header]:
    """The headers that a record came with, of a row of Arrow's."""
    return [(header["key"], header["value"]) for header in headers or ()]


def letter_times(ts: Int64s) -> Int64s:
    """Timestamps of the dead letters of records with these: Kafka takes none before 1970."""
    times: Int64s = np.maximum(ts, 0)
    return times


def topics_of(frame: pa.Table, rows: Int64s, topic: str) -> list[str]:
    """The topic of each of these rows: `topic`, unless the rows say theirs."""
    if TOPIC not in frame.column_names:
        return [topic] * len(rows)
    return [name or topic for name in array(frame, TOPIC).take(pa.array(rows)).to_pylist()]


def _origins(frame: pa.Table, rows: Int64s, topic: str) -> Iterator[tuple[str, int, int, int]]:
    """Topic, partition, offset and timestamp of these rows; those of piped records have one partition."""
    at = pa.array(rows)
    partitions = array(frame, "partition").take(at).to_pylist() if "partition" in frame.column_names else [0] * len(at)
    offsets, times = (array(frame, name).take(at).to_pylist() for name in ("offset", "ts"))
    return zip(topics_of(frame, rows, topic), partitions, offsets, times, strict=True)


def _headers(frame: pa.Table, parts: Faults, raw: Mapping[str, pa.Array]) -> list[list[Header]]:
    """The headers of dead letters, in the order of their rows."""
    by_row: dict[int, list[Header]] = {}
    # of a record of which neither can be read, the value is complained of
    for part, bad in sorted(parts, key=lambda fault: fault[0].part):
        rows = np.flatnonzero(bad)
        places, at = list(_origins(frame, rows, part.topic)), pa.array(rows)
        header_lists = array(frame, RAW_HEADERS).take(at).to_pylist()
        errors = part.errors(raw[part.part].take(at), [place[:3] for place in places])
        for row, place, headers, error in zip(rows.tolist(), places, header_lists, errors, strict=True):
            origin = BadRecordOrigin(*place, part.source, "undecodable")
            by_row[row] = own_headers(headers) + origin.headers(error)
    return [by_row[row] for row in sorted(by_row)]
