"""A folder and its small files: on a disk of this machine read as they are, elsewhere through Spark.

Spark reads every file system, but not without a job, a line in the log for each folder that may be missing, and blind
for empty files and for the lists of its own sinks.
"""

from __future__ import annotations

import os
import re
import struct
import time
import uuid
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from watersmeet._spark.session import (
    FILE_MANAGER,
    defaults_to_this_machine,
    exclusive_settings,
    path_on_this_machine,
    temporary_folder,
)
from watersmeet._worker.process import sync
from watersmeet.errors import ConfigError, CorruptData

# Files of a checkpoint by their names, on any file system that Spark knows: a change of topology, epochs, plans.
#
# Spark's public ways write folders, not files of a given name; so this asks Hadoop, as Spark itself does, which also
# keeps its sums beside the files of a disk (law 8: nothing else depends on this).

_CONDITIONAL = "fs.option.create.conditional.overwrite"
"""Hadoop's option and capability (HADOOP-19256)."""


@dataclass(frozen=True)
class Disk:
    """Files and folders by their whole paths."""

    spark: SparkSession = field(repr=False)

    def write(self, path: str, text: str) -> None:
        if not self.create(path, text):
            raise OSError(f"{path} exists")

    def create(self, path: str, text: str) -> bool:
        """Write a file that is not there yet, in one step; False: it is there, from whomever."""
        files, place = self._at(path)
        try:
            if self.is_conditional(path):
                # S3A: If-None-Match, judged when the stream is closed
                out = files.createFile(place).overwrite(True).recursive().must(_CONDITIONAL, True).build()
            else:
                out = files.create(place, False)
            _fill(out, text)
        except Exception as error:  # each file system has a word of its own for it
            if files.exists(place):
                return False
            raise OSError(f"{path} could not be written: {first_line(error)}") from None
        return True

    def log(self, path: str, text: str, manager: str | None) -> bool:
        """Write a file into a log of Spark's, as Spark does: whole, in one step; False: it is there, from whomever.

        Parameters
        ----------
        manager : the class by which Spark has to write; None: as the session has it.
        """
        files, place = self._at(path)
        settings = self._settings
        if manager is not None:
            settings.set(FILE_MANAGER, manager)
        streaming = self._jvm.org.apache.spark.sql.execution.streaming
        # which Spark 4.1 has moved
        here = streaming if self.spark.version.startswith("4.0") else streaming.checkpointing
        try:
            _fill(here.CheckpointFileManager.create(place.getParent(), settings).createAtomic(place, False), text)
        except Exception:
            if files.exists(place):
                return False
            raise
        return True

    def put(self, path: str, text: str) -> None:
        """Write a file, or replace it. Readers find all of it; if the process dies, the file may be missing."""
        files, place = self._at(path)
        # an object is there when its stream is closed
        beside = place if self.is_conditional(path) else self._beside(place)
        _fill(files.create(beside, True), text)
        if beside is not place:
            files.delete(place, False)
            self.move(str(beside), path)

    def read(self, path: str) -> str:
        """The content of a file; "" for a missing one."""
        files, place = self._at(path)
        if not files.exists(place):
            return ""
        stream = files.open(place)
        try:
            return bytes(stream.readAllBytes()).decode("utf-8", "replace")
        finally:
            stream.close()

    def kind(self, path: str) -> str:
        files, _ = self._at(path)
        return str(files.getClass().getName())

    def is_conditional(self, path: str) -> bool:
        """Whether the file system is an object store that can refuse to write what is there."""
        files, place = self._at(path)
        return bool(files.hasPathCapability(place, _CONDITIONAL))

    def names(self, path: str) -> list[str]:
        """Names of a folder's entries; none for a missing folder."""
        files, place = self._at(path)
        try:
            return [status.getPath().getName() for status in files.listStatus(place)]
        except Exception as error:
            # to ask first would be two more requests to an object store, before each commit
            if "FileNotFoundException" in first_line(error):
                return []
            raise

    def move(self, path: str, to: str) -> None:
        """Give a file another name."""
        files, place = self._at(path)
        if not files.rename(place, self._at(to)[1]):
            raise OSError(f"{path} could not be renamed to {to}")

    def copy(self, path: str, to: str) -> None:
        """Copy a file, or a folder with all that is in it, if it is there."""
        files, place = self._at(path)
        if files.exists(place):
            util = self._jvm.org.apache.hadoop.fs.FileUtil
            util.copy(files, place, files, self._at(to)[1], False, self._settings)

    def remove(self, path: str) -> None:
        files, place = self._at(path)
        files.delete(place, True)

    def _beside(self, place: Any) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(place.getParent(), f".{place.getName()}.new")

    def _at(self, path: str) -> tuple[Any, Any]:
        place = self._jvm.org.apache.hadoop.fs.Path(path)
        return place.getFileSystem(self._settings), place

    @property
    def _jvm(self) -> Any:
        spark: Any = self.spark
        return spark._jvm

    @property
    def _settings(self) -> Any:
        # with what the session has set, as Spark's own logs are written
        state: Any = self.spark
        return state._jsparkSession.sessionState().newHadoopConf()


