"""What millpond itself keeps in a checkpoint: who wrote it, and everything that must not change under it.

Rows lie under `<checkpoint>/millpond/topology`, written and read through Spark, so that any file system
works; the last of them holds. A restart with anything else is refused before the first batch.
Called by `query`.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from difflib import unified_diff
from typing import Any

from pyspark.sql import SparkSession

from millpond._spark.files import contents, names
from millpond.errors import ChangedTopology, ConfigError, CorruptData

VERSION = 1
_HINT = (
    "Start the changed topology with a new checkpoint; or change it back: what is kept in the old checkpoint "
    "fits the old topology alone."
)


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
    """

    topology: str
    generation: str
    shards: int
    tasks: int
    formats: Mapping[str, int] = field(default_factory=dict)
    partitions: Mapping[str, int] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """The facts as text, one each line, for comparing."""
        text = [f"generation: {self.generation}", f"shards: {self.shards}", f"tasks: {self.tasks}"]
        text += [f"format of {name}: {version}" for name, version in sorted(self.formats.items())]
        text += [f"partitions of {name}: {count}" for name, count in sorted(self.partitions.items())]
        return text + self.topology.splitlines()


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that fits.

    Parameters
    ----------
    id : made at the first start; another checkpoint of the same application has another.
    facts : as they are recorded.
    created : whether this is the first start.
    """

    id: str
    facts: Facts
    created: bool

    def identity(self, application: str) -> str:
        """What Kafka's groups and transactional ids begin with: the application and this checkpoint."""
        return f"{application}-{self.id}"


def recorded(spark: SparkSession, checkpoint: str) -> Checkpoint | None:
    """What the checkpoint holds; None: nothing yet.

    Raises
    ------
    CorruptData : it cannot be read back, or was altered.
    ConfigError : Spark has run here, and millpond's part is gone.
    """
    rows = _records(spark, checkpoint)
    if not rows:
        if _has_batches(spark, checkpoint):
            raise ConfigError(
                "The checkpoint has batches, but not millpond's record of its topology.",
                given=checkpoint,
                hint="If another program wrote it, choose another folder; if millpond did, restore its "
                "folder millpond/.",
            )
        return None
    found = max((_read(row, checkpoint) for row in rows), key=lambda row: int(row["number"]))
    return Checkpoint(found["id"], Facts(**found["facts"]), created=False)


def read_facts(spark: SparkSession, checkpoint: str) -> Facts | None:
    """The facts that the checkpoint holds, None if it is new; raises as `recorded` does."""
    found = recorded(spark, checkpoint)
    return found.facts if found else None


def verify_or_create(
    spark: SparkSession, checkpoint: str, facts: Facts, *, allow_partition_change: bool = False
) -> Checkpoint:
    """The checkpoint, if it is new or was written under the same facts.

    Parameters
    ----------
    allow_partition_change : whether topics may have other partition counts than at the first start. Records
        that were late in one partition's time may then be judged by another's.

    Raises
    ------
    ChangedTopology : it was written under other facts.
    CorruptData, ConfigError : see `recorded`.
    """
    found = recorded(spark, checkpoint)
    if found is None:
        made = Checkpoint(uuid.uuid4().hex, facts, created=True)
        _append(spark, checkpoint, made, number=0)
        return made
    if found.facts.lines() == facts.lines():
        return found if _has_batches(spark, checkpoint) else _renewed(spark, checkpoint, facts)
    if found.facts.formats != facts.formats:
        raise _changed(
            "The state in this checkpoint has the format of another version of millpond.",
            checkpoint,
            found.facts,
            facts,
            "Start it with the version that began it; or begin a new checkpoint, which reads the inputs anew.",
        )
    same_but_partitions = replace(found.facts, partitions=facts.partitions).lines() == facts.lines()
    if not same_but_partitions:
        raise _changed("The checkpoint belongs to another topology.", checkpoint, found.facts, facts, _HINT)
    if not allow_partition_change:
        raise _changed(
            "Topics have other partition counts than when the checkpoint was begun.",
            checkpoint,
            found.facts,
            facts,
            "Time is kept per partition. If you accept that, start with allow_partition_change=True; "
            "otherwise begin a new checkpoint.",
        )
    changed = replace(found, facts=facts)
    _append(spark, checkpoint, changed, _next_number(spark, checkpoint))
    return changed


def _has_batches(spark: SparkSession, checkpoint: str) -> bool:
    return bool(names(spark, checkpoint, "offsets/[0-9]*"))


def _renewed(spark: SparkSession, checkpoint: str, facts: Facts) -> Checkpoint:
    """A new identity for a checkpoint whose batches begin at 0 (again).

    Under the old one a sink would take the first batches for some that it has written, and skip them.
    """
    made = Checkpoint(uuid.uuid4().hex, facts, created=True)
    _append(spark, checkpoint, made, _next_number(spark, checkpoint))
    return made


def _changed(message: str, checkpoint: str, old: Facts, new: Facts, hint: str) -> ChangedTopology:
    shown = unified_diff(old.lines(), new.lines(), "in the checkpoint", "now", lineterm="", n=1)
    return ChangedTopology(message, given=checkpoint + "\n" + "\n".join(shown), hint=hint)


def _append(spark: SparkSession, checkpoint: str, made: Checkpoint, number: int) -> None:
    # appended, never overwritten: a crash in between must leave what was there
    body = {"version": VERSION, "number": number, "id": made.id, "facts": asdict(made.facts)}
    text = json.dumps({**body, "sha256": _digest(body)}, sort_keys=True)
    spark.createDataFrame([(text,)], "value string").coalesce(1).write.mode("append").text(_path(checkpoint))


def _read(text: str, checkpoint: str) -> dict[str, Any]:
    try:
        body = json.loads(text)
        digest = body.pop("sha256")
        sound = digest == _digest(body)
    except (ValueError, KeyError, AttributeError, TypeError):
        sound = False
    if not sound:
        raise CorruptData(
            "millpond's record in the checkpoint was altered or cut off.",
            given=_path(checkpoint),
            hint="Restore the checkpoint from a copy.",
        )
    if body["version"] != VERSION:
        raise ChangedTopology(
            "Another version of millpond wrote this checkpoint.",
            given=f"{checkpoint}: record version {body['version']}, this millpond reads {VERSION}",
            hint="Start it with the version that began it, or begin a new checkpoint.",
        )
    return dict(body)


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _path(checkpoint: str) -> str:
    return f"{checkpoint.rstrip('/')}/millpond/topology"


def _records(spark: SparkSession, checkpoint: str) -> list[str]:
    """The records as they are written, one line each."""
    files = contents(spark, checkpoint, "millpond/topology/part-*")
    return [line for content in files.values() for line in content.decode("utf-8", "replace").splitlines() if line]


def _next_number(spark: SparkSession, checkpoint: str) -> int:
    return 1 + max(int(_read(row, checkpoint)["number"]) for row in _records(spark, checkpoint))
