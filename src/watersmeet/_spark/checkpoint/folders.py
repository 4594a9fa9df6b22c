"""A folder and its small files, usually a checkpoint's: of this machine by its own calls, elsewhere by Hadoop's.

Spark's public ways write folders, not files of a given name, and read them by jobs; so this asks Hadoop, as Spark
itself does (law 8: nothing else depends on this).
"""

from __future__ import annotations

import os
import shutil
import struct
import time
import uuid
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fnmatch import filter as matching
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, cast

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from watersmeet._spark.session import FILE_MANAGER, PLAIN_FILES, path_on_this_machine, temporary_folder
from watersmeet._worker.process import sync
from watersmeet.errors import ConfigError, CorruptData

RESTORE = "Restore the whole checkpoint from one copy (its parts fit each other only as they were at one time)."
_CONDITIONAL = "fs.option.create.conditional.overwrite"
"""Hadoop's option and capability (HADOOP-19256)."""
_SUMS = struct.Struct(">4sI")
"""The beginning of Hadoop's file of sums: a mark, and the bytes that each sum is of."""
_READERS = 8


@dataclass(frozen=True)
class Folder:
    """A folder and the files below it, by their names; its users need no session besides.

    `Folder(...)` makes one of `LocalFiles`, where it lies on this machine, or of `HadoopFiles`.
    """

    # the session that reads and writes it where it is not on this machine
    spark: SparkSession = field(repr=False, compare=False)
    path: str  # as it was given

    def __new__(cls, spark: SparkSession, path: str) -> Folder:
        """Of the file system on which it lies."""
        if cls is Folder:
            local = path_on_this_machine(path) is not None
            local = local and (path.startswith("file:") or defaults_to_this_machine(spark))
            cls = LocalFiles if local else HadoopFiles
        return super().__new__(cls)

    def __str__(self) -> str:
        return self.path

    def below(self, name: str) -> Folder:
        return type(self)(self.spark, self.at(name))

    def at(self, name: str) -> str:
        """The path of what lies below it."""
        return f"{self.path.rstrip('/')}/{name}" if name else self.path

    def local_path(self) -> Path | None:
        """The folder, if it is one of this machine; it need not be there."""

    def contents(self, *patterns: str) -> dict[str, bytes]:
        """The contents of the files below it that the patterns name, by their path."""
        names = [name for pattern in patterns for name in self._matching(pattern)]
        # each is a request or two where the folder is elsewhere
        with ThreadPoolExecutor(_READERS) as readers:
            files = zip(names, readers.map(self.read, names), strict=True)
            return {self.at(name): content for name, content in files if content is not None}

    def names(self, *patterns: str) -> list[str]:
        """Names of the files that the patterns name, without the hidden ones; none of them is opened."""
        return [name.rpartition("/")[2] for pattern in patterns or ("*",) for name in self._matching(pattern)]

    def text(self, name: str) -> str:
        """The content of a file; "" for a missing one."""
        return (self.read(name) or b"").decode("utf-8", "replace")

    def append(self, name: str, text: str) -> None:
        """Write a line into a file of its own in the folder `name`; what is there stays as it is.

        On a disk of this machine it outlives a loss of power.
        """
        self.put(f"{name}/part-{uuid.uuid4()}.txt", f"{text}\n", durable=True)

    def _matching(self, pattern: str) -> list[str]:
        """Names that a pattern stands for; what a part without a wildcard stands for need not be there."""
        names = [""]
        for part in pattern.split("/"):
            if "*" in part:
                entries = ((name, entry) for name in names for entry in matching(self.entries(name[1:]), part))
                names = [f"{name}/{entry}" for name, entry in entries if not entry.startswith(".")]
            else:
                names = [f"{name}/{part}" for name in names]
        return [name[1:] for name in names]

    def read(self, name: str) -> bytes | None:
        """The content of a file, which fits its sums; None: there is none."""
        raise NotImplementedError

    def entries(self, name: str) -> list[str]:
        """Names in a folder, hidden ones too; none where there is no folder."""
        raise NotImplementedError

    def create(self, name: str, text: str) -> bool:
        """Write a file that is not there yet, in one step; False: it is there, from whomever."""
        raise NotImplementedError

    def log(self, name: str, text: str, manager: str | None) -> bool:
        """Write a file into a log of Spark's as `create` does, by a file manager, or the session's own."""
        raise NotImplementedError

    def put(self, name: str, text: str, *, durable: bool = False) -> None:
        """Write a file, or replace it: readers find all of it. Of one that is cut off elsewhere nothing may be left.

        Parameters
        ----------
        durable : whether all folders above it are made, and outlive with it a loss of power. Else the folder above its
            own must be there, and each batch takes less than its disk would.
        """

    def move(self, name: str, to: str) -> None:
        """Give a file another name."""

    def date(self, name: str, ms: int) -> None:
        """Set a file's time, in ms since 1970, where the file system lets one."""

    def copy(self, name: str, folder: Folder, to: str) -> None:
        """Copy a file or folder into another folder of the file system, if it is there."""

    def link(self, name: str, folder: Folder) -> None:
        """Give a file or folder that others go on writing a second name in another folder: what vanishes is left out.

        It is copied where the file system has no hard links.
        """

    def remove(self, name: str = "") -> None:
        """Remove a file, or a folder with all that is in it, if it is there; without a name this folder."""


