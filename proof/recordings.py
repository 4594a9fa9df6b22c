"""Recorded histories of the real Kafka Streams: one shape for every format.

Owns the reading of recordings: histories (`*.jsonl`, `*.jsonl.gz`, one history per line) and vectors
(`*.json`, `*.json.gz`, a list under "vectors"). Law: a file either reads completely or fails with the place
and the reason; nothing in it is skipped.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proof.oracle.records import Key, Result, Value, Windowed

DEFAULT_VERSION = "4.3.0"
VECTOR_VERSION = "4.0.0"


_VECTOR_VERSIONS = {
    "old 0.10.0": "0.10.1.1",
    "0.10.2": "0.10.2.2",
    "spurious 0.10.2": "0.10.2.2",
    "pre-3.5": "3.4.0",
}
_WINDOW_TEXT = re.compile(r"\[?(?P<key>.*)@(?P<start>\d+)/(?P<end>\d+)\]?")


class RecordingError(Exception):
    """A recording cannot be read; the message says where and why."""


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """One input record, or a wall-clock advance, with the results it caused (None when the engine failed)."""

    topic: str | None
    key: Key
    value: Value
    ts: int
    expect: tuple[Result, ...] | None
    advance_ms: int | None = None


@dataclass(frozen=True, slots=True)
class History:
    """A recorded run: what was built (kind, params), which engine ran it, and what each record caused."""

    id: str
    kind: str
    params: Mapping[str, Any]
    semantics: str
    version: str
    steps: tuple[RecordedStep, ...]
    vector: Mapping[str, Any] | None = field(default=None, compare=False)


def topology_key(history: History) -> str:
    """Histories with one key have one topology."""
    if history.vector is not None:
        kinds = {(step.topic, isinstance(step.key, int), isinstance(step.value, int)) for step in history.steps}
        return json.dumps([history.vector, history.version, sorted(map(str, kinds))], sort_keys=True)
    return json.dumps([history.kind, dict(history.params), history.version], sort_keys=True)


def read(path: Path | str) -> list[History]:
    """Read every history of a file, whichever of the formats it has."""
    path = Path(path)
    try:
        data = path.read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        text = data.decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise RecordingError(
            f"{path}: cannot be read: {error}. Hint: give a .jsonl, .jsonl.gz or .json file"
        ) from error
    name = path.name.removesuffix(".gz")
    return list(_vectors(path, text) if name.endswith(".json") else _histories(path, text, _version_of(name)))


def _version_of(name: str) -> str:
    """The version in a name like fk_join.4.0.0.jsonl, else the current one."""
    parts = name.removesuffix(".jsonl").split(".")[1:]
    return ".".join(parts) if parts and all(part.isdigit() for part in parts) else DEFAULT_VERSION


def _histories(path: Path, text: str, version: str) -> Iterator[History]:
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        place = f"{path}: line {number}"
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise RecordingError(f"{place}: not JSON: {error}. Hint: one history per line") from error
        yield _history(place, row, version)


def _history(place: str, row: Any, version: str) -> History:
    try:
        return History(
            id=str(row["id"]),
            kind=str(row["kind"]),
            params=dict(row["params"]),
            semantics=str(row.get("semantics") or "current"),
            version=str(row.get("kafka_version") or version),
            steps=tuple(_step(step, "topic") for step in row["steps"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _malformed(place, error, "a history needs id, kind, params and steps") from error


def _vectors(path: Path, text: str) -> Iterator[History]:
    try:
        rows = json.loads(text)["vectors"]
    except json.JSONDecodeError as error:
        raise RecordingError(f"{path}: not JSON: {error}. Hint: a vector file is one JSON document") from error
    except (KeyError, TypeError) as error:
        raise _malformed(str(path), error, 'a vector file has a list under "vectors"') from error
    for number, row in enumerate(rows):
        place = f"{path}: vector {number}"
        try:
            yield History(
                id=str(row["name"]),
                kind=f"vector:{row['operator']}",
                params=dict(row.get("params") or {}),
                semantics=str(row.get("semantics") or "current"),
                version=_vector_version(row),
                steps=tuple(_step(step, "side") for step in row.get("steps", ())),
                vector=_vector(row),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise _malformed(place, error, "a vector needs name, operator and steps") from error


def _vector(row: Mapping[str, Any]) -> dict[str, Any]:
    """What a topology can be built from: all but the steps, with the inputs and what was observed."""
    steps = row.get("steps", ())
    results = [result for step in steps for result in step.get("expect") or ()]
    vector = {name: value for name, value in row.items() if name != "steps"}
    vector["inputs"] = sorted({str(step["side"]) for step in steps if step.get("side")})
    vector["observes_changes"] = any(
        isinstance(result["value"], dict) and result["value"].keys() == {"new", "old"} for result in results
    )
    vector["emits_text"] = any(isinstance(result["value"], str) for result in results)
    changes = [result["value"] for result in results if isinstance(result["value"], dict)]
    vector["observes_old"] = any(change.get("old") is not None for change in changes)
    values = [value.get("new") if isinstance(value, dict) else value for value in (r["value"] for r in results)]
    vector["emitted"] = [value for value in values if value is not None]
    vector["records_nothing"] = not results and any(step.get("key") is not None for step in steps)
    return vector


def _vector_version(row: Mapping[str, Any]) -> str:
    """The engine a vector describes: that of the snapshot, or the one its document speaks of."""
    semantics = str(row.get("semantics") or "current")
    for start, version in _VECTOR_VERSIONS.items():
        if semantics.startswith(start):
            return version
    return DEFAULT_VERSION if str(row.get("source_class")).startswith("seed:") else VECTOR_VERSION


def _malformed(place: str, error: Exception, hint: str) -> RecordingError:
    what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
    return RecordingError(f"{place}: not a recording: {what}. Hint: {hint}")


def _step(row: Mapping[str, Any], topic: str) -> RecordedStep:
    """A step; `topic` is the field that names its input: histories use topics, vectors sides."""
    expect = row.get("expect", ())
    results = None if expect is None else tuple(_result(result, window_text=topic == "side") for result in expect)
    if "advance_wall_clock_ms" in row:
        return RecordedStep(None, None, None, 0, results, advance_ms=int(row["advance_wall_clock_ms"]))
    return RecordedStep(
        str(row[topic] if row.get(topic) else row["topic"]),
        _key(row["key"]),
        _frozen(row["value"]),
        int(row["ts"]),
        results,
    )


def _result(row: Mapping[str, Any], *, window_text: bool) -> Result:
    ts = row["ts"]
    return Result(
        _key(row["key"], window_text=window_text),
        _frozen(row["value"]),
        None if ts is None else int(ts),
        row.get("sink"),
    )


def _key(key: Any, *, window_text: bool = False) -> Key:
    if isinstance(key, dict) and key.keys() == {"key", "start", "end"}:
        return Windowed(key["key"], key["start"], key["end"])
    window = _WINDOW_TEXT.fullmatch(key) if isinstance(key, str) else None
    if window is not None and window_text:
        return Windowed(window["key"], int(window["start"]), int(window["end"]))
    return _frozen(key)


def _frozen(value: Any) -> Value:
    """Compound values become sorted pairs, so that they compare and hash."""
    if isinstance(value, dict):
        return tuple(sorted((name, _frozen(part)) for name, part in value.items()))
    if isinstance(value, list):
        return tuple(_frozen(part) for part in value)
    return value
