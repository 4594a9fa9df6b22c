"""A changed topology that takes the place of the running one: no batch is missing, and none is written twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from tests.spark.changes.test_changed_topology import rows_of
from tests.spark.inputs_and_outputs.test_streaming import Collector, put, reader, run
from watersmeet._spark.checkpoint.folders import Folder
from watersmeet._spark.checkpoint.record import CHANGED, look
from watersmeet._spark.deploy import Deployment

pytestmark = pytest.mark.filterwarnings("ignore:A function has changed since the last start")


def topology(
    spark: SparkSession, folder: Path, sink: Any, *, version: str = "", stored: str = "", more: Any = None
) -> wm.Topology:
    """Counts of values, which a version marks, and the latest value of each key; with `more` a join before all else."""
    b = wm.StreamsBuilder("deployed")
    other = None
    if more is not None:
        rows = reader(spark, folder / "other")
        other = b.stream(rows, name="other", key="k", value="v", timestamp="ts").to_table(store="others", name="others")
    records = b.stream(reader(spark, folder / "in"), name="in", key="k", value="v", timestamp="ts")
    marked = records.map_values(lambda v: F.concat(v, F.lit(stored)), name="marked")
    latest = marked.to_table(name="latest", store="latest")
    counted = records.select_key(lambda v: v, name="by value").group_by_key().agg(n=wm.count(), name="counted")
    told = counted.map_values(lambda v: F.concat(v["n"].cast("string"), F.lit(version)), name="n")
    told.to_stream(name="counts").to(sink, name="out")
    if other is not None:
        latest.to_stream(name="s").join(other, lambda a, c: F.concat(a, c), name="joined").to(more, name="more")
    return b.build()


@contextmanager
def running(made: wm.Topology, spark: SparkSession, folder: Path, **options: Any) -> Iterator[Any]:
    """The topology while it runs."""
    query = made.start(spark, checkpoint=str(folder / "cp"), local_cache=str(folder / "cache"), **options)
    try:
        yield query
    finally:
        query.stop()


def counts(sink: Collector) -> list[tuple[Any, ...]]:
    return [row[:2] for row in sink.rows()]


def test_a_changed_topology_takes_the_place_of_the_running_one_between_two_batches(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink, added = Collector(), Collector()
    put(spark, tmp_path / "in", (1, "a", 1))
    put(spark, tmp_path / "in", (2, "a", 2), (3, "b", 2))
    old = topology(spark, tmp_path, wm.ForeachBatch(sink))
    new = topology(spark, tmp_path, wm.ForeachBatch(sink), version="!", more=wm.ForeachBatch(added))
    with running(old, spark, tmp_path) as blue:
        blue.processAllAvailable()
        put(spark, tmp_path / "other", (1, "X", 1))
        with running(new, spark, tmp_path, deploy=True) as green:
            assert not blue.isActive
            assert blue.exception() is None
            put(spark, tmp_path / "in", (1, "a", 3))
            green.processAllAvailable()
    assert counts(sink) == [("a", "1"), ("a", "2"), ("b", "1"), ("a", "3!")]
    assert all(len(tries) == 1 for tries in sink.batches.values())
    assert sorted(sink.batches) == [*range(len(sink.batches))]
    assert [row[:2] for row in added.rows()] == [(1, "aX")]
    # from now on it is a checkpoint of the new topology as any
    put(spark, tmp_path / "in", (1, "a", 4))
    run(new, spark, tmp_path)
    assert counts(sink)[-1] == ("a", "4!")


def behind(monkeypatch: pytest.MonkeyPatch, step: str, act: Callable[[], object]) -> None:
    """Have something done behind a step of a deployment."""
    original = getattr(Deployment, step)

    def wrapped(self: Deployment, *arguments: Any) -> Any:
        result = original(self, *arguments)
        act()
        return result

    monkeypatch.setattr(Deployment, step, wrapped)


def test_batches_of_the_running_topology_are_run_without_outputs_until_the_switch(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, added = Collector(), Collector()
    put(spark, tmp_path / "in", (1, "a", 1), (2, "b", 1))
    put(spark, tmp_path / "other", (1, "X", 1))
    old = topology(spark, tmp_path, wm.ForeachBatch(sink))
    new = topology(spark, tmp_path, wm.ForeachBatch(sink), version="!", more=wm.ForeachBatch(added))
    with running(old, spark, tmp_path) as blue:
        blue.processAllAvailable()

        def write(number: int) -> None:
            for _ in range(2):
                put(spark, tmp_path / "in", (1, "a", number), (number, "c", number))
                blue.processAllAvailable()

        behind(monkeypatch, "prepare", lambda: write(3))
        behind(monkeypatch, "compare", lambda: write(4))
        with running(new, spark, tmp_path, deploy=True) as green:
            assert [comparison.is_empty for comparison in green.comparisons] == [True, True]
            assert {comparison.name for comparison in green.comparisons} == {"store latest", "store counted.aggregate"}
            assert sum(comparison.equal for comparison in green.comparisons) == 6
            put(spark, tmp_path / "in", (1, "a", 5))
            green.processAllAvailable()
    assert [value for key, value in counts(sink) if key == "a"] == ["1", "2", "3", "4", "5", "6!"]
    assert [value for key, value in counts(sink) if key == "c"] == ["1", "2", "3", "4"]
    assert all(len(tries) == 1 for tries in sink.batches.values())
    assert sorted(sink.batches) == [*range(len(sink.batches))]
    # the new input is read from its beginning when the outputs open, as at any change
    assert [row[:2] for row in added.rows()] == [(1, "aX")]
    assert "running" not in look(Folder(spark, str(tmp_path / "cp"))).spark_folder.entries("")


def test_a_topology_with_more_rows_that_differ_than_it_may_leaves_the_running_one_alone(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = Collector()
    put(spark, tmp_path / "in", (1, "a", 1), (2, "b", 1))
    old = topology(spark, tmp_path, wm.ForeachBatch(sink))
    new = topology(spark, tmp_path, wm.ForeachBatch(sink), stored="?")
    options: dict[str, Any] = {"deploy": True, "allow_changed_functions": True}
    with running(old, spark, tmp_path) as blue:
        blue.processAllAvailable()

        def write() -> None:
            put(spark, tmp_path / "in", (1, "c", 2), (3, "c", 2))
            blue.processAllAvailable()

        behind(monkeypatch, "prepare", write)
        with (
            pytest.raises(wm.ChangedTopology, match=r"(?s)^2 rows .* if_equal=1.*store latest: 0 rows added, 2 rows"),
            running(new, spark, tmp_path, if_equal=1, **options),
        ):
            pass
        assert blue.isActive
        assert not list((tmp_path / "cp" / CHANGED).iterdir())
        put(spark, tmp_path / "in", (1, "a", 3))
        blue.processAllAvailable()
        with running(new, spark, tmp_path, if_equal=2, **options) as green:
            rows = [row for comparison in green.comparisons for row in comparison.rows]
            assert [str(row) for row in rows] == ['1: "c" -> "c?"', '3: "c" -> "c?"']
    assert counts(sink)[:3] == [("a", "1"), ("b", "1"), ("c", "1")]


@pytest.mark.parametrize("unused", [False, True])
def test_an_option_of_a_deployment_that_does_not_fit_is_refused(unused: bool) -> None:
    from watersmeet._spark.query.start import StartOptions

    with pytest.raises(wm.ConfigError, match="if_equal"):
        StartOptions(deploy=not unused, if_equal=3 if unused else -1)
    with pytest.raises(wm.ConfigError, match="not both"):
        StartOptions(deploy=True, evolve=True, replace=["latest"])


def test_the_topology_before_comes_back_with_the_state_that_it_would_have(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, allowed = Collector(), {"allow_changed_functions": True}
    put(spark, tmp_path / "in", (1, "a", 1), (2, "b", 1))
    old = topology(spark, tmp_path, wm.ForeachBatch(sink))
    new = topology(spark, tmp_path, wm.ForeachBatch(sink), version="!", stored="?")
    with running(old, spark, tmp_path) as blue:
        blue.processAllAvailable()
        green = blue.upgrade(new, local_cache=str(tmp_path / "cache"), **allowed)
        with pytest.raises(wm.ChangedTopology, match="and this is another"):
            green.upgrade(topology(spark, tmp_path, wm.ForeachBatch(sink), more=wm.ForeachBatch(sink)), back=True)
        for number in range(3, 17):  # the log of plans has ten
            put(spark, tmp_path / "in", (1, "a", number), (number, "c", number))
            green.processAllAvailable()
        assert rows_of(spark, tmp_path, "latest") == {(1, "a?"), (2, "b"), *((n, "c?") for n in range(3, 17))}
        back = green.upgrade(old, back=True, local_cache=str(tmp_path / "cache"))
        assert {comparison.name: comparison.changed for comparison in back.comparisons} == {
            "store latest": 15,
            "store counted.aggregate": 0,
        }
        put(spark, tmp_path / "in", (1, "a", 17))
        back.processAllAvailable()
        back.stop()
    assert rows_of(spark, tmp_path, "latest") == {(1, "a"), (2, "b"), *((n, "c") for n in range(3, 17))}
    assert [value for key, value in counts(sink) if key == "a"] == ["1", *(f"{n}!" for n in range(2, 16)), "16"]
    assert all(len(tries) == 1 for tries in sink.batches.values())
    assert sorted(sink.batches) == [*range(len(sink.batches))]


def test_a_topology_whose_plans_are_gone_comes_back_upon_the_state_of_the_running_one(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, allowed = Collector(), {"allow_changed_functions": True}
    monkeypatch.setattr("watersmeet._spark.deploy._MOST_PLANS", 3)
    put(spark, tmp_path / "in", (1, "a", 1), (2, "b", 1))
    old = topology(spark, tmp_path, wm.ForeachBatch(sink))
    new = topology(spark, tmp_path, wm.ForeachBatch(sink), version="!", stored="?")
    with running(old, spark, tmp_path) as blue:
        blue.processAllAvailable()
        green = blue.upgrade(new, local_cache=str(tmp_path / "cache"), **allowed)
        for number in range(3, 17):
            put(spark, tmp_path / "in", (number, "c", number))
            green.processAllAvailable()
        back = green.upgrade(old, back=True, local_cache=str(tmp_path / "cache"), **allowed)
        put(spark, tmp_path / "in", (1, "a", 17))
        back.processAllAvailable()
        back.stop()
    assert rows_of(spark, tmp_path, "latest") == {(1, "a"), (2, "b"), *((n, "c?") for n in range(3, 17))}
    assert sorted(sink.batches) == [*range(len(sink.batches))]
