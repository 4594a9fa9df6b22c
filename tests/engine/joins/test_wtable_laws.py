"""The laws of joins with tables by key and window (docs/semantics/wtable.md), tried on random records and batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proof.arrow import arrow_builder
from proof.engine import EngineDriver
from proof.oracle import Semantics, Topology
from proof.oracle.functions import named_window, plus
from proof.oracle.graph import Node
from proof.oracle.tables.table import TableSource
from proof.oracle.windows.aggregation import Aggregator
from proof.oracle.windows.window_time import TimeWindowAggregate
from proof.oracle.windows.window_time import TimeWindows as OracleWindows
from proof.oracle.windows.windowed import Emission
from proof.oracle.windows.wtable import Window, WindowedSide
from proof.oracle.windows.wtable_joins import TableWTableJoin, WTableTableJoin
from proof.runners.library import as_written
from tests.engine.kit import LIBRARY, PLUS, by_step, run
from tests.lengths import examples
from watersmeet.aggregates.user_defined import python
from watersmeet.windows import TimeWindows, previous

WINDOW = "struct<start:bigint,end:bigint>"
SIZE = 10
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["left", "right"]),
        st.sampled_from(["a", "b"]),
        st.sampled_from(["0|x", "10|y", "20|z", "-", None]),
        st.integers(0, 39),
    ),
    max_size=16,
)
CUTS = st.sets(st.integers(0, 15), max_size=3)
SHARDS = st.sampled_from([1, 2, 5])
METHODS = {"inner": "join", "left": "left_join", "outer": "outer_join"}
Rows = Mapping[Any, Any]
Build = Callable[[Any], Any]


def source(builder: Any, name: str, shape: str, grace: int = 1_000) -> Any:
    """An input as a table by key, or the last value of each of its keys and windows."""
    if shape == "table":
        return builder.table(name, key="string", value="string")
    grouped = builder.stream(name, key="string", value="string").group_by_key()
    return grouped.windowed_by(TimeWindows(SIZE, SIZE, grace)).reduce(python(lambda _, value: value))


def named(value: str) -> dict[str, int] | None:
    found = named_window(value, SIZE)
    return None if found is None else {"start": found[0], "end": found[1]}


def joined(shapes: tuple[str, str], how: str, **options: Any) -> Build:
    """The join of two inputs."""

    def build(builder: Any) -> Any:
        left, right = (source(builder, name, shape) for name, shape in zip(("left", "right"), shapes, strict=True))
        return getattr(left, METHODS[how])(right, PLUS, keep="1 day", **options)

    return build


def said(build: Build, steps: Any, cuts: set[int], shards: int) -> list[Any]:
    builder = arrow_builder("laws")
    as_written(build(builder)).to("out")
    return by_step(EngineDriver(builder.build(), shards=shards), steps, cuts)


def standing(build: Build, steps: Any, cuts: set[int], shards: int) -> Rows:
    """What stands behind all steps: the changes, materialized."""
    rows: dict[Any, Any] = {}
    for key, value, _ in [result for results in said(build, steps, cuts, shards) for result in results]:
        rows[tuple(key.values()) if isinstance(key, dict) else key] = value
    return {key: value for key, value in rows.items() if value is not None}


Meets = Callable[[Any, Any], Any]


def by_rows(left: Rows, right: Rows, how: str, meets: Meets) -> Rows:
    """The join of two tables as they stand; `meets` gives the right key of a left row."""
    found = {key: meets(key, value) for key, value in left.items()}
    keys = [key for key in left if how != "inner" or found[key] in right]
    rows = {key: plus(left[key], right.get(found[key])) for key in keys}
    if how == "outer":
        rows |= {key: plus(None, value) for key, value in right.items() if key not in left}
    return rows


def earlier(key: Any, _: Any) -> Any:
    return key[0], key[1] - SIZE, key[2] - SIZE


def pointed(key: Any, value: Any) -> Any:
    found = named_window(value, SIZE)
    return None if found is None else (key, *found)


WINDOW_OF = {"window_of": LIBRARY.lift(named, WINDOW)}
JOINS: dict[str, tuple[tuple[str, str], tuple[str, ...], Mapping[str, Any], Meets]] = {
    "table_wtable": (("table", "windows"), ("inner", "left"), WINDOW_OF, pointed),
    "wtable_table": (("windows", "table"), ("inner", "left"), {}, lambda key, _: key[0]),
    "wtable_wtable": (("windows", "windows"), ("inner", "left", "outer"), {}, lambda key, _: key),
    "shifted": (("windows", "windows"), ("inner", "left"), {"shift": previous(1)}, earlier),
}


@settings(deadline=None, max_examples=examples(60))
@given(data=st.data(), steps=STEPS, cuts=CUTS, shards=SHARDS)
def test_the_join_materialized_is_the_join_of_what_is_materialized(
    data: st.DataObject, steps: Any, cuts: set[int], shards: int
) -> None:
    shapes, hows, options, meets = JOINS[data.draw(st.sampled_from(sorted(JOINS)))]
    how = data.draw(st.sampled_from(hows))

    def alone(name: str, shape: str) -> Build:
        def build(builder: Any) -> Any:
            for each in ("left", "right"):
                if each != name:
                    builder.stream(each, key="string", value="string").to("nowhere")
            return source(builder, name, shape)

        return build

    sides = [standing(alone(*each), steps, cuts, shards) for each in zip(("left", "right"), shapes, strict=True)]
    assert standing(joined(shapes, how, **options), steps, cuts, shards) == by_rows(*sides, how, meets)


@settings(deadline=None, max_examples=examples(60))
@given(data=st.data(), steps=STEPS, cuts=CUTS, shards=SHARDS)
def test_a_left_join_is_the_inner_join_and_what_is_unmatched(
    data: st.DataObject, steps: Any, cuts: set[int], shards: int
) -> None:
    shapes, _, options, _ = JOINS[data.draw(st.sampled_from(sorted(JOINS)))]
    inner, left = (standing(joined(shapes, how, **options), steps, cuts, shards) for how in ("inner", "left"))
    assert inner == {key: value for key, value in left.items() if not value.endswith("+null")}


@settings(deadline=None, max_examples=examples(60))
@given(how=st.sampled_from(["inner", "left"]), steps=STEPS, cuts=CUTS, shards=SHARDS)
def test_a_shift_that_leaves_windows_as_they_are_is_none(how: str, steps: Any, cuts: set[int], shards: int) -> None:
    def same(window: pa.Array) -> pa.Array:
        return window

    both = ("windows", "windows")
    plain = said(joined(both, how), steps, cuts, shards)
    assert said(joined(both, how, shift=same), steps, cuts, shards) == plain


def pointing(_: Any, value: Any) -> Window | None:
    found = named_window(value, SIZE)
    return None if found is None else Window(*found)


@settings(deadline=None, max_examples=examples(60))
@given(kind=st.sampled_from(["table_wtable", "wtable_table"]), steps=STEPS, cuts=CUTS, shards=SHARDS)
def test_what_is_not_the_latest_of_a_versioned_table_joins_no_windows(
    kind: str, steps: Any, cuts: set[int], shards: int
) -> None:
    shapes, _, options, _ = JOINS[kind]
    topology = Topology(Semantics(faithful=False))

    def side(name: str, shape: str) -> Any:
        node: Any = TableSource(topology, history_ms=20) if shape == "table" else Node()
        topology.source(name, node)
        if shape == "table":
            return node
        windows = OracleWindows(SIZE, SIZE, 1_000)
        aggregate = TimeWindowAggregate(topology, node, Aggregator(None, lambda _, value: value), windows, Emission())
        return WindowedSide(aggregate, aggregate.wait_ms())

    left, right = (side(*each) for each in zip(("left", "right"), shapes, strict=True))

    if kind == "table_wtable":
        topology.sink(TableWTableJoin(topology, left, right, "left", pointing, plus))
    else:
        topology.sink(WTableTableJoin(topology, left, right, "left", plus))

    def build(builder: Any) -> Any:
        made = [
            builder.table(name, key="string", value="string", history="20 ms")
            if shape == "table"
            else source(builder, name, shape)
            for name, shape in zip(("left", "right"), shapes, strict=True)
        ]
        return made[0].left_join(made[1], PLUS, keep="1 day", **options)

    expected = [[(r.key, r.value, r.ts) for r in topology.pipe(*step)] for step in steps]
    got = [
        [(tuple(key.values()) if isinstance(key, dict) else key, value, ts) for key, value, ts in results]
        for results in said(build, steps, cuts, shards)
    ]
    assert got == expected


def mixed(builder: Any) -> Any:
    """A chain of joins whose windows are soon gone."""
    left = source(builder, "left", "windows", grace=3)
    joined = left.left_join(source(builder, "right", "table"), PLUS, keep="20 ms")
    return joined.left_join(left, PLUS, shift=previous(1), keep="20 ms")


DICE = Random(5)
RECORDS = [
    (DICE.choice(["left", "left", "right"]), DICE.choice("ab"), str(number), ts)
    for number, ts in enumerate(sorted(DICE.sample(range(200), 60)))
]


@pytest.mark.parametrize(("size", "shards"), [(1, 3), (7, 1), (60, 2)])
def test_each_partition_lets_windows_go_by_its_own_time(size: int, shards: int) -> None:
    """As a partition alone, however far another one is ahead."""

    def said(leads: dict[int, int], size: int, shards: int) -> dict[int, list[Any]]:
        builder = arrow_builder("test")
        mixed(builder).to_stream().to("out")
        driver = EngineDriver(builder.build(), shards=shards, partitioned=True)
        results: dict[int, list[Any]] = {partition: [] for partition in leads}
        for start in range(0, len(RECORDS), size):
            for partition, lead in leads.items():
                for side, key, value, ts in RECORDS[start : start + size]:
                    driver.pipe(side, f"{partition}{key}", value, ts=ts + lead, partition=partition)
            driver.run_batch()
            for r in driver.read("out"):
                lead = leads[int(r.key["key"][0])]
                row = (r.key["key"][1:], r.key["start"] - lead, r.value, r.ts - lead)
                results[int(r.key["key"][0])].append(row)
        return results

    alone = said({0: 0}, 60, 1)[0]
    assert len(alone) > 60
    assert said({0: 0, 1: 1_000_000}, size, shards) == {0: alone, 1: alone}


def test_with_the_record_cache_above_a_join_the_same_stands() -> None:
    builder = arrow_builder("test")
    mixed(builder).to_stream().to("out")
    topology = builder.build()
    kept = []
    for record_cache in (False, True):
        driver = EngineDriver(topology, record_cache=record_cache)
        results = run(driver, *RECORDS)
        kept.append({(key["key"], key["start"]): value for key, value, _ in results})
    assert kept[0] == kept[1]
