"""Outputs that write to one place: what they must have in common, so that it keeps one order (law 2)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from watersmeet._plan.logical import Plan
from watersmeet._plan.nodes import Node

KeyText = Callable[[Node], str]
"""Type and format of a sink's keys, as text."""


def check_output(plan: Plan, sink: Node, key_text: KeyText) -> None:
    """Raise where another output of the plan writes to the same place and the two do not go together.

    Parameters
    ----------
    plan : with the sink as its last node.
    sink : the one that was added.
    key_text : says how a sink's keys are written.

    Raises
    ------
    TopologyError : two writers of one folder, or of one table elsewhere; or two sinks of one topic that write, or
        place, their keys differently, so that records of one key could not be brought into one order.
    """
    for other in (each for each in plan.sinks if each is not sink):
        if sink.place.claim is not None and sink.place.claim == other.place.claim:
            sink.place.check_beside(other.place, (other.name, sink.name), partial(_keys, plan, other, sink, key_text))


def _keys(plan: Plan, other: Node, sink: Node, key_text: KeyText) -> tuple[str, str]:
    before, now = (key_text(each) + (", by prefix" if each.name in plan.combined else "") for each in (other, sink))
    return before, now
