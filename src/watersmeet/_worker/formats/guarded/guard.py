"""How a task decodes: within the net, and carefully where a process has died over the same records before.

A library's code in C may end the process, and no `except` holds that. Spark then tries the task again, or the query is
started again, and dies at the same record for ever. So a task that is tried again, and one that finds the note of a
dead process about its records, first tries them in other processes (`trial`). A record that ends those has a reason.
"""

from __future__ import annotations

import hashlib
import os
import signal
from functools import lru_cache

import numpy as np
import pyarrow as pa

from watersmeet._worker.formats.guarded import net, notes, trial
from watersmeet._worker.formats.serdes import (
    BooleanSerde,
    BytesSerde,
    DecimalSerde,
    Decoded,
    NumberSerde,
    Serde,
    TextSerde,
    UuidSerde,
)
from watersmeet._worker.task import attempt_id, tried_before

_PLAIN = (BooleanSerde, BytesSerde, DecimalSerde, NumberSerde, TextSerde, UuidSerde)
"""Arrow's kernels over the bytes: there is nothing to look out for."""
_KILLERS: dict[bytes, str] = {}
"""By their digest, why bytes are not decoded that end the process."""


def read(serde: Serde, raw: pa.Array, what: str = "", frame: pa.Table | None = None) -> Decoded:
    """The values that a serde reads of byte strings; bad where it raises for a record, or ends the process.

    Parameters
    ----------
    what : names topic and part.
    frame : the records, with partition and offset; None: they have none.
    """
    if frame is None or isinstance(serde, _PLAIN) or not hasattr(os, "fork"):
        return net.read(serde, raw)
    spans = _spans(frame, raw)
    if tried_before() or any(notes.overlap(note, what, spans) for note in _dead(attempt_id())):
        return _carefully(serde, raw)
    with notes.decoding(what, spans):
        return net.read(serde, raw)


def fault(serde: Serde, raw: bytes) -> str:
    """Why bytes are not of the format."""
    killed = _KILLERS.get(_digest(raw)) if _KILLERS else None
    return net.fault(serde, raw) if killed is None else killed


@lru_cache(maxsize=1)
def _dead(task: int) -> list[notes.Note]:
    """The notes of processes that ended before this task began."""
    return notes.of_the_dead()


def _spans(frame: pa.Table, raw: pa.Array) -> dict[int, tuple[int, int]]:
    """First and last offset of each partition, of the records that have bytes."""
    there = raw.is_valid().to_numpy(zero_copy_only=False)
    if not {"partition", "offset"} <= {*frame.column_names}:
        return {}
    partition, offset = (
        frame.column(name).combine_chunks().fill_null(-1).to_numpy(zero_copy_only=False)[there]
        for name in ("partition", "offset")
    )
    found = {}
    for number in np.unique(partition).tolist():
        mine = offset[partition == number]
        found[number] = int(mine.min()), int(mine.max())
    return found


def _carefully(serde: Serde, raw: pa.Array) -> Decoded:
    made = []
    for part in trial.parts(lambda given: _elsewhere(serde, given), raw):
        given = raw[part.start : part.end]
        if part.killed_by is None:
            made.append(net.read(serde, given))
            continue
        name = signal.Signals(part.killed_by).name
        _KILLERS[_digest(given[0].as_py())] = f"decoding it ended the process, each time it was tried ({name})"
        made.append(Decoded(serde.read(pa.nulls(1, raw.type)).values, np.ones(1, dtype=np.bool_)))
    return made[0] if len(made) == 1 else net.joined(made)


def _elsewhere(serde: Serde, raw: pa.Array) -> None:
    net.read(serde, raw)


def _digest(raw: bytes) -> bytes:
    return hashlib.blake2b(raw, digest_size=16).digest()
