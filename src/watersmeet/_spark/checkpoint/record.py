"""The records of watersmeet in a checkpoint: who wrote it, and everything that must not change under it.

Rows lie under `<checkpoint>/watersmeet/topology`, on any file system that Spark knows (`folders`); the last of them
holds. A restart with anything else is refused before the first batch. Records bind from the first batch on: a start
without a batch leaves nothing behind.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from difflib import unified_diff
from functools import cached_property
from typing import Any, Protocol

from watersmeet._plan.evolve import Change, Item, Replacement, compare, other_columns
from watersmeet._plan.nodes import SinkNode, SourceNode
from watersmeet._spark.checkpoint.folders import Folder, foreign
from watersmeet._spark.checkpoint.spark_logs import NO_BATCH, last_committed_batch, last_planned_batch, reads_nothing
from watersmeet._spark.session import warn
from watersmeet._worker import kafka_client
from watersmeet._worker.batch_plan import BatchPlan, of_topology, plan_of_log
from watersmeet._worker.task_reports import BatchRequest
from watersmeet.errors import ChangedTopology, ConfigError, CorruptData, SourceError
from watersmeet.io.kafka import Kafka, matches

# Which topic a name stands for: Kafka gives each topic an id when it is made (KIP-516), and a new one when anew.
#
# Offsets are of a topic, not of its name: a topic that was deleted and made anew has records that were never read where
# the checkpoint goes on, and others before. Law 6: that is refused, where ids can be asked for.

_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""What a broker says that knows of no ids."""
Ask = Callable[[], Mapping[str, str]]


class TopicFacts(Protocol):
    """The records of a checkpoint about topics."""

    @property
    def topics(self) -> Mapping[str, str]:
        """The id of each topic."""

    @property
    def marks(self) -> str:
        """The topic with offsets that mark the batches."""


def asking(kafka: Kafka, topics: Iterable[str]) -> Ask | None:
    """Asks for the ids of topics, by their names; None: Kafka's Python client is not there, or cannot log in.

    Unknown topics are left out: a missing topic, or one that this user may not see; all of them, if Kafka does not
    answer.
    """
    names = sorted(set(topics))
    if not names or not kafka_client.can_ask(kafka):
        return None
    admin, settings = kafka_client.admin(kafka), kafka_client.client_settings(kafka)
    collection = kafka_client.client().TopicCollection(names)

    def ask() -> dict[str, str]:
        answers = admin.describe_topics(collection, request_timeout=kafka_client.seconds(settings))
        ids = {name: _id(answer) for name, answer in answers.items()}
        return {name: text for name, text in ids.items() if text is not None}

    return ask


def _id(answer: Any) -> str | None:
    try:
        text = str(answer.result().topic_id)
    except kafka_client.client().KafkaException:
        return None
    return None if text == _NO_ID else text


def recreated(recorded: Mapping[str, str], current: Mapping[str, str]) -> list[str]:
    """The topics with other ids than the known ones."""
    return sorted(name for name, text in recorded.items() if current.get(name, text) != text)


def check(
    recorded: Mapping[str, str], current: Mapping[str, str], inputs: Iterable[str], outputs: Iterable[str]
) -> None:
    """Raise where an input is not the topic that was read; say which outputs were made anew."""
    check_inputs(recorded, current, inputs)
    _say_outputs(recorded, current, outputs)


def check_inputs(recorded: Mapping[str, str], current: Mapping[str, str], inputs: Iterable[str]) -> None:
    """Raise where an input is not the topic that was read."""
    read = frozenset(inputs)
    changed = [name for name in recreated(recorded, current) if name in read]
    if changed:
        raise SourceError(
            "A topic that this query reads was deleted and made anew: the checkpoint has the old one's offsets.",
            given="; ".join(f"topic {name}: its id was {recorded[name]}, it is {current[name]}" for name in changed),
            hint="Begin a new checkpoint: the state of this one belongs to the old topic's records. Where the new "
            "topic has the same records at the same offsets, as a copy of a whole cluster has, start with "
            "allow_recreated_topics=True.",
        )


