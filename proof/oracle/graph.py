"""The processor graph: nodes, depth-first forwarding, repartition queues.

Owns the order of processing. Laws: a record is processed to completion, children in the order in which they
were attached, before anything else; a repartition topic is read only when the current record is finished,
the queue whose head has the smallest timestamp first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

from proof.oracle.records import Key, Record, Result, StateRow, Value
from proof.oracle.semantics import Semantics


class EngineFailsError(Exception):
    """The imitated engine fails at this record."""


class Node:
    """One processor. `receive` is told on which of its inputs (ports) the record comes."""

    stateful = False
    keeps_partition = True
    """Whether what it forwards stands in the partition of its source, under the key that it has there."""
    goes_by_time = False
    """Whether what it does depends on time."""
    hears_lookups = True
    """Whether the sources of the tables that it looks up move its time, and that of what is behind it."""

    def __init__(self) -> None:
        """Start without children."""
        self._children: list[tuple[Node, int]] = []
        self._parents: list[tuple[Node, int]] = []
        self.looked_up_by: list[Node] = []
        self._looked_up: list[Node] = []
        self._direct: dict[int, bool] = {}
        self._lag: int | str | None = "unknown"

    def feed(self, child: Node, port: int = 0) -> None:
        """Attach a child; children get records in the order in which they were attached."""
        self._children.append((child, port))
        child._parents.append((self, port))

    def look_up(self, table: Node) -> None:
        """Read a table's values when records come, without being told of its changes."""
        table.looked_up_by.append(self)
        self._looked_up.append(table)

    def sources(self) -> set[Node]:
        """The nodes that begin what this one reads; global tables, which move nothing, apart."""
        above = [*(parent for parent, _ in self._parents), *self._looked_up]
        return set().union(*(node.sources() for node in above)) if above else {self}

    def forward(self, record: Record) -> None:
        """Hand a record to every child, depth first."""
        for child, port in self._children:
            child.receive(record, port)

    def held_back(self) -> int:
        """How long this operator may hold a result back, in stream time."""
        return 0

    def lag_above(self) -> int | None:
        """How far the operators above may lag the sources; None when no stateful operator is above."""
        if isinstance(self._lag, str):
            lags = [above._lag_behind() for above in (*(parent for parent, _ in self._parents), *self._looked_up)]
            known = [lag for lag in lags if lag is not None]
            self._lag = max(known) if known else None
        return self._lag

    def _lag_behind(self) -> int | None:
        above = self.lag_above()
        return (above or 0) + self.held_back() if self.stateful else above

    def advance_time(self, topology: Topology, ts: int, port: int = 0) -> None:
        """A record was accepted: the first operator that an input record reaches moves the time of the sources."""
        if port not in self._direct:
            above = [parent._lag_behind() for parent, at in self._parents if at == port]
            self._direct[port] = all(lag is None for lag in above)
        if self._direct[port] or not topology.arrived:
            topology.arrive(ts)

    def receive(self, record: Record, port: int) -> None:
        """Process one record; a plain node passes it on (a stream source, a merge)."""
        self.forward(record)

    def state_rows(self) -> Iterator[StateRow] | None:
        """What it holds now, for a reader; None: it does not tell."""
        return None

    def behind(self) -> Iterator[Node]:
        """This node and all behind it; one that stands behind several comes several times."""
        yield self
        for child, _ in self._children:
            yield from child.behind()

    def moves(self) -> Node:
        """The same node, which forwards under other keys, or into other partitions."""
        self.keeps_partition = False
        return self


_FURTHEST = 2**62
Place = tuple[int, int, int, bytes]
"""Where a waiting result has its turn: time of the sources, timestamp, right 0 or left 1, key bytes."""


class Timed(Protocol):
    """What waits for time."""

    node: Node
    waits: bool
    due: Callable[[], Place | None]
    let_go: Callable[[Place], None]

    def hear(self, topic: str, ts: int) -> None:
        """A record of a topic got somewhere."""

    def rest(self, wall: int, idle_after: int) -> None:
        """The wall clock shows this."""

    def settle(self) -> None:
        """What is processed now comes behind all that has moved time so far."""


class Walled(Protocol):
    """What waits for the wall clock."""

    def due_by_wall(self) -> tuple[int, bytes] | None:
        """Moment and key bytes of what is due next."""

    def let_go_by_wall(self) -> None:
        """Let go of it."""


