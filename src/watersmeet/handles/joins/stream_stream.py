"""Windowed joins of two streams: the node, and what is refused (docs/semantics/stream_stream.md). Handle layer."""

from __future__ import annotations

from typing import Any

from watersmeet._plan.nodes import Node, Shape, StreamStreamNode
from watersmeet.errors import TopologyError
from watersmeet.generation import Generation
from watersmeet.handles.joins.join import Join, joiner_of, name_of
from watersmeet.handles.side import Side, require_same_key
from watersmeet.windows import JoinWindows

SAY_WINDOWS = (
    "Say how far apart records may be: join(other, joiner, "
    "wm.JoinWindows.of_time_difference_and_grace('5 minutes', '1 minute'))."
)


def attach(left: Side, right: Side, join: Join) -> Node:
    """The node, attached.

    Raises
    ------
    TopologyError : the windows are no JoinWindows, or the sides do not fit one another.
    """
    windows: Any = join.windows
    if not isinstance(windows, JoinWindows):
        raise TopologyError(
            f"A join of two streams takes JoinWindows, and not windows={windows!r:.80}.", hint=SAY_WINDOWS
        )
    require_same_key(left, right, "join")
    joiner, value = joiner_of(left, right, join)
    construction = left.construction
    chosen = construction.generation if join.generation is None else Generation.of(join.generation)
    current = chosen is Generation.CURRENT
    node = StreamStreamNode(
        name_of(left, right, join, StreamStreamNode.stem),
        (left.name, right.name),
        Shape("stream", left.key_type, value),
        how=join.how,
        joiner=joiner,
        windows=windows,
        generation=Generation.SPURIOUS if join.generation is None and current and windows.eager else chosen,
        relaxed=current,
    )
    return construction.add(node)
