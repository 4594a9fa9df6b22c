"""A note on disk of the record that each process is decoding: the note of a dead process shows where it died.

A process has one file, named by it, with what it is decoding at this moment, and nothing in between; so a note costs
two writes of some bytes. Processes end for many reasons while they decode. A note is no proof: who finds one decodes
those records more carefully, and nothing else follows from it.
"""

from __future__ import annotations

import faulthandler
import getpass
import hashlib
import json
import os
import signal
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from watersmeet._engine.state.cache import own_folder
from watersmeet._worker.formats.serdes import (
    BooleanSerde,
    BytesSerde,
    DecimalSerde,
    Decoded,
    NumberSerde,
    Serde,
    TextSerde,
    UuidSerde,
)
from watersmeet._worker.process import attempt_id, tried_before
from watersmeet.errors import ConfigError, WatersmeetError

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
    return [note for note in noted if note is not None]


def overlap(note: Note, subject: str, spans: Spans) -> bool:
    shared = note[1].keys() & spans.keys() if note[0] == subject else ()
    return any(note[1][n][0] <= spans[n][1] and spans[n][0] <= note[1][n][1] for n in shared)


@contextmanager
def decoding(subject: str, spans: Spans) -> Iterator[None]:
    """Note that this process decodes these records, until it has."""
    file = _own_file(os.getpid())
    if file is None:
        yield
        return
    _write(file, json.dumps({"what": subject, "spans": {str(n): span for n, span in spans.items()}}))
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
        body = json.loads(text)
        return str(body["what"]), {int(n): (int(first), int(last)) for n, (first, last) in body["spans"].items()}
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


# Records that may end the process, tried in a process of their own: which of them do is found by halving.
#
# A forked process decodes a part and ends. Where it ends by a signal that only its own code can have raised, the part
# is halved; a single record has to do so twice.

FAULTS = frozenset({signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGABRT, signal.SIGFPE})
"""What comes from outside, such as SIGKILL when a machine lacks memory, says nothing of a record."""
_TIMES = 2
_SECONDS = 600.0
"""A process that has not ended by then is ended, and has told nothing."""
_TURN = 0.005


@dataclass(frozen=True)
class TrialPart:
    """Records one after the other."""

    # start, end: the first, and the one behind the last
    start: int
    end: int
    # the signal by which the one record ends a process; None: they have been decoded without
    killed_by: int | None = None


def parts(decode: Callable[[pa.Array], object], raw: pa.Array) -> list[TrialPart]:
    """The records in parts that can be decoded together, and each of those that cannot be decoded at all.

    Parameters
    ----------
    decode : is called in other processes.
    """
    return list(_parts(decode, raw, 0, len(raw)))


def _parts(decode: Callable[[pa.Array], object], raw: pa.Array, start: int, end: int) -> Iterator[TrialPart]:
    ended_by = _tried(decode, raw[start:end])
    if end - start > 1 and ended_by is not None:
        middle = (start + end) // 2
        yield from _parts(decode, raw, start, middle)
        yield from _parts(decode, raw, middle, end)
        return
    again = (_tried(decode, raw[start:end]) for _ in range(_TIMES - 1))
    yield TrialPart(
        start, end, ended_by if ended_by is not None and all(number in FAULTS for number in again) else None
    )


def _tried(decode: Callable[[pa.Array], object], raw: pa.Array) -> int | None:
    """The signal by which a process ended that decoded these; None: it did not, or not by one of `FAULTS`."""
    with warnings.catch_warnings():
        # Arrow's threads are not in the forked one, and nothing there waits for them
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        try:
            # many may end like this, and each would show where
            faulthandler.disable()
            decode(raw)
        finally:
            # whatever was raised is raised once more where it can be handled
            os._exit(0)
    status = _waited_for(child)
    number = os.WTERMSIG(status) if status is not None and os.WIFSIGNALED(status) else None
    return number if number in FAULTS else None


def _waited_for(child: int) -> int | None:
    until = time.monotonic() + _SECONDS
    while time.monotonic() < until:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return status
        time.sleep(_TURN)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


# The net around every decoder: where one raises, all can be read but the records at which it does.
#
# A decoder reports the errors that it knows. This is for unforeseen ones, in our code or a library's: without it, one
# record of a topic ends the query against its policy (law 6).

PASSED_ON = (WatersmeetError, MemoryError, OSError)
"""What says nothing of the bytes: a registry that does not answer, a machine without memory or disk."""
_SHOWN = 200


