"""Where epochs lie: `watersmeet/epochs` of a checkpoint, on a disk of this machine or wherever Spark reaches."""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from watersmeet._spark.checkpoint.disk import Disk
from watersmeet._worker.synced import sync

FOLDER = "watersmeet/epochs"


@dataclass(frozen=True)
class EpochsHere:
    """Epochs on a disk of this machine, or one that it has mounted, which are made whole and durable.

    Parameters
    ----------
    folder : theirs.
    """

    folder: Path

    def names(self) -> list[str]:
        """See `EpochFiles`."""
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
        """See `EpochFiles`."""
        with suppress(FileNotFoundError):
            return (self.folder / name).read_text(encoding="utf-8")
        return ""

    def remove(self, name: str) -> None:
        """See `EpochFiles`."""
        (self.folder / name).unlink(missing_ok=True)


@dataclass(frozen=True)
class EpochsElsewhere:
    """Epochs on a file system that Spark reaches.

    Parameters
    ----------
    disk : reaches it.
    folder : theirs.
    """

    disk: Disk = field(repr=False)
    folder: str

    def names(self) -> list[str]:
        """See `EpochFiles`."""
        return self.disk.names(self.folder)

    def create(self, name: str, text: str) -> bool:
        """See `EpochFiles`."""
        return self.disk.create(f"{self.folder}/{name}", text)

    def read(self, name: str) -> str:
        """See `EpochFiles`."""
        return self.disk.read(f"{self.folder}/{name}")

    def remove(self, name: str) -> None:
        """See `EpochFiles`."""
        self.disk.remove(f"{self.folder}/{name}")
