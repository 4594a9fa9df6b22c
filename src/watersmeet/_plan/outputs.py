"""Outputs that write to one place: what they must have in common, so that it keeps one order (law 2)."""

from __future__ import annotations

from collections.abc import Callable

from watersmeet._plan.logical import Plan
from watersmeet._plan.nodes import Node
from watersmeet.errors import TopologyError
from watersmeet.io.databases import TableTarget
from watersmeet.io.dataframes import Writer
from watersmeet.io.topics import TopicSink

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
    TopologyError : two writers of one folder, or of one table elsewhere; or two sinks of one topic whose keys are
        written, or placed, differently, so that records of one key could not be brought into one order.
    """
    for other in (each for each in plan.sinks if each is not sink):
        if isinstance(sink.place, Writer) and isinstance(other.place, Writer):
            _check_writers(sink, other)
        elif isinstance(sink.place, TableTarget) and isinstance(other.place, TableTarget):
            _check_tables(sink, other)
        elif isinstance(sink.place, TopicSink) and isinstance(other.place, TopicSink):
            _check_topic(plan, sink, other, key_text)


def _check_writers(sink: Node, other: Node) -> None:
    if sink.place.path is not None and sink.place.path == other.place.path:
        raise TopologyError(
            "Two outputs write to one place: of each batch only one's rows would stay.",
            given=f"{sink.place.path}: {other.name!r} and {sink.name!r}",
            hint="Merge them first: one.merge(other).to(...); or give each a path of its own.",
        )


def _check_tables(sink: Node, other: Node) -> None:
    if (sink.place.place, sink.place.table) == (other.place.place, other.place.table):
        raise TopologyError(
            "Two outputs write one table: a table has one writer.",
            given=f"{sink.place!r}: {other.name!r} and {sink.name!r}",
            hint="Give each a table of its own; or merge the streams behind them: "
            "one.to_stream().merge(other.to_stream()).to_table().to(...).",
        )


def _check_topic(plan: Plan, sink: Node, other: Node, key_text: KeyText) -> None:
    if sink.place.name != other.place.name:
        return
    before, now = (key_text(each) + (", by prefix" if each.name in plan.combined else "") for each in (other, sink))
    if before != now:
        raise TopologyError(
            "Two outputs of one topic write their keys differently: records of one key would have no order.",
            given=f"{sink.place.name!r}: keys of {before}, and of {now}",
            hint="Give both the same type of key (select_key) and the same key=...; or write to two topics.",
        )
