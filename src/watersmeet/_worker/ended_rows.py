"""Rows that end: each is counted, and becomes a dead letter if the policy is one.

A record that ends at an input becomes a row of another source: the record as it came, with headers that give the
reason. A row that ends at an operator leaves through the exit of `DeadLetterWriter`. Law 6: nothing vanishes silently.
A dead letter has the record's key, value and headers byte for byte, then the headers of Kafka Streams (KIP-1034,
`__streams.errors.*`) as UTF-8 text, without a stack trace, since the fault is in the bytes, and three that Kafka
Streams does not have: the record's timestamp (the letter's own cannot be before 1970), the operator where the record
ended, and the reason as in `query.drops`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import ArrayType, BinaryType, DataType, StringType, StructField, StructType

from watersmeet._engine.exchange import DropCounts, Outlet, RoutedBatch, ShardCounts, exit_number, route_rows
from watersmeet._engine.expressions.program import Program
from watersmeet._engine.expressions.tree import EvaluationError
from watersmeet._engine.keys import as_bytes
from watersmeet._engine.rows import HEADERS as HEADERS_ARROW
from watersmeet._engine.rows import (
    HELD_KEY,
    PARTITION_BITS,
    TOPIC,
    Bools,
    Int64s,
    array,
    ints,
    place_of,
    position_columns,
    visible_columns,
)
from watersmeet._plan import reasons
from watersmeet._plan.logical import dropped_source, operators_source, raised_source
from watersmeet._plan.physical import Physical
from watersmeet._plan.reasons import Reason
from watersmeet._worker.formats.arrow_types import spark_type
from watersmeet._worker.formats.formats import format_for, is_primitive, serde_of
from watersmeet._worker.formats.json import readable
from watersmeet.errors import EncodingError, FunctionError, WatersmeetError
from watersmeet.io.policies import DeadLetter, OperatorPolicies

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
    reason: Reason

    def headers(self, error: type[WatersmeetError] | None, text: str) -> list[Header]:
        """The headers of a dead letter behind the record's own: of an error of this class, if there is one."""
        texts = {} if error is None else {"exception": f"{error.__module__}.{error.__name__}"}
        texts |= {"message": text}
        if self.topic is not None:
            texts |= {"topic": self.topic, "partition": str(self.partition), "offset": str(self.offset)}
        texts |= {
            "timestamp": str(self.ts),
            "operator": self.operator,
            "reason": self.reason.name,
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
    reason: Reason = reasons.FUNCTION_ERROR
    error: type[WatersmeetError] = FunctionError


def evaluated(frame: pa.Table, program: Program, policies: Mapping[int, OnError]) -> tuple[pa.Table, pa.Table]:
    """The rows, and what a program makes of them; those for which it fails end.

    Parameters
    ----------
    policies : by the number of a source.
    """
    try:
        return frame, program(frame)
    except EvaluationError:
        failed = program.failing(frame) if policies else {}
        roots = frame.column("root").take(pa.array(list(failed), pa.int64())).to_pylist()
        if not failed or not policies.keys() >= {*roots}:
            raise
        texts = {row: f"{error_text(error)} In a function behind {program.owner}." for row, error in failed.items()}
        frame = divert_failures(frame, texts, policies)
        return frame, program(frame)


def without_failures(
    frame: pa.Table, failed: Mapping[int, Exception], program: Program, policies: Mapping[int, OnError]
) -> pa.Table:
    """The rows with the columns of a program, when a function of `peek` has raised for some: these end.

    Parameters
    ----------
    failed : the rows, and what was raised; that is raised anew where a row's source does not say that it ends.
    program, policies : see `evaluated`.
    """
    roots = frame.column("root").take(pa.array(list(failed), pa.int64())).to_pylist()
    for error, root in zip(failed.values(), roots, strict=True):
        if root not in policies:
            raise error
    texts = {row: error_text(of_peek(error)) for row, error in failed.items()}
    return program(divert_failures(frame, texts, policies))


def divert_failures(frame: pa.Table, failed: Mapping[int, str], policies: Mapping[int, OnError]) -> pa.Table:
    """The frame without rows that end for what the texts say: they have a reason, or are dead letters."""
    root, rows = _numbers(frame, "root"), np.array(sorted(failed), dtype=np.int64)
    for number, policy in policies.items():
        failing = rows[root[rows] == number]
        mask = np.zeros(len(frame), dtype=np.bool_)
        mask[failing] = True
        if policy.dead_letter_source is None:
            frame = set_numbers(frame, "reason", np.where(mask, policy.reason.code, _numbers(frame, "reason")))
        elif len(failing):
            name = column(policy.dead_letter_source, "headers")
            current = array(frame, name)
            header_lists = current.take(pa.array(failing)).to_pylist()
            places = _origins(frame, failing, policy.topic)
            origins = (BadRecordOrigin(*place, policy.source, policy.reason) for place in places)
            texts = (failed[row] for row in failing.tolist())
            replacements = [
                own_headers(headers) + origin.headers(policy.error, text)
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
            origin = BadRecordOrigin(*place, part.source, reasons.UNDECODABLE)
            by_row[row] = own_headers(headers) + origin.headers(type(error), complaint(error))
    return [by_row[row] for row in sorted(by_row)]


# Dead letters of what ends behind the inputs: late, expired and null-key records, and those a function raises for.
#
# Records of a topic's source leave as they came. Other rows leave with their keys and values as an output without
# formats writes them: text, bytes and integers as Kafka's serializers do, anything else as JSON.


@dataclass(frozen=True)
class DeadLetterRoutes:
    """Where the dead letters go of what ends behind the inputs."""

    slots: int  # path slots of the plan
    exits: Mapping[str, Outlet]  # by topic of dead letters, which way they go
    within: OperatorPolicies  # what becomes of records that end
    topics: Mapping[int, str]  # by the number of each source that is a topic, the topic
    raw: int | None  # number of the source with columns for dropped records as they came
    # numbers of the sources that have records without such bytes, which have no place in a topic either
    rows: tuple[int, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of a source stage that keep records as they came."""
        return () if self.raw is None else tuple(column(self.raw, part) for part in ("key", "value", "headers"))

    @property
    def needed(self) -> tuple[str, ...]:
        """Columns of a source stage that dead letters are made of, whatever else reads them."""
        rows = self.rows if self.raw is not None else ()
        return (*self.columns, *(f"s{number}_{part}" for number in rows for part in ("key", "value")))

    def of(self, node: str, reason: Reason) -> Outlet | None:
        """Where what ends at a node for this reason goes; None: it is counted only."""
        policy = getattr(self.within.at(node), reason.policy)
        return self.exits[policy.topic] if isinstance(policy, DeadLetter) else None


def dead_letter_routes(
    physical: Physical, preloaded: frozenset[str] = frozenset(), *, piped: bool = False
) -> DeadLetterRoutes | None:
    """Where the dead letters of a plan go that end behind its inputs; None: there are none.

    Parameters
    ----------
    preloaded : names of the sources that begin with something, besides what their topics have.
    piped : whether its records are a test driver's, which know their input only if there is one.
    """
    plan = physical.plan
    names = {topic: operators_source(plan, DeadLetter(topic)) for topic in plan.within.dead_letters}
    if not names:
        return None
    exits = {topic: _exit(physical, name) for topic, name in names.items() if name is not None}
    topics = {number: s.origin.topic for number, s in enumerate(plan.sources) if s.origin.topic is not None}
    if piped:
        topics = {0: topics[0]} if len(topics) == 1 and 0 in topics else {}
    numbers = {source.name: number for number, source in enumerate(plan.sources)}
    bare = preloaded | {source.name for source in plan.sources if source.origin.frame is not None}
    rows = tuple(number for name, number in numbers.items() if name in bare)
    raw_source = dropped_source(plan)
    return DeadLetterRoutes(
        physical.slots, exits, plan.within, topics, None if raw_source is None else numbers[raw_source], rows
    )


def _exit(physical: Physical, source: str) -> Outlet:
    sinks = physical.plan.by_name
    index, sink = next((at, name) for at, (_, name) in enumerate(physical.sink_edges) if source in sinks[name].inputs)
    port, target = physical.sink_port(index), exit_number(physical, sink)
    return Outlet(sink, port, target, "letter_key", "letter_value", extras=(("headers", "letter_headers"),))


def error_policies(physical: Physical, roots: Mapping[int, str]) -> dict[int, OnError]:
    """The policies of a stage's roots where a function's error is tolerated."""
    sources = [(n, s) for n, s in enumerate(physical.plan.sources) if roots.get(n) == s.name]
    return {
        number: OnError(s.origin.name, s.name, raised_source(physical.plan, s))
        for number, s in sources
        if s.origin.policies.tolerates_errors
    }


class DeadLetterWriter(DropCounts):
    """Takes rows that end: they are counted, and those that are to be dead letters put on their way.

    Parameters
    ----------
    routes : of dead letters; None: rows that end are only counted.
    case : of rows that do not say theirs.
    """

    def __init__(self, routes: DeadLetterRoutes | None = None, case: int = 0) -> None:
        super().__init__()
        self._routes, self._case = routes, case
        self._pending: list[tuple[Outlet, pa.Table]] = []

    def end_rows(self, node: str, reason: Reason, rows: pa.Table, at: Int64s, outlet: Outlet | None = None) -> None:
        way = self._counted(node, reason, len(at))
        if self._routes is None or way is None or not len(at):
            return
        names = ("key", "value") if outlet is None else (outlet.key, outlet.value)
        moves = () if outlet is None else outlet.moves
        indices = [move.index for move in moves if move.index]
        letters = rows.select(_present(rows, [*self._position, *names, *indices, *self._routes.columns])).take(
            pa.array(at)
        )
        reports = [(node, reason, None, f"{node} leaves it out: {reason.text}.")] * len(at)
        self._hold(replace(way, moves=moves), letters, names, reports)

    def refused(self, frame: pa.Table, roots: Mapping[int, str], letters: Mapping[int, str]) -> None:
        """Take the records of a source stage that do not pass, and those that are dead letters already.

        Parameters
        ----------
        roots, letters : names of its sources, and of those that dead letters are counted under, by number.
        """
        root = ints(frame, "root") if "root" in frame.column_names else ints(frame, "srcpart") >> PARTITION_BITS
        codes = ints(frame, "reason")
        for reason in [reasons.BY_CODE[code] for code in np.unique(codes[codes > 0])]:
            for number in np.unique(root[codes == reason.code]).tolist() if reason.is_drop else ():
                at, name = np.flatnonzero((codes == reason.code) & (root == number)), roots[number]
                if reason.sent_by_input:
                    self.end_rows(name, reason, frame, at, Outlet(name, -1, None, f"s{number}_key", f"s{number}_value"))
                else:
                    self[(name, reason.name)] += len(at)
        for number, name in letters.items():
            self[(name, reasons.DEAD_LETTER.name)] += int((root == number).sum())

    def fail_rows(self, node: str, results: pa.Table, errors: Mapping[int, Exception], where: str) -> None:
        at = np.array(sorted(errors), dtype=np.int64)
        way = self._counted(node, reasons.FUNCTION_ERROR, len(at))
        if self._routes is None or way is None:
            return
        rows = results.take(pa.array(at))
        excluded = {*self._position, *visible_columns(self._routes.slots), *_OF_RESULTS}
        names = [name for name in rows.column_names if name not in excluded]
        columns = [array(rows, name) for name in names]
        value = columns[0] if names == ["value"] else pa.StructArray.from_arrays(columns, names)
        letters = rows.select(_present(rows, [*self._position, "key"])).append_column("given", value)
        reports = [
            (node, reasons.FUNCTION_ERROR, FunctionError, f"{error_text(errors[row])} {where}") for row in at.tolist()
        ]
        self._hold(way, letters, ("key", "given"), reports)

    def unencodable(self, outlet: Outlet, rows: pa.Table, errors: Mapping[int, EncodingError], output: str) -> None:
        """Take rows that an output cannot write.

        Parameters
        ----------
        outlet : leads to the output, and says in which columns their keys and values are.
        rows, errors : the rows, and by the number of one why it ends.
        output : its name, as the user has it.
        """
        at = np.array(sorted(errors), dtype=np.int64)
        way = self._counted(outlet.node, reasons.UNENCODABLE, len(at), output)
        if way is None:
            return
        reports = [(output, reasons.UNENCODABLE, EncodingError, complaint(errors[row])) for row in at.tolist()]
        self._hold(replace(way, moves=outlet.moves), rows.take(pa.array(at)), (outlet.key, outlet.value), reports)

    def routed(self, shards: ShardCounts) -> Iterator[RoutedBatch]:
        """The dead letters on their way, which are forgotten here."""
        pending, self._pending = self._pending, []
        for way, letters in pending:
            assert self._routes is not None
            yield from route_rows(letters, (way,), shards, self._routes.slots, DropCounts())

    def _counted(self, node: str, reason: Reason, count: int, display_name: str | None = None) -> Outlet | None:
        """Count rows that end, under the node's name or as it is shown; where they go as dead letters."""
        way = None if self._routes is None else self._routes.of(node, reason)
        if count:
            self[(display_name or node, (reason if way is None else reasons.DEAD_LETTER).name)] += count
        return way

    @property
    def _position(self) -> tuple[str, ...]:
        slots = 0 if self._routes is None else self._routes.slots
        return (*position_columns(slots), "ts", "case", "headers", HELD_KEY)

    def _hold(self, way: Outlet, rows: pa.Table, names: Sequence[str], reports: Sequence[_Report]) -> None:
        assert self._routes is not None
        key, value, headers = names[0], names[1], "headers"
        raw = [name for name in self._routes.columns if name in rows.column_names]
        if any(rows.column(name).null_count < len(rows) for name in raw):
            key, value, headers = raw
        letters = rows.append_column("letter_key", _dead_letters_written(array(rows, key)))
        letters = letters.append_column("letter_value", _dead_letters_written(array(rows, value)))
        letters = letters.append_column(
            "letter_headers", self._headers(rows, headers, reports, read=headers != "headers")
        )
        at = letters.schema.get_field_index("ts")
        letters = letters.set_column(at, "ts", pa.array(letter_times(ints(rows, "ts"))))
        if "case" not in letters.column_names:
            letters = letters.append_column("case", pa.array(np.full(len(letters), self._case, dtype=np.int64)))
        letters = letters.drop_columns([name for name in ("headers",) if name in letters.column_names])
        self._pending.append((way, letters))

    def _headers(self, rows: pa.Table, name: str, reports: Sequence[_Report], *, read: bool) -> pa.Array:
        """Headers of dead letters; `read`: whether the rows are as a topic's source has read them."""
        assert self._routes is not None
        originals = array(rows, name).to_pylist() if name in rows.column_names else [None] * len(rows)
        columns = [ints(rows, column_name).tolist() for column_name in ("srcpart", "offset", "ts")]
        letter_headers: list[list[Header]] = []
        for headers, srcpart, offset, ts, (node, reason, error, text) in zip(originals, *columns, reports, strict=True):
            number = srcpart >> PARTITION_BITS
            source_topic, partition = place_of(srcpart)
            topic = source_topic or (
                self._routes.topics.get(number) if read or number not in self._routes.rows else None
            )
            origin = BadRecordOrigin(topic, partition, offset, ts, node, reason)
            letter_headers.append(own_headers(headers) + origin.headers(error, text))
        return pa.array(letter_headers, HEADERS_ARROW)


_Report = tuple[str, Reason, type[WatersmeetError] | None, str]
"""Operator, reason, class and text of the error."""
_OF_RESULTS = frozenset(("hash", "key", "stored_ts", "silent", "late", "joined", "old_joined"))
"""Columns of results that are nothing that a function is given."""


def _present(rows: pa.Table, names: Sequence[str]) -> list[str]:
    return [name for name in dict.fromkeys(names) if name in rows.column_names]


def _dead_letters_written(values: pa.Array) -> pa.Array:
    """The bytes of values, as an output writes them that has no format."""
    if pa.types.is_binary(values.type):
        return values
    kind = spark_type(values.type)
    form = format_for(kind)
    if is_primitive(form):
        return as_bytes(values).cast(pa.binary())
    if not readable(kind):
        return pa.array([None if value is None else str(value).encode() for value in values.to_pylist()], pa.binary())
    return serde_of(form, kind).write(values).cast(pa.binary())
