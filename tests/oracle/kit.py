"""Where the recordings lie, and one way to write a small history by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from proof.oracle import Result, Semantics, build
from proof.oracle.records import Windowed

RECORDINGS = Path(__file__).resolve().parents[1] / "recordings"
HISTORIES = sorted((RECORDINGS / "histories").glob("*.jsonl.gz"))
VECTORS = sorted((RECORDINGS / "vectors").glob("*.json.gz"))

Steps = Sequence[tuple[str, str | None, str | None, int]]


def emitted(kind: str, params: Mapping[str, Any], steps: Steps, semantics: Semantics) -> list[list[Result]]:
    """What the oracle emits at each of these (topic, key, value, ts)."""
    topology = build(kind, params, semantics)
    return [topology.pipe(*step) for step in steps]


def window(key: str, start: int, end: int, value: str | None, ts: int) -> Result:
    """A windowed result."""
    return Result(Windowed(key, start, end), value, ts)
