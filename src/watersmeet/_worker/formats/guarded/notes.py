"""A note on disk of the record that each process is decoding: the note of a dead process shows where it died.

A process has one file, named by it, with what it is decoding at this moment, and nothing in between; so a note costs
two writes of some bytes. Processes end for many reasons while they decode. A note is no proof: who finds one decodes
those records more carefully, and nothing else follows from it.
"""

from __future__ import annotations

import getpass
import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from watersmeet._engine.state.cache import own_folder
from watersmeet.errors import ConfigError

Spans = Mapping[int, tuple[int, int]]
"""By the number of a partition the first and the last offset."""
Note = tuple[str, Spans]
"""Topic and part, and which records of it."""
_KEPT_SECONDS = 7 * 24 * 3600
_FIELD_OF_START = 19
"""Of /proc/PID/stat, counted behind the name in parentheses: when a process began."""


def of_the_dead() -> list[Note]:
    """The notes of this machine's processes that have ended."""
    folder = _folder()
    files = [] if folder is None else sorted(folder.iterdir())
    noted = [_noted(file) for file in files if not _is_alive(file.name)]
    return [each for each in noted if each is not None]


def overlap(note: Note, what: str, spans: Spans) -> bool:
    """Whether a note is of some of these records."""
    both = note[1].keys() & spans.keys() if note[0] == what else ()
    return any(note[1][n][0] <= spans[n][1] and spans[n][0] <= note[1][n][1] for n in both)


@contextmanager
def decoding(what: str, spans: Spans) -> Iterator[None]:
    """Note that this process decodes these records, until it has."""
    file = _own_file(os.getpid())
    if file is None:
        yield
        return
    _write(file, json.dumps({"what": what, "spans": {str(n): span for n, span in spans.items()}}))
    try:
        yield
    finally:
        _write(file, "")


def _write(file: int, text: str) -> None:
    try:
        # a note that is cut off is none
        os.ftruncate(file, 0)
        os.pwrite(file, text.encode(), 0)
    except OSError:
        # a full disk: the note is for the worst case, and no reason to fail
        return


def _noted(file: Path) -> Note | None:
    try:
        age, text = time.time() - file.stat().st_mtime, file.read_text()
        if age > _KEPT_SECONDS or not text:
            file.unlink(missing_ok=True)
            return None
        given = json.loads(text)
        return str(given["what"]), {int(n): (int(first), int(last)) for n, (first, last) in given["spans"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


@cache
def _own_file(process: int) -> int | None:
    """This process's file, open; by its number, since one that is forked has another."""
    folder = _folder()
    try:
        return (
            None if folder is None else os.open(folder / _name(process), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        )
    except OSError:
        return None


@cache
def _folder() -> Path | None:
    user = os.getuid() if hasattr(os, "getuid") else getpass.getuser()
    try:
        return own_folder(os.path.join(tempfile.gettempdir(), f"watersmeet-{user}-decoding"))
    except (OSError, ConfigError):
        return None


def _name(process: int) -> str:
    return f"{process}-{_began(process)}"


def _began(process: int) -> str:
    """When a process began, as its system counts; empty where the system does not say."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[_FIELD_OF_START]
    except (OSError, IndexError):
        return ""


def _is_alive(name: str) -> bool:
    number = name.partition("-")[0]
    if not number.isdigit():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return _name(int(number)) == name
