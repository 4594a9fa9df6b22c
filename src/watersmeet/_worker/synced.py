"""Files and folders that must outlive a loss of power: written through to the disk."""

from __future__ import annotations

import os
from pathlib import Path


def sync(path: Path) -> None:
    """Return when the disk has what a file holds, or which names a folder has.

    Raises
    ------
    OSError : the disk has not taken it.
    """
    if os.name == "nt" and path.is_dir():
        # Windows opens no folders
        return
    place = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(place)
    finally:
        os.close(place)