def _say_outputs(recorded: Mapping[str, str], current: Mapping[str, str], outputs: Iterable[str]) -> None:
    """Say which outputs were made anew: what they had is gone, and is not written again."""
    written = frozenset(outputs)
    for name in recreated(recorded, current):
        if name in written:
            warn(
                f"The topic {name!r}, which this query writes, was deleted and made anew: its id was "
                f"{recorded[name]}, it "
                f"is {current[name]}. It does not have the records that were written before.",
                "where that is needed, begin a new checkpoint, which writes all results again.",
            )


@dataclass(frozen=True)
class TopicIds:
    """The topics of a topology."""

    kafka: Kafka | None  # where they are; None: nowhere
    # read, written: their names
    read: frozenset[str]
    written: frozenset[str]

    @classmethod
    def of(cls, sources: Iterable[SourceNode], sinks: Iterable[SinkNode], kafka: Kafka | None) -> TopicIds:
        """The topics of these inputs and outputs."""
        topics = (source.origin for source in sources if source.origin.pattern is None)
        read = frozenset(origin.topic for origin in topics if origin.topic is not None)
        return cls(kafka, read, frozenset(sink.target.topic for sink in sinks if sink.target.topic is not None))

    @cached_property
    def _ask(self) -> Ask | None:
        return None if self.kafka is None else asking(self.kafka, self.read | self.written)

    def facts(self, recorded: TopicFacts | None, *, ask: bool) -> dict[str, Any]:
        """The record of them in a checkpoint.

        Parameters
        ----------
        recorded : what it has recorded: an id that nobody says now stays, and so does the topic that marks the batches,
            as long as it is there.
        ask : whether Kafka may be asked.
        """
        old = {} if recorded is None else recorded.topics
        current = self._ask() if ask and self._ask is not None else {}
        ids = {name: text for name, text in {**old, **current}.items() if name in self.read | self.written}
        marks = "" if recorded is None else recorded.marks
        if marks and marks not in self.written and ask and self.kafka is not None:
            again = asking(self.kafka, [marks])
            marks = marks if again is None or marks in again() else ""
        return {"topics": ids, "marks": marks or min(self.written, default="")}

    def watch(self, facts: TopicFacts) -> Callable[[BatchRequest], None]:
        """The check before each batch that they are still the same."""
        if self._ask is None:
            return lambda request: None
        return TopicWatch(self._ask, dict(facts.topics), self.read, self.written - self.read)


@dataclass
class TopicWatch:
    """Looks before each batch whether the topics are still those of the start."""

    ask: Ask  # asks for their ids
    known: dict[str, str]  # as they were
    # inputs, outputs: their names
    inputs: frozenset[str]
    outputs: frozenset[str] = field(default_factory=frozenset)

    def __call__(self, request: BatchRequest) -> None:
        """Called before a batch is read."""
        current = self.ask()
        check(self.known, current, self.inputs, self.outputs)
        self.known = {**self.known, **current}


# The facts that a checkpoint depends on, recorded in it, and how two such records differ.

Texts = Mapping[str, Mapping[str, str]]
"""By node and role."""

_FORMS = {"str": str, "int": int, "bool": bool, "Sequence": list}
"""What JSON has of a fact by its annotation; of all others an object."""
REFUSED_FACTS = {
    "topology": (
        "another topology",
        "Start it once with evolve=True (`watersmeet run --evolve`): all state that fits is taken over. "
        "wm.plan_change(checkpoint, topology), or `watersmeet diff`, lists the effects in advance.",
    ),
    "generation": ("another generation of semantics", "The state follows the rules of its generation."),
    "shards": (
        "another number of shards",
        "Rows of state lie by shard: leave shards= out, it is then as recorded; or start it once with evolve=True, "
        "which divides the state anew.",
    ),
    "tasks": (
        "another number of tasks",
        "Shards are spread over tasks: leave tasks= out, it is then as recorded; or start it once with evolve=True.",
    ),
    "clock": (
        "another clock",
        "The clock of idle_after= and of timers by the wall clock is a source of the query, which its plans must find "
        "again: how long a rest is may change, whether there is a clock may not.",
    ),
}
"""By fact what another value of it means, and why a start refuses it."""


