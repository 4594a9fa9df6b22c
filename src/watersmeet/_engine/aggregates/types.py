"""Types of aggregates by name: what each keeps, and what it shows, by the type of its argument."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt

from watersmeet._engine import exact_sums as exact
from watersmeet.errors import TopologyError

_WHOLE = ("min", "max", "top_k", "collect_list", "collect_set", "count_distinct")
_NUMBERS = ("sum", "avg", "stddev")
_ORDERED = ("min", "max", "top_k")


def types_of(kind: str, argument: pa.DataType | None, *, takes_back: bool) -> tuple[pa.DataType, pa.DataType]:
    """(what is kept, what is shown).

    Parameters
    ----------
    kind : the aggregate's name.
    argument : type of its argument; None: it counts records.
    takes_back : whether values are subtracted, too.

    Raises
    ------
    TopologyError : there is no such aggregate of values of this type, or it cannot take values back.
    """
    if kind == "count" or argument is None:
        return pa.int64(), pa.int64()
    _check(kind, argument, takes_back=takes_back)
    values = pa.list_(pa.field("element", argument))
    if kind == "sum":
        total = _sum(argument)
        return _counted(_exact(total)) if takes_back else total, total
    if kind == "avg":
        return _counted(_exact(pa.float64()) if takes_back else pa.float64()), pa.float64()
    if kind == "stddev" and takes_back:
        return pa.struct([("count", pa.int64()), ("sum", exact.STATE), ("squares", exact.STATE)]), pa.float64()
    if kind == "stddev":
        return pa.struct([(name, pa.float64()) for name in ("count", "mean", "squares")]), pa.float64()
    if kind in ("first", "last"):
        return argument, argument
    if kind in ("min", "max"):
        return values if takes_back else argument, argument
    return values, pa.int64() if kind == "count_distinct" else values


def struct_of(fields: list[tuple[str, pa.DataType]]) -> pa.DataType:
    """A struct of these fields."""
    return pa.struct(fields)


def _counted(total: pa.DataType) -> pa.DataType:
    return pa.struct([("sum", total), ("count", pa.int64())])


def _exact(total: pa.DataType) -> pa.DataType:
    """What is kept of a sum from which values are taken back: integers and decimals are exact as they are."""
    return exact.STATE if pt.is_floating(total) else total


def _sum(argument: pa.DataType) -> pa.DataType:
    if pt.is_decimal(argument):
        return pa.decimal128(min(argument.precision + 10, 38), argument.scale)
    return pa.float64() if pt.is_floating(argument) else pa.int64()


def _check(kind: str, argument: pa.DataType, *, takes_back: bool) -> None:
    numbers = pt.is_integer(argument) or pt.is_floating(argument) or pt.is_decimal(argument)
    if kind in _NUMBERS and not numbers:
        raise TopologyError(
            f"The aggregate {kind} is of numbers, and its argument is {argument}.",
            hint=f"Cast the argument: wm.{kind}(lambda value: value['field'].cast('double')).",
        )
    if kind in _ORDERED and (pt.is_nested(argument) or pt.is_null(argument)):
        raise TopologyError(
            f"The aggregate {kind} is of values that have an order, and its argument is {argument}.",
            hint=f"Take a field of it: wm.{kind}(lambda value: value['field']).",
        )
    if kind in _WHOLE and pt.is_map(argument):
        raise TopologyError(
            f"The aggregate {kind} cannot tell maps apart, and its argument is {argument}.",
            hint="Take their entries: F.sort_array(F.map_entries(value['field'])).",
        )
    if kind in ("first", "last") and takes_back:
        raise TopologyError(
            f"A grouped table has no {kind} value, as wm.{kind} wants it: its rows come and go.",
            hint="Use wm.min or wm.max, or group the stream of its changes: table.to_stream().group_by(...).",
        )