class Sink(Node):
    """Writes what it gets to the topology's results; a table change is written as its new value."""

    def __init__(self, topology: Topology, name: str | None = None) -> None:
        """Write to this topology under an optional name."""
        super().__init__()
        self._topology = topology
        self._name = name

    def receive(self, record: Record, port: int) -> None:
        """Write one record."""
        if not self._topology.arrived:
            self._topology.arrive(record.ts)
        self._topology.results.append(Result(record.key, record.value, record.ts, self._name))


class MapRecord(Node):
    """Applies a function to each stream record: map, selectKey, mapValues and filter of a stream."""

    def __init__(self, parent: Node, function: Callable[[Record], Record | None]) -> None:
        """Read from this parent; the function returns None to drop the record."""
        super().__init__()
        self._function = function
        parent.feed(self)

    def receive(self, record: Record, port: int) -> None:
        """Map one record."""
        mapped = self._function(record)
        if mapped is not None:
            self.forward(mapped)


class Repartition(Node):
    """A repartition topic: holds records until the current input record is finished.

    Null keys are dropped before the topic unless a join with relaxed null keys is downstream.
    """

    keeps_partition = False

    def __init__(self, topology: Topology, parent: Node, *, null_keys: bool = False) -> None:
        """Stand between this parent and the children to come."""
        super().__init__()
        self.queue: deque[tuple[Record, int | None]] = deque()
        self._topology = topology
        self._null_keys = null_keys
        parent.feed(self)

    def receive(self, record: Record, port: int) -> None:
        """Write one record to the topic."""
        if record.key is not None or self._null_keys:
            self.enqueue(record)

    def enqueue(self, record: Record) -> None:
        """Put a record at the end of the topic."""
        # The time of an input record that has got nowhere yet is not known.
        self.queue.append((record, self._topology.now if self._topology.arrived else None))
        if len(self.queue) == 1:
            self._topology.waiting.add(self)