@dataclass(frozen=True)
class CheckpointFacts:
    """The facts that a checkpoint depends on."""

    topology: str  # its text, with what is known of its inputs; no secrets
    generation: str  # the Kafka version of its rules
    # shards, tasks: how it is spread
    shards: int
    tasks: int
    formats: Mapping[str, int] = field(default_factory=dict)  # version of each format that is kept: blobs, state
    partitions: Mapping[str, int] = field(default_factory=dict)  # partition count of each topic that is read
    clock: bool = False  # whether the wall clock is a source of the query
    # options, schemas, policies and settings that a batch's results depend on: an unfinished batch is first finished
    # under the recorded ones
    effects: Mapping[str, Any] = field(default_factory=dict)
    functions: Texts = field(default_factory=dict)  # what each node's functions come to
    spark: str = ""  # the version of Spark that defines this
    # the labels of each node's tables, by range of the hash: where the state lies
    addresses: Mapping[str, Mapping[str, Sequence[int]]] = field(default_factory=dict)
    # what is shown of each table that users see, by its name
    stores: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    # operators, inputs and outputs, as a change of the topology is judged by them
    described: Mapping[str, Any] = field(default_factory=dict)
    # the name of each of Spark's sources, in the order of its plans
    inputs: Sequence[str] = field(default_factory=list)
    # what inputs begin with, by the input's name
    begins: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    # the id of each topic that is read or written, where Kafka says it
    topics: Mapping[str, str] = field(default_factory=dict)
    marks: str = ""  # the topic with offsets that mark the batches in Kafka; it stays when outputs are added
    # of each level the number of its group, which runs in one task; none: each has its own
    level_groups: Sequence[int] = field(default_factory=list)

    @classmethod
    def read(cls, written: Mapping[str, Any]) -> CheckpointFacts:
        """Facts as a record has them."""
        for name, value in written.items():
            kind = _FORMS.get(str(cls.__annotations__.get(name)).partition("[")[0], dict)
            if type(value) is not kind or (isinstance(value, int) and kind is int and value < 1):
                raise ValueError(f"{name} is {value!r:.80}")
        numbers = [*written.get("formats", {}).values(), *written.get("partitions", {}).values()]
        if not all(type(number) is int for number in numbers):
            raise ValueError(f"formats and partitions {numbers!r:.80}")
        return cls(**written)

    def stored_name(self, table: str) -> str:
        """The name of a table in state: that of its store's owner."""
        return str(self.stores.get(table, {}).get("stored", "") or table)

    def lines(self) -> list[str]:
        """The facts that may not change, as text, one each line, for comparing."""
        text = [f"generation: {self.generation}", f"shards: {self.shards}", f"tasks: {self.tasks}"]
        text += [f"format of {name}: {version}" for name, version in sorted(self.formats.items())]
        text += [f"partitions of {name}: {count}" for name, count in sorted(self.partitions.items())]
        text += [
            "time: the wall clock is read (idle_after, or timers by it)" if self.clock else "time: that of the records"
        ]
        return text + self.topology.splitlines()


def changed_functions(old: CheckpointFacts, new: CheckpointFacts) -> dict[tuple[str, str], tuple[str, str]]:
    """By node and role what a function was, and is."""
    if old.spark != new.spark:
        # it may spell the same expression otherwise
        return {}
    roles = [(node, role) for node, texts in new.functions.items() for role in texts]
    pairs = {at: (old.functions.get(at[0], {}).get(at[1], ""), new.functions[at[0]][at[1]]) for at in roles}
    return {at: pair for at, pair in pairs.items() if pair[0] != pair[1]}


def binding_facts(old: CheckpointFacts, new: CheckpointFacts) -> CheckpointFacts:
    """The facts that still bind when topology, shards or tasks change: settings, and the nodes of both topologies."""
    topics = {name: old.partitions.get(name, count) for name, count in new.partitions.items()}
    functions = {
        node: {role: old.functions.get(node, {}).get(role, text) for role, text in texts.items()}
        for node, texts in new.functions.items()
    }
    spread = replace(old, shards=new.shards, tasks=new.tasks)
    return replace(spread, topology=new.topology, partitions=topics, functions=functions)


