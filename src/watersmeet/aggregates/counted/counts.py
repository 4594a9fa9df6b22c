"""The state of an aggregate that counts each distinct value."""

from __future__ import annotations

import pyarrow as pa

from watersmeet.aggregates.declared import list_of


def counts_of(kind: pa.DataType) -> pa.DataType:
    """Different values, each with how often it is there."""
    return list_of(pa.struct([("value", kind), ("count", pa.int64())]))