class LocalFiles(Folder):
    """A folder of this machine, or of a disk that it has mounted; Hadoop may keep sums beside its files."""

    def local_path(self) -> Path:
        return Path(path_on_this_machine(self.path) or "")

    def _file(self, name: str) -> Path:
        return self.local_path() / name

    def read(self, name: str) -> bytes | None:
        with suppress(FileNotFoundError, NotADirectoryError):
            return _checked(self._file(name))
        return None

    def entries(self, name: str) -> list[str]:
        with suppress(FileNotFoundError, NotADirectoryError):
            return os.listdir(self._file(name))
        return []

    def create(self, name: str, text: str) -> bool:
        file = self._file(name)
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary = file.with_name(f".{file.name}.{uuid.uuid4().hex}")
        temporary.write_text(text, encoding="utf-8")
        sync(temporary)
        try:
            # a link is refused where there is one of its name
            os.link(temporary, file)
        except FileExistsError:
            return False
        except OSError:
            return self._create_plainly(file, text)
        finally:
            temporary.unlink(missing_ok=True)
        return True

    def _create_plainly(self, file: Path, text: str) -> bool:
        # a file system without links
        try:
            with file.open("x", encoding="utf-8") as stream:
                stream.write(text)
        except FileExistsError:
            return False
        return True

    def log(self, name: str, text: str, manager: str | None) -> bool:
        return self.create(name, text)

    def put(self, name: str, text: str, *, durable: bool = False) -> None:
        file = self._file(name)
        file.parent.mkdir(parents=durable, exist_ok=True)
        temporary = file.with_name(f".{file.name}.new")
        temporary.write_text(text, encoding="utf-8")
        if durable:
            sync(temporary)
        _sums(file).unlink(missing_ok=True)
        temporary.replace(file)
        for directory in file.parents[: name.count("/") + 2] if durable else ():
            sync(directory)

    def move(self, name: str, to: str) -> None:
        self._file(name).rename(self._file(to))
        with suppress(FileNotFoundError):
            _sums(self._file(name)).rename(_sums(self._file(to)))

    def date(self, name: str, ms: int) -> None:
        os.utime(self._file(name), (ms / 1_000, ms / 1_000))

    def copy(self, name: str, folder: Folder, to: str) -> None:
        file, target = self._file(name), Path(path_on_this_machine(folder.at(to)) or "")
        for source, copy in ((file, target), (_sums(file), _sums(target))):
            if source.exists():
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copytree(source, copy) if source.is_dir() else shutil.copyfile(source, copy)

    def link(self, name: str, folder: Folder) -> None:
        file, target = self._file(name), Path(path_on_this_machine(folder.at(name)) or "")
        with suppress(FileNotFoundError, NotADirectoryError):
            if file.is_dir():
                for entry in os.listdir(file):
                    self.link(f"{name}/{entry}", folder)
                return
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(file, target)
            except FileNotFoundError:
                return
            except OSError:
                shutil.copyfile(file, target)

    def remove(self, name: str = "") -> None:
        for file in (self._file(name), _sums(self._file(name))):
            shutil.rmtree(file) if file.is_dir() else file.unlink(missing_ok=True)