def _fill(out: Any, text: str) -> None:
    """Write all of a new file."""
    try:
        out.write(bytearray(text.encode()))
    finally:
        out.close()


def first_line(error: Exception) -> str:
    cause = getattr(error, "java_exception", error)
    return str(cause).partition("\n")[0]


RESTORE = "Restore the whole checkpoint from one copy (its parts fit each other only as they were at one time)."
_NO_SINK = {"spark.sql.streaming.fileStreamSink.ignoreMetadata": "true"}
"""Else Spark looks for a sink's list in the pattern, as if it were a folder, and shows the stack of not finding it."""
_SUMS = struct.Struct(">4sI")
"""What Hadoop's file of sums begins with: a mark, and the bytes that each sum is of."""
_ALONE = "part-00000-c000.txt"
"""The name of the only file in a folder that `Folder.replace` writes."""


@dataclass(frozen=True)
class Folder:
    """A folder, usually a checkpoint's; its users need no session besides."""

    # the session that reads and writes it where it is not on this machine
    spark: SparkSession = field(repr=False, compare=False)
    path: str  # as it was given

    def __str__(self) -> str:
        return self.path

    def below(self, name: str) -> Folder:
        return Folder(self.spark, f"{self.path.rstrip('/')}/{name}")

    def contents(self, *patterns: str) -> dict[str, bytes]:
        """The contents of the files below it that the patterns name, by their path."""
        local = self.here()
        if local is not None:
            return {str(file): _checked(file) for pattern in patterns for file in local.glob(pattern)}
        frame = self._frame(patterns)
        if frame is None:
            return {}
        try:
            rows = frame.select("path", "content").collect()
        except Exception as error:
            # what this is raised as differs with Spark's version, its condition does not
            unread = re.search(r"FAILED_READ_FILE\S* [^\n]*?reading file (\S+?)\.?\s", str(error))
            raise error if unread is None else _unreadable(unread[1]) from error
        files = {row["path"]: bytes(row["content"]) for row in rows}
        listed = [unquote(path) for path in frame.inputFiles()]
        # Spark lists empty files, and then leaves them out
        return files if len(listed) == len(files) else dict.fromkeys(listed, b"") | files

    def text(self, name: str) -> str:
        """The content of one file below it, read without a job; "" for a missing one."""
        local = self.here()
        if local is None:
            return Disk(self.spark).read(self.below(name).path)
        with suppress(FileNotFoundError):
            return (local / name).read_text(encoding="utf-8")
        return ""

    def names(self, *patterns: str) -> list[str]:
        """Names of the files that the patterns name; none of them is opened."""
        local = self.here()
        if local is not None:
            return [file.name for pattern in patterns for file in local.glob(pattern)]
        frame = self._frame(patterns)
        return [] if frame is None else [path.rpartition("/")[2] for path in frame.inputFiles()]

    def append(self, name: str, text: str) -> None:
        """Write a line into a file of its own in the folder `name` below it; what is there stays as it is.

        On a disk of this machine it outlives a loss of power.
        """
        local = self.here()
        # named as Spark would, which has written those of earlier versions elsewhere
        file = f"part-00000-{uuid.uuid4()}-c000.txt"
        if local is None:
            Disk(self.spark).put(self.below(f"{name}/{file}").path, f"{text}\n")
            return
        folder = local / name
        folder.mkdir(parents=True, exist_ok=True)
        _put(folder / file, text, lasting=True)
        for directory in (folder, *folder.parents[: name.count("/") + 2]):
            sync(directory)

    def replace(self, name: str, text: str) -> None:
        """Write a line as all that the folder `name` below it holds; one that is cut off elsewhere may leave nothing.

        It need not outlive a loss of power: that would take each batch as long as its disk takes.
        """
        local = self.here()
        if local is None:
            disk, place = Disk(self.spark), self.below(name)
            for entry in disk.names(place.path):
                if entry != _ALONE:
                    disk.remove(place.below(entry).path)
            disk.put(place.below(_ALONE).path, f"{text}\n")
            return
        folder = local / name
        if not folder.is_dir():
            folder.parent.mkdir(exist_ok=True)
            folder.mkdir(exist_ok=True)
        _put(folder / _ALONE, text)

    def here(self) -> Path | None:
        """The folder, if it is one of this machine; it need not be there."""
        path = path_on_this_machine(self.path)
        if path is None:
            return None
        is_local = self.path.startswith("file:") or defaults_to_this_machine(self.spark)
        return Path(path) if is_local else None

    def _frame(self, patterns: Sequence[str]) -> DataFrame | None:
        plain = re.sub(r"([\\{}\[\]*?,^])", r"\\\1", self.path.rstrip("/"))
        try:
            with exclusive_settings(self.spark, _NO_SINK):
                return self.spark.read.format("binaryFile").load(f"{plain}/{{{','.join(patterns)}}}")
        except AnalysisException as error:
            if error.getCondition() == "PATH_NOT_FOUND":
                return None
            raise


