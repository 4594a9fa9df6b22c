"""The time of windowed joins, and the order in which time lets go of what waits (rows 1, 2 and 21).

Owns the repaired rule. Laws: a join that holds results back has one time with all operators behind it: that
of all sources that reach any of them, less what the operators above each can hold back. Before a record that
moves time is processed, all that it closes is let go, of all joins, in the order of (place, timestamp, right
before left, key bytes), and operators see the place as the time of the sources. The place is the end of the
wait, where both sides of a join wait the end of the longer one, and at most the last moment before the record.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property

from proof.oracle.domains import has_domains, in_place, is_operator
from proof.oracle.graph import Node, Place, Topology


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
        self.due = due
        self.let_go = let_go
        self._time: dict[int, int] = defaultdict(lambda: -1)
        self._heard: dict[int, int] = defaultdict(lambda: -1)
        self._before: dict[int, int] = defaultdict(lambda: -1)
        self._fresh: set[int] = set()
        self._quiet: dict[int, tuple[int, int]] = {}
        self._by_clock = False
        self._topology = topology
        self.node = node
        self.waits = waits
        self._topics: frozenset[str] | None = None
        topology.timed.append(self)

    def hear(self, topic: str, ts: int) -> None:
        """A record of a topic got somewhere."""
        if self._topics is None:
            self._topics = topics_together(self._topology, self.node)
        self._before[self.domain] = self.of_sources
        self._by_clock = False
        if topic in self._topics:
            self._heard[self.domain] = max(self.of_sources, ts)
            self._fresh.add(self.domain)

    def rest(self, wall: int, idle_after: int) -> None:
        """What the wall clock shows: a domain of which it has heard nothing for so long moves on with it."""
        for domain in list(self._heard):
            self._before[domain] = self._heard[domain]
            if domain in self._fresh:
                self._quiet[domain] = wall, self._heard[domain]
            since, time = self._quiet[domain]
            if wall - since >= idle_after:
                self._heard[domain] = max(self._heard[domain], time + wall - since)
        self._by_clock = True
        self._fresh.clear()

    def settle(self) -> None:
        """What is processed now comes behind all that has moved time so far."""
        self._by_clock = False

    @property
    def domain(self) -> int:
        """The time domain of what is processed: its partition, where these have times of their own."""
        return self._topology.partition if self.has_domains else 0

    @property
    def of_sources(self) -> int:
        """The time of the sources, as far as this operator has heard of them."""
        return self._heard.get(self.domain, -1)

    @property
    def time(self) -> int:
        """The operator's own."""
        return self._time.get(self.domain, -1)

    def time_of(self, domain: int) -> int:
        """The operator's own, of another time domain than the present one.

        All of it has been let go that its last record has closed; what the wall clock shows moves all domains together.
        """
        heard = self._heard.get(domain, -1)
        now = min(max(self._topology.now, self._before[domain]), heard) if self._topology.resting else heard
        return max(self._time.get(domain, -1), now - self.lag)

    @cached_property
    def has_domains(self) -> bool:
        """Whether partitions have times of their own here."""
        return has_domains(self._topology, self.node)

    def at_last(self, domain: int) -> int:
        """The operator's own time of a domain, where all has been let go that its records have closed."""
        return max(self._time.get(domain, -1), self._heard.get(domain, -1) - self.lag)

    def elsewhere(self, domain: int) -> int:
        """The time of another domain, before what lets go now."""
        return (self._before if self._by_clock else self._heard)[domain] - self.lag

    def forget_topics(self) -> None:
        """Find out anew whose records move its time."""
        self._topics = None
        self.__dict__.pop("has_domains", None)

    def move(self, ts: int, port: int) -> bool:
        """A record has come; what time lets go is gone by now, so nothing is to be looked for."""
        self.node.advance_time(self._topology, ts, port)
        now = min(max(self._topology.now, self._before[self.domain]), self.of_sources)
        self._time[self.domain] = max(self.time, now - self.lag)
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
    if has_domains(topology, node):
        alone = [timed.node for timed in topology.timed if timed.waits and in_place(timed.node)]
        groups = [{each, *filter(in_place, _behind(each, deaf=True))} for each in alone]
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
        found |= _behind(other, deaf=deaf) | ({other} if is_operator(other) else set())
    return found
