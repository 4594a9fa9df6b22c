"""Arrow's types, as the engine has them."""

from __future__ import annotations

import pyarrow as pa

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def with_nulls(kind: pa.DataType) -> pa.DataType:
    """The type with all its fields, elements and values nullable, and timestamps in UTC.

    So tables of one topology go together, whatever expressions and sessions they come from.
    """
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(with_nulls(each.type)).with_nullable(True) for each in kind])
    if pa.types.is_list(kind):
        element = kind.value_field
        return pa.list_(element.with_type(with_nulls(element.type)).with_nullable(True))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_field, kind.item_field.with_type(with_nulls(kind.item_type)).with_nullable(True))
    return pa.timestamp(kind.unit, tz="UTC") if pa.types.is_timestamp(kind) and kind.tz else kind
