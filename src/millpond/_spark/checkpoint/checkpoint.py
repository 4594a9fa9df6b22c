"""What millpond itself keeps in a checkpoint: who wrote it, and everything that must not change under it.

Rows lie under `<checkpoint>/millpond/topology`, on any file system that Spark knows (`files`); the last of them
holds. A restart with anything else is refused before the first batch. What is recorded binds from the first batch on: a
start that came to nothing leaves nothing behind.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from difflib import unified_diff
from typing import Any

from millpond._spark.checkpoint.files import Folder
from millpond._spark.query.warned import warn
from millpond.errors import ChangedTopology, ConfigError, CorruptData

VERSION = 2
_ANEW = (
    "Start it with a new checkpoint; or change it back: what is kept in the old checkpoint fits what began it alone."
)
Texts = Mapping[str, Mapping[str, str]]
"""By node and role."""


@dataclass(frozen=True)
class Facts:
    """What a checkpoint depends on.

    Parameters
    ----------
    topology : its text, with what is known of its inputs; no secrets.
    generation : the Kafka version whose rules it follows.
    shards, tasks : how it is spread.
    formats : version of each format that is kept: blobs, state.
    partitions : partition count of each topic that is read.
    clock : whether the wall clock is a source of the query.
    effects : what else a batch's results depend on, and may be another from batch to batch.
    functions : what each node's functions come to.
    spark : the version of Spark that says so.
    addresses : the labels of each node's tables, by range of the hash: where the state lies.
    stores : what is shown of each table that users see, by its name.
    """

    topology: str
    generation: str
    shards: int
    tasks: int
    formats: Mapping[str, int] = field(default_factory=dict)
    partitions: Mapping[str, int] = field(default_factory=dict)
    clock: bool = False
    effects: Mapping[str, Any] = field(default_factory=dict)
    functions: Texts = field(default_factory=dict)
    spark: str = ""
    addresses: Mapping[str, Mapping[str, Sequence[int]]] = field(default_factory=dict)
    stores: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """The facts that may not change, as text, one each line, for comparing."""
        text = [f"generation: {self.generation}", f"shards: {self.shards}", f"tasks: {self.tasks}"]
        text += [f"format of {name}: {version}" for name, version in sorted(self.formats.items())]
        text += [f"partitions of {name}: {count}" for name, count in sorted(self.partitions.items())]
        text += ["time: goes on with the wall clock (idle_after)" if self.clock else "time: that of the records"]
        return text + self.topology.splitlines()


_REASONS = {
    "topology": ("another topology", "State, plans and outputs belong to its nodes by their names."),
    "generation": ("another generation of semantics", "What is kept follows the rules of its generation."),
    "shards": ("another number of shards", "Rows of state lie by shard: leave shards= out, it is then as recorded."),
    "tasks": (
        "another number of tasks",
        "Shards are spread over tasks once: leave tasks= out, it is then as recorded.",
    ),
    "clock": (
        "another clock",
        "The clock of idle_after= is a source of the query, which its plans must find again: how long a rest is may "
        "change, whether there is one may not.",
    ),
}


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
    """

    folder: Folder
    id: str
    facts: Facts
    number: int = 0
    created: bool = False
    begun: bool = False
    recorded: bool = False

    def identity(self, application: str) -> str:
        """What Kafka's groups and transactional ids begin with: the application and this checkpoint."""
        return f"{application}-{self.id}"

    def record(self) -> None:
        """Write its record, where that is to be done."""
        if not self.recorded:
            # appended, never overwritten: a crash in between must leave what was there
            body = {"version": VERSION, "number": self.number, "id": self.id, "facts": asdict(self.facts)}
            text = json.dumps({**body, "sha256": _digest(body)}, sort_keys=True)
            self.folder.append("millpond/topology", text)


