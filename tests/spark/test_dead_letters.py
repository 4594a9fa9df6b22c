"""Dead letters as a test driver shows them: like any output, in its own process and on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import millpond as mp
from millpond.errors import TopologyError
from millpond.testing import TopologyTestDriver

AMOUNT = "amount int"
BAD = mp.DeadLetter("bad")


def joined(policy: Any = BAD) -> mp.Topology:
    """Orders that look customers up; both inputs may have bad records, and only one keeps headers."""
    builder = mp.StreamsBuilder("letters", on_undecodable=policy)
    customers = builder.table("customers", key="long", value="string", headers=True)
    orders = builder.stream("orders", key="long", value=mp.json(AMOUNT))
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
            ("__streams.errors.exception", b"millpond.errors.SourceError"),
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
    builder = mp.StreamsBuilder("own", on_undecodable=mp.DeadLetter("bad"))
    builder.stream("skipped", key="bytes", value="long", on_undecodable="skip").to("one")
    builder.stream("sent", key="bytes", value="long").to("two")
    driver = TopologyTestDriver(builder.build())
    for name in ("skipped", "sent"):
        driver.pipe(name, None, b"x", ts=0)
    assert [record.value for record in driver.read("bad")] == [b"x"]
    assert driver.drops == {("skipped", "undecodable"): 1, ("sent", "dead_letter"): 1}


@pytest.mark.parametrize("topic", ["in", "out"])
def test_dead_letters_share_no_topic_with_an_input_or_an_output(topic: str) -> None:
    builder = mp.StreamsBuilder("shared")
    builder.stream("in", key="long", value="string", on_undecodable=mp.DeadLetter(topic)).to("out")
    with pytest.raises(TopologyError, match="Dead letters need a topic of their own"):
        builder.build()


def test_dead_letters_alone_are_no_output(spark: SparkSession, tmp_path: Path) -> None:
    builder = mp.StreamsBuilder("nothing")
    builder.stream("in", key="long", value="string", on_undecodable=mp.DeadLetter("bad"))
    with pytest.raises(TopologyError, match="The topology writes nothing"):
        builder.build().start(spark, checkpoint=tmp_path / "cp")
