"""Records that are piped into a test driver: looked at, and decoded where they are bytes, before they are kept.

Law 6: what is not of its input's types is an error on the line that pipes it, with the record named; bytes go through
the decoder of production, under the input's own policy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.types import BinaryType, LongType

from watersmeet._engine.rows.columns import PARTITION_BITS, array
from watersmeet._engine.rows.topic_slots import numbered
from watersmeet._plan.nodes import SourceNode
from watersmeet._spark.formats.values import Unfit, fitted
from watersmeet._worker.formats.dead_letters import HEADERS, BadRecordOrigin
from watersmeet._worker.formats.deserializers import IGNORED, UNDECODABLE, Deserializer
from watersmeet._worker.formats.formats import serde_of
from watersmeet._worker.formats.guarded import guard
from watersmeet.errors import SourceError, TopologyError
from watersmeet.testing.values import arrow_rows

Header = tuple[str, bytes | None]


@dataclass(frozen=True)
class Piped:
    """One input record: source number, its place in its case, which is its order_ts, and why it does not pass.

    `raw` is the bytes of its key and value, where it may still become a dead letter. Of a topic that a pattern matches,
    `topic` is its name, and `place` the number of source and topic in its position.
    """

    source: int
    key: Any
    value: Any
    ts: int
    headers: tuple[Header, ...]
    step: int
    reason: int = 0
    raw: tuple[bytes | None, bytes | None] | None = None
    topic: str | None = None
    place: int = 0


@dataclass(frozen=True)
class Inlet:
    """One of a topology's inputs: makes records of what is piped.

    Parameters
    ----------
    number : the source's.
    source : its node.
    dead_letter_source : number of the source of its dead letters, where it has any.
    keeps : whether records are kept as they came, since they may end later.
    topics : of an input with a pattern, the topics that were piped into, in order.
    """

    number: int
    source: SourceNode
    dead_letter_source: int | None = None
    keeps: bool = False
    topics: list[str] = field(default_factory=list)

    def of_topic(self, topic: str, record: Piped) -> Piped:
        """The record as one of a topic that the input's pattern matches."""
        if self.source.origin.pattern is None:
            return record
        if topic not in self.topics:
            self.topics.append(topic)
        place = self.number << PARTITION_BITS | numbered(self.topics.index(topic))
        return replace(record, topic=topic, place=place)

    def record(
        self, key: Any, value: Any, ts: int, headers: Sequence[Header], step: int, topic: str | None = None
    ) -> Piped:
        """The record, with everything of its types.

        Raises
        ------
        TopologyError : something is not.
        SourceError : bytes are not of the topic's format, and such a record is to fail the query.
        """
        given = {"key": key, "value": value}
        try:
            at = fitted(ts, LongType(), "ts", nullable=False)
            parts = [self._part(part, given[part], step) for part in given]
            told = tuple(fitted(list(headers), HEADERS, "headers"))
        except Unfit as error:
            raise TopologyError(
                f"A piped record does not have the types of its input {self.source.input!r}: {error.place}: "
                f"{error.fault}.",
                given=f"record {step}: key={key!r:.80}, value={value!r:.200}",
                hint=f"ts: ms since 1970; key: {self.source.shape.key.simpleString():.120}; "
                f"value: {self.source.shape.value.simpleString():.200}.{_of_times(error)}",
            ) from None
        at = next((part.ts for part in parts if part.ts is not None), at)
        worst = next((part.error for part in reversed(parts) if part.error is not None), None)
        if worst is not None and self.dead_letter_source is not None:
            # of a record of which neither can be read, the value is complained of
            raw = self._raws(given)
            place = BadRecordOrigin(topic or self.source.origin.topic, 0, step, at, self.source.name, "undecodable")
            return Piped(self.dead_letter_source, raw[0], raw[1], max(at, 0), (*told, *place.headers(worst)), step)
        reasons = {part.reason for part in parts if part.reason}
        if reasons:
            return Piped(self.number, None, None, at, told, step, UNDECODABLE if UNDECODABLE in reasons else IGNORED)
        origin = self.source.origin
        keeps = origin.formats and self.keeps
        kept = self._raws(given) if keeps else None
        return Piped(self.number, parts[0].value, parts[1].value, at, told, step, raw=kept)

    def _part(self, part: str, given: Any, step: int) -> _PipedPart:
        """The key or the value: bytes of a topic are decoded."""
        kind = getattr(self.source.shape, part)
        origin = self.source.origin
        raw = isinstance(given, bytes | bytearray) and not isinstance(kind, BinaryType)
        form = origin.formats.get(part)
        if form is None or (given is not None and not raw):
            return _PipedPart(fitted(given, kind, part))
        serde = serde_of(form)
        found = guard.read(serde, pa.array([bytes(given) if raw else None], pa.binary()))
        if found.ignored is not None and found.ignored[0]:
            return _PipedPart(None, IGNORED)
        if not found.bad[0]:
            value = found.values.to_pylist(maps_as_pydicts="strict")[0]
            return _PipedPart(fitted(value, kind, part), ts=None if found.ts is None else found.ts[0].as_py())
        decoder = Deserializer(self.number, part, part, form.kind, origin.topic, origin.policies.fails, serde)
        error = decoder.refused(bytes(given), origin.topic, 0, step)
        if decoder.fails:
            raise error
        return _PipedPart(None, UNDECODABLE, error=error)

    def _raws(self, given: Mapping[str, Any]) -> tuple[bytes | None, bytes | None]:
        return self._raw("key", given["key"]), self._raw("value", given["value"])

    def _raw(self, part: str, given: Any) -> bytes | None:
        """The bytes that the topic would have had."""
        if given is None or isinstance(given, bytes | bytearray):
            return None if given is None else bytes(given)
        kind = getattr(self.source.shape, part)
        values = array(arrow_rows([(fitted(given, kind, part),)], [(part, kind)]), part)
        return bytes(serde_of(self.source.origin.formats[part]).write(values)[0].as_py())


@dataclass(frozen=True)
class _PipedPart:
    """A key or a value, why its record does not pass (0: it does), and the time in ms that it tells.

    `error` is what a record would be refused with that cannot be decoded.
    """

    value: Any
    reason: int = 0
    ts: int | None = None
    error: SourceError | None = None


def _of_times(error: Unfit) -> str:
    """How a time is given, if something else was."""
    if not error.fault.endswith((", not timestamp", ", not date")):
        return ""
    return " A timestamp is a datetime: datetime(2026, 1, 31, 12, tzinfo=timezone.utc), a date date(2026, 1, 31)."
