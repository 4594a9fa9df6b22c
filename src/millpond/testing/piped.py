"""Records that are piped into a test driver: looked at, and decoded where they are bytes, before they are kept.

Law 6: what is not of its input's types is an error on the line that pipes it, with the record named; bytes go through
the decoder of production, under the input's own policy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.types import BinaryType, LongType

from millpond._plan.nodes import Source
from millpond._spark.dataflow.compile import HEADERS
from millpond._spark.formats.deserializers import Deserializer
from millpond._spark.formats.formats import is_primitive
from millpond._spark.formats.values import Unfit, fitted
from millpond.errors import TopologyError
from millpond.io.topics import Topic

Header = tuple[str, bytes]


@dataclass(frozen=True)
class Piped:
    """One input record: source number, and its place in its case, which is its order_ts."""

    source: int
    key: Any
    value: Any
    ts: int
    headers: tuple[Header, ...]
    step: int
    undecodable: bool = False


@dataclass(frozen=True)
class Inlet:
    """One of a topology's inputs: makes records of what is piped.

    Parameters
    ----------
    number : the source's.
    source : its node.
    """

    number: int
    source: Source

    def record(self, key: Any, value: Any, ts: int, headers: Sequence[Header], step: int) -> Piped:
        """The record, with everything of its types.

        Raises
        ------
        TopologyError : something is not.
        SourceError : bytes are not of the topic's format, and such a record is to fail the query.
        """
        given = {"key": key, "value": value}
        try:
            at = fitted(ts, LongType(), "ts", nullable=False)
            decoded = [one for part in given for one in self._part(part, given[part], step)]
            told = tuple(fitted(list(headers), HEADERS, "headers"))
        except Unfit as error:
            raise TopologyError(
                "A piped record does not have its input's types.",
                given=f"record {step} of the input {self.source.input!r} (key={key!r:.80}, value={value!r:.200}): "
                f"{error.place}: {error.fault}",
                hint=f"key: {self.source.shape.key.simpleString():.120}; "
                f"value: {self.source.shape.value.simpleString():.200}.",
            ) from None
        if len(decoded) < len(given):
            return Piped(self.number, None, None, at, told, step, undecodable=True)
        return Piped(self.number, decoded[0], decoded[1], at, told, step)

    def _part(self, part: str, given: Any, step: int) -> list[Any]:
        """The key or the value; nothing where it cannot be decoded and is to be left out."""
        kind = getattr(self.source.shape, part)
        origin = self.source.origin
        if not isinstance(given, bytes | bytearray) or not isinstance(origin, Topic) or isinstance(kind, BinaryType):
            return [fitted(given, kind, part)]
        form = getattr(origin, part)
        schema = None if is_primitive(form) else kind
        decoder = Deserializer(self.number, part, part, form.kind, origin.name, origin.on_undecodable == "fail", schema)
        values, bad = decoder.decoded(pa.array([bytes(given)], pa.binary()))
        if not bad[0]:
            return [fitted(values.to_pylist(maps_as_pydicts="strict")[0], kind, part)]
        if decoder.fails:
            raise decoder.refused(bytes(given), 0, step)
        return []