def changed_settings(old: CheckpointFacts, new: CheckpointFacts) -> list[Item]:
    """The facts that may not change with a topology either."""
    differ = [name for name in ("generation", "clock", "formats") if _differ(old, new, name)]
    return [
        Item(
            "settings",
            name,
            "refused",
            reason=f"was {getattr(old, name)}, is {getattr(new, name)}",
            hint="Leave it as it was.",
        )
        for name in differ
    ]


def changed_layout(old: CheckpointFacts, new: CheckpointFacts) -> list[Item]:
    """How state is divided otherwise than before."""
    return [
        Item("settings", name, "changed", reason=f"was {getattr(old, name)}, is {getattr(new, name)}")
        for name in ("shards", "tasks")
        if _differ(old, new, name)
    ]


def _differ(old: CheckpointFacts, new: CheckpointFacts, name: str) -> bool:
    return bool(getattr(old, name) != getattr(new, name))


def changed_function(node: str, role: str, old: str, new: str) -> str:
    return f"{role} of {node!r}: it was {old or 'unknown'}, it is {new or 'unknown'}"


# The plan of a checkpoint's last batch, written anew for a topology with other inputs.
#
# Spark knows its sources by their places in a plan. watersmeet records which input stands at which place, so each one
# goes on where it is (law 10), and one that is new begins at its beginning.

VOID = "-"
"""Where Spark has read nothing of a source yet."""
TOPICS, GLOBAL_TOPICS, CLOCK, REPLACED = "topics", "global topics", "clock", "replaced tables"
"""Sources of Spark's that are not one input of the topology's."""


def name_occurrences(names: Sequence[str]) -> list[tuple[str, int]]:
    """Each name, and how often it came before: an input may be made of several sources."""
    counts: Counter[str] = Counter()
    pairs = []
    for name in names:
        pairs.append((name, counts[name]))
        counts[name] += 1
    return pairs


def carried_offsets(plan: str, old: Sequence[str], new: Sequence[str], topics: Mapping[str, Begin]) -> str:
    """The plan of the last batch as a topology with other inputs has it.

    Parameters
    ----------
    plan : the file, as Spark wrote it.
    old, new : names of the sources, in order.
    topics : of `TOPICS` and `GLOBAL_TOPICS` what they read from now on.
    """
    version, header, *ends = plan.rstrip("\n").split("\n")
    if len(ends) != len(old):
        raise CorruptData(
            f"A plan of the checkpoint has {len(ends)} sources, and its topology has {len(old)}.",
            given=None,
            hint="Restore the whole checkpoint from one copy.",
        )
    by_source = dict(zip(name_occurrences(old), ends, strict=True))
    carried = [_of_topics(by_source.get(at, VOID), topics.get(at[0])) for at in name_occurrences(new)]
    return "\n".join([version, header, *carried])


def with_tasks(plan: str, tasks: int) -> str:
    """The plan of a batch of so many tasks: Spark takes their number from there, not from the session."""
    version, header, *ends = plan.split("\n")
    metadata = json.loads(header)
    metadata.setdefault("conf", {})["spark.sql.shuffle.partitions"] = str(tasks)
    return "\n".join([version, json.dumps(metadata, separators=(",", ":")), *ends])


@dataclass(frozen=True)
class Begin:
    """The topics of a source."""

    topics: frozenset[str]  # the names of those that have one
    # asked for some of them, by topic and partition, where they begin
    at: Callable[[frozenset[str]], Mapping[str, Mapping[str, int]]]
    patterns: frozenset[str] = frozenset()  # of the names of the others
    there: Callable[[], Iterable[str]] = tuple  # asks for the topics that those of them which are new match now

    def reads(self, topic: str) -> bool:
        return topic in self.topics or any(matches(pattern, topic) for pattern in self.patterns)


