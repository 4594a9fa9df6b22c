"""Spark's own logs of a checkpoint, looked at before a start: what Spark would take for granted.

A batch N is planned in offsets/N, leaves state of version N + 1, and is done when commits/N is there. Spark
reads the last two plans and the last commit, and believes them: where the plans are older than the commits or
the state, it would plan batches anew that a sink has, or begin at 0 upon old state.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any

from watersmeet._spark.checkpoint.folders import RESTORE, Folder, foreign
from watersmeet.errors import CorruptData

NO_BATCH = -1
"""Where there is no batch."""
_NO_CHANGES = 128
"""A file of so many bytes or fewer has no changes: those come with a manifest and its checksum."""
_FILES = (
    *("metadata", "offsets/[0-9]*", "commits/[0-9]*"),
    *("state/[0-9]*/_metadata/v2/[0-9]*", "state/[0-9]*/_stateSchema/*/[0-9]*"),
)
_PLACE = re.compile(r"/(?P<log>offsets|commits|state/\d+/_metadata/v2)/(?P<number>\d+)$")


def checked_last_batch(checkpoint: Folder, groups: int, *, patterns: bool = False) -> int:
    """Number of the last batch with a plan in the checkpoint; -1: none.

    Parameters
    ----------
    groups : how many groups of levels keep state.
    patterns : whether topics are read by patterns of their names: then one that has vanished is no damage.
    """
    # the state first: if a query runs upon it after all, the plans are the newer ones
    state = max((int(name.split(".")[0].split("_")[0]) for name in _state(checkpoint)), default=0)
    files = checkpoint.contents(*_FILES)
    logs = _by_log(files)
    planned, done = (max(logs.get(name, ()), default=NO_BATCH) for name in ("offsets", "commits"))
    if done > planned or state > planned + 1:
        later = f"commits/{done}" if done > planned else f"state of version {state}"
        plan = "missing" if planned == NO_BATCH else planned
        raise _unfit(checkpoint, f"{later}, but the last plan is {plan}")
    _check_changes(checkpoint)
    count = sum(log.startswith("state/") for log in logs)
    if done != NO_BATCH and count < groups:
        raise _unfit(checkpoint, f"batches, but of {groups} groups of levels only {count} have state")
    if planned != NO_BATCH:
        _check_metadata(checkpoint, files)
        with foreign(f"{checkpoint}/offsets/{planned}"):
            _check_plans(checkpoint, logs["offsets"], planned, vanish=patterns)
    for log, batches in logs.items():
        if log != "offsets":
            with foreign(f"{checkpoint}/{log}/{max(batches)}"):
                _check_schemas(checkpoint, _entries(checkpoint, log, batches, max(batches)), files)
    return planned


def last_planned_batch(checkpoint: Folder) -> int:
    """Number of the last batch that is planned, read from the names of files alone; -1: none."""
    return max(map(int, checkpoint.names("offsets/[0-9]*")), default=NO_BATCH)


def last_committed_batch(checkpoint: Folder) -> int:
    """Number of the last batch that is committed; -1: none."""
    return max(map(int, checkpoint.names("commits/[0-9]*")), default=NO_BATCH)


def is_committed(checkpoint: Folder, batch: int) -> bool:
    """Whether a batch is, by one look at one file."""
    return bool(checkpoint.text(f"commits/{batch}"))


def reads_nothing(checkpoint: Folder, batch: int) -> bool:
    """Whether a batch is planned to end where the one before it has: a start plans such a one (`MachineLease.seal`)."""
    last, before = (checkpoint.text(f"offsets/{number}").split("\n")[2:] for number in (batch, batch - 1))
    return last == before


def committed_ends(checkpoint: Folder) -> list[Any]:
    """Where each source was at the end of the last batch that was committed, None where it was nowhere yet.

    Before the first commit there are none. The sources are in the order in which the query has them.
    """
    done = last_committed_batch(checkpoint)
    if done == NO_BATCH:
        return []
    _, *ends = _entries(checkpoint, "offsets", {done: checkpoint.read(f"offsets/{done}") or b""}, done)
    return [None if end == "-" else end for end in ends]


def _by_log(files: dict[str, bytes]) -> dict[str, dict[int, bytes]]:
    """By log, and in it by number."""
    logs: dict[str, dict[int, bytes]] = {}
    for path, content in files.items():  # a dict of dicts
        place = _PLACE.search(path)
        if place is not None:
            logs.setdefault(place["log"], {})[int(place["number"])] = content
    return logs


def _state(checkpoint: Folder) -> list[str]:
    """The first shard's versions: all shards get theirs with each batch."""
    return checkpoint.names("state/0/0/[0-9]*.*")