class Waiting:
    """The topics that hold records: the one whose head is the earliest comes first.

    Among equals it is as in Java's PriorityQueue, which the engine takes: a binary heap, in which a new one goes up
    only past later ones, and the last one takes the place of the one that is taken.
    """

    def __init__(self) -> None:
        """None."""
        self._heap: list[Repartition] = []

    def __bool__(self) -> bool:
        """Whether there is one."""
        return bool(self._heap)

    def add(self, topic: Repartition) -> None:
        """One more, which holds records."""
        at = len(self._heap)
        self._heap.append(topic)
        while at and _head(topic) < _head(self._heap[(at - 1) // 2]):
            self._heap[at], at = self._heap[(at - 1) // 2], (at - 1) // 2
            self._heap[at] = topic

    def take(self) -> Repartition:
        """The first one, which is taken out."""
        first, last = self._heap[0], self._heap.pop()
        if not self._heap:
            return first
        at, size = 0, len(self._heap)
        while (child := 2 * at + 1) < size:
            if child + 1 < size and _head(self._heap[child + 1]) < _head(self._heap[child]):
                child += 1
            if _head(last) <= _head(self._heap[child]):
                break
            self._heap[at], at = self._heap[child], child
        self._heap[at] = last
        return first


def _head(topic: Repartition) -> int:
    return topic.queue[0][0].ts


class Topology:
    """A set of named sources and everything behind them. One instance holds the state of one run."""

    def __init__(self, semantics: Semantics, *, caching: bool = False) -> None:
        """Start empty, imitating this engine, with the record cache on or off (row 12)."""
        self.semantics = semantics
        self.caching = caching
        self.wall_clock = 0
        self.source_time = -1
        self.now = -1
        self.place: Place | None = None
        """Of what is being let go, where it has its turn."""
        self.arrived = False
        self.partitioned = False
        """Whether inputs have partitions, which may have times of their own; else all records are of one time."""
        self.partition = 0
        """Of the present record, or of what is being let go."""
        self.partitions: set[int] = {0}
        self.resting = False
        """Whether the wall clock moves time, and no record."""
        self.results: list[Result] = []
        self.sources: dict[str, list[Node]] = {}
        self.timed: list[Timed] = []
        self.walled: list[Walled] = []
        """What waits for the wall clock."""
        self.wall = self.wall_moment = 0
        """What the wall clock shows, and how far what waits for it has been let go."""
        self.waiting = Waiting()
        self.topic = ""
        """Of the record that is processed."""
        self.tolerates_errors = False
        """Whether a record of a stream ends for which a function of a fold raises; else the engine fails."""
        self.ended = 0
        """How many have ended so."""
        self._commits: list[Callable[[], None]] = []
        self._ticks: list[Callable[[], None]] = []

    def source(self, topic: str, node: Node) -> None:
        """Read a topic into this node; a topic may be read by several nodes, in order of construction."""
        self.sources.setdefault(topic, []).append(node)

    def on_commit(self, flush: Callable[[], None]) -> None:
        """Call this after every record, of an input or of a repartition topic, in order of construction."""
        self._commits.append(flush)

    def on_tick(self, tick: Callable[[], None]) -> None:
        """Call this when an input record is finished, in order of construction (row 21)."""
        self._ticks.append(tick)

    def sink(self, parent: Node, name: str | None = None) -> None:
        """Write what this node forwards to the results."""
        parent.feed(Sink(self, name))

    def pipe(self, topic: str, key: Key, value: Value, ts: int, partition: int = 0) -> list[Result]:
        """Process one input record to the end of the topology and return what it wrote, in order."""
        if topic not in self.sources:
            raise KeyError(f"no source reads {topic!r}. Hint: this topology reads {sorted(self.sources)}")
        self.results, self.topic, self.arrived = [], topic, False
        self.partition = partition
        self.partitions.add(partition)
        if ts >= 0:
            record = Record(key, value, ts)
            for node in self.sources[topic]:
                node.receive(record, 0)
            self._commit()
            self._drain()
            self._tick()
        return self.results

    def show_wall_clock(self, wall: int, idle_after: int) -> list[Result]:
        """Show what the wall clock shows, in ms: the time of what has rested for so long moves on with it."""
        self.results, self.arrived = [], True
        self._by_wall(wall)
        if not idle_after:
            return self.results
        for timed in self.timed:
            timed.rest(wall, idle_after)
        self.resting = True
        self._let_go(sorted(self.partitions))
        self.resting = False
        self.now = self.source_time
        return self.results

    def _by_wall(self, wall: int) -> None:
        """What the wall clock lets go comes before time moves: each operator stands where records have moved it."""
        for timed in self.timed:
            timed.settle()
        self.wall, self.now, here = max(self.wall, wall), _FURTHEST, self.partition
        while due := [(place, n) for n, each in enumerate(self.walled) if (place := each.due_by_wall()) is not None]:
            (self.wall_moment, _), number = min(due)
            self.walled[number].let_go_by_wall()
            self._commit()
            self._drain()
        self.wall_moment, self.now, self.partition = self.wall, self.source_time, here

    def arrive(self, ts: int) -> None:
        """A record of the present topic got somewhere: what it closes is let go before it is processed."""
        self.arrived = True
        self._advance(ts)
        self.now = self.source_time = max(self.source_time, ts)

    def _advance(self, ts: int) -> None:
        for timed in self.timed:
            timed.hear(self.topic, ts)
        self._let_go([self.partition])

    def _let_go(self, partitions: list[int]) -> None:
        """All that is due in these partitions, and in what has one time for all, in the order of its turns."""
        free, present, here = not self.waiting, self.now, self.partition
        while True:
            due = []
            for self.partition in partitions:
                places = enumerate(timed.due() for timed in self.timed)
                due += [(place, number, self.partition) for number, place in places if place is not None]
            if not due:
                break
            place, number, self.partition = min(due)
            self.now, self.place = place[0], place
            self.timed[number].let_go(place)
            self._commit()
            if free:
                self._drain()
        self.now, self.place, self.partition = present, None, here

    def _drain(self) -> None:
        while self.waiting:
            topic = self.waiting.take()
            record, now = topic.queue.popleft()
            self.now = self.source_time if now is None else now
            if topic.queue:
                self.waiting.add(topic)
            topic.forward(record)
            self._commit()

    def _tick(self) -> None:
        self.now = self.source_time
        for tick in self._ticks:
            tick()
            self._commit()
            self._drain()
            self.now = self.source_time

    def _commit(self) -> None:
        for flush in self._commits:
            flush()
