"""Records, results and keys of the oracle.

Owns the few value types that travel through the graph and the byte order of keys. Law: a record is
immutable, and None is the only absence (a tombstone, a null key).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

Key: TypeAlias = Any
Value: TypeAlias = Any
Joiner: TypeAlias = Callable[[Value, Value], Value]


class Windowed(NamedTuple):
    """The key of a windowed result."""

    key: Key
    start: int
    end: int


class CombinedKey(NamedTuple):
    """The key of a one-to-many result; it is partitioned by its prefix."""

    prefix: Key
    suffix: Key


class Stored(NamedTuple):
    """A value in a store, with its timestamp."""

    value: Value
    ts: int


class StateRow(NamedTuple):
    """What an operator holds: `what` says as what, for a reader."""

    what: str
    key: Key
    value: Value
    ts: int


@dataclass(frozen=True, slots=True)
class Record:
    """A stream record, or a table change when it comes from a table (`value` is new, `old` was before)."""

    key: Key
    value: Value
    ts: int
    old: Value = None
    latest: bool = True


@dataclass(frozen=True, slots=True)
class Result:
    """One record that a topology wrote to a sink."""

    key: Key
    value: Value
    ts: int | None
    sink: str | None = None


def key_bytes(key: Key) -> bytes:
    """The serialized form of a key, which decides the order in every store.

    Text is UTF-8, numbers are big-endian, a time window is its key and its start, a combined
    key the length of its prefix and both parts.
    """
    if isinstance(key, Windowed):
        return key_bytes(key.key) + struct.pack(">q", key.start)
    if isinstance(key, CombinedKey):
        prefix = key_bytes(key.prefix)
        return struct.pack(">i", len(prefix)) + prefix + key_bytes(key.suffix)
    if hasattr(key, "serialized"):
        return bytes(key.serialized)
    if isinstance(key, bool) or not isinstance(key, str | int):
        raise TypeError(f"a key of type {type(key).__name__} has no byte order. Hint: use text or whole numbers")
    if isinstance(key, str):
        return key.encode("utf-8")
    return struct.pack(">i", key) if -(2**31) <= key < 2**31 else struct.pack(">q", key)


def session_bytes(key: Windowed) -> bytes:
    """The serialized form of a session: key, end, start."""
    return key_bytes(key.key) + struct.pack(">qq", key.end, key.start)
