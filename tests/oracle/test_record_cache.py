"""The record cache (row 12): off it emits every change, on it emits what stands at each commit."""

from __future__ import annotations

from proof.oracle import Result, Semantics
from tests.oracle.kit import emitted

CACHED = {"cache_max_bytes": 1000}


def test_a_cached_table_hides_the_tombstone_of_a_row_that_never_was() -> None:
    params = {"input_materialized": True, "ops": []}
    steps = [("input", "k", None, 1), ("input", "k", "a", 2), ("input", "k", None, 3)]
    uncached = emitted("table_ops", params, steps, Semantics())
    assert uncached == [[Result("k", None, 1)], [Result("k", "a", 2)], [Result("k", None, 3)]]
    cached = emitted("table_ops", {**params, **CACHED}, steps, Semantics())
    assert cached == [[], [Result("k", "a", 2)], [Result("k", None, 3)]]


def test_a_cached_window_is_emitted_once_per_record() -> None:
    params = {"window": "sliding", "difference_ms": 10, "grace_ms": 100, "agg": "log"}
    steps = [("input", "k", "a", 95), ("input", "k", "b", 100), ("input", "k", "c", 111)]
    uncached = emitted("windowed_aggregate", params, steps, Semantics())[2]
    cached = emitted("windowed_aggregate", {**params, **CACHED}, steps, Semantics())[2]
    assert len(uncached) == 2
    assert uncached[0].key == uncached[1].key
    assert cached == uncached[1:]
