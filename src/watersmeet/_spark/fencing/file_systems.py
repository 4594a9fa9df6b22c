"""Where a checkpoint may lie: of two drivers that write one plan at once, one has to be refused.

Spark writes its logs through a file manager, which looks whether a file is there and then puts another in its place. On
a file system with a renaming that refuses existing files, that is one step. On an object store without such a renaming
it is two, and both drivers win: measured on S3A, with each of Spark's file managers, in 10 to 12 of 12 races.
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


def check_place(checkpoint: str, kind: str, manager: str | None, *, conditional: bool) -> None:
    """Raise where two drivers could both write one plan.

    Parameters
    ----------
    checkpoint : as the user wrote it.
    kind : the class of its file system.
    manager : the class of the session's file manager; None: Spark's own choice.
    conditional : whether the file system can make a file only where there is none, in one step.

    Raises
    ------
    ConfigError : they could.
    """
    if kind not in TWO_STEPS:
        return
    if not conditional:
        raise ConfigError(
            f"checkpoint={checkpoint!r} is on an object store that overwrites existing files: Spark needs "
            "conditional writes.",
            given=f"checkpoint={checkpoint!r}: {kind}",
            hint="Conditional writes need Hadoop 3.4.2 or later and fs.s3a.create.conditional.enabled=true; or put the "
            "checkpoint on HDFS, or on a volume that all machines mount (docs/checkpoints.md).",
        )
    if manager is None or manager in LOOK_FIRST:
        raise ConfigError(
            "A checkpoint on S3 needs a file manager that writes conditionally, and Spark has none: of two drivers "
            "that plan one batch both would win, and results would be lost.",
            given=f"checkpoint={checkpoint!r}: spark.sql.streaming.checkpointFileManagerClass is "
            f"{'not set' if manager is None else manager}",
            hint="Put the checkpoint on HDFS, or on a volume that all machines mount; outputs may lie on S3. Or "
            "name a file manager of your own: its createAtomic(path, false) must write with If-None-Match "
            "(docs/checkpoints.md).",
        )