def _sums(file: Path) -> Path:
    return file.with_name(f".{file.name}.crc")


def _checked(file: Path) -> bytes:
    """The content of a file, with the checksums that Hadoop keeps beside it, if it does."""
    content, of_sums = file.read_bytes(), _sums(file)
    if of_sums.exists():
        sums = of_sums.read_bytes()
        mark, size = _SUMS.unpack_from(sums.ljust(_SUMS.size, b"\0"))
        parts = range(0, len(content), size) if mark == b"crc\0" and size else ()
        computed = b"".join(zlib.crc32(content[at : at + size]).to_bytes(4, "big") for at in parts)
        if mark != b"crc\0" or computed != sums[_SUMS.size :]:
            raise _unreadable(str(file))
    return content


def _unreadable(path: str) -> CorruptData:
    return CorruptData("A file of the checkpoint cannot be read: it was altered or cut off.", given=path, hint=RESTORE)


class HadoopFiles(Folder):
    """A folder of any file system that Spark reaches."""

    def read(self, name: str) -> bytes | None:
        files, place = self._at(name)
        try:
            stream = files.open(place)
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()
        except Exception as error:
            if "FileNotFoundException" in first_line(error):
                return None
            raise _unreadable(f"{self.at(name)}: {first_line(error)}") from error

    def entries(self, name: str) -> list[str]:
        files, place = self._at(name)
        try:
            return [status.getPath().getName() for status in files.listStatus(place)]
        except Exception as error:
            # to ask first would be two more requests to an object store, before each commit
            if "FileNotFoundException" in first_line(error):
                return []
            raise

    def create(self, name: str, text: str) -> bool:
        files, place = self._at(name)
        try:
            if self.is_conditional(name):
                # S3A: If-None-Match, judged when the stream is closed
                out = files.createFile(place).overwrite(True).recursive().must(_CONDITIONAL, True).build()
            else:
                out = files.create(place, False)
            _fill(out, text)
        except Exception as error:  # each file system has a word of its own for it
            if files.exists(place):
                return False
            raise OSError(f"{self.at(name)} could not be written: {first_line(error)}") from None
        return True

    def log(self, name: str, text: str, manager: str | None) -> bool:
        files, place = self._at(name)
        settings = self._settings
        if manager is not None:
            settings.set(FILE_MANAGER, manager)
        managers = self._jvm.org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
        try:
            _fill(managers.create(place.getParent(), settings).createAtomic(place, False), text)
        except Exception:
            if files.exists(place):
                return False
            raise
        return True

    def put(self, name: str, text: str, *, durable: bool = False) -> None:
        files, place = self._at(name)
        # an object is there when its stream is closed
        temporary = place if self.is_conditional(name) else self._path(place.getParent(), f".{place.getName()}.new")
        _fill(files.create(temporary, True), text)
        if temporary is not place:
            files.delete(place, False)
            self._rename(files, temporary, place)

    def move(self, name: str, to: str) -> None:
        files, place = self._at(name)
        self._rename(files, place, self._at(to)[1])

    def date(self, name: str, ms: int) -> None:
        files, place = self._at(name)
        files.setTimes(place, ms, -1)

    @staticmethod
    def _rename(files: Any, place: Any, to: Any) -> None:
        if not files.rename(place, to):
            raise OSError(f"{place} could not be renamed to {to}")

    def copy(self, name: str, folder: Folder, to: str) -> None:
        files, place = self._at(name)
        if files.exists(place):
            util = self._jvm.org.apache.hadoop.fs.FileUtil
            util.copy(files, place, files, self._path(folder.at(to)), False, self._settings)

    def link(self, name: str, folder: Folder) -> None:
        files, place = self._at(name)
        target, util = self._path(folder.at(name)), self._jvm.org.apache.hadoop.fs.FileUtil
        try:
            if not files.getFileStatus(place).isDirectory():
                util.copy(files, place, files, target, False, self._settings)
                return
        except Exception as error:
            if "FileNotFoundException" in first_line(error):
                return
            raise
        # each is a request or two
        with ThreadPoolExecutor(_READERS) as copiers:
            list(copiers.map(lambda entry: self.link(f"{name}/{entry}", folder), self.entries(name)))

    def remove(self, name: str = "") -> None:
        files, place = self._at(name)
        files.delete(place, True)

    def kind(self) -> str:
        return str(self._at("")[0].getClass().getName())

    def is_conditional(self, name: str = "") -> bool:
        """Whether the file system is an object store that can refuse to write what is there."""
        files, place = self._at(name)
        return bool(files.hasPathCapability(place, _CONDITIONAL))

    def _at(self, name: str) -> tuple[Any, Any]:
        place = self._path(self.at(name))
        return place.getFileSystem(self._settings), place

    @property
    def _path(self) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path

    @property
    def _jvm(self) -> Any:
        spark: Any = self.spark
        return spark._jvm

    @property
    def _settings(self) -> Any:
        # with what the session has set, as Spark's own logs are written
        state: Any = self.spark
        return state._jsparkSession.sessionState().newHadoopConf()


