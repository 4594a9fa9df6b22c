"""Tables of a changed topology that are computed anew: only rows that differ go out."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from tests.spark.changes.views import (
    Definition,
    Table,
    contents,
    counts_of,
    random_definition,
    random_rows,
    views,
)
from tests.spark.inputs_and_outputs.test_streaming import Collector, put, reader, run

REPLACE: dict[str, Any] = {"evolve": True, "replace": ["view"]}
OPTIONS: dict[str, Any] = {"key": "k", "value": "v", "timestamp": "ts"}
ANEW = {**{f"view {number}": None for number in range(6)}, "view of loose": "loose"}
"""Views by name, and the kind of those that stay of one kind."""
FEW = ("view 0", "view of loose")


def joined(spark: SparkSession, folder: Path, sink: Any, how: str = "join", joiner: Any = F.concat) -> wm.Topology:
    """A join of two tables with a store."""
    b = wm.StreamsBuilder("replaced")
    left = b.table(reader(spark, folder / "left"), name="left", **OPTIONS)
    right = b.table(reader(spark, folder / "right"), name="right", **OPTIONS)
    view = getattr(left, how)(right, joiner, name="view", store="view")
    view.to_stream(name="rows").to(wm.ForeachBatch(sink), name="out")
    return b.build()


def rows_of(spark: SparkSession, folder: Path, store: str = "view") -> dict[Any, Any]:
    return {row["key"]: row["value"] for row in wm.read_state(spark, folder / "cp", store).collect()}


def test_a_changed_join_gives_only_rows_that_differ_and_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    sink = Collector()
    put(spark, tmp_path / "left", (1, "a", 1), (2, "b", 2), (3, "c", 3), (4, "d", 9))
    put(spark, tmp_path / "right", (1, "x", 4), (2, "y", 5), (3, "z", 1))
    run(joined(spark, tmp_path, sink), spark, tmp_path)
    assert rows_of(spark, tmp_path) == {1: "ax", 2: "by", 3: "cz"}
    seen = len(sink.rows())

    def other(left: Any, right: Any) -> Any:
        return F.when(left == "b", F.lit("B")).otherwise(F.concat(left, F.coalesce(right, F.lit("-"))))

    new = joined(spark, tmp_path, sink, "left_join", other)
    planned = wm.plan_change(tmp_path / "cp", new, replace=["view"])
    assert planned.possible, str(planned)
    assert [item.reason for item in planned.replaced] == ["1 rows added, 1 rows changed, 0 rows removed"]
    assert not list((tmp_path / "cp" / "watersmeet" / "changed").iterdir())
    run(new, spark, tmp_path, **REPLACE)
    assert sorted(row[:2] for row in sink.rows()[seen:]) == [(2, "B"), (4, "d-")]
    assert {row[0]: row[2].microsecond // 1000 for row in sink.rows()[seen:]} == {2: 5, 4: 9}
    # it goes on as any other, and the option that stays in the program does nothing
    put(spark, tmp_path / "right", (4, "w", 20))
    run(new, spark, tmp_path, **REPLACE)
    put(spark, tmp_path / "right", (3, "v", 21))
    run(new, spark, tmp_path)
    assert [row[:2] for row in sink.rows()[seen + 2 :]] == [(4, "dw"), (3, "cv")]
    # and once more, back to where it was
    seen = len(sink.rows())
    run(joined(spark, tmp_path, sink), spark, tmp_path, **REPLACE)
    assert [row[:2] for row in sink.rows()[seen:]] == [(2, "by")]
    assert rows_of(spark, tmp_path) == {1: "ax", 2: "by", 3: "cv", 4: "dw"}


def last_rows(sink: Collector) -> dict[Any, Any]:
    """The table that the rows of an output come to."""
    found: dict[Any, Any] = {}
    for key, value, _ in sink.rows():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = value
    return found


@pytest.mark.parametrize(
    ("seed", "names"), [(1, FEW), *(pytest.param(n, tuple(ANEW), marks=pytest.mark.proof) for n in range(1, 6))]
)
def test_random_changes_give_the_rows_that_differ_and_the_tables_of_the_new_definitions(
    spark: SparkSession, tmp_path: Path, seed: int, names: tuple[str, ...]
) -> None:
    kinds = {name: ANEW[name] for name in names}
    rng, sinks = random.Random(seed), defaultdict(Collector)
    tables: dict[str, Table] = defaultdict(dict)
    now: dict[str, Definition] = {name: random_definition(rng, kind) for name, kind in kinds.items()}
    random_rows(rng, spark, tmp_path, tables, 12)

    def made() -> wm.Topology:
        return views(spark, tmp_path, now, lambda name: wm.ForeachBatch(sinks[name]))

    options: dict[str, Any] = {"shards": rng.choice([2, 3, 5]), "tasks": 2}
    run(made(), spark, tmp_path, **options)
    turns = 3 if len(names) > len(FEW) else 2
    for number in range(turns):
        before = {name: contents(tables, definition) for name, definition in now.items()}
        seen = {name: len(sinks[name].rows()) for name in now}
        now = {name: random_definition(rng, kind) for name, kind in kinds.items()}
        quiet = number != 1
        if not quiet:
            random_rows(rng, spark, tmp_path, tables, 4)
        if number == turns - 1:
            options["shards"] = 4
        run(made(), spark, tmp_path, evolve=True, replace=list(kinds), **options)
        for name, definition in now.items():
            expected = contents(tables, definition)
            assert last_rows(sinks[name]) == expected, (name, definition)
            assert rows_of(spark, tmp_path, name) == expected, (name, definition)
            # a value that is gone is counted as 0
            counts = {value: n for value, n in last_rows(sinks[f"{name} n"]).items() if n != "0"}
            assert counts == counts_of(expected), (name, definition)
            told = {row[0]: row[1] for row in sinks[name].rows()[seen[name] :]}
            if quiet:
                keys = before[name].keys() | expected.keys()
                differ = {k: expected.get(k) for k in keys if before[name].get(k) != expected.get(k)}
                assert told == differ, (name, definition)


def clocked(spark: SparkSession, folder: Path, sink: Any, joiner: Any = F.concat) -> wm.Topology:
    """A stored join, beside a windowed join, which may go by a clock."""
    b = wm.StreamsBuilder("clocked")
    left = b.table(reader(spark, folder / "left"), name="left", **OPTIONS)
    view = left.join(b.table(reader(spark, folder / "right"), name="right", **OPTIONS), joiner, name="j", store="view")
    view.to_stream(name="rows").to(wm.ForeachBatch(sink), name="out")
    one, two = (b.stream(reader(spark, folder / name), name=name, **OPTIONS) for name in ("one", "two"))
    windows = wm.JoinWindows.of_time_difference_and_grace("1 minute", "1 minute")
    pairs = one.left_join(two, lambda a, c: F.coalesce(a, c), windows, name="pairs")
    pairs.to(wm.ForeachBatch(Collector()), name="pairs out")
    return b.build()


def test_a_table_is_replaced_where_time_goes_by_a_clock_too(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("left", "right", "one"):
        put(spark, tmp_path / name, (1, name, 1))

    def started(sink: Collector, made: wm.Topology, **options: Any) -> list[tuple[Any, ...]]:
        query = made.start(spark, checkpoint=str(tmp_path / "cp"), shards=2, idle_after="1 minute", **options)
        query.processAllAvailable()
        query.drain()
        return [row[:2] for row in sink.rows()]

    first, second = Collector(), Collector()
    assert started(first, clocked(spark, tmp_path, first)) == [(1, "leftright")]
    put(spark, tmp_path / "left", (1, "new", 2))
    new = clocked(spark, tmp_path, second, lambda a, c: F.concat(c, a))
    assert started(second, new, **REPLACE) == [(1, "rightleft"), (1, "rightnew")]


def chained(spark: SparkSession, folder: Path, change: str = "") -> wm.Topology:
    """A stored join, a stored table of it, and one of a stream, with one of them defined otherwise."""
    b = wm.StreamsBuilder("chained")
    left = b.table(reader(spark, folder / "left"), name="left", **OPTIONS)
    right = b.table(reader(spark, folder / "right"), name="right", **OPTIONS)
    passing = left.filter(lambda k, v: k > (1 if change == "filter" else 0), name="passing")
    again = b.table(reader(spark, folder / "left"), name="left again", **OPTIONS)
    pair = again.join(right, lambda a, c: F.concat(a, F.lit(change if change == "pair" else "")), name="pair")
    fifth = pair.map_values(lambda v: F.concat(v, v), name="fifth", store="fifth")
    first = passing.join(right, lambda a, c: F.concat(a, c) if change != "both" else c, name="first", store="first")
    doubled = first.map_values(lambda v: F.concat(v, v), name="doubled")
    second = doubled.map_values(
        lambda v: F.concat(v, F.lit("2" if change in ("both", "second") else "")), name="second", store="second"
    )
    counts = (
        b.stream(reader(spark, folder / "other"), name="other", **OPTIONS)
        .group_by_key()
        .agg(n=wm.count(), name="counts", store="counts")
    )
    told = counts.map_values(
        lambda v: v["n"].cast("double" if change == "type" else "string"), name="told", store="told"
    )
    third = told.map_values(
        lambda v: F.concat(v.cast("string"), F.lit(change if change == "third" else "")), name="third", store="third"
    )
    if change == "new":
        second.map_values(lambda v: v, name="fourth", store="fourth")
    for table in (second, third, pair, fifth):
        table.to_stream(name=f"{table.name} rows").to(wm.ForeachBatch(Collector()), name=f"{table.name} out")
    return b.build()


def test_what_cannot_be_replaced_is_refused_with_the_reason_and_a_cure(spark: SparkSession, tmp_path: Path) -> None:
    put(spark, tmp_path / "left", (1, "a", 1), (2, "b", 2))
    put(spark, tmp_path / "right", (1, "x", 4), (2, "y", 5))
    put(spark, tmp_path / "other", (1, "x", 4))
    run(chained(spark, tmp_path), spark, tmp_path)

    def planned(change: str, *names: str) -> str:
        found = wm.plan_change(tmp_path / "cp", chained(spark, tmp_path, change), replace=names)
        return str(found) if found.possible else "\n".join(map(str, found.refused))

    assert "the rows of 'left', which it reads, are not stored" in planned("filter", "first")
    assert "Hint: Give 'left' a store= in a start before: table(..., store=\"...\")." in planned("filter", "first")
    assert "third: replaced (0 rows added, 1 rows changed, 0 rows removed)" in planned("third", "third")
    assert "it has no rows until now" in planned("new", "fourth")
    assert "its rows have other types now" in planned("type", "told")
    assert "No change" in planned("", "second", "third")
    assert "second: replaced (0 rows added, 2 rows changed, 0 rows removed)" in planned("second", "second")
    assert "second: refused (a table that is replaced is made of it, too)" not in planned("both", "first")
    assert "a table that is replaced is made of it, too" in planned("both", "second", "first")
    assert "a table that is replaced is made of it, too" in planned("both", "first", "second")
    assert "it has changed, and 'pair out' reads it, too" in planned("pair", "fifth")
    for name, words in (
        ("counts", "are not stored behind it"),
        ("left", "are not stored behind it"),
        ("nothing", r"Tables that can be replaced: fifth, first, second, third, told; also joins"),
    ):
        with pytest.raises(wm.ConfigError, match=words):
            wm.plan_change(tmp_path / "cp", chained(spark, tmp_path, "third"), replace=[name])
    for options, words in (
        ({"replace": "view", "evolve": True}, "takes a list of names of tables: replace='view'"),
        ({"replace": ["view"]}, r"Hint: topology\.start\(\.\.\., evolve=True, replace=\[\.\.\.\]\)"),
    ):
        with pytest.raises(wm.ConfigError, match=words):
            run(chained(spark, tmp_path), spark, tmp_path, **options)
