"""Functions that are shown records with their times, headers and places: `peek`. Handle layer."""

from __future__ import annotations

from typing import Any

from watersmeet._plan.nodes import MapEachNode, Node, PeekNode, Shape
from watersmeet.functions import Function, adapt, seeing_record
from watersmeet.handles.side import Side


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
    shown = construction.add(PeekNode(name, (above.name,), shape, action=Shown(called)))
    return construction.add(MapEachNode(f"{name}-value", (shown.name,), side.node.shape, mapper=alone))


class Shown:
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
