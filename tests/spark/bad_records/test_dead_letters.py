"""Dead letters as a test driver shows them: like any output, in its own process and on Spark."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from watersmeet.errors import ConfigError, TopologyError
from watersmeet.testing.driver import TopologyTestDriver

AMOUNT = "amount int"
BAD = wm.DeadLetter("bad")
REASONS = {"undecodable", "function_error", "null_key", "expired_window", "negative_timestamp"}


def joined(policy: Any = BAD) -> wm.Topology:
    """Orders that look customers up; both inputs may have bad records, and only one keeps headers."""
    builder = wm.StreamsBuilder("letters", on_undecodable=policy)
    customers = builder.table("customers", key="long", value="string", headers=True)
    orders = builder.stream("orders", key="long", value=wm.json(AMOUNT))
    orders.join(customers, lambda order, name: F.concat(name, order["amount"].cast("string"))).to("out")
    return builder.build()


def piped(driver: TopologyTestDriver) -> TopologyTestDriver:
    driver.pipe("customers", 1, "ann", ts=1)
    driver.pipe("customers", 2, b"\xff", ts=2, headers=[("id", b"7"), ("none", None)])
    driver.pipe("orders", 1, b'{"amount": 5}', ts=3)
    driver.pipe("orders", b"\0", b"{", ts=-4)
    driver.pipe("orders", 1, b'{"amount": "six"}', ts=5)
    driver.pipe("orders", b"\0", {"amount": 7}, ts=6)
    driver.pipe("orders", 1, {"amount": 8}, ts=7)
    return driver


def test_bad_records_are_an_output_like_any_other_wherever_the_driver_runs(spark: SparkSession) -> None:
    drivers = [piped(TopologyTestDriver(joined())), piped(TopologyTestDriver(joined(), spark))]
    assert [driver.runs_in for driver in drivers] == ["process", "spark"], drivers[0].why_spark
    for driver in drivers:
        assert [(r.key, r.value) for r in driver.read("out")] == [(1, "ann5"), (1, "ann8")]
        letters = driver.read("bad")
        assert [(r.key, r.value, r.ts) for r in letters] == [
            ((2).to_bytes(8, "big"), b"\xff", 2),
            (b"\0", b"{", 0),
            ((1).to_bytes(8, "big"), b'{"amount": "six"}', 5),
            (b"\0", b'{"amount":7}', 6),
        ]
        assert letters[0].headers == (
            ("id", b"7"),
            ("none", None),
            ("__streams.errors.exception", b"watersmeet.errors.SourceError"),
            (
                "__streams.errors.message",
                b"The value of a Kafka record cannot be decoded. "
                b"Given: topic customers, partition 0, offset 1, value as string: not valid UTF-8",
            ),
            ("__streams.errors.topic", b"customers"),
            ("__streams.errors.partition", b"0"),
            ("__streams.errors.offset", b"1"),
            ("__streams.errors.timestamp", b"2"),
            ("__streams.errors.operator", b"customers"),
            ("__streams.errors.reason", b"undecodable"),
        )
        told = [dict(letter.headers or ()) for letter in letters]
        assert [each["__streams.errors.timestamp"] for each in told] == [b"2", b"-4", b"5", b"6"]
        assert [b"key as long" in (each["__streams.errors.message"] or b"") for each in told] == [False] * 3 + [True]
        assert driver.drops == {("customers", "dead_letter"): 1, ("orders", "dead_letter"): 3}


def test_a_topology_is_described_with_its_dead_letters_and_shows_none_where_there_is_no_topic_for_them() -> None:
    assert "source orders-dead-letters: stream of binary -> binary" in joined().describe()
    assert "output bad" in joined().describe()
    assert "dead-letters" not in joined("skip").describe()
    assert repr(joined()) == repr(joined("skip"))


def test_an_input_chooses_for_itself_what_becomes_of_its_bad_records() -> None:
    builder = wm.StreamsBuilder("own", on_undecodable=wm.DeadLetter("bad"))
    builder.stream("skipped", key="bytes", value="long", on_undecodable="skip").to("one")
    builder.stream("sent", key="bytes", value="long").to("two")
    driver = TopologyTestDriver(builder.build())
    for name in ("skipped", "sent"):
        driver.pipe(name, None, b"x", ts=0)
    assert [record.value for record in driver.read("bad")] == [b"x"]
    assert driver.drops == {("skipped", "undecodable"): 1, ("sent", "dead_letter"): 1}


@pytest.mark.parametrize("topic", ["in", "out"])
def test_dead_letters_share_no_topic_with_an_input_or_an_output(topic: str) -> None:
    builder = wm.StreamsBuilder("shared")
    builder.stream("in", key="long", value="string", on_undecodable=wm.DeadLetter(topic)).to("out")
    with pytest.raises(TopologyError, match="Dead letters need a topic of their own"):
        builder.build()


def test_dead_letters_alone_are_no_output(spark: SparkSession, tmp_path: Path) -> None:
    builder = wm.StreamsBuilder("nothing")
    builder.stream("in", key="long", value="string", on_undecodable=wm.DeadLetter("bad"))
    with pytest.raises(TopologyError, match="but writes nothing"):
        builder.build().start(spark, checkpoint=tmp_path / "cp")


def shared(policy: Any, *, bad: Any = "skip") -> wm.Topology:
    """The share that each order has of 100, and what it is of twice as much: a division by zero fails both."""
    builder = wm.StreamsBuilder("shares", on_undecodable=bad)
    orders = builder.stream("orders", key="string", value=wm.json(AMOUNT), on_error=policy)
    shares = orders.map_values(lambda order: F.lit(100) / order["amount"])
    shares.to("shares")
    shares.map_values(lambda share: share * 2).to("twice")
    orders.group_by_key().count().to_stream().to("counts")
    return builder.build()


def orders_with_zeros(driver: TopologyTestDriver) -> TopologyTestDriver:
    for number in range(12):
        value = b'{"amount": %d}' % (number % 3)
        driver.pipe("orders", f"k{number}", value, ts=number, headers=[("n", b"%d" % number)])
    driver.pipe("orders", "none", None, ts=12)
    driver.pipe("orders", "bad", b"{", ts=13)
    return driver


def test_records_for_which_a_function_raises_end_whole_and_all_others_go_on(spark: SparkSession) -> None:
    fine = [f"k{number}" for number in range(12) if number % 3]
    skipping = orders_with_zeros(TopologyTestDriver(shared("skip")))
    assert skipping.runs_in == "process", skipping.why_spark
    assert [record.key for record in skipping.read("shares")] == [*fine, "none"]
    assert [record.key for record in skipping.read("twice")] == [*fine, "none"]
    assert [record.key for record in skipping.read("counts")] == fine
    # the tombstone counts nothing, as everywhere
    reasons = {reason: count for (node, reason), count in skipping.drops.items() if node == "orders"}
    assert reasons == {"function_error": 4, "undecodable": 1}


@pytest.mark.parametrize("bad", [wm.DeadLetter("failed"), wm.DeadLetter("bad"), "skip"], ids=["one", "two", "skip"])
def test_records_for_which_a_function_raises_are_dead_letters_as_they_came(spark: SparkSession, bad: Any) -> None:
    driver = orders_with_zeros(TopologyTestDriver(shared(wm.DeadLetter("failed"), bad=bad)))
    letters = [record for record in driver.read("failed") if record.key != b"bad"]
    assert [(r.key, r.value, r.ts) for r in letters] == [
        (b"k%d" % number, b'{"amount": 0}', number) for number in range(0, 12, 3)
    ]
    for number, letter in zip(range(0, 12, 3), letters, strict=True):
        assert (letter.headers or ())[0] == ("n", b"%d" % number)
        told = dict((letter.headers or ())[1:])
        assert b"[DIVIDE_BY_ZERO]" in (told.pop("__streams.errors.message") or b"")
        assert told == {
            "__streams.errors.exception": b"watersmeet.errors.FunctionError",
            "__streams.errors.topic": b"orders",
            "__streams.errors.partition": b"0",
            "__streams.errors.offset": b"%d" % number,
            "__streams.errors.timestamp": b"%d" % number,
            "__streams.errors.operator": b"orders",
            "__streams.errors.reason": b"function_error",
        }
    assert len(driver.read("shares")) == 9
    ended = {reason: count for (node, reason), count in driver.drops.items() if node == "orders"}
    assert ended == ({"dead_letter": 4, "undecodable": 1} if bad == "skip" else {"dead_letter": 5})


def test_a_function_that_spark_evaluates_fails_the_query_which_is_said_before_anything_runs(
    spark: SparkSession,
) -> None:
    driver = TopologyTestDriver(shared("skip"), spark)
    driver.pipe("orders", "a", {"amount": 1}, ts=0)
    with pytest.raises(ConfigError, match="A function that Spark evaluates fails the query, whatever on_error says"):
        driver.read("shares")


def behind(*, on_error: Any = "fail", on_drop: Any = "skip", bad: Any = "skip") -> wm.Topology:
    """Shares by customer behind a join, where a division by zero fails; and counts by windows, which close."""
    builder = wm.StreamsBuilder("behind", on_undecodable=bad, on_error=on_error, on_drop=on_drop)
    orders = builder.stream("orders", key="string", value=wm.json("amount int, parts int"))
    limits = builder.table("limits", key="string", value="int")
    raises = on_error != "fail" or on_drop == "skip"
    orders.join(limits, lambda order, limit: limit / order["parts"] if raises else limit).to("shares")
    windows = wm.TimeWindows.of_size_with_no_grace("10 ms")
    orders.group_by_key().windowed_by(windows).count(name="counts").to_stream().map_values(lambda n: n).to("counts")
    return builder.build()


def ordered(driver: TopologyTestDriver) -> TopologyTestDriver:
    driver.pipe("limits", "ann", 100, ts=0)
    driver.pipe("limits", None, 1, ts=0)
    for ts, key, parts in [(1, "ann", 4), (2, "ann", 0), (3, None, 5), (4, "bob", 0), (30, "ann", 5), (5, "ann", 2)]:
        driver.pipe("orders", key, {"amount": ts, "parts": parts}, ts=ts, headers=[("n", b"%d" % ts)])
    driver.pipe("orders", "ann", {"amount": 7, "parts": 1}, ts=-7)
    return driver


def test_results_for_which_a_function_raises_behind_an_operator_end_alone(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        ordered(TopologyTestDriver(behind())).read("shares")
    for policy, reason in (("skip", "function_error"), (BAD, "dead_letter")):
        driver = ordered(TopologyTestDriver(behind(on_error=policy)))
        assert driver.runs_in == "process", driver.why_spark
        assert [(r.value, r.ts) for r in driver.read("shares")] == [(25.0, 1), (20.0, 30), (50.0, 5)]
        assert len(driver.read("counts")) == 4
        found = {what: count for what, count in driver.drops.items() if what[1] not in ("null_key", "expired_window")}
        assert found == {("stream_table-orders-limits", reason): 1, ("orders", "negative_timestamp"): 1}
    (letter,) = driver.read("bad")
    assert (letter.key, letter.value, letter.ts) == (b"ann", b'{"left":{"amount":2,"parts":0},"right":100}', 2)
    told = dict(letter.headers or ())
    assert b"[DIVIDE_BY_ZERO]" in (told["__streams.errors.message"] or b"")
    assert told["__streams.errors.reason"] == b"function_error"


@pytest.mark.parametrize("where", ["process", "spark"])
def test_records_that_are_dropped_are_dead_letters_where_that_is_asked_for(spark: SparkSession, where: str) -> None:
    given = (spark,) if where == "spark" else ()
    driver = ordered(TopologyTestDriver(behind(on_drop=BAD), *given))
    assert driver.runs_in == where, driver.why_spark
    letters = driver.read("bad")
    told = [dict(letter.headers or ()) for letter in letters]
    found = {
        (each["__streams.errors.operator"], each["__streams.errors.reason"], letter.key, letter.value, letter.ts)
        for each, letter in zip(told, letters, strict=True)
    }
    order = b'{"amount":%d,"parts":%d}'
    assert found == {
        (b"limits", b"null_key", None, (1).to_bytes(4, "big"), 0),
        (b"stream_table-orders-limits", b"null_key", None, order % (3, 5), 3),
        (b"counts", b"null_key", None, order % (3, 5), 3),
        # what is only counted travels without its value
        (b"counts", b"expired_window", b"ann", b"true", 5),
        (b"orders", b"negative_timestamp", b"ann", order % (7, 1), 0),
    }
    assert sum(count for (_, reason), count in driver.drops.items() if reason == "dead_letter") == len(letters) == 5
    assert ("n", b"3") in (letters[[letter.ts for letter in letters].index(3)].headers or ())


@pytest.mark.parametrize("letters", [False, True])
def test_records_read_are_results_or_dropped_by_reason_or_dead_letters(spark: SparkSession, letters: bool) -> None:
    every = {"on_error": BAD, "on_drop": BAD} if letters else {"on_error": "skip"}
    chance, count = Random(7), 300
    driver = TopologyTestDriver(behind(**every, bad=BAD if letters else "skip"))
    driver.pipe("limits", "ann", 100, ts=0)
    for number in range(count):
        key = chance.choice(["ann", "ann", "ann", None])
        value: Any = {"amount": number, "parts": chance.randrange(4)}
        ts = number - chance.choice([0, 0, 0, 25, 1000])
        driver.pipe("orders", key, b"{" if chance.random() < 0.1 else value, ts=ts)
    shares, counts, drops = len(driver.read("shares")), len(driver.read("counts")), Counter[str]()
    for (node, _), dropped in driver.drops.items():
        drops[node] += dropped
    assert shares + drops["orders"] + drops["stream_table-orders-limits"] == count
    assert counts + drops["orders"] + drops["counts"] == count
    assert min(shares, counts, *drops.values()) > 10
    reasons = Counter(dict(r.headers or ())["__streams.errors.reason"] for r in driver.read("bad")) if letters else {}
    assert sum(reasons.values()) == (drops.total() if letters else 0)
    assert set(reasons) == ({reason.encode() for reason in REASONS} if letters else set())
    assert {reason for _, reason in driver.drops} == ({"dead_letter"} if letters else REASONS)


def test_changes_that_go_on_with_their_old_values_fail_the_query_since_the_next_one_would_take_back_what_never_was(
    spark: SparkSession,
) -> None:
    builder = wm.StreamsBuilder("old values", on_error="skip")
    one, other = (builder.table(name, key="string", value="int") for name in ("one", "other"))
    shares = one.join(other, lambda left, right: left / right)
    shares.group_by(lambda key, share: (key, share)).agg(total=wm.sum(lambda share: share)).to_stream().to("totals")
    driver = TopologyTestDriver(builder.build())
    driver.pipe("one", "a", 1, ts=0)
    driver.pipe("other", "a", 0, ts=1)
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        driver.read("totals")