def _check_changes(checkpoint: Folder) -> None:
    """No changes of a level's state lie under two names: each has its labels, and the numbers of their commits."""
    local, alike = checkpoint.local_path(), defaultdict(list)
    for file in () if local is None else local.glob("state/[0-9]*/[0-9]*/[0-9]*.changelog"):
        alike[file.parts[-3], file.stat().st_size].append(file)
    for (_, size), files in alike.items():
        names: dict[bytes, Path] = {}
        for file in files if size > _NO_CHANGES else ():
            twin = names.setdefault(hashlib.blake2b(file.read_bytes()).digest(), file)
            if twin is not file:
                raise CorruptData(
                    "Two files of the state have the same content: one lies in the place of another.",
                    given=f"{twin}, {file}",
                    hint=RESTORE,
                )


def _check_metadata(checkpoint: Folder, files: dict[str, bytes]) -> None:
    content = next((content for path, content in files.items() if path.endswith("/metadata")), None)
    if content is None:
        raise _unfit(checkpoint, "batches, but no file metadata")
    try:
        fine = bool(json.loads(content)["id"])
    except (ValueError, KeyError, TypeError, RecursionError):
        fine = False
    if not fine:
        raise _broken(f"{checkpoint}/metadata")


def _check_schemas(checkpoint: Folder, entries: list[Any], files: dict[str, bytes]) -> None:
    """The files that the state's metadata names exist; Spark's own error for an empty one has no reason."""
    stores = entries[0].get("stateStoreInfo", ())
    paths = [path for store in stores for path in store.get("stateSchemaFilePaths", ())]
    for name in ("/".join(path.split("/")[-5:]) for path in paths):  # state/K/_stateSchema/store/file
        content = next((content for path, content in files.items() if path.endswith(name)), None)
        if content is None:
            raise _unfit(checkpoint, f"state, but no {name}")
        if not content:
            raise _broken(f"{checkpoint}/{name}")


def _check_plans(checkpoint: Folder, plans: dict[int, bytes], planned: int, *, vanish: bool) -> None:
    """The last two plans can be read, and the last one goes on where the one before it ended."""
    previous: list[Any] | None = None
    for number in (planned - 1, planned):  # the two plans that Spark reads
        if number < 0:
            continue
        if number not in plans:
            raise _unfit(checkpoint, f"offsets/{planned}, but not offsets/{number}")
        _, *ends = _entries(checkpoint, "offsets", plans, number)
        goes_back = partial(_goes_back, vanish=vanish)
        if previous is not None and (len(previous) != len(ends) or any(map(goes_back, previous, ends))):
            raise _unfit(checkpoint, f"offsets/{number} ends before offsets/{number - 1}")
        previous = ends


def _entries(checkpoint: Folder, log: str, files: dict[int, bytes], number: int) -> list[Any]:
    """The lines of a log file behind its version: an object, and for each source what Spark keeps of it."""
    version, *lines = files[number].decode("utf-8", "replace").split("\n")
    try:
        entries = [json.loads(line) if line.startswith(("{", "[")) or line.isdecimal() else line for line in lines]
    except (ValueError, RecursionError):
        entries = []
    if not re.fullmatch(r"v\d+", version) or not entries or not isinstance(entries[0], dict):
        raise _broken(f"{checkpoint}/{log}/{number}")
    return entries


def _goes_back(previous: Any, end: Any, *, vanish: bool) -> bool:
    """Whether a source's end lies before its last one, for the sources with ends that never fall.

    `vanish`: whether topics of Kafka's may be gone.
    """
    if vanish and isinstance(previous, dict) and isinstance(end, dict):
        previous = {name: of for name, of in previous.items() if name in end or not isinstance(of, dict)}
    old, new = _numbers(previous), _numbers(end)
    return any(name not in new or new[name] < number for name, number in old.items()) if new else False


def _numbers(end: Any) -> dict[str, int]:
    """The numbers of an end: ticks of a clock, files, or Kafka's offsets; none for any other source."""
    if isinstance(end, int):
        return {"": end}
    if not isinstance(end, dict):
        return {}
    if set(end) == {"logOffset"}:
        return {"logOffset": int(end["logOffset"])}
    parts = {f"{topic}-{n}": offset for topic, of in end.items() if isinstance(of, dict) for n, offset in of.items()}
    return parts if all(isinstance(of, dict) and all(map(str.isdecimal, of)) for of in end.values()) else {}


def _broken(path: str) -> CorruptData:
    return CorruptData("A file of the checkpoint was altered or cut off.", given=path, hint=RESTORE)


def _unfit(checkpoint: Folder, problem: str) -> CorruptData:
    return CorruptData(
        "Files of the checkpoint are missing: the remaining ones do not fit together.",
        given=f"{checkpoint}: {problem}",
        hint=RESTORE,
    )
