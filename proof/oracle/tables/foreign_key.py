"""Foreign-key table joins (KIP-213): inner and left, before and after the fixes of 3.9.1 and 4.0.1.

Owns section 11 of the semantics and the rows 4, 5, 6 and 39. Law: the left row's answer counts only while the
left row is still the one that asked. Stages as in the engine: send, receive and join at the right, respond,
resolve at the left, with a topic before each side change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

from proof.oracle.graph import Node, Repartition, Topology
from proof.oracle.records import Joiner, Key, Record, StateRow, Stored, Value, key_bytes
from proof.oracle.tables.table import MisleadingLookup, Table, TableSource

ForeignKey = Callable[[Value], Key]


class Instruction(Enum):
    """What the left side tells the right side about one subscription."""

    DELETE_QUIETLY = "DELETE_KEY_NO_PROPAGATE"
    DELETE_AND_ANSWER = "DELETE_KEY_AND_PROPAGATE"
    ANSWER_ALWAYS = "PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE"
    ANSWER_IF_FOUND = "PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE"


@dataclass(frozen=True, slots=True)
class Message:
    """A subscription: whose it is, what to do, and the left value that asked (the engine sends its hash)."""

    instruction: Instruction
    left_key: Key
    asked: Value


@dataclass(frozen=True, slots=True)
class Answer:
    """A response: the right value for the left value that asked."""

    asked: Value
    right: Value


class SubscriptionSend(Node):
    """Stage A: turns each left change into instructions for the right side."""

    def __init__(self, topology: Topology, left: Table, how: str, foreign_key: ForeignKey) -> None:
        """Force old values: a changed foreign key must be unsubscribed."""
        super().__init__()
        semantics = topology.semantics
        self._left_join = how == "left"
        row = 5 if self._left_join else 4
        self._ignores_null = semantics.foreign_key_null_ignored
        self._fixed = semantics.foreign_key_null_fixed or (not semantics.eager_only and semantics.repaired(row))
        self._quiet = semantics.repaired(49)
        self._foreign_key = foreign_key
        self._skips_late = left.versioned
        self._told = MisleadingLookup(left, semantics)
        left.require_old(force=True)
        left.require_lookup()
        left.feed(self)

    def receive(self, record: Record, port: int) -> None:
        """Send the instructions of one left change."""
        if self._skips_late and not record.latest:
            return
        new, old = record.value, self._told.old(record)
        if self._ignores_null:
            rule = self._ignoring_rule
        elif self._fixed:
            rule = self._left_rule if self._left_join else self._inner_rule
        else:
            rule = self._old_left_rule if self._left_join else self._old_inner_rule
        new_key, old_key = (None if value is None else self._foreign_key(value) for value in (new, old))
        for instruction, target in rule(new, old, new_key, old_key):
            self.forward(Record(target, Message(instruction, record.key, new), record.ts))

    def _inner_rule(self, new: Value, old: Value, new_key: Key, old_key: Key) -> list[tuple[Instruction, Key]]:
        if new_key is None:
            return [] if old_key is None else [(Instruction.DELETE_AND_ANSWER, old_key)]
        if old_key is not None and old_key != new_key:
            return [(Instruction.DELETE_QUIETLY, old_key), (Instruction.ANSWER_ALWAYS, new_key)]
        return [(Instruction.ANSWER_IF_FOUND, new_key)]

    def _left_rule(self, new: Value, old: Value, new_key: Key, old_key: Key) -> list[tuple[Instruction, Key]]:
        if new is None and old is None:
            return []
        left = [] if old_key is None or old_key == new_key else [(Instruction.DELETE_QUIETLY, old_key)]
        return [*left, (Instruction.ANSWER_ALWAYS, new_key)]

    def _ignoring_rule(self, new: Value, old: Value, new_key: Key, old_key: Key) -> list[tuple[Instruction, Key]]:
        if (old is not None and old_key is None) or (new is not None and new_key is None):
            ends = self._quiet and new is not None and new_key is None and old_key is not None
            return [(Instruction.DELETE_QUIETLY, old_key)] if ends else []
        if new is None:
            return [] if old is None else [(Instruction.DELETE_AND_ANSWER, old_key)]
        moved = [(Instruction.DELETE_QUIETLY, old_key)] if old is not None and old_key != new_key else []
        always = old is not None or self._left_join
        return [*moved, (Instruction.ANSWER_ALWAYS if always else Instruction.ANSWER_IF_FOUND, new_key)]

    def _old_inner_rule(self, new: Value, old: Value, new_key: Key, old_key: Key) -> list[tuple[Instruction, Key]]:
        if old is not None and old_key is None:
            return []
        if new is None:
            return [] if old is None else [(Instruction.DELETE_AND_ANSWER, old_key)]
        if new_key is None:
            return []
        if old is None:
            return [(Instruction.ANSWER_IF_FOUND, new_key)]
        left = [] if old_key == new_key else [(Instruction.DELETE_QUIETLY, old_key)]
        return [*left, (Instruction.ANSWER_ALWAYS, new_key)]

    def _old_left_rule(self, new: Value, old: Value, new_key: Key, old_key: Key) -> list[tuple[Instruction, Key]]:
        if new is None and old is None:
            return []
        left = [] if old_key is None or old_key == new_key else [(Instruction.DELETE_AND_ANSWER, old_key)]
        return [*left, (Instruction.ANSWER_ALWAYS, new_key)]


class SubscriptionJoin(Node):
    """Stages B and C: keeps subscriptions (port 0) and answers them, as when a right row changes (port 1)."""

    keeps_partition = False

    def __init__(self, topology: Topology, subscriptions: Node, right: Table) -> None:
        """Stand behind the subscription topic, beside the right table."""
        super().__init__()
        self._max_timestamps = topology.semantics.repaired(6)
        self._right = right
        # row 39: what has arrived here, which may be less than what stands in the right table
        self._arrived: dict[Key, Stored | None] | None = {} if topology.semantics.repaired(39) else None
        self._subscribed: dict[Key, dict[Key, tuple[Value, int]]] = {}
        right.require_lookup()
        subscriptions.feed(self, 0)
        right.feed(self, 1)

    def receive(self, record: Record, port: int) -> None:
        """Keep or drop one subscription, or tell all subscribers of a right row."""
        if port == 0:
            self._subscribe(record)
        elif record.key is not None and (record.latest or not self._right.versioned):
            if self._arrived is not None:
                self._arrived[record.key] = self._right.get(record.key)
            self._tell(record)

    def state_rows(self) -> Iterator[StateRow]:
        """The subscriptions: under the right key the left one, since when."""
        for target, subscribers in self._subscribed.items():
            yield from (StateRow("subscription", target, key, ts) for key, (_, ts) in subscribers.items())

    def _find(self, target: Key) -> Stored | None:
        return self._right.get(target) if self._arrived is None else self._arrived.get(target)

    def _subscribe(self, record: Record) -> None:
        message: Message = record.value
        instruction = message.instruction
        target = record.key
        if target is None:
            if instruction is Instruction.ANSWER_ALWAYS:
                self._answer(message.left_key, message.asked, None, record.ts)
            return
        subscribers = self._subscribed.setdefault(target, {})
        if instruction in (Instruction.DELETE_QUIETLY, Instruction.DELETE_AND_ANSWER):
            subscribers.pop(message.left_key, None)
        else:
            subscribers[message.left_key] = (message.asked, record.ts)
        found = self._find(target)
        ts = record.ts if found is None else max(record.ts, found.ts)
        if instruction is Instruction.DELETE_AND_ANSWER:
            self._answer(message.left_key, message.asked, None, ts)
        elif instruction is Instruction.ANSWER_ALWAYS or (
            instruction is Instruction.ANSWER_IF_FOUND and found is not None
        ):
            self._answer(message.left_key, message.asked, None if found is None else found.value, ts)

    def _tell(self, record: Record) -> None:
        subscribers = self._subscribed.get(record.key, {})
        for left_key in sorted(subscribers, key=key_bytes):
            asked, asked_ts = subscribers[left_key]
            ts = max(record.ts, asked_ts) if self._max_timestamps else record.ts
            self._answer(left_key, asked, record.value, ts)

    def _answer(self, left_key: Key, asked: Value, right: Value, ts: int) -> None:
        self.forward(Record(left_key, Answer(asked, right), ts))


class ResponseJoin(Node):
    """Stage D: joins an answer with the left row, if that row is still the one that asked."""

    keeps_partition = False

    def __init__(self, responses: Node, left: Table, how: str, joiner: Joiner) -> None:
        """Stand behind the response topic."""
        super().__init__()
        self._left = left
        self._left_join = how == "left"
        self._joiner = joiner
        responses.feed(self)

    def receive(self, record: Record, port: int) -> None:
        """Emit a result or a tombstone, or drop a stale answer."""
        answer: Answer = record.value
        current = self._left.get(record.key)
        value = None if current is None else current.value
        if value != answer.asked:
            return
        joined: Value = None
        if answer.right is not None or (self._left_join and value is not None):
            joined = self._joiner(value, answer.right)
        self.forward(Record(record.key, joined, record.ts))


def _passage(topology: Topology, sender: Node) -> Node:
    """What messages go through: a topic, or with row 39 repaired nothing that would keep them."""
    if not topology.semantics.repaired(39):
        return Repartition(topology, sender, null_keys=True)
    passage = Node()
    sender.feed(passage)
    return passage


def foreign_key_join(
    topology: Topology, left: Table, right: Table, how: str, foreign_key: ForeignKey, joiner: Joiner
) -> Table:
    """Build all stages; the result is an ordinary table source."""
    right.require_old(force=True)
    send = SubscriptionSend(topology, left, how, foreign_key)
    subscriptions = _passage(topology, send)
    join = SubscriptionJoin(topology, subscriptions, right)
    responses = _passage(topology, join)
    resolve = ResponseJoin(responses, left, how, joiner)
    result = TableSource(topology, cached=topology.caching)
    resolve.feed(result)
    return result
