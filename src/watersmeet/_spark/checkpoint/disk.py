"""Files of a checkpoint by their names, on any file system that Spark knows: a change of topology, epochs, plans.

Spark's public ways write folders, not files of a given name; so this asks Hadoop, as Spark itself does, which also
keeps its sums beside the files of a disk (law 8: nothing else depends on this).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

_CONDITIONAL = "fs.option.create.conditional.overwrite"
"""Hadoop's option and capability (HADOOP-19256)."""


@dataclass(frozen=True)
class Disk:
    """Files and folders by their whole paths."""

    spark: SparkSession = field(repr=False)

    def write(self, path: str, text: str) -> None:
        """Write a file that is not there yet."""
        if not self.create(path, text):
            raise OSError(f"{path} exists")

    def create(self, path: str, text: str) -> bool:
        """Write a file that is not there yet, in one step; False: it is there, from whomever.

        Raises
        ------
        OSError : the file system does not do it.
        """
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
        """The class of the file system."""
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
            return [each.getPath().getName() for each in files.listStatus(place)]
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
        """Remove a file, or a folder with all that is in it, if it is there."""
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
    """The first line of an error, of Java's where it is one."""
    said = getattr(error, "java_exception", error)
    return str(said).partition("\n")[0]
