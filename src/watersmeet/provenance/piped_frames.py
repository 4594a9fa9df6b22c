"""The records of a journal's file as the frame that a replay takes, a column at a time.

Bytes go through the decoder of production; what it does not read ends in the replay as it has ended in the query.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import BinaryType

from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.rows.columns import PARTITION_BITS, array, ints
from watersmeet._engine.rows.topic_slots import TOPIC, numbered
from watersmeet._worker.formats.arrow_types import arrow_schema, arrow_type
from watersmeet._worker.formats.deserializers import IGNORED, NEGATIVE_TIMESTAMP, RAW, UNDECODABLE
from watersmeet._worker.formats.formats import serde_of
from watersmeet._worker.formats.guarded import guard
from watersmeet.testing.piped import Inlet
from watersmeet.testing.records import PipedFrame
from watersmeet.testing.values import arrow_rows


def piped_frame(rows: pa.Table, inlet: Inlet, form: PipedFrame) -> pa.Table:
    """The records as a replay takes them, all with the step 0.

    Parameters
    ----------
    rows : those of one input, as a file of the journal has them.
    inlet : the input.
    form : the columns of the replay.
    """
    ts, reason = ints(rows, "ts"), np.zeros(len(rows), dtype=np.int8)
    given = {}
    if RAW["key"] in rows.column_names:
        parts = {part: _Part.of(array(rows, name), inlet, part) for part, name in RAW.items()}
        given = {f"s{inlet.number}_{part}": found.values for part, found in parts.items()}
        ts = parts["key"].time(parts["value"].time(ts))
        for code, field in ((IGNORED, "ignored"), (UNDECODABLE, "bad")):
            reason[np.logical_or(*(getattr(found, field) for found in parts.values()))] = code
    else:
        given = {name: array(rows, name) for name in (f"s{inlet.number}_key", f"s{inlet.number}_value")}
    passes = pa.array(reason == 0)
    given = {
        name: values if pc.all(passes).as_py() else pc.if_else(passes, values, None) for name, values in given.items()
    }
    reason[(reason == 0) & (ts < 0)] = NEGATIVE_TIMESTAMP
    given |= {"root": _constant(inlet.number, rows), "ts": pa.array(ts), "reason": pa.array(reason)}
    if "headers" in rows.column_names:
        given["headers"] = array(rows, "headers")
    if inlet.source.origin.pattern is not None:
        given |= {TOPIC: array(rows, TOPIC), "srcpart": _of_topics(rows, inlet)}
    zero = _constant(0, rows)
    schema = arrow_schema(form.schema)
    nulls = {TOPIC, "headers", *(name for name in schema.names if name.startswith("s") and name[1:2].isdigit())}
    columns = [given[n] if n in given else pa.nulls(len(rows)) if n in nulls else zero for n in schema.names]
    return pa.table([column.cast(field.type) for column, field in zip(columns, schema, strict=True)], schema=schema)


def _constant(number: int, rows: pa.Table) -> pa.Array:
    return pa.array(np.full(len(rows), number, dtype=np.int64))


def _of_topics(rows: pa.Table, inlet: Inlet) -> pa.Array:
    """The numbers of source and topic, as `Inlet.of_topic` has them."""
    places = [inlet.number << PARTITION_BITS | numbered(at) for at in range(len(inlet.topics))]
    return pa.array(places, pa.int64()).take(pc.index_in(array(rows, TOPIC), pa.array(inlet.topics, pa.string())))


class _Part:
    """The keys, or the values, of some records: decoded, and which of them do not pass."""

    def __init__(self, values: pa.Array, bad: Bools, ignored: Bools, ts: pa.Array | None) -> None:
        self.values, self.bad, self.ignored, self._ts = values, bad, ignored, ts

    @classmethod
    def of(cls, raw: pa.Array, inlet: Inlet, part: str) -> _Part:
        """The part of these bytes."""
        kind, form = getattr(inlet.source.shape, part), inlet.source.origin.formats.get(part)
        none = np.zeros(len(raw), dtype=np.bool_)
        if form is None or isinstance(kind, BinaryType):
            return cls(raw.cast(arrow_type(kind)), none, none, None)
        found = guard.read(serde_of(form), raw.cast(pa.binary()))
        ignored = none if found.ignored is None else found.ignored
        try:
            values = found.values.cast(arrow_type(kind))
        except pa.ArrowException:
            # a type that Arrow does not convert by itself
            pairs = [(value,) for value in found.values.to_pylist(maps_as_pydicts="strict")]
            values = array(arrow_rows(pairs, [(part, kind)]), part)
        return cls(values, found.bad, ignored, found.ts)

    def time(self, otherwise: Int64s) -> Int64s:
        """The times that the bytes tell, else these."""
        if self._ts is None:
            return otherwise
        told: Int64s = pc.coalesce(self._ts.cast(pa.int64()), pa.array(otherwise)).to_numpy(zero_copy_only=False)
        return told