def read_net(serde: Serde, raw: pa.Array) -> Decoded:
    """The values that a serde reads; bad where it raises for a record alone.

    Parameters
    ----------
    raw : byte strings; a null is a tombstone.
    """
    try:
        return serde.read(raw)
    except PASSED_ON:
        raise
    except Exception:
        if not len(raw) - raw.null_count:
            # it does not even read nothing
            raise
    if len(raw) == 1:
        return Decoded(serde.read(pa.nulls(1, raw.type)).values, np.ones(1, dtype=np.bool_))
    half = len(raw) // 2
    return joined([read_net(serde, raw[:half]), read_net(serde, raw[half:])])


def fault_net(serde: Serde, raw: bytes) -> str:
    """Why bytes are not of the format."""
    try:
        return serde.fault(raw)
    except PASSED_ON:
        raise
    except Exception as error:
        return fallen(error)


def fallen(error: Exception) -> str:
    """The reason for bytes at which a decoder raises."""
    return f"its decoder fails with {type(error).__name__}: {str(error)[:_SHOWN]}"


def joined(parts: Sequence[Decoded]) -> Decoded:
    """The values of several columns of bytes, as of one."""
    ignored, ts = None, None
    if any(part.ignored is not None for part in parts):
        ignored = np.concatenate([_none(part) if part.ignored is None else part.ignored for part in parts])
    if any(part.ts is not None for part in parts):
        ts = pa.concat_arrays([pa.nulls(len(part.bad), pa.int64()) if part.ts is None else part.ts for part in parts])
    values = pa.concat_arrays([part.values for part in parts])
    return Decoded(values, np.concatenate([part.bad for part in parts]), ignored, ts)


def _none(part: Decoded) -> np.ndarray:
    return np.zeros(len(part.bad), dtype=np.bool_)


# How a task decodes: within the net, and carefully where a process has died over the same records before.
#
# A library's code in C may end the process, and no `except` holds that. Spark then tries the task again, or the query
# is started again, and dies at the same record for ever. So a task that is tried again, and one that finds the note of
# a dead process about its records, first tries them in other processes (`_elsewhere`). A record that ends those
# has a reason.

_PLAIN = (BooleanSerde, BytesSerde, DecimalSerde, NumberSerde, TextSerde, UuidSerde)
"""Arrow's kernels over the bytes: there is nothing to look out for."""
_KILLERS: dict[bytes, str] = {}
"""By their digest, why bytes are not decoded that end the process."""


def read_guard(serde: Serde, raw: pa.Array, subject: str = "", frame: pa.Table | None = None) -> Decoded:
    """The values that a serde reads of byte strings; bad where it raises for a record, or ends the process.

    Parameters
    ----------
    subject : names topic and part.
    frame : the records, with partition and offset; None: they have none.
    """
    if frame is None or isinstance(serde, _PLAIN) or not hasattr(os, "fork"):
        return read_net(serde, raw)
    spans = _spans(frame, raw)
    if tried_before() or any(overlap(note, subject, spans) for note in _dead(attempt_id())):
        return _carefully(serde, raw)
    with decoding(subject, spans):
        return read_net(serde, raw)


def fault_guard(serde: Serde, raw: bytes) -> str:
    killed = _KILLERS.get(_digest(raw)) if _KILLERS else None
    return fault_net(serde, raw) if killed is None else killed


@lru_cache(maxsize=1)
def _dead(task: int) -> list[Note]:
    """The notes of processes that ended before this task began."""
    return of_the_dead()


def _spans(frame: pa.Table, raw: pa.Array) -> dict[int, tuple[int, int]]:
    """First and last offset of each partition, of the records that have bytes."""
    valid = raw.is_valid().to_numpy(zero_copy_only=False)
    if not {"partition", "offset"} <= {*frame.column_names}:
        return {}
    partition, offset = (
        frame.column(name).combine_chunks().fill_null(-1).to_numpy(zero_copy_only=False)[valid]
        for name in ("partition", "offset")
    )
    spans = {}
    for number in np.unique(partition).tolist():
        offsets = offset[partition == number]
        spans[number] = int(offsets.min()), int(offsets.max())
    return spans


def _carefully(serde: Serde, raw: pa.Array) -> Decoded:
    pieces = []
    for part in parts(lambda content: _elsewhere(serde, content), raw):
        content = raw[part.start : part.end]
        if part.killed_by is None:
            pieces.append(read_net(serde, content))
            continue
        name = signal.Signals(part.killed_by).name
        _KILLERS[_digest(content[0].as_py())] = f"decoding it ended the process, each time it was tried ({name})"
        pieces.append(Decoded(serde.read(pa.nulls(1, raw.type)).values, np.ones(1, dtype=np.bool_)))
    return pieces[0] if len(pieces) == 1 else joined(pieces)


def _elsewhere(serde: Serde, raw: pa.Array) -> None:
    read_net(serde, raw)


def _digest(raw: bytes) -> bytes:
    return hashlib.blake2b(raw, digest_size=16).digest()
