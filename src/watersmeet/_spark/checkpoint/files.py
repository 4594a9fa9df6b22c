"""A folder and its small files: on a disk of this machine read as they are, elsewhere through Spark.

Spark reads every file system, but not without a job, a line in the log for each folder that may be missing, and blind
for empty files and for the lists of its own sinks.
"""

from __future__ import annotations

import re
import struct
import uuid
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast
from urllib.parse import unquote

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from watersmeet._spark.checkpoint.disk import Disk
from watersmeet._spark.session.settings import alone, defaults_to_this_machine, path_on_this_machine
from watersmeet._worker.synced import sync
from watersmeet.errors import CorruptData

RESTORE = "Restore the whole checkpoint from one copy (its parts fit each other only as they were at one time)."
_NO_SINK = {"spark.sql.streaming.fileStreamSink.ignoreMetadata": "true"}
"""Else Spark looks for a sink's list in the pattern, as if it were a folder, and shows the stack of not finding it."""
_SUMS = struct.Struct(">4sI")
"""What Hadoop's file of sums begins with: a mark, and the bytes that each sum is of."""
_ALONE = "part-00000-c000.txt"
"""The name of the only file in a folder that `Folder.replace` writes."""


@dataclass(frozen=True)
class Folder:
    """A folder, usually a checkpoint's; its users need no session besides.

    Parameters
    ----------
    spark : the session that reads and writes it where it is not on this machine.
    path : as it was given.
    """

    spark: SparkSession = field(repr=False, compare=False)
    path: str

    def __str__(self) -> str:
        return self.path

    def below(self, name: str) -> Folder:
        """A folder in it."""
        return Folder(self.spark, f"{self.path.rstrip('/')}/{name}")

    def contents(self, *patterns: str) -> dict[str, bytes]:
        """The contents of the files below it that the patterns name, by their path.

        Raises
        ------
        CorruptData : one of them cannot be read, or does not have its sum.
        """
        here = self.here()
        if here is not None:
            return {str(file): _checked(file) for pattern in patterns for file in here.glob(pattern)}
        frame = self._frame(patterns)
        if frame is None:
            return {}
        try:
            rows = frame.select("path", "content").collect()
        except Exception as error:
            # what this is raised as differs with Spark's version, its condition does not
            unread = re.search(r"FAILED_READ_FILE\S* [^\n]*?reading file (\S+?)\.?\s", str(error))
            raise error if unread is None else _unreadable(unread[1]) from error
        found = {row["path"]: bytes(row["content"]) for row in rows}
        listed = [unquote(path) for path in frame.inputFiles()]
        # Spark lists empty files, and then leaves them out
        return found if len(listed) == len(found) else dict.fromkeys(listed, b"") | found

    def text(self, name: str) -> str:
        """The content of one file below it, read without a job; "" for a missing one."""
        here = self.here()
        if here is None:
            return Disk(self.spark).read(self.below(name).path)
        with suppress(FileNotFoundError):
            return (here / name).read_text(encoding="utf-8")
        return ""

    def names(self, *patterns: str) -> list[str]:
        """Names of the files that the patterns name; none of them is opened."""
        here = self.here()
        if here is not None:
            return [file.name for pattern in patterns for file in here.glob(pattern)]
        frame = self._frame(patterns)
        return [] if frame is None else [path.rpartition("/")[2] for path in frame.inputFiles()]

    def append(self, name: str, text: str) -> None:
        """Write a line into a file of its own in the folder `name` below it; what is there stays as it is.

        On a disk of this machine it outlives a loss of power.
        """
        here = self.here()
        # named as Spark would, which has written those of earlier versions elsewhere
        file = f"part-00000-{uuid.uuid4()}-c000.txt"
        if here is None:
            Disk(self.spark).put(self.below(f"{name}/{file}").path, f"{text}\n")
            return
        folder = here / name
        folder.mkdir(parents=True, exist_ok=True)
        _put(folder / file, text, lasting=True)
        for each in (folder, *folder.parents[: name.count("/") + 2]):
            sync(each)

    def replace(self, name: str, text: str) -> None:
        """Write a line as all that the folder `name` below it holds; one that is cut off elsewhere may leave nothing.

        It need not outlive a loss of power: that would take each batch as long as its disk takes.

        Raises
        ------
        OSError : what is above that folder is gone.
        """
        here = self.here()
        if here is None:
            disk, place = Disk(self.spark), self.below(name)
            for other in disk.names(place.path):
                if other != _ALONE:
                    disk.remove(place.below(other).path)
            disk.put(place.below(_ALONE).path, f"{text}\n")
            return
        folder = here / name
        if not folder.is_dir():
            folder.parent.mkdir(exist_ok=True)
            folder.mkdir(exist_ok=True)
        _put(folder / _ALONE, text)

    def here(self) -> Path | None:
        """The folder, if it is one of this machine; it need not be there."""
        path = path_on_this_machine(self.path)
        if path is None:
            return None
        here = self.path.startswith("file:") or defaults_to_this_machine(self.spark)
        return Path(path) if here else None

    def _frame(self, patterns: Sequence[str]) -> DataFrame | None:
        plain = re.sub(r"([\\{}\[\]*?,^])", r"\\\1", self.path.rstrip("/"))
        try:
            with alone(self.spark, _NO_SINK):
                return self.spark.read.format("binaryFile").load(f"{plain}/{{{','.join(patterns)}}}")
        except AnalysisException as error:
            if error.getCondition() == "PATH_NOT_FOUND":
                return None
            raise


@contextmanager
def foreign(path: str) -> Iterator[None]:
    """Around what takes a file apart that somebody else may have written, with a sum that is right.

    Raises
    ------
    CorruptData : it is of another form.
    """
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise CorruptData(
            "A file of the checkpoint has contents that neither watersmeet nor Spark writes.",
            given=f"{path}: {type(error).__name__}: {error}"[:300],
            hint=RESTORE,
        ) from error


def on_this_machine(path: str) -> Folder | None:
    """A folder of this machine, which is read without a session; None where there is none of this name."""
    here = path_on_this_machine(path)
    if here is None or not Path(here).is_dir():
        return None
    return Folder(cast(SparkSession, None), f"file:{Path(here).absolute()}")


def _put(file: Path, text: str, *, lasting: bool = False) -> None:
    """Write a file so that readers find all of it, or the previous content."""
    beside = file.with_name(f".{file.name}.new")
    beside.write_text(f"{text}\n", encoding="utf-8")
    if lasting:
        sync(beside)
    beside.replace(file)


def _checked(file: Path) -> bytes:
    """The content of a file, with the checksums that Hadoop keeps beside it, if it does."""
    content, beside = file.read_bytes(), file.with_name(f".{file.name}.crc")
    if beside.exists():
        sums = beside.read_bytes()
        mark, size = _SUMS.unpack_from(sums.ljust(_SUMS.size, b"\0"))
        parts = range(0, len(content), size) if mark == b"crc\0" and size else ()
        made = b"".join(zlib.crc32(content[at : at + size]).to_bytes(4, "big") for at in parts)
        if mark != b"crc\0" or made != sums[_SUMS.size :]:
            raise _unreadable(str(file))
    return content


def _unreadable(path: str) -> CorruptData:
    return CorruptData("A file of the checkpoint cannot be read: it was altered or cut off.", given=path, hint=RESTORE)
