"""Integers that are bytes, the highest first: as Kafka's serializers write them.

Called where rows come into Python and where they leave it; Spark has no expression for the way in but by way of
hexadecimal text.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millpond._engine.keys import keyform as form


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


def as_bytes(values: pa.Array) -> pa.Array:
    """Integers and texts as Kafka's serializers write them, byte strings as they are; null for null."""
    if not pa.types.is_integer(values.type):
        return values if pa.types.is_binary(values.type) else values.cast(pa.binary())
    width = values.type.bit_width // 8
    content = values.fill_null(0).to_numpy().astype(f">i{width}")
    found = pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), len(values), [None, pa.py_buffer(content)])
    return found if not values.null_count else pc.if_else(values.is_valid(), found, pa.scalar(None, pa.binary(width)))
