"""A table that several joins read lies once in a checkpoint: results, names and changes are as if each had its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from tests.spark.inputs_and_outputs.test_streaming import Collector, put, reader, run
from watersmeet._plan.operators.joins import StreamTableNode
from watersmeet._spark.checkpoint.folders import Folder
from watersmeet._spark.checkpoint.record import look
from watersmeet.testing.driver import TopologyTestDriver

OPTIONS: dict[str, Any] = {"key": "k", "value": "v", "timestamp": "ts"}
Sinks = Mapping[str, Collector]
SHARDS = {"shards": 3, "tasks": 2}


def joined(spark: SparkSession, folder: Path, sinks: Sinks) -> wm.Topology:
    """A stream joined with one table by a join for each sink, under its name; those with a vowel are left joins."""
    b = wm.StreamsBuilder("shared")
    table = b.table(reader(spark, folder / "names"), name="names", **OPTIONS)
    asked = b.stream(reader(spark, folder / "in"), name="in", **OPTIONS)
    for name, sink in sinks.items():
        join = asked.left_join if name[0] in "aeiou" else asked.join
        made = join(table, lambda v, n: F.concat_ws("+", v, n), name=name)
        made.to(wm.ForeachBatch(sink), name=f"to {name}")
    return b.build()


def sinks_of(*names: str) -> dict[str, Collector]:
    return {name: Collector() for name in names}


def fill(spark: SparkSession, folder: Path, number: int) -> None:
    """The records of a run: changes of the table between lookups, tombstones, and lookups without key."""
    put(
        spark,
        folder / "names",
        *((n % 7, None if n % 5 == 4 else f"n{number}.{n}", 40 * number + n) for n in range(20)),
    )
    asked = [(n % 9, f"v{number}.{n}", 40 * number + n) for n in range(0, 25, 2)]
    put(spark, folder / "in", *asked, (None, "nobody", 40 * number + 3))


def rows_of(spark: SparkSession, folder: Path, store: str) -> list[Any]:
    return sorted((row["key"], row["value"]) for row in wm.read_state(spark, folder / "cp", store).collect())


def by_key(sink: Collector) -> list[Any]:
    return sorted(sink.rows(), key=lambda row: str(row[0]))


def labels_of(spark: SparkSession, folder: Path, *nodes: str) -> list[list[int]]:
    last = look(Folder(spark, str(folder / "cp"))).last
    assert last is not None
    return [list(next(iter(last.facts.addresses[node].values()))) for node in nodes]


def in_runs(
    spark: SparkSession, folder: Path, starts: Sequence[Sequence[str]], sinks: Sinks, layouts: Sequence[Any] = ()
) -> None:
    """Runs of topologies with these joins, one after the other, upon one checkpoint."""
    for number, names in enumerate(starts):
        fill(spark, folder, number)
        layout = layouts[number] if layouts else SHARDS
        run(joined(spark, folder, {name: sinks[name] for name in names}), spark, folder, evolve=True, **layout)


def apart(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """From now on each join has its own table, as an earlier watersmeet did it."""
    monkeypatch.setattr(StreamTableNode, "shared_side", None)
    return monkeypatch


@pytest.mark.parametrize(
    "starts",
    [
        pytest.param([["first", "again"]] * 3, id="two joins"),
        pytest.param([["first"], ["first", "again"], ["first", "again"]], id="a second one comes"),
        pytest.param([["first"], ["again", "first"], ["again", "first"]], id="one comes before it"),
        pytest.param([["first", "again"], ["again"], ["again"]], id="the owner goes"),
        pytest.param([["first", "again", "third"], ["third", "again"], ["again"]], id="owners change"),
        pytest.param([["first", "again"], ["first"], ["first", "again"]], id="the reader goes and comes back"),
    ],
)
def test_joins_of_one_table_give_what_they_would_with_tables_of_their_own(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, starts: list[list[str]]
) -> None:
    names = {name for some in starts for name in some}
    once, own = sinks_of(*names), sinks_of(*names)
    in_runs(spark, tmp_path / "once", starts, once)
    last = starts[-1]
    assert len({tuple(labels) for labels in labels_of(spark, tmp_path / "once", *last)}) == 1
    stored = {name: rows_of(spark, tmp_path / "once", f"{name}.right") for name in last}
    counted = {store.name: (store.rows, store.bytes) for store in wm.stores(spark, tmp_path / "once" / "cp")}
    with apart(monkeypatch).context():
        in_runs(spark, tmp_path / "own", starts, own)
    assert len({tuple(labels) for labels in labels_of(spark, tmp_path / "own", *last)}) == len(last)
    for name in names:
        assert by_key(once[name]) == by_key(own[name]) != []
    for name in last:
        assert stored[name] == rows_of(spark, tmp_path / "own", f"{name}.right") != []
        assert counted[f"{name}.right"] == counted[f"{last[0]}.right"] != (0, 0)


def test_rows_of_some_keys_of_a_shared_table_are_found_under_its_own_name(spark: SparkSession, tmp_path: Path) -> None:
    in_runs(spark, tmp_path, [["first", "again"]], sinks_of("first", "again"))
    found = wm.read_state(spark, tmp_path / "cp", "again.right", keys=[1]).collect()
    assert [(row["key"], row["value"]) for row in found] == [(1, "n0.15")]


def test_a_checkpoint_with_a_table_for_each_join_goes_on_with_them_and_shares_with_what_is_added(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    once, own = sinks_of("first", "again", "third"), sinks_of("first", "again", "third")
    starts = [["first", "again"], ["first", "again"], ["first", "again", "third"]]
    with monkeypatch.context() as earlier:
        apart(earlier)
        in_runs(spark, tmp_path / "own", starts, own)
        in_runs(spark, tmp_path / "once", starts[:1], once)
    before = labels_of(spark, tmp_path / "once", "first", "again")
    fill(spark, tmp_path / "once", 1)
    run(joined(spark, tmp_path / "once", {n: once[n] for n in starts[1]}), spark, tmp_path / "once")
    assert labels_of(spark, tmp_path / "once", "first", "again") == before
    fill(spark, tmp_path / "once", 2)
    run(joined(spark, tmp_path / "once", once), spark, tmp_path / "once", evolve=True)
    first, again, third = labels_of(spark, tmp_path / "once", "first", "again", "third")
    assert first != again
    assert third in (first, again)
    assert {name: by_key(sink) for name, sink in once.items()} == {name: by_key(sink) for name, sink in own.items()}


def test_a_shared_table_is_divided_over_other_numbers_of_shards(spark: SparkSession, tmp_path: Path) -> None:
    layouts = [{"shards": shards, "tasks": tasks} for shards, tasks in ((3, 2), (5, 2), (1, 1))]
    starts = [["first", "again"], ["first", "again"], ["again"]]
    changing, fixed = sinks_of("first", "again"), sinks_of("first", "again")
    in_runs(spark, tmp_path / "changing", starts, changing, layouts)
    in_runs(spark, tmp_path / "fixed", starts, fixed)
    assert {name: by_key(sink) for name, sink in changing.items()} == {
        name: by_key(sink) for name, sink in fixed.items()
    }
    assert (
        rows_of(spark, tmp_path / "changing", "again.right") == rows_of(spark, tmp_path / "fixed", "again.right") != []
    )


def test_a_shared_table_is_served_under_each_name(spark: SparkSession, tmp_path: Path) -> None:
    names = ("first.right", "again.right")
    fill(spark, tmp_path, 0)
    query = joined(spark, tmp_path, sinks_of("first", "again")).start(spark, checkpoint=tmp_path / "cp", **SHARDS)
    try:
        server = query.serve(tables=names)
        query.processAllAvailable()
        fill(spark, tmp_path, 1)
        query.processAllAvailable()
        last = max(int(file.name) for file in (tmp_path / "cp" / "commits").glob("[0-9]*"))
        served = {name: server.table(name).to_arrow(at_least=last, timeout=60).to_pylist() for name in names}
    finally:
        query.stop()
    for name, rows in served.items():
        assert sorted((row["key"], row["value"]) for row in rows) == rows_of(spark, tmp_path, name) != []


def test_the_test_driver_shows_a_shared_table_under_each_name(spark: SparkSession) -> None:
    b = wm.StreamsBuilder("driven")
    table = b.table("names", key="string", value="string", name="names")
    asked = b.stream("in", key="string", value="string", name="in")
    for name in ("first", "again"):
        asked.join(table, lambda v, n: F.concat_ws("+", v, n), name=name).to(f"to-{name}")
    driver = TopologyTestDriver(b.build())
    for number in range(3):
        driver.pipe("names", "k", f"n{number}", ts=number)
        driver.pipe("in", "k", f"v{number}", ts=number)
    told = [[each.value for each in driver.read(f"to-{name}")] for name in ("first", "again")]
    assert told == [["v0+n0", "v1+n1", "v2+n2"]] * 2
    assert [driver.get_store(f"{name}.right").get("k") for name in ("first", "again")] == ["n2", "n2"]
