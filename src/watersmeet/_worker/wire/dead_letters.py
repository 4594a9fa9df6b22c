"""Dead letters of what ends behind the inputs: late, expired and null-key records, and those a function raises for.

Records of a topic's source leave as they came. Other rows leave with their keys and values as an output without formats
writes them: text, bytes and integers as Kafka's serializers do, anything else as JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from watersmeet._engine.arrays import Int64s
from watersmeet._engine.exchange.outlets import exit_number
from watersmeet._engine.exchange.routing import Drops, Outlet, RoutedBatch, pack
from watersmeet._engine.exchange.shards import ShardCounts
from watersmeet._engine.keys.big_endian import as_bytes
from watersmeet._engine.rows.columns import HELD_KEY, PARTITION_BITS, array, ints, position_columns, visible_columns
from watersmeet._engine.rows.topic_slots import place_of
from watersmeet._engine.rows.types import HEADERS
from watersmeet._plan.dead_letters import dropped_source, operators_source, raised_source
from watersmeet._plan.operators.spec import RAISED
from watersmeet._plan.physical import Physical
from watersmeet._worker.formats.arrow_types import spark_type
from watersmeet._worker.formats.dead_letters import (
    BadRecordOrigin,
    Header,
    OnError,
    column,
    complaint,
    letter_times,
    own_headers,
    said,
)
from watersmeet._worker.formats.deserializers import NEGATIVE_TIMESTAMP, REASONS
from watersmeet._worker.formats.formats import format_for, is_primitive, serde_of
from watersmeet._worker.formats.json_types import readable
from watersmeet._worker.wire.wire import DEAD_LETTER, UNENCODABLE
from watersmeet.errors import EncodingError, FunctionError, WatersmeetError
from watersmeet.io.policies import DeadLetter, OperatorPolicies

_MESSAGE = "{} leaves it out: {}."


@dataclass(frozen=True)
class DeadLetterRoutes:
    """Where the dead letters go of what ends behind the inputs.

    Parameters
    ----------
    slots : path slots of the plan.
    exits : by topic of dead letters, which way they go.
    within : what becomes of records that end.
    topics : by the number of each source that is a topic, the topic.
    raw : number of the source with columns for dropped records as they came.
    rows : numbers of the sources that have records without such bytes, which have no place in a topic either.
    """

    slots: int
    exits: Mapping[str, Outlet]
    within: OperatorPolicies
    topics: Mapping[int, str]
    raw: int | None
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

    def of(self, node: str, reason: str) -> Outlet | None:
        """Where what ends at a node for this reason goes; None: it is counted only."""
        policies = self.within.at(node)
        policy = policies.on_error if reason in (RAISED, UNENCODABLE) else policies.on_drop
        return self.exits[policy.topic] if isinstance(policy, DeadLetter) else None


def dead_letter_routes(
    physical: Physical, begun: frozenset[str] = frozenset(), *, piped: bool = False
) -> DeadLetterRoutes | None:
    """Where the dead letters of a plan go that end behind its inputs; None: there are none.

    Parameters
    ----------
    begun : names of the sources that begin with something, besides what their topics have.
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
    bare = begun | {source.name for source in plan.sources if source.origin.frame is not None}
    rows = tuple(number for name, number in numbers.items() if name in bare)
    kept = dropped_source(plan)
    return DeadLetterRoutes(physical.slots, exits, plan.within, topics, None if kept is None else numbers[kept], rows)


def _exit(physical: Physical, source: str) -> Outlet:
    sinks = physical.plan.by_name
    index, sink = next((at, name) for at, (_, name) in enumerate(physical.sink_edges) if source in sinks[name].inputs)
    port, target = physical.sink_port(index), exit_number(physical, sink)
    return Outlet(sink, port, target, "letter_key", "letter_value", extras=(("headers", "letter_headers"),))


