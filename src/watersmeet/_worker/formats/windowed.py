"""The serde of windowed keys: the key's bytes, then the window's times, as Kafka Streams' serializers lay them out.

A time window is written by its start alone, a session by its end and its start (`WindowKeySchema`, `SessionKeySchema`).
Law 6: a window that Kafka Streams could not make has a reason.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.keys import keyform
from watersmeet._engine.keys.big_endian import as_bytes, numbers
from watersmeet._worker.formats.serdes import POLICY, Decoded, Serde
from watersmeet.errors import EncodingError

FIELDS = ("key", "start", "end")
_LONGEST = 2**63 - 1
_NUMBER = 8


@dataclass(frozen=True)
class WindowedSerde:
    """Windowed keys as structs of key, start and end.

    Parameters
    ----------
    kind : the format's name.
    inner : reads and writes the keys within.
    sessions : whether the end is written too.
    size_ms : of time windows; None: they are only written.
    """

    kind: str
    inner: Serde
    sessions: bool
    size_ms: int | None = None

    def read(self, raw: pa.Array) -> Decoded:
        """Keys of windows that are not empty and begin in 1970 or later."""
        lengths = pc.binary_length(raw).fill_null(self._tail).to_numpy()
        short = lengths < self._tail
        whole = pc.if_else(pa.array(~short), raw, None) if short.any() else raw
        found = self.inner.read(pc.binary_slice(whole, 0, -self._tail))
        start = numbers(pc.binary_slice(whole, -_NUMBER), pa.int64())
        if self.sessions:
            end = numbers(pc.binary_slice(whole, -2 * _NUMBER, -_NUMBER), pa.int64())
        else:
            end = self._ends(start)
        ends, starts = end.fill_null(0).to_numpy(), start.fill_null(0).to_numpy()
        bad = short | found.bad | (starts < 0) | (ends < starts)
        there = raw.is_valid().to_numpy(zero_copy_only=False) & ~bad
        fields = [pa.field(name, made.type) for name, made in zip(FIELDS, (found.values, start, end), strict=True)]
        values = pa.StructArray.from_arrays([found.values, start, end], fields=fields, mask=pa.array(~there))
        return Decoded(values, bad)

    def fault(self, raw: bytes) -> str:
        """It is too short, its key has a reason, or its window cannot be."""
        if len(raw) < self._tail:
            return f"{self.kind} takes {self._tail} bytes and those of the key, there are {len(raw)}"
        key = raw[: -self._tail]
        if self.inner.read(pa.array([key], pa.binary())).bad[0]:
            return f"the key within: {self.inner.fault(key)}"
        return "its window begins before 1970, or ends before it begins"

    def write(self, values: pa.Array) -> pa.Array:
        """Their bytes.

        Raises
        ------
        EncodingError : one lacks its key or a time, or its window has another size.
        """
        key, start, end = _fields(values)
        there = values.is_valid()
        written = [self.inner.write(key), *(as_bytes(end) for _ in range(self.sessions)), as_bytes(start)]
        joined = pc.binary_join_element_wise(*(part.cast(pa.binary()) for part in written), pa.scalar(b"", pa.binary()))
        self._refuse(values, pc.and_(there, joined.is_null()), "A windowed key lacks its key, or a time of its window.")
        if self.size_ms is not None:
            other = pc.not_equal(end, self._ends(start))
            what = f"A window has another size than its sink's format, {self.size_ms} ms."
            self._refuse(values, pc.and_(there, other).fill_null(False), what)
        return pc.if_else(there, joined, pa.scalar(None, pa.binary()))

    def inner_keys(self, values: pa.Array) -> pa.Array:
        """The bytes of the keys within, by which records are placed; null for null."""
        key, *_ = _fields(values)
        return pc.if_else(values.is_valid(), self.inner.write(key).cast(pa.binary()), pa.scalar(None, pa.binary()))

    @property
    def _tail(self) -> int:
        return 2 * _NUMBER if self.sessions else _NUMBER

    def _ends(self, start: pa.Array) -> pa.Array:
        """Of time windows; the end of one that is too large is the last time there is, as in Kafka Streams."""
        size = self.size_ms or 0
        late = pc.greater(start, _LONGEST - size)
        return pc.if_else(late, _LONGEST, pc.add(start, size))

    def _refuse(self, values: pa.Array, wrong: pa.Array, what: str) -> None:
        found = np.flatnonzero(wrong.to_numpy(zero_copy_only=False))
        if len(found):
            given = repr(values[int(found[0])].as_py())[:100]
            hint = f"Write the keys as JSON (wm.json()), or set them right before; {POLICY}"
            raise EncodingError(what, given=given, hint=hint)


def _fields(values: pa.Array) -> list[pa.Array]:
    """Key, start and end; null where there is no windowed key, whatever lies there in memory."""
    fields = keyform.struct_fields(values)
    there = values.is_valid()
    return [pc.if_else(there, each, pa.scalar(None, each.type)) for each in fields] if values.null_count else fields
