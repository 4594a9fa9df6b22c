"""The records of watersmeet in a checkpoint: who wrote it, and everything that must not change under it.

Rows lie under `<checkpoint>/watersmeet/topology`, on any file system that Spark knows (`files`); the last of them
holds. A restart with anything else is refused before the first batch. Records bind from the first batch on: a start
without a batch leaves nothing behind.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from difflib import unified_diff
from typing import Any

from watersmeet._plan.change.change import Change
from watersmeet._plan.change.compare import compare
from watersmeet._plan.change.items import Item
from watersmeet._plan.change.replaced import Replacement
from watersmeet._spark.checkpoint import topic_ids
from watersmeet._spark.checkpoint.checks import STAYS, check_columns, check_functions
from watersmeet._spark.checkpoint.facts import (
    REASONS,
    CheckpointFacts,
    carried_over,
    changed_function,
    changed_functions,
    changed_layout,
    changed_settings,
)
from watersmeet._spark.checkpoint.files import Folder, foreign
from watersmeet._spark.checkpoint.offsets import REPLACED
from watersmeet._spark.fencing.records import holding
from watersmeet.errors import ChangedTopology, ConfigError, CorruptData

VERSION = 2
CHANGED = "watersmeet/changed"
"""Where Spark's logs and state lie from the first change of topology on, each time in a folder of its own."""
_ANEW = (
    "Start it with a new checkpoint; or change it back: the state of the old checkpoint fits only the topology "
    "that began it."
)


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that fits.

    Parameters
    ----------
    folder : where it lies.
    id : made at the first start; another checkpoint of the same application has another.
    facts : as they are recorded, or to be.
    number : of its record.
    created : whether its first batch is to come.
    begun : whether its sources have begun, with a batch or on the way to the first.
    recorded : whether its record is written.
    logs : the folder below it in which Spark's logs and state lie; empty: they lie in itself.
    change : what is yet to be handed over to it from the folder of the topology before; None: nothing.
    epoch : under which its record was written; 0: by an earlier watersmeet, or not yet.
    """

    folder: Folder
    id: str
    facts: CheckpointFacts
    number: int = 0
    created: bool = False
    begun: bool = False
    recorded: bool = False
    logs: str = ""
    change: Change | None = None
    epoch: int = 0

    @property
    def place(self) -> Folder:
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
            body |= {"logs": self.logs} if self.logs else {}
            last = max(epoch, self.epoch)
            body |= {"epoch": last} if last else {}
            text = json.dumps({**body, "sha256": _digest(body)}, sort_keys=True)
            self.folder.append("watersmeet/topology", text)


@dataclass(frozen=True)
class CheckpointFiles:
    """The files in a checkpoint's folder.

    Parameters
    ----------
    folder : the folder.
    last : the record that holds; None: nobody has started upon it.
    batches : whether batches were planned.
    """

    folder: Folder
    last: Checkpoint | None
    batches: bool

    @property
    def place(self) -> Folder:
        """Where Spark's logs and state lie."""
        return self.folder if self.last is None else self.last.place

    @property
    def binding(self) -> CheckpointFacts | None:
        """The facts that hold; None where nothing has begun."""
        return self.last.facts if self.last and self.last.begun else None

    def addresses(self, shards: int, tasks: int) -> Mapping[str, Mapping[str, Sequence[int]]]:
        """The labels of tables that hold for so many shards and tasks; none where there are others until now."""
        same = self.binding is not None and (shards, tasks) == (self.binding.shards, self.binding.tasks)
        return self.binding.addresses if same and self.binding else {}

    def fitting(
        self,
        facts: CheckpointFacts,
        *,
        kept: Collection[tuple[str, str]] = (),
        anew: Collection[tuple[str, str]] = (),
        allow_partition_change: bool = False,
        allow_changed_functions: bool = False,
        allow_recreated_topics: bool = False,
        evolve: bool = False,
        replaced: Replacement | None = None,
    ) -> Checkpoint:
        """The checkpoint, if it is new or was written under the same facts; nothing is written yet.

        Parameters
        ----------
        kept : (node, role) of the functions that state depends on.
        anew : the same of those that only state depends on which is computed anew.
        allow_partition_change : whether topics may have other partition counts than at the first start. Records
            that were late in one partition's time may then be judged by another's.
        allow_changed_functions : whether such a function may be another: what it has left in state stays.
        allow_recreated_topics : whether inputs may be topics with other ids.
        evolve : whether the topology may be another, where what is kept can go on.
        replaced : the tables that are replaced then.

        Raises
        ------
        ChangedTopology : it was written under other facts.
        SourceError : a topic that it has read was made anew.
        """
        if self.last is None:
            return Checkpoint(self.folder, uuid.uuid4().hex, facts, created=True)
        change = self.change(facts, replaced) if evolve and self.batches else None
        facts = self._with_inputs(facts, change)
        if self.last.begun:
            known = self.last.facts if change is None else carried_over(self.last.facts, facts)
            self._check(known, facts, allow_partition_change)
            check_functions(self.folder, known, facts, () if allow_changed_functions else kept, anew)
            if change is None:
                check_columns(self.folder, known, facts)
            read = () if allow_recreated_topics else facts.partitions
            topic_ids.check(self.last.facts.topics, facts.topics, read, facts.topics.keys() - facts.partitions.keys())
        if not self.batches:
            # A sink would take the first batches of an old identity for some that it has written, and skip them.
            return replace(
                self.last,
                id=uuid.uuid4().hex,
                facts=facts,
                number=self.last.number + 1,
                created=True,
                recorded=False,
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
        """The effects of a change to these facts on the state; None: they are of the topology that is recorded.

        Raises
        ------
        ConfigError : the record says too little of the topology that it is of.
        """
        assert self.last is not None
        old = self.last.facts
        if "reads" not in old.described:
            if old.topology == facts.topology:
                return None
            raise ConfigError(
                "An earlier watersmeet wrote the checkpoint. It does not record how the topology may change.",
                given=self.folder,
                hint="Start it once with the topology that it has.",
            )
        inputs = [name for name in old.inputs if name != REPLACED]
        changed = old.topology != facts.topology or old.described != facts.described or inputs != facts.inputs
        spread = changed_layout(old, facts)
        if not changed and not spread and replaced is None:
            return None
        found = compare(old.described, facts.described, replaced)
        return replace(found, items=(*found.items, *spread))

    def planned_change(
        self, facts: CheckpointFacts, kept: Collection[tuple[str, str]], replaced: Replacement | None = None
    ) -> Change:
        """The effects of a change to these facts, with other reasons against it; `kept`, `replaced` as in `fitting`."""
        assert self.last is not None
        old = self.last.facts
        found = self.change(facts, replaced) or compare(facts.described, facts.described)
        functions = (
            Item(
                "node",
                node,
                "refused" if (node, role) in kept else "changed",
                reason=changed_function(node, role, *texts),
                hint=STAYS if (node, role) in kept else "",
            )
            for (node, role), texts in changed_functions(carried_over(old, facts), facts).items()
        )
        return replace(found, items=(*found.items, *functions, *changed_settings(old, facts)))

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
        found = [reason for name, reason in REASONS.items() if getattr(old, name) != getattr(new, name)]
        if found:
            whats, whys = zip(*found, strict=True)
            message = f"The checkpoint belongs to {', '.join(whats)}."
            raise _changed(message, self.folder, old, new, " ".join([*whys, _ANEW]))
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
    """The checkpoint that a topology was started with.

    Raises
    ------
    ConfigError : nobody has started upon the folder.
    """
    last = look(folder).last
    if last is None:
        raise not_started(folder)
    return last


def not_started(folder: Folder) -> ConfigError:
    """The error for a folder in which no topology has been started."""
    return ConfigError(
        "No topology of watersmeet has been started with this checkpoint.",
        given=folder,
        hint="Name the folder that was given to topology.start(..., checkpoint=...): docs/runbook.md#checkpoint.",
    )


def look(folder: Folder) -> CheckpointFiles:
    """The content of the folder, read once.

    Raises
    ------
    CorruptData : it cannot be read back, or was altered.
    ChangedTopology : another version of watersmeet wrote it.
    ConfigError : Spark has run here, and watersmeet's part is gone.
    """
    files = folder.contents("watersmeet/topology/part-*")
    rows = [line for content in files.values() for line in content.decode("utf-8", "replace").splitlines() if line]
    batches = bool(folder.names("offsets/[0-9]*"))
    if not rows:
        if batches:
            raise ConfigError(
                "The checkpoint has batches, but not watersmeet's record of its topology.",
                given=folder,
                hint="If another program wrote it, choose another folder; if watersmeet did, restore its "
                "folder watersmeet/.",
            )
        return CheckpointFiles(folder, None, batches=False)
    with foreign(_path(folder)):
        last = holding(_read(row, folder) for row in rows)
        facts, number, logs, identity = (
            CheckpointFacts.read(last["facts"]),
            int(last["number"]),
            _logs(last),
            _identity(last),
        )
        epoch = int(last.get("epoch", 0))
    batches = bool(folder.below(logs).names("offsets/[0-9]*")) if logs else batches
    begun = batches or bool(logs) or bool(folder.names("sources/*/[0-9]*"))
    held = Checkpoint(folder, identity, facts, number, begun=begun, recorded=True, logs=logs, epoch=epoch)
    return CheckpointFiles(folder, held, batches)


def _logs(record: Mapping[str, Any]) -> str:
    """The folder that a record names: one of its own checkpoint, wherever it was written."""
    logs = record.get("logs", "")
    if logs and not re.fullmatch(rf"{CHANGED}/[0-9a-f]{{32}}", logs):
        raise ValueError(f"logs in {logs!r:.80}")
    return str(logs)


def _identity(record: Mapping[str, Any]) -> str:
    # names of groups and transactions begin with it
    if not re.fullmatch("[0-9a-f]{32}", record["id"]):
        raise ValueError(f"id {record['id']!r:.80}")
    return str(record["id"])


def _changed(message: str, folder: Folder, old: CheckpointFacts, new: CheckpointFacts, hint: str) -> ChangedTopology:
    shown = unified_diff(old.lines(), new.lines(), "in the checkpoint", "now", lineterm="", n=1)
    return ChangedTopology(message, given=f"{folder}\n" + "\n".join(shown), hint=hint)


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