def outliving(physical: Physical, roots: Mapping[int, str]) -> dict[int, OnError]:
    """The roots of a stage with records that may outlive a function's error, and their policies."""
    sources = [(n, s) for n, s in enumerate(physical.plan.sources) if roots.get(n) == s.name]
    return {
        number: OnError(s.origin.name, s.name, raised_source(physical.plan, s))
        for number, s in sources
        if s.origin.policies.outlives_errors
    }


class DeadLetterWriter(Drops):
    """Takes rows that end: they are counted, and those that are to be dead letters put on their way.

    Parameters
    ----------
    routes : of dead letters; None: rows that end are only counted.
    case : of rows that do not say theirs.
    """

    def __init__(self, routes: DeadLetterRoutes | None = None, case: int = 0) -> None:
        super().__init__()
        self._routes, self._case = routes, case
        self._held: list[tuple[Outlet, pa.Table]] = []

    def ended(self, node: str, reason: str, rows: pa.Table, at: Int64s, outlet: Outlet | None = None) -> None:
        way = self._counted(node, reason, len(at))
        if self._routes is None or way is None or not len(at):
            return
        names = ("key", "value") if outlet is None else (outlet.key, outlet.value)
        moves = () if outlet is None else outlet.moves
        indices = [move.index for move in moves if move.index]
        some = rows.select(_there(rows, [*self._position, *names, *indices, *self._routes.columns])).take(pa.array(at))
        told = [(node, reason, None, _MESSAGE.format(node, reason))] * len(at)
        self._hold(replace(way, moves=moves), some, names, told)

    def refused(self, frame: pa.Table, roots: Mapping[int, str]) -> None:
        """Take a source stage's records with negative timestamps, where they are to be dead letters."""
        if self.takes_refused:
            reason, root = ints(frame, "reason"), ints(frame, "srcpart") >> PARTITION_BITS
            if "root" in frame.column_names:
                root = ints(frame, "root")
            for number, name in roots.items() if (reason == NEGATIVE_TIMESTAMP).any() else ():
                at = np.flatnonzero((reason == NEGATIVE_TIMESTAMP) & (root == number))
                whole = Outlet(name, -1, None, f"s{number}_key", f"s{number}_value")
                self.ended(name, REASONS[NEGATIVE_TIMESTAMP], frame, at, whole)

    @property
    def takes_refused(self) -> bool:
        """Whether records that a source does not let pass are dead letters."""
        return self._routes is not None and isinstance(self._routes.within.usual.on_drop, DeadLetter)

    def failed(self, node: str, results: pa.Table, errors: Mapping[int, Exception], where: str) -> None:
        at = np.array(sorted(errors), dtype=np.int64)
        way = self._counted(node, RAISED, len(at))
        if self._routes is None or way is None:
            return
        some = results.take(pa.array(at))
        apart = {*self._position, *visible_columns(self._routes.slots), *_OF_RESULTS}
        given = [name for name in some.column_names if name not in apart]
        columns = [array(some, name) for name in given]
        value = columns[0] if given == ["value"] else pa.StructArray.from_arrays(columns, given)
        kept = some.select(_there(some, [*self._position, "key"])).append_column("given", value)
        told = [(node, RAISED, FunctionError, f"{said(errors[row])} {where}") for row in at.tolist()]
        self._hold(way, kept, ("key", "given"), told)

    def unencodable(self, outlet: Outlet, rows: pa.Table, errors: Mapping[int, EncodingError], output: str) -> None:
        """Take rows that an output cannot write.

        Parameters
        ----------
        outlet : leads to the output, and says in which columns their keys and values are.
        rows, errors : the rows, and by the number of one why it ends.
        output : its name, as the user has it.
        """
        at = np.array(sorted(errors), dtype=np.int64)
        way = self._counted(outlet.node, UNENCODABLE, len(at), output)
        if way is None:
            return
        told = [(output, UNENCODABLE, EncodingError, complaint(errors[row])) for row in at.tolist()]
        self._hold(replace(way, moves=outlet.moves), rows.take(pa.array(at)), (outlet.key, outlet.value), told)

    def routed(self, shards: ShardCounts) -> Iterator[RoutedBatch]:
        """The dead letters on their way, which are forgotten here."""
        held, self._held = self._held, []
        for way, letters in held:
            assert self._routes is not None
            yield from pack(letters, (way,), shards, self._routes.slots, Drops())

    def _counted(self, node: str, reason: str, count: int, shown: str | None = None) -> Outlet | None:
        """Count rows that end, under the node's name or as it is shown; where they go as dead letters."""
        way = None if self._routes is None else self._routes.of(node, reason)
        if count:
            self[(shown or node, reason if way is None else DEAD_LETTER)] += count
        return way

    @property
    def _position(self) -> tuple[str, ...]:
        slots = 0 if self._routes is None else self._routes.slots
        return (*position_columns(slots), "ts", "case", "headers", HELD_KEY)

    def _hold(self, way: Outlet, rows: pa.Table, names: Sequence[str], told: Sequence[_Told]) -> None:
        assert self._routes is not None
        key, value, headers = names[0], names[1], "headers"
        raw = [name for name in self._routes.columns if name in rows.column_names]
        if any(rows.column(name).null_count < len(rows) for name in raw):
            key, value, headers = raw
        made = rows.append_column("letter_key", _written(array(rows, key)))
        made = made.append_column("letter_value", _written(array(rows, value)))
        made = made.append_column("letter_headers", self._headers(rows, headers, told, read=headers != "headers"))
        at = made.schema.get_field_index("ts")
        made = made.set_column(at, "ts", pa.array(letter_times(ints(rows, "ts"))))
        if "case" not in made.column_names:
            made = made.append_column("case", pa.array(np.full(len(made), self._case, dtype=np.int64)))
        made = made.drop_columns([name for name in ("headers",) if name in made.column_names])
        self._held.append((way, made))

    def _headers(self, rows: pa.Table, name: str, told: Sequence[_Told], *, read: bool) -> pa.Array:
        """Headers of dead letters; `read`: whether the rows are as a topic's source has read them."""
        assert self._routes is not None
        own = array(rows, name).to_pylist() if name in rows.column_names else [None] * len(rows)
        columns = [ints(rows, each).tolist() for each in ("srcpart", "offset", "ts")]
        found: list[list[Header]] = []
        for headers, srcpart, offset, ts, (node, reason, error, text) in zip(own, *columns, told, strict=True):
            number = srcpart >> PARTITION_BITS
            named, partition = place_of(srcpart)
            topic = named or (self._routes.topics.get(number) if read or number not in self._routes.rows else None)
            origin = BadRecordOrigin(topic, partition, offset, ts, node, reason)
            found.append(own_headers(headers) + origin.error_headers(error, text))
        return pa.array(found, HEADERS)


_Told = tuple[str, str, type[WatersmeetError] | None, str]
"""Operator, reason, class and text of the error."""
_OF_RESULTS = frozenset(("hash", "key", "stored_ts", "silent", "late", "joined", "old_joined"))
"""Columns of results that are nothing that a function is given."""


def _there(rows: pa.Table, names: Sequence[str]) -> list[str]:
    return [name for name in dict.fromkeys(names) if name in rows.column_names]


def _written(values: pa.Array) -> pa.Array:
    """The bytes of values, as an output writes them that has no format."""
    if pa.types.is_binary(values.type):
        return values
    kind = spark_type(values.type)
    form = format_for(kind)
    if is_primitive(form):
        return as_bytes(values).cast(pa.binary())
    if not readable(kind):
        return pa.array([None if each is None else str(each).encode() for each in values.to_pylist()], pa.binary())
    return serde_of(form, kind).write(values).cast(pa.binary())