@dataclass(frozen=True)
class Found:
    """What lies in a checkpoint's folder.

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
    def binding(self) -> Facts | None:
        """The facts that hold; None where nothing has begun."""
        return self.last.facts if self.last and self.last.begun else None

    def fitting(
        self,
        facts: Facts,
        *,
        kept: Collection[tuple[str, str]] = (),
        allow_partition_change: bool = False,
        allow_changed_functions: bool = False,
    ) -> Checkpoint:
        """The checkpoint, if it is new or was written under the same facts; nothing is written yet.

        Parameters
        ----------
        kept : (node, role) of the functions that state depends on.
        allow_partition_change : whether topics may have other partition counts than at the first start. Records
            that were late in one partition's time may then be judged by another's.
        allow_changed_functions : whether such a function may be another: what it has left in state stays.

        Raises
        ------
        ChangedTopology : it was written under other facts.
        """
        if self.last is None:
            return Checkpoint(self.folder, uuid.uuid4().hex, facts, created=True)
        if self.last.begun:
            self._check(self.last.facts, facts, allow_partition_change)
            _check_functions(self.folder, self.last.facts, facts, () if allow_changed_functions else kept)
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
        if self.last.facts == facts:
            return self.last
        return replace(self.last, facts=facts, number=self.last.number + 1, recorded=False)

    def _check(self, old: Facts, new: Facts, allow_partition_change: bool) -> None:
        if old.lines() == new.lines():
            return
        if old.formats != new.formats:
            raise _changed(
                "The state in this checkpoint has the format of another version of millpond.",
                self.folder,
                old,
                new,
                "Start it with the version that began it; or begin a new checkpoint, which reads the inputs anew.",
            )
        found = [reason for name, reason in _REASONS.items() if getattr(old, name) != getattr(new, name)]
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


def look(folder: Folder) -> Found:
    """What the folder holds, read once.

    Raises
    ------
    CorruptData : it cannot be read back, or was altered.
    ChangedTopology : another version of millpond wrote it.
    ConfigError : Spark has run here, and millpond's part is gone.
    """
    files = folder.contents("millpond/topology/part-*")
    rows = [line for content in files.values() for line in content.decode("utf-8", "replace").splitlines() if line]
    batches = bool(folder.names("offsets/[0-9]*"))
    if not rows:
        if batches:
            raise ConfigError(
                "The checkpoint has batches, but not millpond's record of its topology.",
                given=folder,
                hint="If another program wrote it, choose another folder; if millpond did, restore its "
                "folder millpond/.",
            )
        return Found(folder, None, batches=False)
    last = max((_read(row, folder) for row in rows), key=lambda row: int(row["number"]))
    begun = batches or bool(folder.names("sources/*/[0-9]*"))
    facts, number = Facts(**last["facts"]), int(last["number"])
    return Found(folder, Checkpoint(folder, last["id"], facts, number, begun=begun, recorded=True), batches)


def _check_functions(folder: Folder, old: Facts, new: Facts, kept: Collection[tuple[str, str]]) -> None:
    """Say which functions are others; refuse those that state depends on."""
    if old.spark != new.spark:
        # it may spell the same expression otherwise
        return
    roles = [(node, role) for node, texts in new.functions.items() for role in texts]
    pairs = {at: (old.functions.get(at[0], {}).get(at[1], ""), new.functions[at[0]][at[1]]) for at in roles}
    changed = {at: pair for at, pair in pairs.items() if pair[0] != pair[1]}
    refused = {at: pair for at, pair in changed.items() if at in kept}
    if refused:
        raise ChangedTopology(
            "A function is another than the one that the checkpoint's state was made with.",
            given="\n".join([str(folder), *(_told(*at, *pair) for at, pair in refused.items())]),
            hint="Start it with a new checkpoint; or with allow_changed_functions=True: what the old one has left in "
            "state then stays, and meets what the new one gives.",
        )
    for at, pair in changed.items():
        warn(
            f"A function is another than at the last start: {_told(*at, *pair)}",
            "nothing that is kept depends on it; a batch that was not finished is run again with the new one.",
        )


def _told(node: str, role: str, before: str, now: str) -> str:
    return f"{role} of {node!r}: it was {before or 'unknown'}, it is {now or 'unknown'}"


def _changed(message: str, folder: Folder, old: Facts, new: Facts, hint: str) -> ChangedTopology:
    shown = unified_diff(old.lines(), new.lines(), "in the checkpoint", "now", lineterm="", n=1)
    return ChangedTopology(message, given=f"{folder}\n" + "\n".join(shown), hint=hint)


def _read(text: str, folder: Folder) -> dict[str, Any]:
    try:
        body = json.loads(text)
        digest = body.pop("sha256")
        sound = digest == _digest(body)
    except (ValueError, KeyError, AttributeError, TypeError):
        sound = False
    if not sound:
        raise CorruptData(
            "millpond's record in the checkpoint was altered or cut off.",
            given=_path(folder),
            hint="Restore the checkpoint from a copy.",
        )
    if body["version"] != VERSION:
        raise ChangedTopology(
            "Another version of millpond wrote this checkpoint.",
            given=f"{folder}: record version {body['version']}, this millpond reads {VERSION}",
            hint="Start it with the version that began it; or begin a new checkpoint, which reads the inputs anew.",
        )
    return dict(body)


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _path(folder: Folder) -> str:
    return folder.below("millpond/topology").path
