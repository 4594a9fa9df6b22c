"""The topics that patterns have matched: which a checkpoint knows, and the number of each in positions (law 2).

Spark finds a new topic when it plans a batch, and its offset log has it from then on. Before the batch is read, the
topic gets a number here, which is recorded; so a batch that is run again has the same positions, and so has a restart.
Law 6: where a topic is gone, or was made anew, records may be lost; neither passes in silence.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from watersmeet._engine.rows import MOST_TOPICS
from watersmeet._plan.nodes import SourceNode
from watersmeet._spark.checkpoint.folders import foreign
from watersmeet._spark.checkpoint.record import TOPICS, Ask, Checkpoint, asking, check_inputs
from watersmeet._spark.session import check_threads, warn
from watersmeet._worker.task_reports import BatchRequest
from watersmeet.errors import ConfigError, SourceError
from watersmeet.io.kafka import Kafka

_FOLDER = "watersmeet/patterns"


@dataclass
class KnownTopics:
    """The record of a checkpoint."""

    # by the name of an input its topics, in the order of their numbers; one that is gone keeps its number
    topics: dict[str, list[str]] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)  # of topics that are there, where Kafka says them

    def take(self, line: Mapping[str, Any]) -> None:
        """Add a line: topics that have joined before a batch, topics that are gone, and ids."""
        for name, topics in line["joined"].items():
            recorded = self.topics.setdefault(name, [])
            recorded += [topic for topic in topics if topic not in recorded]
        for topic in line["gone"]:
            self.ids.pop(topic, None)
        self.ids.update(line["ids"])

    @classmethod
    def read(cls, checkpoint: Checkpoint) -> KnownTopics:
        """The record, which is empty at first."""
        record, lines = cls(), []
        for path, content in checkpoint.folder.contents(f"{_FOLDER}/part-*").items():
            with foreign(path):
                lines += [json.loads(line) for line in content.decode().splitlines() if line]
        with foreign(_FOLDER):
            for line in sorted(lines, key=lambda entry: (entry["batch"], json.dumps(entry))):
                record.take(line)
        return record


class TopicNumbers:
    """Tells each batch the topics of the patterns.

    Parameters
    ----------
    checkpoint : keeps the topics and their ids.
    sources : all of the plan, in its order.
    kafka : the connection.
    guard : raises where the checkpoint is another query's.
    allow_recreated : whether topics may have been made anew since the last start.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        sources: Sequence[SourceNode],
        kafka: Kafka,
        guard: Callable[[], None],
        *,
        allow_recreated: bool,
    ) -> None:
        check_threads("wm.TopicPattern(...)")
        self._checkpoint, self._kafka, self._guard = checkpoint, kafka, guard
        self._inputs = {s.name: (n, s.origin) for n, s in enumerate(sources) if s.origin.pattern is not None}
        self._fixed = {s.origin.topic for s in sources if s.origin.pattern is None}
        self._record = KnownTopics.read(checkpoint)
        self._ask: tuple[frozenset[str], Ask | None] = (frozenset(), None)
        ids = self._record.ids
        self._unread = [name for name in ids if not any(origin.reads(name) for _, origin in self._inputs.values())]
        self._record.ids = {} if allow_recreated else {name: ids[name] for name in ids if name not in self._unread}
        self._check_ids(self._record.ids)

    def before(self, request: BatchRequest) -> None:
        """Called before a batch is read, on the thread that runs its jobs."""
        batch = request.batch
        present = self._planned(batch)
        removed = sorted(name for name in self._planned(batch - 1) if name not in present)
        ids = self._check_ids(dict.fromkeys(present, "") | self._record.ids)
        if removed:
            # else Spark has failed the batch (see `failures`): this was accepted
            warn(
                f"Topics that this query reads are gone: {', '.join(removed)}.",
                "records of them that were not read are lost. A new topic of that name is another one.",
            )
        joined = self._joined(sorted(present))
        new = {name: text for name, text in ids.items() if self._record.ids.get(name) != text}
        forgotten = [*self._unread, *(name for name in removed if name in self._record.ids)]
        self._unread = []
        if joined or forgotten or new:
            line = {"batch": batch, "joined": joined, "gone": forgotten, "ids": new}
            self._guard()
            self._checkpoint.folder.append(_FOLDER, json.dumps(line))
            self._record.take(line)
        request.topics = {number: self._record.topics.get(name, []) for name, (number, _) in self._inputs.items()}

    def _planned(self, batch: int) -> frozenset[str]:
        """The topics in the plan of a batch, where Spark has read some of them."""
        path = f"offsets/{batch}"
        ends = self._checkpoint.spark_folder.text(path).rstrip("\n").split("\n")[2:]
        at = list(self._checkpoint.facts.inputs).index(TOPICS)
        if len(ends) <= at or not ends[at].startswith("{"):
            return frozenset()
        with foreign(path):
            return frozenset(name for name, parts in json.loads(ends[at]).items() if isinstance(parts, dict))

    def _check_ids(self, recorded: Mapping[str, str]) -> Mapping[str, str]:
        """The ids of these topics now; raises where one has had another."""
        names = frozenset(recorded) - self._fixed
        if self._ask[0] != names:
            self._ask = (names, asking(self._kafka, names))
        ask = self._ask[1]
        current = {} if ask is None else ask()
        check_inputs({name: text for name, text in recorded.items() if text}, current, names)
        return current

    def _joined(self, present: Sequence[str]) -> dict[str, list[str]]:
        """The topics that have no number yet, by the name of their input."""
        joined: dict[str, list[str]] = {}
        for topic in present:
            names = [name for name, (_, origin) in self._inputs.items() if origin.reads(topic)]
            if len(names) > 1:
                patterns = " and ".join(f"wm.TopicPattern({self._inputs[name][1].pattern!r})" for name in names)
                raise ConfigError(
                    f"Two patterns match the topic {topic!r}: {patterns}.",
                    given=f"inputs {', '.join(names)}",
                    hint="Narrow one of them, and start with a new checkpoint.",
                )
            if names and topic not in self._record.topics.get(names[0], ()):
                joined.setdefault(names[0], []).append(topic)
        for name, topics in joined.items():
            if len(self._record.topics.get(name, ())) + len(topics) > MOST_TOPICS:
                raise SourceError(
                    f"wm.TopicPattern({self._inputs[name][1].pattern!r}) has matched more than {MOST_TOPICS:,} topics.",
                    given=f"input {name!r}",
                    hint="Read fewer topics with one pattern, and start with a new checkpoint.",
                )
        return joined
