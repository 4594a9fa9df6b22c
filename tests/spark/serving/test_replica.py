"""A replica is what the checkpoint has: after each batch, for tables of every kind, whenever it has begun."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from tests.spark.serving.kit import Inputs, RunningQuery, committed, rows
from watersmeet.errors import ConfigError

SCHEMA = "k long, v string, ts long"
TABLES = ["everywhere", "joined", "left", "named", "past", "sessions", "tumbling"]
KEYS, SIZE = 25, 50


def topology(inputs: Inputs) -> wm.Topology:
    options: Any = {"key": "k", "value": "v", "timestamp": "ts"}
    builder = wm.StreamsBuilder("served")
    left = builder.table(inputs.read("left", SCHEMA), name="left", store="left", **options)
    right = builder.table(inputs.read("right", SCHEMA), name="right", store="right", **options)
    builder.table(inputs.read("right", SCHEMA), name="past", store="past", history="1 day", **options)
    dash = F.lit("-")
    both = left.outer_join(
        right, lambda a, b: F.concat(F.coalesce(a, dash), F.coalesce(b, dash)), store="joined", name="both"
    )
    events = builder.stream(inputs.read("events", SCHEMA), name="events", **options)
    known = inputs.spark.createDataFrame([(key, f"name {key}", 0) for key in range(KEYS)], SCHEMA)
    everywhere = builder.global_table(known, name="known", store="everywhere", order="k", **options)
    grouped = events.join(everywhere, lambda event, name: event, key=lambda key, value: key).group_by_key()
    grouped.agg(total=wm.sum(F.length), mean=wm.avg(F.length), store="named")
    grouped.windowed_by(wm.TimeWindows.of_size_and_grace(f"{SIZE} ms", "1 day")).count(store="tumbling")
    grouped.windowed_by(wm.SessionWindows.of_inactivity_gap_and_grace("3 ms", "1 day")).count(store="sessions")
    both.to(wm.ForeachBatch(lambda frame, batch: frame.count()), name="out")
    return builder.build()


def records(dice: random.Random, batch: int) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {"left": [], "right": [], "events": []}
    for number in range(90):
        value = None if dice.random() < 0.25 else "x" * dice.randrange(1, 5) + str(number)
        found[dice.choice(tuple(found))].append({"k": dice.randrange(KEYS), "v": value, "ts": 90 * batch + number})
    return found


def put(inputs: Inputs, dice: random.Random, batch: int) -> None:
    for name, some in records(dice, batch).items():
        inputs.put(name, *some)


@pytest.fixture(scope="module")
def running(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningQuery]:
    """A query that had run for two batches before it was served, and ran on for three."""
    folder, dice = tmp_path_factory.mktemp("served"), random.Random(3)
    made = RunningQuery(spark, folder, Inputs(spark, folder / "in"))
    query = made.start(topology(made.inputs))
    try:
        for batch in range(5):
            put(made.inputs, dice, batch)
            if batch < 2:
                query.processAllAvailable()
                continue
            if batch == 2:
                query.serve("127.0.0.1:0", tables=TABLES)
            last = made.caught_up()
            made.first = last if made.first is None else made.first
            compare(made, last, ["joined"])
        yield made
    finally:
        query.stop()


def compare(made: RunningQuery, batch: int, tables: list[str]) -> None:
    for name in tables:
        found = made.query.table(name).to_arrow(batch=batch, versions=name == "past")
        wanted = wm.read_state(made.spark, made.checkpoint, name, batch=batch)
        assert rows(found) == rows(wanted.toArrow()), f"{name} at batch {batch}"
        assert wm.batch_of(found) == batch
        assert found.num_rows


def test_after_each_batch_a_replica_has_the_rows_that_the_checkpoint_has(running: RunningQuery) -> None:
    compare(running, committed(running.checkpoint), TABLES)


def test_a_key_has_the_value_that_the_whole_table_has(running: RunningQuery) -> None:
    table = running.query.table("joined")
    whole = {row["key"]: row for row in table.to_arrow().to_pylist()}
    for key in range(-1, KEYS + 1):
        found, wanted = table.get(key), whole.get(key)
        assert (found.value, found.timestamp) == (wanted and wanted["value"], wanted and wanted["timestamp"])
    keys = [3, 7, 3, 99]
    assert sorted(table.get_all(keys)["key"].to_pylist()) == sorted(set(keys) & set(whole))


def test_a_range_is_in_order_of_the_keys_and_has_both_of_its_ends(running: RunningQuery) -> None:
    table = running.query.table("joined")
    keys = sorted(table.to_arrow()["key"].to_pylist())
    assert table.range()["key"].to_pylist() == keys
    assert table.range(keys[3], keys[9])["key"].to_pylist() == keys[3:10]
    assert table.range(keys[3], limit=2)["key"].to_pylist() == keys[3:5]


def test_windows_are_found_by_their_key_and_by_their_begin(running: RunningQuery) -> None:
    table = running.query.table("tumbling")
    whole = table.to_arrow()
    starts = whole["window"].combine_chunks().field("start")
    low, high = 100, 250
    micros = starts.cast(pa.int64())
    near = whole.filter(pc.and_(pc.greater_equal(micros, low * 1000), pc.less_equal(micros, high * 1000)))
    assert 0 < near.num_rows < whole.num_rows
    assert rows(table.windows(from_=low, to=high)) == rows(near)
    key = near["key"][0].as_py()
    assert rows(table.windows(key, from_=low, to=high)) == rows(near.filter(pc.equal(near["key"], key)))
    with pytest.raises(ConfigError, match="a value for each window"):
        table.get(key)


def test_a_versioned_table_is_read_as_of_a_time(running: RunningQuery) -> None:
    table = running.query.table("past")
    versions = table.to_arrow(versions=True).to_pylist()
    for at in (0, 100, 230, 10_000):
        wanted: dict[int, Any] = {}
        for row in sorted(versions, key=lambda row: row["timestamp"]):
            if row["timestamp"].timestamp() * 1000 <= at:
                wanted[row["key"]] = row["value"]
        wanted = {key: value for key, value in wanted.items() if value is not None}
        assert {row["key"]: row["value"] for row in table.to_arrow(as_of=at).to_pylist()} == wanted
        assert {key: value for key in range(KEYS) if (value := table.get(key, as_of=at).value) is not None} == wanted


def test_changes_applied_to_a_batch_give_the_next_one(running: RunningQuery) -> None:
    for name, identity in (("joined", ["key"]), ("tumbling", ["key", "window"])):
        table = running.query.table(name)
        last, first = committed(running.checkpoint), running.first
        assert first is not None
        assert first < last
        before = wm.read_state(running.spark, running.checkpoint, name, batch=first).toArrow().to_pylist()

        def place(row: dict[str, Any], identity: list[str] = identity) -> str:
            return repr([row[part] for part in identity])

        kept = {place(row): row for row in before}
        changes = table.changes(first)
        seen = -1
        while seen < last:
            seen, some = next(changes)
            assert set(some["batch"].to_pylist()) <= {seen}
            for row in some.drop_columns(["batch"]).to_pylist():
                deleted = row.pop("deleted")
                kept.pop(place(row), None)
                if not deleted:
                    kept[place(row)] = row
        assert sorted(map(repr, kept.values())) == rows(table.to_arrow())


def test_a_question_that_does_not_fit_the_table_is_refused(running: RunningQuery) -> None:
    joined = running.query.table("joined")
    with pytest.raises(ConfigError, match="not of the type"):
        joined.get("three")
    with pytest.raises(ConfigError, match="has no windows"):
        joined.windows()
    with pytest.raises(ConfigError, match="keeps no versions"):
        joined.to_arrow(versions=True)
    with pytest.raises(ConfigError, match="No table '"):
        running.query.table("right")
    with pytest.raises(wm.WrongCall, match=r"takes no batch=-7\.(.|\n)*Hint: batch= is a whole number, not below 0"):
        joined.to_arrow(batch=-7)
    with pytest.raises(ConfigError, match="serves tables already"):
        running.query.serve(tables=["left"])
