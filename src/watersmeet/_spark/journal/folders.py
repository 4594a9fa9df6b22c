"""Where the journal lies, and which of its batches count."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from watersmeet._spark.checkpoint.files import Folder

WHOLE = "whole.json"
"""The file that says that a batch is there as a whole, and since when."""


def folder_of(place: Folder) -> Path | None:
    """The journal's folder, if it is on a disk of this machine; it need not be there.

    Parameters
    ----------
    place : where Spark's logs lie.
    """
    here = place.here()
    return None if here is None else here.absolute() / "journal"


def folders(journal: Path) -> list[tuple[int, Path]]:
    """The folders of batches, in order of their numbers, those that do not count among them."""
    found = [(int(each.name), each) for each in journal.glob("[0-9]*") if each.name.isdecimal()]
    return sorted(found)


def remove(folder: Path) -> None:
    """Remove a batch: it does not count any more before the first of its files is gone."""
    (folder / WHOLE).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def ended_ms(folder: Path) -> int | None:
    """When a batch was written, in ms since 1970; None: it is not there as a whole."""
    try:
        return int(json.loads((folder / WHOLE).read_text(encoding="utf-8"))["ended_ms"])
    except (OSError, ValueError, LookupError, TypeError):
        return None