@lru_cache(maxsize=1)
def defaults_to_this_machine(spark: SparkSession) -> bool:
    """Whether a path without a scheme is one of this machine."""
    files = HadoopFiles(spark, "/")
    return str(files._jvm.org.apache.hadoop.fs.FileSystem.getDefaultUri(files._settings).getScheme()) == "file"


def _fill(out: Any, text: str) -> None:
    """Write all of a new file."""
    try:
        out.write(bytearray(text.encode()))
    finally:
        out.close()


def first_line(error: Exception) -> str:
    cause = getattr(error, "java_exception", error)
    return str(cause).partition("\n")[0]


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
    return None if local is None or not Path(local).is_dir() else local_folder(Path(local).absolute())


def local_folder(path: Path) -> Folder:
    return Folder(cast(SparkSession, None), f"file:{path}")


# Where a checkpoint may lie: of two drivers that write one plan at once, one has to be refused.
#
# Spark writes its logs through a file manager, which looks whether a file is there and then puts another in its place.
# On a file system with a renaming that refuses existing files, that is one step. On an object store without such a
# renaming it is two, and both drivers win: measured on S3A, with each of Spark's file managers, in 10 to 12 of 12
# races. So there watersmeet has Spark use a file manager of its own, which has the store refuse what exists.

S3A = "org.apache.hadoop.fs.s3a.S3AFileSystem"
TWO_STEPS = frozenset({S3A, "com.amazon.ws.emr.hadoop.fs.EmrFileSystem", "org.apache.hadoop.fs.cosn.CosNFileSystem"})
"""File systems on which a file that is there can be replaced by one that was not to replace any."""
_CHECKPOINTING = "org.apache.spark.sql.execution.streaming.checkpointing"
LOOK_FIRST = frozenset(
    {
        *(f"{_CHECKPOINTING}.{name}BasedCheckpointFileManager" for name in ("FileSystem", "FileContext")),
        f"{_CHECKPOINTING}.ChecksumCheckpointFileManager",
        "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager",
    }
)
"""Spark's own file managers: none of them asks the store to refuse what is there."""
LOCAL_MANAGER = "watersmeet.LocalCheckpointFileManager"
CONDITIONAL_MANAGER = "watersmeet.ConditionalCheckpointFileManager"
"""The file manager that watersmeet adds: it asks the store to refuse existing files."""
ELSEWHERE = "the checkpoint on HDFS, or on a volume that all machines mount (docs/checkpoints.md)"
"""Where a checkpoint may lie that cannot lie on S3: for a hint, behind "put"."""


