"""Windowed joins of two streams: the node that the handles attach, and what is refused.

Handle layer (docs/semantics/stream_stream.md).
"""

from __future__ import annotations

from watersmeet._plan.nodes import How, Node, Shape, StreamStream
from watersmeet.errors import TopologyError
from watersmeet.functions import Function
from watersmeet.generation import Generation
from watersmeet.handles.handle import Handle
from watersmeet.windows import JoinWindows


def stream_join_node(
    left: Handle,
    right: Handle,
    joiner: Function,
    how: How,
    windows: JoinWindows | None,
    generation: str | Generation | None,
    name: str | None,
) -> Node:
    """The node, attached.

    Raises
    ------
    TopologyError : there are no windows, or the sides do not fit one another.
    """
    if not isinstance(windows, JoinWindows):
        raise TopologyError(
            f"The join of two streams needs windows, which are JoinWindows: windows={windows!r:.80}.",
            hint="Say how far apart records may be: join(other, joiner, "
            "wm.JoinWindows.of_time_difference_and_grace('5 minutes', '1 minute')).",
        )
    left._require_same_key(right, "join")
    joiner, value = left._joiner(joiner, right)
    construction = left._construction
    chosen = construction.generation if generation is None else Generation.of(generation)
    current = chosen is Generation.CURRENT
    node = StreamStream(
        construction.name(name, StreamStream.stem, left.name, right.name),
        (left.name, right.name),
        Shape("stream", left.key_type, value),
        how=how,
        joiner=joiner,
        windows=windows,
        generation=Generation.SPURIOUS if generation is None and current and windows.eager else chosen,
        relaxed=current,
    )
    return left._attach(node)
