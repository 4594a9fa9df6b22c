"""Small files of a checkpoint, read through Spark, so that any file system works that Spark knows.

Called by `checkpoint` and `batches`.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from millpond.errors import CorruptData

_DEPTH = 6
"""More parts than any path has below its checkpoint."""
RESTORE = "Restore the whole checkpoint from one copy (its parts fit each other only as they were at one time)."


def contents(spark: SparkSession, folder: str, pattern: str) -> dict[str, bytes]:
    """What the files below a folder hold that the pattern names, by the end of their path; one job for all.

    Raises
    ------
    CorruptData : one of them cannot be read.
    """
    frame = _files(spark, folder, pattern)
    if frame is None:
        return {}
    try:
        rows = frame.select("path", "content").collect()
    except Exception as error:
        # what this is raised as differs with Spark's version, its condition does not
        unread = re.search(r"FAILED_READ_FILE\S* [^\n]*?reading file (\S+?)\.?\s", str(error))
        if unread is None:
            raise
        raise CorruptData(
            "A file of the checkpoint cannot be read: it was altered or cut off.", given=unread[1], hint=RESTORE
        ) from error
    # Spark lists empty files, and then leaves them out
    listed = {_end(unquote(path)): b"" for path in frame.inputFiles()}
    return listed | {_end(row["path"]): bytes(row["content"]) for row in rows}


def names(spark: SparkSession, folder: str, pattern: str) -> list[str]:
    """Names of the files that the pattern names; none of them is opened."""
    frame = _files(spark, folder, pattern)
    return [] if frame is None else [path.rpartition("/")[2] for path in frame.inputFiles()]


def _end(path: str) -> str:
    return "/".join(path.split("/")[-_DEPTH:])


def _files(spark: SparkSession, folder: str, pattern: str) -> DataFrame | None:
    plain = re.sub(r"([\\{}\[\]*?,^])", r"\\\1", folder.rstrip("/"))
    try:
        return spark.read.format("binaryFile").load(f"{plain}/{pattern}")
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            return None
        raise
