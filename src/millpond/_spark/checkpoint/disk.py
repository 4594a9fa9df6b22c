"""What a change of topology does with files of a checkpoint, on any file system that Spark knows.

Spark's public ways write folders, not files of a given name; so this asks Hadoop, as Spark itself does, which also
keeps its sums beside the files of a disk (law 8: nothing else depends on this).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from millpond.errors import ConfigError


@dataclass(frozen=True)
class Disk:
    """Files and folders by their whole paths."""

    spark: SparkSession = field(repr=False)

    def write(self, path: str, text: str) -> None:
        """Write a file that is not there yet."""
        files, place = self._at(path)
        out = files.create(place, False)
        try:
            out.write(bytearray(text.encode()))
        finally:
            out.close()

    def names(self, path: str) -> list[str]:
        """Names of what lies in a folder; none, where there is no such folder."""
        files, place = self._at(path)
        return [each.getPath().getName() for each in files.listStatus(place)] if files.exists(place) else []

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

    def _at(self, path: str) -> tuple[Any, Any]:
        place = self._jvm.org.apache.hadoop.fs.Path(path)
        return place.getFileSystem(self._settings), place

    @property
    def _jvm(self) -> Any:
        found = getattr(self.spark, "_jvm", None)
        if found is None:
            raise ConfigError(
                "A topology cannot be changed over Spark Connect: files of the checkpoint are out of reach.",
                hint="Start it once, with evolve=True, in a session on the driver.",
            )
        return found

    @property
    def _settings(self) -> Any:
        state: Any = self.spark
        return state._jsc.hadoopConfiguration()
