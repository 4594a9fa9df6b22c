"""Which partition of a topic each record is written to: a step before the output makes it stand beside the value.

Handle layer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from watersmeet._plan.nodes import MapEachNode, Shape, SinkNode
from watersmeet.errors import FunctionError
from watersmeet.functions import adapt, types_for
from watersmeet.functions import record_of as sees_record
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
            f"The partitioner gives {type_text(kind)}, and a partition is a whole number.",
            hint="partitioner=lambda key, value: F.pmod(F.xxhash64(value['customer']), F.lit(12)), or .cast('int').",
        )

    def both(key: Any, value: Any, *record: Any) -> Any:
        return functions.record(key, {"value": value, "partition": function(key, value, *record)})

    if sees_record(function) is not None:
        vars(both)["_record"] = sees_record(function)
    shape = Shape("stream", side.key_type, functions.value_type(both, types, _ROLE))
    place = construction.add(MapEachNode(f"{node.name}-partitions", (side.name,), shape, mapper=both))
    form = PlacedFormat(by_type=True) if sink.value is None else PlacedFormat(inner=Format.of(sink.value))
    return replace(node, inputs=(place.name,), shape=place.shape, target=replace(sink, value=form))
