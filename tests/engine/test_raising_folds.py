"""Folds whose functions raise, where that is outlived: the oracle without what such records would have changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millpond._engine.aggregates import contributions
from millpond._engine.expressions.errors import EvaluationError
from millpond.aggregates import python
from millpond.testing.proof.arrow import arrow_builder
from millpond.testing.proof.engine import EngineDriver
from millpond.testing.proof.oracle import Semantics, Topology
from millpond.testing.proof.oracle.graph import Node
from millpond.testing.proof.oracle.records import Windowed
from millpond.testing.proof.oracle.topologies import window_aggregate
from millpond.testing.proof.oracle.windows.aggregate import StreamAggregate
from millpond.testing.proof.oracle.windows.aggregation import Aggregator
from millpond.testing.proof.runners.library import as_written
from millpond.windows import EmitStrategy, SessionWindows, SlidingWindows, TimeWindows
from tests.engine.kit import by_step

KEYS = st.sampled_from(["a", "b"])
VALUES = st.sampled_from(["1", "2", "3", "4", "5"])
STEPS = st.lists(st.tuples(st.just("in"), KEYS, VALUES, st.integers(0, 40)), max_size=30)
CUTS = st.frozensets(st.integers(0, 30))
WINDOWS: dict[str, Any] = {
    "none": (None, {}),
    "tumbling": (TimeWindows(10, 10, 5), {"window": "tumbling", "size_ms": 10, "grace_ms": 5}),
    "hopping": (TimeWindows(10, 3, 6), {"window": "hopping", "size_ms": 10, "advance_ms": 3, "grace_ms": 6}),
    "sliding": (SlidingWindows(7, 3), {"window": "sliding", "difference_ms": 7, "grace_ms": 3}),
    "session": (SessionWindows(4, 6), {"window": "session", "gap_ms": 4, "grace_ms": 6}),
}


def added(aggregate: Any, value: Any) -> Any:
    """Raises for a value at all times, and for others by what there is; two in a row vanish together."""
    if value == "1" or (value == "2" and aggregate[-1] in "34") or (value == "3" and len(aggregate) % 4 == 1):
        raise ValueError(value)
    return None if aggregate[-1] == value == "5" else aggregate + value


def merged(one: Any, other: Any) -> Any:
    if one[-1] == "4" and other[-1] == "5":
        raise ValueError(other)
    return f"{one}&{other}"


FOLD = Aggregator(lambda: "0", added, merge=merged)


def of_arrays(function: Callable[..., Any]) -> Any:
    """The function of arrays, a row each."""

    def called(one: pa.Array, other: pa.Array) -> pa.Array:
        try:
            return pa.array([function(*row) for row in zip(other.to_pylist(), one.to_pylist(), strict=True)], "string")
        except ValueError as error:
            raise EvaluationError("TOLD", str(error)) from None

    return called


def folded(grouped: Any, form: str) -> Any:
    plain, sessions = form == "plain", type(grouped).__name__ == "SessionWindowedKStream"
    add, merge = of_arrays(added), of_arrays(merged)
    steps: list[Any] = [python(lambda value, aggregate: added(aggregate, value)) if plain else lambda v, a: add(v, a)]
    if sessions:
        steps.append(python(merged) if form in ("plain", "both") else lambda one, other: merge(other, one))
    return grouped.aggregate(FOLD.initial, *steps)


def told_by_oracle(windows: str, steps: Any, *, on_close: bool) -> tuple[list[Any], int]:
    """(the results of each step, how many records end): a record moves time, and is as if it had not come."""
    topology = Topology(Semantics(faithful=False))
    source = Node()
    topology.source("in", source)
    params = WINDOWS[windows][1] | ({"emit": "close"} if on_close else {})
    node: Any = window_aggregate(topology, source, params, FOLD) if params else StreamAggregate(topology, source, FOLD)
    topology.sink(node)
    said, ended = [], 0
    for step in steps:
        try:
            deepcopy(topology).pipe(*step)
        except ValueError:
            ended += 1
            if windows != "none":
                node.aggregate = lambda _: True
                said.append(topology.pipe(*step))
                del node.aggregate
            else:
                said.append([])
        else:
            said.append(topology.pipe(*step))
    return [[(r.key, r.value, r.ts) for r in results] for results in said], ended


def driver_of(windows: str, form: str, *, on_close: bool = False, on_error: Any = "skip", shards: int = 2) -> Any:
    builder = arrow_builder("test", on_error=on_error)
    grouped: Any = builder.stream("in", key="string", value="string").group_by_key()
    if windows != "none":
        grouped = grouped.windowed_by(WINDOWS[windows][0])
        grouped = grouped.emit_strategy(EmitStrategy(on_close))
    as_written(folded(grouped, form)).to("out")
    return EngineDriver(builder.build(), shards=shards)


def under_windows(rows: Any) -> Any:
    return [[(Windowed(**k) if isinstance(k, dict) else k, value, ts) for k, value, ts in step] for step in rows]


@settings(max_examples=15, deadline=None)
@given(
    steps=STEPS,
    cuts=CUTS,
    shards=st.sampled_from([1, 3]),
    windows=st.sampled_from(sorted(WINDOWS)),
    form=st.sampled_from(["plain", "columns", "both"]),
    on_close=st.booleans(),
    stretch=st.sampled_from([3, contributions.MOST_ROWS]),
)
def test_a_record_for_which_a_fold_raises_is_as_if_it_had_not_come_whatever_the_batches(
    steps: Any, cuts: Any, shards: int, windows: str, form: str, on_close: bool, stretch: int
) -> None:
    on_close = on_close and windows != "none"
    expected, ended = told_by_oracle(windows, steps, on_close=on_close)
    driver = driver_of(windows, form, on_close=on_close, shards=shards)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contributions, "MOST_ROWS", stretch)
        assert under_windows(by_step(driver, steps, cuts)) == expected
    drops = Counter({reason: count for (_, reason), count in driver.drops.items()})
    assert drops["function_error"] == ended
