"""Where a checkpoint may lie: of two drivers that write one plan at once, one has to be refused.

Spark writes its logs through a file manager, which looks whether a file is there and then puts another in its place. On
a file system with a renaming that refuses existing files, that is one step. On an object store without such a renaming
it is two, and both drivers win: measured on S3A, with each of Spark's file managers, in 10 to 12 of 12 races. So there
watersmeet has Spark use a file manager of its own, which has the store refuse what exists.
"""

from __future__ import annotations

from watersmeet.errors import ConfigError

S3A = "org.apache.hadoop.fs.s3a.S3AFileSystem"
TWO_STEPS = frozenset({S3A, "com.amazon.ws.emr.hadoop.fs.EmrFileSystem", "org.apache.hadoop.fs.cosn.CosNFileSystem"})
"""File systems on which a file that is there can be replaced by one that was not to replace any."""
_CHECKPOINTING = "org.apache.spark.sql.execution.streaming"
LOOK_FIRST = frozenset(
    {
        *(f"{_CHECKPOINTING}.{name}BasedCheckpointFileManager" for name in ("FileSystem", "FileContext")),
        *(f"{_CHECKPOINTING}.checkpointing.{name}BasedCheckpointFileManager" for name in ("FileSystem", "FileContext")),
        f"{_CHECKPOINTING}.checkpointing.ChecksumCheckpointFileManager",
        "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager",
    }
)
"""Spark's own file managers: none of them asks the store to refuse what is there."""
CONDITIONAL_MANAGER = "watersmeet.ConditionalCheckpointFileManager"
"""The file manager that watersmeet adds: it asks the store to refuse existing files."""
ELSEWHERE = "the checkpoint on HDFS, or on a volume that all machines mount (docs/checkpoints.md)"
"""Where a checkpoint may lie that cannot lie on S3: for a hint, behind "put"."""


def file_manager(checkpoint: str, kind: str, manager: str | None, *, conditional: bool) -> str | None:
    """The class by which Spark has to write the files of a checkpoint; None: as the session has it.

    Parameters
    ----------
    checkpoint : as the user wrote it.
    kind : the class of its file system.
    manager : the class of the session's file manager; None: Spark's own choice.
    conditional : whether the file system can make a file only where there is none, in one step.

    Raises
    ------
    ConfigError : two drivers could both write one plan.
    """
    if kind not in TWO_STEPS:
        return None
    if not conditional:
        raise overwrites(
            checkpoint, kind, "Conditional writes need Hadoop 3.4.2 or later and fs.s3a.create.conditional.enabled=true"
        )
    # while another start lasts, the session has watersmeet's; one of the user's own cannot be tried without chance
    return CONDITIONAL_MANAGER if manager in (None, CONDITIONAL_MANAGER, *LOOK_FIRST) else None


def overwrites(checkpoint: str, kind: str, cure: str) -> ConfigError:
    """The error for a store that writes a file again which it should have refused.

    Parameters
    ----------
    checkpoint : as the user wrote it.
    kind : the class of its file system.
    cure : what the store would need.
    """
    return ConfigError(
        f"checkpoint={checkpoint!r} is on an object store that overwrites existing files: of two drivers that plan one "
        "batch both would win, and results would be lost.",
        given=f"checkpoint={checkpoint!r}: {kind}",
        hint=f"{cure}; or put {ELSEWHERE}.",
    )