def _of_topics(end: str, source: Begin | None) -> str:
    """The offsets of a source, without topics that are gone, and with the beginnings of new ones."""
    if source is None or end == VOID:
        return end
    offsets = {name: parts for name, parts in json.loads(end).items() if source.reads(name)}
    added = (source.topics | frozenset(source.there() if source.patterns else ())) - set(offsets)
    if not offsets:
        return VOID
    return json.dumps({**offsets, **(source.at(added) if added else {})}, separators=(",", ":"))


def source_indexes(old: Sequence[str], new: Sequence[str]) -> dict[int, int]:
    indexes = {at: place for place, at in enumerate(name_occurrences(new))}
    return {place: indexes[at] for place, at in enumerate(name_occurrences(old)) if at in indexes}


# The checks of a start for functions and columns of tables that are others than a checkpoint records.

STAYS = (
    "with allow_changed_functions=True (`--allow-changed-functions`): old results stay in the state, and the new "
    "function adds to them."
)


def check_columns(folder: Folder, old: CheckpointFacts, new: CheckpointFacts) -> None:
    """Refuse tables that keep other columns, under a topology with the same description."""
    changes = other_columns(old.described, new.described) if old.described and new.described else []
    if changes:
        raise ChangedTopology(
            "The tables of the checkpoint have other columns than the tables of this topology.",
            given="\n".join([str(folder), *changes]),
            hint="Start it once with evolve=True: all state that fits is taken over. wm.plan_change(checkpoint, "
            "topology) lists the changes in advance.",
        )


def check_functions(
    folder: Folder,
    old: CheckpointFacts,
    new: CheckpointFacts,
    stateful: Collection[tuple[str, str]],
    recomputed: Collection[tuple[str, str]],
) -> None:
    """Say which functions are others; refuse those that state depends on, unless that is computed `recomputed`."""
    changed = {at: pair for at, pair in changed_functions(old, new).items() if at not in recomputed}
    refused = {at: pair for at, pair in changed.items() if at in stateful}
    if refused:
        raise ChangedTopology(
            "A function has changed since it computed the checkpoint's state.",
            given="\n".join([str(folder), *(changed_function(*at, *pair) for at, pair in refused.items())]),
            hint=f"Start it with a new checkpoint; or {STAYS}",
        )
    for at, pair in changed.items():
        warn(
            f"A function has changed since the last start: {changed_function(*at, *pair)}",
            "no state depends on it; an unfinished batch runs again with the new function.",
        )


VERSION = 1
CHANGED = "watersmeet/changed"
"""Where Spark's logs and state lie from the first change of topology on, each time in a folder of its own."""
_BACK = "Otherwise change it back; a new checkpoint begins with empty state, and reads the inputs anew."


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that fits."""

    folder: Folder  # where it lies
    id: str  # made at the first start; another checkpoint of the same application has another
    facts: CheckpointFacts  # as they are recorded, or to be
    number: int = 0  # of its record
    created: bool = False  # whether its first batch is to come
    begun: bool = False  # whether its sources have begun, with a batch or on the way to the first
    recorded: bool = False  # whether its record is written
    logs: str = ""  # the folder below it in which Spark's logs and state lie; empty: they lie in itself
    # what is yet to be handed over to it from the folder of the topology before; None: nothing
    change: Change | None = None
    epoch: int = 0  # under which its record was written; 0: not yet

    @property
    def spark_folder(self) -> Folder:
        """Where Spark's logs and state lie: what it knows as the checkpoint."""
        return self.folder.below(self.logs) if self.logs else self.folder

    def identity(self, application: str) -> str:
        """What Kafka's groups and transactional ids begin with: the application and this checkpoint."""
        return f"{application}-{self.id}"

    def anew(self) -> Checkpoint:
        """The same, to be recorded once more: so that it holds against a record that somebody else writes late."""
        return replace(self, recorded=False, number=self.number + 1) if self.recorded else self

    def record(self, epoch: int = 0) -> None:
        """Write its record, where that is to be done.

        Parameters
        ----------
        epoch : under which it is written, at least that of the record before.
        """
        if not self.recorded:
            # appended, never overwritten: a crash in between must leave what was there
            body = {"version": VERSION, "number": self.number, "id": self.id, "facts": asdict(self.facts)}
            body |= {"logs": self.logs, "epoch": max(epoch, self.epoch)}
            text = json.dumps({**body, "sha256": _digest(body)}, sort_keys=True)
            self.folder.append("watersmeet/topology", text)


