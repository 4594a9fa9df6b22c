"""Columns beside the values of records for a step or two: partitions before an output, the record before a `peek`.

Handle layer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from watersmeet._plan.nodes import MapEachNode, Node, PeekNode, Shape, SinkNode
from watersmeet.errors import FunctionError
from watersmeet.functions import Function, adapt, record_of, seeing_record, types_for
from watersmeet.handles.side import Side, type_text
from watersmeet.io.formats import Format, PlacedFormat

_ROLE = "partitioner"


def placed(side: Side, node: SinkNode) -> SinkNode:
    """The output of the records with their partitions beside their values.

    Parameters
    ----------
    node : the output of the records as they are.

    Raises
    ------
    TopologyError : the output cannot be added.
    FunctionError : the partitioner does not fit, or gives no whole numbers.
    """
    construction, functions, sink = side.construction, side.functions, node.target
    construction.check(node)
    function = adapt(sink.partitioner, ("key", "value"), _ROLE, functions, sees_record=True)
    types = types_for(function, side.types)
    kind = functions.value_type(function, types, _ROLE)
    if not pa.types.is_integer(functions.as_arrow(kind)):
        raise FunctionError(
            f"partitioner= must give whole numbers, not {type_text(kind)}.",
            hint="partitioner=lambda key, value: F.pmod(F.xxhash64(value['customer']), F.lit(12)), or .cast('int').",
        )

    def both(key: Any, value: Any, *record: Any) -> Any:
        return functions.record(key, {"value": value, "partition": function(key, value, *record)})

    record = record_of(function)
    beside = both if record is None else seeing_record(both, both, record, ("key", "value", "record"))
    shape = Shape("stream", side.key_type, functions.value_type(beside, types, _ROLE))
    place = construction.add(MapEachNode(f"{node.name}-partitions", (side.name,), shape, mapper=beside))
    form = PlacedFormat(by_type=True) if sink.value is None else PlacedFormat(inner=Format.of(sink.value))
    return replace(node, inputs=(place.name,), shape=place.shape, target=replace(sink, value=form))


def peeking(side: Side, action: Function, name: str) -> Node:
    """The records, shown to a function of (value, record) or (key, value, record).

    The record stands beside the value for as long as the function is shown both; behind it the value is as it was.

    Parameters
    ----------
    name : of the peek's node.
    """
    construction, functions = side.construction, side.functions
    called = adapt(action, ("key", "value", "record"), "action")
    kind = functions.record_type()

    def both(key: Any, value: Any, record: Any) -> Any:
        return functions.record(key, {"value": value, "record": record})

    def alone(_: Any, pair: Any) -> Any:
        return functions.field(pair, "value")

    beside = seeing_record(both, both, kind, ("key", "value", "record"))
    shape = Shape("stream", side.key_type, functions.value_type(beside, (*side.types, kind), "action"))
    above = construction.add(MapEachNode(f"{name}-record", (side.name,), shape, mapper=beside))
    shown = construction.add(PeekNode(name, (above.name,), shape, action=PeekWithRecord(called)))
    return construction.add(MapEachNode(f"{name}-value", (shown.name,), side.node.shape, mapper=alone))


class PeekWithRecord:
    """A function of key, value and record, as one of the key and of the struct that holds both.

    Parameters
    ----------
    action : the user's.
    """

    def __init__(self, action: Function) -> None:
        self._action = action

    def __call__(self, key: Any, pair: dict[str, Any]) -> None:
        """Show it one record."""
        self._action(key, pair["value"], pair["record"])
