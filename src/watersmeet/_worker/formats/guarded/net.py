"""The net around every decoder: where one raises, all can be read but the records at which it does.

A decoder reports the errors that it knows. This is for unforeseen ones, in our code or a library's: without it, one
record of a topic ends the query against its policy (law 6).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from watersmeet._worker.formats.serdes import Decoded, Serde
from watersmeet.errors import WatersmeetError

PASSED_ON = (WatersmeetError, MemoryError, OSError)
"""What says nothing of the bytes: a registry that does not answer, a machine without memory or disk."""
_SHOWN = 200


def read(serde: Serde, raw: pa.Array) -> Decoded:
    """The values that a serde reads; bad where it raises for a record alone.

    Parameters
    ----------
    raw : byte strings; a null is a tombstone.
    """
    try:
        return serde.read(raw)
    except PASSED_ON:
        raise
    except Exception:
        if not len(raw) - raw.null_count:
            # it does not even read nothing
            raise
    if len(raw) == 1:
        return Decoded(serde.read(pa.nulls(1, raw.type)).values, np.ones(1, dtype=np.bool_))
    half = len(raw) // 2
    return joined([read(serde, raw[:half]), read(serde, raw[half:])])


def fault(serde: Serde, raw: bytes) -> str:
    """Why bytes are not of the format."""
    try:
        return serde.fault(raw)
    except PASSED_ON:
        raise
    except Exception as error:
        return fallen(error)


def fallen(error: Exception) -> str:
    """The reason for bytes at which a decoder raises."""
    return f"its decoder fails with {type(error).__name__}: {str(error)[:_SHOWN]}"


def joined(parts: Sequence[Decoded]) -> Decoded:
    """The values of several columns of bytes, as of one."""
    ignored, ts = None, None
    if any(part.ignored is not None for part in parts):
        ignored = np.concatenate([_none(part) if part.ignored is None else part.ignored for part in parts])
    if any(part.ts is not None for part in parts):
        ts = pa.concat_arrays([pa.nulls(len(part.bad), pa.int64()) if part.ts is None else part.ts for part in parts])
    values = pa.concat_arrays([part.values for part in parts])
    return Decoded(values, np.concatenate([part.bad for part in parts]), ignored, ts)


def _none(part: Decoded) -> np.ndarray:
    return np.zeros(len(part.bad), dtype=np.bool_)
