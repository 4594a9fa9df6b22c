"""Processors on Spark: what the driver gives in its own process, through restarts, with dead letters and stores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from watersmeet.errors import FunctionError, TopologyError
from watersmeet.testing.driver import TopologyTestDriver

SCHEMA = "k string, id string, amount long, ts long"
KEYS, BATCHES, RECORDS = "abcdefg", 4, 60


class Orders:
    """Sends each order once, counts them, and what came of each key when it has been quiet for a while."""

    def init(self, context: Any) -> None:
        """Find the stores."""
        self.seen, self.all, self.sum = (context.get_store(name) for name in ("seen", "all", "sum"))

    def process(self, record: Any, context: Any) -> None:
        """One order."""
        value = record.value
        if self.seen.get(value["id"]) is not None:
            return
        before = self.sum.get() or {"n": 0, "total": 0, "due": None}
        if before["due"] is not None:
            context.delete_timer(before["due"])
        due = record.timestamp + 20
        context.set_timer(due)
        self.sum.put({"n": before["n"] + 1, "total": before["total"] + 100 // value["amount"], "due": due})
        self.seen.put(value["id"], record.timestamp)
        self.all.append(value["id"])
        context.forward(key=value["id"], value={"text": f"{record.key} {context.stream_time}", "n": before["n"]})

    def on_timer(self, key: str, timestamp: int, context: Any) -> None:
        """The key has been quiet."""
        sum_ = self.sum.get()
        text = f"{key} quiet: {','.join(self.all.get())}; {[name for name, _ in self.seen.all()]}; {sum_['total']}"
        context.forward(key=key, value={"text": text, "n": sum_["n"]})
        self.all.delete()
        self.sum.put({**sum_, "due": None})


def stores() -> list[Any]:
    return [
        wm.MapStore("seen", "string", "long", ttl="35 ms"),
        wm.ListStore("all", "string"),
        wm.ValueStore("sum", "n int, total long, due long"),
    ]


def processed(stream: Any) -> Any:
    return stream.process(Orders, key="string", value="text string, n int", stores=stores(), name="orders")


def records(seed: int, count: int, start: int = 0) -> Iterator[tuple[str, str, int, int]]:
    """Orders, many of them twice."""
    chance = Random(seed)
    for number in range(count):
        yield chance.choice(KEYS), f"o{chance.randrange(25)}", chance.randrange(1, 9), start + 2 * number


def driver_of(spark: SparkSession | None = None, *, on_error: Any = "fail") -> TopologyTestDriver:
    builder = wm.StreamsBuilder("processors", on_error=on_error)
    stream = builder.stream("in", key="string", value=wm.json("id string, amount long"), on_error="fail", headers=True)
    processed(stream).to("out", value=wm.json())
    return TopologyTestDriver(builder.build(), spark)


def results_of(driver: TopologyTestDriver, given: Any) -> list[Any]:
    for key, name, amount, ts in given:
        driver.pipe("in", key, {"id": name, "amount": amount}, ts=ts, headers=[("n", b"%d" % ts)])
    return [(result.key, tuple(result.value), result.ts) for result in driver.read("out")]


def test_a_processor_gives_the_same_in_the_drivers_process_and_on_spark(spark: SparkSession) -> None:
    here, there = driver_of(), driver_of(spark)
    assert (here.runs_in, there.runs_in) == ("process", "spark")
    given = list(records(1, 150))
    found = results_of(here, given)
    assert sum("quiet" in value[0] for _, value, _ in found) > 5
    assert results_of(there, given) == found


def test_a_record_for_which_a_processor_raises_has_changed_nothing_and_is_a_dead_letter(spark: SparkSession) -> None:
    chance, fine, bad = Random(3), [], []
    for key, name, amount, ts in records(2, 120):
        # division by nothing, when the timer of before is deleted and set already
        wrong = chance.random() < 0.25
        (bad if wrong else fine).append((key, f"{name}-{wrong}", 0 if wrong else amount, ts))
    given = sorted(fine + bad, key=lambda row: row[3])
    expected = results_of(driver_of(), fine)
    # time goes on with the records that end, too: it may reach further timers
    fired = Counter(row for row in expected if "quiet" in row[1][0])
    expected = [row for row in expected if "quiet" not in row[1][0]]
    for policy, reason in (("skip", "function_error"), (wm.DeadLetter("bad"), "dead_letter")):
        for session in (None, spark):
            driver = driver_of(session, on_error=policy)
            found = results_of(driver, given)
            assert [(key, value[1], ts) for key, value, ts in found if "quiet" not in value[0]] == [
                (key, value[1], ts) for key, value, ts in expected
            ]
            assert fired <= Counter(row for row in found if "quiet" in row[1][0])
            assert driver.drops[("orders", reason)] == len(bad)
            if policy != "skip":
                letters = driver.read("bad")
                assert Counter(letter.ts for letter in letters) == Counter(row[3] for row in bad)
                told = dict(letters[0].headers)
                assert told["n"] == b"%d" % letters[0].ts
                message = told["__streams.errors.message"] or b""
                assert b"The processor Orders raises in process: ZeroDivisionError" in message
    with pytest.raises(FunctionError, match=r"(?s)The processor Orders raises in process.*test_processors.py, line"):
        results_of(driver_of(), given)


def test_the_driver_reads_the_stores_of_a_processor_without_what_has_lasted_its_time(spark: SparkSession) -> None:
    driver = driver_of()
    results_of(driver, [("a", "x", 1, 0), ("a", "y", 2, 30), ("b", "x", 5, 31), ("a", "z", 5, 36)])
    assert driver.get_store("seen").get("a") == {"y": 30, "z": 36}
    assert driver.get_store("seen").all() == [("a", {"y": 30, "z": 36}), ("b", {"x": 31})]
    assert driver.get_store("all").get("a") == ["y", "z"]
    assert driver.get_store("all").get("c") == []
    assert tuple(driver.get_store("sum").get("b")) == (1, 20, 51)
    with pytest.raises(TopologyError, match="Unknown store 'none'"):
        driver.get_store("none")


def test_a_record_shows_its_headers_and_its_place(spark: SparkSession) -> None:
    class Headers:
        def process(self, record: Any, context: Any) -> None:
            context.forward(value=f"{record.headers} {record.topic} {record.offset}")

    builder = wm.StreamsBuilder("headers")
    builder.stream("in", key="string", value="string", headers=True).process_values(Headers, value="string").to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe("in", "a", "x", ts=1, headers=[("one", b"1"), ("two", None)])
    (result,) = driver.read("out")
    assert result.value == "[('one', b'1'), ('two', None)] in 0"
    assert result.headers == (("one", b"1"), ("two", None))


# -- a query -----------------------------------------------------------------------------------------------------


def topology(spark: SparkSession, folder: Path, found: list[Any]) -> wm.Topology:
    def keep(frame: Any, batch: int) -> None:
        rows = frame.select("key", "value.text", "value.n", F.unix_millis("timestamp")).collect()
        found.extend(map(tuple, rows))

    rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    builder = wm.StreamsBuilder("query")
    stream = builder.stream(rows, name="in", key="k", value=F.struct("id", "amount"), timestamp="ts")
    processed(stream).to(wm.ForeachBatch(keep), name="out")
    return builder.build()


def test_a_query_that_was_stopped_goes_on_with_its_stores_and_timers(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    found: list[Any] = []
    given: list[Any] = []

    def run(batches: range, **options: Any) -> None:
        for batch in batches:
            some = list(records(batch, RECORDS, batch * RECORDS * 2))
            given.extend(some)
            frame = spark.createDataFrame(some, SCHEMA).coalesce(1)
            frame.write.mode("append").parquet(str(tmp_path / "in"))
        topology(spark, tmp_path, found).start(
            spark, checkpoint=tmp_path / "cp", available_now=True, **options
        ).awaitTermination()

    run(range(BATCHES // 2), shards=3, tasks=2)
    run(range(BATCHES // 2, BATCHES))
    driver = driver_of()
    expected = results_of(driver, given)
    assert sorted(found) == sorted((key, *value, ts) for key, value, ts in expected)
    assert sum("quiet" in value[0] for _, value, _ in expected) > 10
    state = {name: wm.read_state(spark, tmp_path / "cp", name) for name in ("seen", "all", "sum", "orders.timers")}
    assert {name: frame.columns for name, frame in state.items()} == {
        "seen": ["key", "entry", "value", "timestamp"],
        "all": ["key", "entry", "value", "timestamp"],
        "sum": ["key", "value", "timestamp"],
        "orders.timers": ["key", "due", "timestamp"],
    }
    seen = {(row.key, row.entry): row.value for row in state["seen"].collect()}
    assert seen == {(key, name): ts for key, entries in driver.get_store("seen").all() for name, ts in entries.items()}
    all_ = {row.key: row.value for row in state["all"].orderBy("key", "entry").collect()}
    assert all_ == {key: values[-1] for key, values in driver.get_store("all").all()}
    sums = {row.key: tuple(row.value) for row in state["sum"].collect()}
    assert sums == {key: tuple(value) for key, value in driver.get_store("sum").all()}