@dataclass(frozen=True)
class CheckpointFiles:
    """The files in a checkpoint's folder."""

    folder: Folder  # the folder
    last: Checkpoint | None  # the record that holds; None: nobody has started upon it
    batches: bool  # whether batches were planned
    # numbers of the last batch that was planned, and of the last one that was committed
    ends: tuple[int, int] = (NO_BATCH, NO_BATCH)

    @property
    def spark_folder(self) -> Folder:
        return self.folder if self.last is None else self.last.spark_folder

    @property
    def binding(self) -> CheckpointFacts | None:
        """The facts that hold; None where nothing has begun."""
        return self.last.facts if self.last and self.last.begun else None

    @property
    def unfinished(self) -> bool:
        planned, committed = self.ends
        return planned > committed and not reads_nothing(self.spark_folder, planned)

    def addresses(self, shards: int, tasks: int) -> Mapping[str, Mapping[str, Sequence[int]]]:
        """The labels of tables that hold for so many shards and tasks; none where there are others until now."""
        same = self.binding is not None and (shards, tasks) == (self.binding.shards, self.binding.tasks)
        return self.binding.addresses if same and self.binding else {}

    def fitting(
        self,
        facts: CheckpointFacts,
        *,
        stateful: Collection[tuple[str, str]] = (),
        recomputed: Collection[tuple[str, str]] = (),
        allow_partition_change: bool = False,
        allow_changed_functions: bool = False,
        allow_recreated_topics: bool = False,
        evolve: bool = False,
        replaced: Replacement | None = None,
    ) -> Checkpoint:
        """The checkpoint, if it is new or was written under the same facts; nothing is written yet.

        Parameters
        ----------
        stateful : (node, role) of the functions that state depends on.
        recomputed : the same of those that only state depends on which is computed anew.
        allow_partition_change : whether topics may have other partition counts than at the first start. Records
            that were late in one partition's time may then be judged by another's.
        allow_changed_functions : whether such a function may be another: what it has left in state stays.
        allow_recreated_topics : whether inputs may be topics with other ids.
        evolve : whether the topology may be another, where what is kept can go on.
        replaced : the tables that are replaced then.
        """
        if self.last is None:
            return Checkpoint(self.folder, uuid.uuid4().hex, facts, created=True)
        change = self.change(facts, replaced) if evolve and self.batches else None
        facts = self._with_inputs(facts, change)
        if self.last.begun:
            old = self.last.facts if change is None else binding_facts(self.last.facts, facts)
            self._check(old, facts, allow_partition_change)
            check_functions(self.folder, old, facts, () if allow_changed_functions else stateful, recomputed)
            if change is None:
                check_columns(self.folder, old, facts)
            read = () if allow_recreated_topics else facts.partitions
            check(self.last.facts.topics, facts.topics, read, facts.topics.keys() - facts.partitions.keys())
        if not self.batches:
            # A sink would take the first batches of an old identity for some that it has written, and skip them.
            return replace(
                self.last, id=uuid.uuid4().hex, facts=facts, number=self.last.number + 1, created=True, recorded=False
            )
        if change is not None:
            return self.changed(facts, change)
        if self.last.facts == facts:
            return self.last
        return replace(self.last, facts=facts, number=self.last.number + 1, recorded=False)

    def changed(self, facts: CheckpointFacts, change: Change) -> Checkpoint:
        """The checkpoint of a changed topology, in a folder of its own, whatever a start that broke off has left."""
        assert self.last is not None
        logs, number = f"{CHANGED}/{uuid.uuid4().hex}", self.last.number + 1
        return replace(self.last, facts=facts, number=number, recorded=False, logs=logs, change=change)

    def _with_inputs(self, facts: CheckpointFacts, change: Change | None) -> CheckpointFacts:
        """The facts, with the rows of replaced tables as an input of the query that has them, or gets them."""
        assert self.last is not None
        has = self.last.begun and REPLACED in self.last.facts.inputs
        has = has if change is None else change.replacement is not None
        return replace(facts, inputs=[*facts.inputs, REPLACED]) if has else facts

    def change(self, facts: CheckpointFacts, replaced: Replacement | None = None) -> Change | None:
        """The effects of a change to these facts on the state; None: they are of the topology that is recorded."""
        assert self.last is not None
        old = self.last.facts
        inputs = [name for name in old.inputs if name != REPLACED]
        changed = old.topology != facts.topology or old.described != facts.described or inputs != facts.inputs
        spread = changed_layout(old, facts)
        if not changed and not spread and replaced is None:
            return None
        effects = compare(old.described, facts.described, replaced)
        return replace(effects, items=(*effects.items, *spread))

    def planned_change(
        self, facts: CheckpointFacts, stateful: Collection[tuple[str, str]], replaced: Replacement | None = None
    ) -> Change:
        """The effects of a change to these facts, and further reasons against it."""
        assert self.last is not None
        old = self.last.facts
        effects = self.change(facts, replaced) or compare(facts.described, facts.described)
        functions = (
            Item(
                "node",
                node,
                "refused" if (node, role) in stateful else "changed",
                reason=changed_function(node, role, *texts),
                hint=STAYS if (node, role) in stateful else "",
            )
            for (node, role), texts in changed_functions(binding_facts(old, facts), facts).items()
        )
        return replace(effects, items=(*effects.items, *functions, *changed_settings(old, facts)))

    def _check(self, old: CheckpointFacts, new: CheckpointFacts, allow_partition_change: bool) -> None:
        if old.lines() == new.lines():
            return
        if old.formats != new.formats:
            raise _changed(
                "The state in this checkpoint has the format of another version of watersmeet.",
                self.folder,
                old,
                new,
                "Start it with the version that began it; or begin a new checkpoint, which reads the inputs anew.",
            )
        differences = [reason for name, reason in REFUSED_FACTS.items() if getattr(old, name) != getattr(new, name)]
        if differences:
            whats, whys = zip(*differences, strict=True)
            message = f"The checkpoint belongs to {', '.join(whats)}."
            raise _changed(message, self.folder, old, new, " ".join([*whys, _BACK]))
        if not allow_partition_change:
            raise _changed(
                "Topics have other partition counts than when the checkpoint was begun.",
                self.folder,
                old,
                new,
                "Time is kept per partition. If you accept that, start with allow_partition_change=True; "
                "otherwise begin a new checkpoint.",
            )


