"""Windowed joins of two streams: the node, and what is refused (docs/semantics/stream_stream.md). Handle layer."""

from __future__ import annotations

from typing import Any, get_args

from watersmeet._plan.nodes import Match, Node, Shape, StreamMatchNode, StreamStreamNode
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
    TopologyError : the windows are no JoinWindows, the sides do not fit one another, or one match is asked of what
        has none.
    """
    windows: Any = join.windows
    if not isinstance(windows, JoinWindows):
        raise TopologyError(
            f"A join of two streams takes JoinWindows, and not windows={windows!r:.80}.", hint=SAY_WINDOWS
        )
    require_same_key(left, right, "join")
    return _of_all(left, right, join, windows) if join.match is None else _of_one(left, right, join, windows)


def _of_all(left: Side, right: Side, join: Join, windows: JoinWindows) -> Node:
    joiner, value = joiner_of(left, right, join)
    construction = left.construction
    chosen = _generation(left, join)
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


def _of_one(left: Side, right: Side, join: Join, windows: JoinWindows) -> Node:
    match: Any = join.match
    if match not in get_args(Match):
        raise TopologyError(
            f"Unknown match={match!r:.80}.",
            hint="match='all', each record in the window; match='first', the earliest of them; or match='nearest'.",
        )
    generation = _generation(left, join)
    if generation is not Generation.CURRENT:
        raise TopologyError(
            f"match={match!r} has no generation {generation.value!r}: no release of Kafka Streams has it.",
            hint="Leave match= out, or the generation of the join and of the builder.",
        )
    if windows.eager:
        raise TopologyError(
            f"match={match!r} waits for the end of the window, and the windows of JoinWindows.of do not: "
            f"windows={windows!r}.",
            hint="windows=wm.JoinWindows.of_time_difference_and_grace('5 minutes', '1 minute').",
        )
    joiner, value = joiner_of(left, right, join)
    node = StreamMatchNode(
        name_of(left, right, join, StreamMatchNode.stem),
        (left.name, right.name),
        Shape("stream", left.key_type, value),
        how=join.how,
        joiner=joiner,
        windows=windows,
        match=match,
    )
    return left.construction.add(node)


def _generation(left: Side, join: Join) -> Generation:
    return left.construction.generation if join.generation is None else Generation.of(join.generation)