def file_manager(checkpoint: str, kind: str, manager: str | None, *, conditional: bool) -> str | None:
    """The class by which Spark has to write a checkpoint on a file system of this class; None: as the session has it.

    Parameters
    ----------
    manager : the session's; None: Spark's own choice.
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
    """The error for a store of this class that writes a file again which it should have refused."""
    return ConfigError(
        f"checkpoint={checkpoint!r} is on an object store that overwrites existing files: of two drivers that plan one "
        "batch both would win, and results would be lost.",
        given=f"checkpoint={checkpoint!r}: {kind}",
        hint=f"{cure}; or put {ELSEWHERE}.",
    )


# File managers of ours for the JVM, in a jar of the package: Spark has none that writes to S3 conditionally
# (docs/checkpoints.md#checkpoints-on-s3), nor one that starts no program for each file on a disk. Their sources lie in
# dev/file_manager, and what builds the jar. Executors get it as they get any jar of a session.

_JAR = "file_managers.jar"
_LOOK_SECONDS = 0.02
_loaders: dict[str, Any] = {}
"""The class loader that has the classes, by the id of the Spark application."""


def local_file_manager(spark: SparkSession, folder: Folder) -> str | None:
    """The class by which no file of a checkpoint on a disk costs a program, `chmod`; None: as the session has it."""
    if folder.local_path() is None or spark.conf.get(FILE_MANAGER, None) not in (None, PLAIN_FILES):
        return None
    with suppress(Exception):  # a clone without a JDK has no jar; what Spark itself does costs time alone
        jvm: Any = spark.sparkContext._jvm
        if not jvm.org.apache.hadoop.util.NativeCodeLoader.isNativeCodeLoaded():
            _add_file_managers(spark)
            return LOCAL_MANAGER
    return None


def add_conditional_files(spark: SparkSession, checkpoint: str) -> None:
    """Give the application the class `CONDITIONAL_MANAGER`, which streams begun by this thread then find.

    Raises
    ------
    ConfigError : the package lacks the jar, or this Spark cannot load it.
    """
    try:
        _add_file_managers(spark)
    except Exception as error:
        cause, cure = f" under Spark {spark.version}: the file manager for S3 does not fit", "Take PySpark 4.3"
        if isinstance(error, FileNotFoundError):
            cause = f": this copy of watersmeet has no {_JAR}"
            cure = "Install its wheel, or run `make setup` in its clone, with a JDK, and install it from there"
        raise ConfigError(
            f"checkpoint={checkpoint!r} cannot lie on S3{cause}.",
            given=f"checkpoint={checkpoint!r}: {first_line(error)}",
            hint=f"{cure}; or put {ELSEWHERE}.",
        ) from error


def _add_file_managers(spark: SparkSession) -> None:
    jvm: Any = spark.sparkContext._jvm
    threads, application = jvm.java.lang.Thread, spark.sparkContext.applicationId
    if application not in _loaders:
        # it stays until this process ends, since executors that start later fetch it too
        jar = Path(temporary_folder()) / _JAR
        # also where the package lies in an archive
        jar.write_bytes(resources.files(__package__).joinpath(_JAR).read_bytes())
        spark.sql("ADD JAR '{}'".format(str(jar).replace("'", "\\'")))
        # it gives the loader to this thread alone
        loader = threads.currentThread().getContextClassLoader()
        for manager in (CONDITIONAL_MANAGER, LOCAL_MANAGER):
            jvm.java.lang.Class.forName(manager, True, loader)
        _loaders[application] = loader
    threads.currentThread().setContextClassLoader(_loaders[application])


def await_sources(query: StreamingQuery) -> None:
    """Wait until a query has made its sources, or has ended.

    A source of files has a log of its own, which it writes as the session says when the source is made: by the query's
    thread, after `start` has returned.
    """
    while query.isActive and query.status["message"].startswith("Initializing"):
        time.sleep(_LOOK_SECONDS)
