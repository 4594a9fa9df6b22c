"""Integers that are bytes, the highest first: as Kafka's serializers write them.

Called where rows come into Python; Spark has no expression for it but by way of hexadecimal text.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millpond._engine import keyform as form


def integers(raw: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    """The integers, in two's complement, that byte strings of the type's own width are; null for null.

    Raises
    ------
    ValueError : one has another width.
    """
    flat, width = form.flat(raw), kind.bit_width // 8
    missing = form.nulls(flat)
    # a null may have bytes, too
    _, lengths, content = form.spans(flat if missing is None else flat.drop_null())
    if (lengths != width).any():
        raise ValueError(f"{kind} takes {width} bytes")
    found = content.view(f">i{width}").astype(f"<i{width}")
    if missing is None:
        return pa.array(found, kind)
    spread = np.zeros(len(flat), dtype=found.dtype)
    spread[~missing] = found
    return pa.array(spread, kind, mask=missing)