def started_in(folder: Folder) -> Checkpoint:
    """The checkpoint that a topology was started with."""
    last = look(folder).last
    if last is None:
        raise not_started(folder)
    return last


def not_started(folder: Folder | str) -> ConfigError:
    """The error for a folder in which no topology has been started."""
    return ConfigError(
        "No topology of watersmeet has been started with this checkpoint.",
        given=folder,
        hint="Name the folder that was given to topology.start(..., checkpoint=...): docs/runbook.md#checkpoint.",
    )


def look(folder: Folder) -> CheckpointFiles:
    """The content of the folder, read once."""
    records = _records(folder)
    if not records:
        if last_planned_batch(folder) != NO_BATCH:
            raise ConfigError(
                "The checkpoint has batches, but not watersmeet's record of its topology.",
                given=folder,
                hint="If another program wrote it, choose another folder; if watersmeet did, restore its "
                "folder watersmeet/.",
            )
        return CheckpointFiles(folder, None, batches=False)
    return _files_of(folder, records)


def version_before(folder: Folder) -> CheckpointFiles | None:
    """The content of the topology before the current one; None: it has no record, or its folder is gone."""
    records = _records(folder)
    with foreign(_path(folder)):
        current = _logs(holding(records)) if records else ""
        former = [record for record in records if _logs(record) != current]
    files = _files_of(folder, former) if former else None
    return None if files is None or files.ends[1] == NO_BATCH else files


def _records(folder: Folder) -> list[dict[str, Any]]:
    files = folder.contents("watersmeet/topology/part-*")
    rows = [line for content in files.values() for line in content.decode("utf-8", "replace").splitlines() if line]
    with foreign(_path(folder)):
        return [_read(row, folder) for row in rows]