@contextmanager
def foreign(path: str) -> Iterator[None]:
    """Around what takes a file apart that somebody else may have written, with a sum that is right."""
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
    local = path_on_this_machine(path)
    if local is None or not Path(local).is_dir():
        return None
    return Folder(cast(SparkSession, None), f"file:{Path(local).absolute()}")


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
        computed = b"".join(zlib.crc32(content[at : at + size]).to_bytes(4, "big") for at in parts)
        if mark != b"crc\0" or computed != sums[_SUMS.size :]:
            raise _unreadable(str(file))
    return content


def _unreadable(path: str) -> CorruptData:
    return CorruptData("A file of the checkpoint cannot be read: it was altered or cut off.", given=path, hint=RESTORE)


# Where epochs lie: `watersmeet/epochs` of a checkpoint, on a disk of this machine or wherever Spark reaches.

FOLDER = "watersmeet/epochs"


@dataclass(frozen=True)
class EpochsHere:
    """Epochs on a disk of this machine, or one that it has mounted, which are made whole and durable."""

    folder: Path  # theirs

    def names(self) -> list[str]:
        with suppress(FileNotFoundError):
            return [name for name in os.listdir(self.folder) if not name.startswith(".")]
        return []

    def create(self, name: str, text: str) -> bool:
        """See `EpochFiles`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        beside = self.folder / f".{name}.{uuid.uuid4().hex}"
        beside.write_text(text, encoding="utf-8")
        sync(beside)
        try:
            # a link is refused where there is one of its name
            os.link(beside, self.folder / name)
        except FileExistsError:
            return False
        except OSError:
            return self._created_plainly(name, text)
        finally:
            beside.unlink(missing_ok=True)
        return True

    def _created_plainly(self, name: str, text: str) -> bool:
        # a file system without links
        try:
            with (self.folder / name).open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            return False
        return True

    def read(self, name: str) -> str:
        with suppress(FileNotFoundError):
            return (self.folder / name).read_text(encoding="utf-8")
        return ""

    def remove(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)


@dataclass(frozen=True)
class EpochsElsewhere:
    """Epochs on a file system that Spark reaches."""

    disk: Disk = field(repr=False)  # reaches it
    folder: str  # theirs

    def names(self) -> list[str]:
        return self.disk.names(self.folder)

    def create(self, name: str, text: str) -> bool:
        return self.disk.create(f"{self.folder}/{name}", text)

    def read(self, name: str) -> str:
        return self.disk.read(f"{self.folder}/{name}")

    def remove(self, name: str) -> None:
        self.disk.remove(f"{self.folder}/{name}")


# Where a checkpoint may lie: of two drivers that write one plan at once, one has to be refused.
#
# Spark writes its logs through a file manager, which looks whether a file is there and then puts another in its place.
# On a file system with a renaming that refuses existing files, that is one step. On an object store without such a
# renaming it is two, and both drivers win: measured on S3A, with each of Spark's file managers, in 10 to 12 of 12
# races. So there watersmeet has Spark use a file manager of its own, which has the store refuse what exists.

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


# Has Spark write checkpoints on S3 conditionally: a file manager for the JVM, compiled when one is first needed.
#
# Spark has none (docs/checkpoints.md#checkpoints-on-s3). Its source lies beside this module; Janino, which compiles
# Spark's generated code, compiles it against the classes of the Spark that runs, so it fits each version. Executors get
# it as they get any jar of a session.

_SOURCE = f"{CONDITIONAL_MANAGER.rpartition('.')[2]}.java"
_LOOK_SECONDS = 0.02
_loaders: dict[str, Any] = {}
"""The class loader that has the class, by the id of the Spark application."""


def add_conditional_files(spark: SparkSession, checkpoint: str) -> None:
    """Give the application the class `CONDITIONAL_MANAGER`, which streams begun by this thread then find.

    Parameters
    ----------
    checkpoint : as the user wrote it.
    """
    jvm: Any = spark.sparkContext._jvm
    threads, application = jvm.java.lang.Thread, spark.sparkContext.applicationId
    if application not in _loaders:
        try:
            classes = compiled(spark)
        except Exception as error:
            raise ConfigError(
                f"checkpoint={checkpoint!r} cannot lie on S3 under Spark {spark.version}: the file manager that "
                "watersmeet adds for S3 does not compile.",
                given=f"checkpoint={checkpoint!r}: {first_line(error)}",
                hint=f"Put {ELSEWHERE}.",
            ) from error
        path = str(_jar(classes)).replace("'", "\\'")
        spark.sql(f"ADD JAR '{path}'")
        # it gives the loader to this thread alone
        _loaders[application] = threads.currentThread().getContextClassLoader()
    threads.currentThread().setContextClassLoader(_loaders[application])


def await_sources(query: StreamingQuery) -> None:
    """Wait until a query has made its sources, or has ended.

    A source of files has a log of its own, which it writes as the session says when the source is made: by the query's
    thread, after `start` has returned.
    """
    while query.isActive and query.status["message"].startswith("Initializing"):
        time.sleep(_LOOK_SECONDS)


def _jar(classes: Mapping[str, bytes]) -> Path:
    """A new jar with the classes. It stays until this process ends, since executors that start later fetch it too."""
    jar = Path(temporary_folder()) / "watersmeet-conditional-files.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        for name, code in classes.items():
            archive.writestr(f"{name.replace('.', '/')}.class", code)
    return jar


def compiled(spark: SparkSession) -> dict[str, bytes]:
    """The bytecode of the file manager's classes, by name, for the Spark of this session."""
    jvm: Any = spark.sparkContext._jvm
    # also where the package lies in an archive
    source = resources.files(__package__).joinpath(_SOURCE)
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(source.read_text(encoding="utf-8"))
    return {str(name): bytes(code) for name, code in dict(compiler.getBytecodes()).items()}
