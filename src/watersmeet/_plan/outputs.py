"""Outputs that write to one place: what they must have in common, so that it keeps one order (law 2).

And topics that a topology both reads and writes: what is written comes back as an input, in a later batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from watersmeet._plan.logical import Plan
from watersmeet._plan.nodes import Node
from watersmeet.errors import TopologyError
from watersmeet.functions import FunctionBackend
from watersmeet.io.formats import Format, PlacedFormat

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


def check_feedback(node: Node, nodes: Mapping[str, Node], functions: FunctionBackend) -> None:
    """Raise where a node reads what another one writes, or the other way round, and nobody has asked for that.

    Parameters
    ----------
    node : the one that is added.
    nodes : those before it, by name.

    Raises
    ------
    TopologyError : the output does not say `feedback`, or writes another type or format than is read.
    """
    if node.place is None or node.place.topic is None:
        return
    for other in (each for each in nodes.values() if each.place is not None and each.is_sink != node.is_sink):
        sink, source = (node, other) if node.is_sink else (other, node)
        topic = sink.place.topic
        if source.place.reads(topic):
            if not sink.place.feeds_back:
                pattern = source.place.pattern
                by = "" if pattern is None else f", which wm.TopicPattern({pattern!r}) matches"
                raise TopologyError(
                    f"The topology reads and writes the topic {topic!r}{by}: each result would come back as an input.",
                    given=f"topic {topic!r}, of {other.stem} {other.name!r} and {node.stem} {node.name!r}",
                    hint="Write to another topic. To continue with the written records, use the stream that through() "
                    "returns. To read them in a later batch: to(topic, feedback=True).",
                )
            _check_types(topic, sink, source, nodes, functions)


def check_fed_back(nodes: Iterable[Node]) -> None:
    """Raise where an output feeds back what nothing reads.

    Raises
    ------
    TopologyError : one does.
    """
    sources = [node.place for node in nodes if node.place is not None and not node.is_sink]
    for node in nodes:
        if node.is_sink and node.place.feeds_back and not any(each.reads(node.place.topic) for each in sources):
            raise TopologyError(
                f"feedback=True of {node.name!r} needs an input of its topic {node.place.topic!r}: nothing reads it.",
                hint=f"Read it: builder.stream({node.place.topic!r}, ...); or leave feedback out.",
            )


def _check_types(topic: str, sink: Node, source: Node, nodes: Mapping[str, Node], functions: FunctionBackend) -> None:
    shape = sink.shape
    if isinstance(sink.place.formats["value"], PlacedFormat):
        # a partitioner's step stands between what is written and the output
        shape = nodes[nodes[sink.inputs[0]].inputs[0]].shape
    for part in ("key", "value"):  # the parts of a record
        written, read = getattr(shape, part), getattr(source.shape, part)
        form = sink.place.written_formats[part]
        kind = functions.written_as(None, written).rpartition(" as ")[2] if form is None else Format.of(form).kind
        wanted = Format.of(source.place.formats[part]).kind
        if (_text(written), kind) != (_text(read), wanted):
            raise TopologyError(
                f"feedback=True of the topic {topic!r} writes {part}s of another type than those that are read.",
                given=f"{part}s are written as {kind} of {_text(written)}, and read as {wanted} of {_text(read)}",
                hint="Give both the same type (map_values, select_key) and the same format.",
            )


def _text(kind: Any) -> str:
    simple = getattr(kind, "simpleString", None)
    return str(simple()) if callable(simple) else str(kind).replace(" not null", "")