def _files_of(folder: Folder, records: Sequence[Mapping[str, Any]]) -> CheckpointFiles:
    """The content of the folder under that of some records which holds."""
    with foreign(_path(folder)):
        last = holding(records)
        facts, number, logs, identity = (
            CheckpointFacts.read(last["facts"]),
            int(last["number"]),
            _logs(last),
            _identity(last),
        )
        epoch = int(last["epoch"])
    spark_folder = folder.below(logs) if logs else folder
    ends = last_planned_batch(spark_folder), last_committed_batch(spark_folder)
    batches = ends[0] != NO_BATCH
    started = batches or bool(logs) or bool(folder.names("sources/*/[0-9]*"))
    checkpoint = Checkpoint(folder, identity, facts, number, begun=started, recorded=True, logs=logs, epoch=epoch)
    return CheckpointFiles(folder, checkpoint, batches, ends)


def holding(records: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The record that holds, of at least one: the one with the last number of those of the last epoch.

    Who starts takes an epoch and only then writes. A start that was passed by may write late, under any number.
    """
    return max(records, key=lambda record: (int(record["epoch"]), int(record["number"])))


def _logs(record: Mapping[str, Any]) -> str:
    """The folder that a record names: one of its own checkpoint, wherever it was written."""
    logs = record["logs"]
    if logs and not re.fullmatch(rf"{CHANGED}/[0-9a-f]{{32}}", logs):
        raise ValueError(f"logs in {logs!r:.80}")
    return str(logs)


def _identity(record: Mapping[str, Any]) -> str:
    # names of groups and transactions begin with it
    if not re.fullmatch("[0-9a-f]{32}", record["id"]):
        raise ValueError(f"id {record['id']!r:.80}")
    return str(record["id"])


def _changed(message: str, folder: Folder, old: CheckpointFacts, new: CheckpointFacts, hint: str) -> ChangedTopology:
    diff = unified_diff(old.lines(), new.lines(), "in the checkpoint", "now", lineterm="", n=1)
    return ChangedTopology(message, given=f"{folder}\n" + "\n".join(diff), hint=hint)


def _read(text: str, folder: Folder) -> dict[str, Any]:
    try:
        body = json.loads(text)
        digest = body.pop("sha256")
        sound = digest == _digest(body)
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        sound = False
    if not sound:
        raise CorruptData(
            "watersmeet's record in the checkpoint was altered or cut off.",
            given=_path(folder),
            hint="Restore the checkpoint from a copy.",
        )
    if body["version"] != VERSION:
        raise ChangedTopology(
            "Another version of watersmeet wrote this checkpoint.",
            given=f"{folder}: record version {body['version']}, this watersmeet reads {VERSION}",
            hint="Start it with the version that began it; or begin a new checkpoint, which reads the inputs anew.",
        )
    return dict(body)


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _path(folder: Folder) -> str:
    return folder.below("watersmeet/topology").path


# The plans of a query's batches, as Spark's offset log has them when a batch is written.


class HasEpoch(Protocol):
    """A lease."""

    @property
    def epoch(self) -> int:
        """The epoch that it has; 0: none yet."""


@dataclass(frozen=True)
class Plans:
    """Gives the plan of a batch by its number."""

    spark_folder: Folder  # with the batches' plans
    topology: str  # digest of what makes results
    lease: HasEpoch | None  # the query's; its epoch is checked when a batch is written. None: nothing will be written

    @staticmethod
    def of(checkpoint: Checkpoint, lease: HasEpoch | None) -> Plans:
        return Plans(checkpoint.spark_folder, of_topology(asdict(checkpoint.facts)), lease)

    def __call__(self, batch: int) -> BatchPlan:
        """The plan of a batch that Spark has planned."""
        epoch = 0 if self.lease is None else self.lease.epoch
        name, folder = f"offsets/{batch}", self.spark_folder
        return plan_of_log(folder.text(name), self.topology, epoch=epoch, where=f"{folder}/{name}")
