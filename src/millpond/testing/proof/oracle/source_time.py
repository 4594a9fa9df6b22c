"""The time of windowed joins, and the order in which time lets go of what waits (rows 1, 2 and 21).

Owns the repaired rule. Laws: a join that holds results back has one time with all operators behind it: that
of all sources that reach any of them, less what the operators above each can hold back. Before a record that
moves time is processed, all that it closes is let go, of all joins, in the order of (place, timestamp, right
before left, key bytes), and operators see the place as the time of the sources. The place is the end of the
wait, where both sides of a join wait the end of the longer one, and at most the last moment before the record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from millpond.testing.proof.oracle.graph import Node, Place, Topology


class SourceTime:
    """The time of one join; `Clock` is its counterpart without the repair."""

    def __init__(
        self,
        topology: Topology,
        node: Node,
        due: Callable[[], Place | None],
        let_go: Callable[[Place], None],
        *,
        waits: bool,
    ) -> None:
        """`due` names what is let go next, if anything, and `let_go` does it; `waits`: whether it ever does."""
        self.time = -1
        self.due = due
        self.let_go = let_go
        self.of_sources = -1
        self._topology = topology
        self.node = node
        self.waits = waits
        self._topics: frozenset[str] | None = None
        topology.timed.append(self)

    def hear(self, topic: str, ts: int) -> None:
        """A record of a topic got somewhere."""
        if self._topics is None:
            self._topics = topics_together(self._topology, self.node)
        if topic in self._topics:
            self.of_sources = max(self.of_sources, ts)

    def forget_topics(self) -> None:
        """Find out anew whose records move its time."""
        self._topics = None

    def move(self, ts: int, port: int) -> bool:
        """A record has come; what time lets go is gone by now, so nothing is to be looked for."""
        self.node.reach(self._topology, ts, port)
        self.time = max(self.time, min(self._topology.now, self.of_sources) - self.lag)
        return False

    @contextmanager
    def letting_go(self, local: int) -> Iterator[None]:
        """Forward inside this: the results stand at this moment of the operator's time, not now."""
        present = self._topology.now
        self._topology.now = min(present, local + self.lag)
        yield
        self._topology.now = present

    @property
    def lag(self) -> int:
        """How long the operators above may hold a result back."""
        return self.node.lag_above() or 0


def topics_together(topology: Topology, node: Node) -> frozenset[str]:
    """The topics that reach this operator or one that it has one time with."""
    together = {node}
    groups = [{timed.node, *_behind(timed.node, deaf=True)} for timed in topology.timed if timed.waits]
    while overlapping := [group for group in groups if group & together and not group <= together]:
        together = together.union(*overlapping)
    reached = {
        topic: any(together & {source, *_behind(source)} for source in sources)
        for topic, sources in topology.sources.items()
    }
    return frozenset(topic for topic, reaches in reached.items() if reaches)


def _behind(node: Node, *, deaf: bool = False) -> set[Node]:
    """The operators that a node's records reach; `deaf`: those too whose time changes of a table do not move."""
    found: set[Node] = set()
    looking = (join for join in node.looked_up_by if deaf or join.hears_lookups)
    for other in [*(child for child, _ in node._children), *looking]:
        found |= _behind(other, deaf=deaf) | ({other} if _is_operator(other) else set())
    return found


def _is_operator(node: Node) -> bool:
    """Whether the node keeps state: a merge, a plain function and a source without a store do not."""
    several = len({parent for parent, _ in node._parents}) > 1 and type(node) is not Node
    return node.stateful or several or getattr(node, "_store", None) is not None
