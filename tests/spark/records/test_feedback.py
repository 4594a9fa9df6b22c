"""Topics that a topology both reads and writes: what comes back, in the test driver; and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from watersmeet.errors import TopologyError
from watersmeet.testing.driver import TopologyTestDriver

pytestmark = pytest.mark.usefixtures("spark")


def countdown(**options: Any) -> wm.Topology:
    builder = wm.StreamsBuilder("countdown")
    numbers = builder.stream("numbers", key="string", value="long", headers=True)
    numbers.group_by_key().count().to_stream().to("counts")
    numbers.filter(lambda value: value > 0).map_values(lambda value: value - 1).to("numbers", feedback=True, **options)
    return builder.build()


def fed(driver: TopologyTestDriver) -> list[list[tuple[Any, ...]]]:
    found = []
    for key, value, ts in (("a", 3, 10), ("b", 1, 20), ("a", 1, 30)):
        driver.pipe("numbers", key, value, ts=ts, headers=[("id", key.encode())])
        if key == "b":
            found.append([(r.key, r.value, r.ts) for r in driver.read("counts")])
    found.append([(r.key, r.value, r.ts) for r in driver.read("counts")])
    return [*found, [(r.key, r.value, r.ts, r.headers) for r in driver.read("numbers")]]


EXPECTED = [
    [("a", 1, 10), ("b", 1, 20), ("a", 2, 10), ("b", 2, 20), ("a", 3, 10), ("a", 4, 10)],
    [("a", 5, 30), ("a", 6, 30)],
    [
        ("a", 2, 10, (("id", b"a"),)),
        ("b", 0, 20, (("id", b"b"),)),
        ("a", 1, 10, (("id", b"a"),)),
        ("a", 0, 10, (("id", b"a"),)),
        ("a", 0, 30, (("id", b"a"),)),
    ],
]


def test_results_come_back_behind_all_that_was_piped_until_none_is_left() -> None:
    driver = TopologyTestDriver(countdown())
    assert fed(driver) == EXPECTED
    assert driver.runs_in == "process", driver.why_spark


def test_spark_gives_the_same_also_beside_a_partitioner(spark: SparkSession) -> None:
    with TopologyTestDriver(countdown(partitioner=lambda value: value), spark) as driver:
        assert fed(driver) == EXPECTED


def test_what_comes_back_without_end_is_an_error() -> None:
    builder = wm.StreamsBuilder("endless")
    numbers = builder.stream("numbers", key="string", value="long")
    numbers.filter(lambda value: value > 0).to("numbers", feedback=True)
    driver = TopologyTestDriver(builder.build())
    driver._feedback.rounds = 20
    driver.pipe("numbers", "a", 1, ts=0)
    with pytest.raises(TopologyError, match=r"(?s)back without end.*'numbers' as input 'numbers'.*Hint: Filter"):
        driver.read("numbers")


def test_a_topic_that_is_read_is_written_only_where_that_is_asked_for_whichever_comes_first() -> None:
    builder = wm.StreamsBuilder("unasked")
    numbers = builder.stream("numbers", key="string", value="long")
    with pytest.raises(TopologyError, match=r"(?s)reads and writes the topic.*Hint:.*feedback=True"):
        numbers.to("numbers")
    numbers.to("others")
    with pytest.raises(TopologyError, match=r"(?s)reads and writes the topic.*Hint:.*feedback=True"):
        builder.stream("others", key="string", value="long")


@pytest.mark.parametrize("placed", [None, lambda value: F.lit(0)])
def test_what_comes_back_has_the_types_and_formats_that_are_read(placed: Any) -> None:
    builder = wm.StreamsBuilder("typed")
    numbers = builder.stream("numbers", key="string", value="long")
    with pytest.raises(TopologyError, match=r"(?s)values are written as string of string, and read as long of bigint"):
        numbers.map_values(lambda value: value.cast("string")).to("numbers", feedback=True, partitioner=placed)
    with pytest.raises(TopologyError, match=r"(?s)keys are written as json of string, and read as string of string"):
        numbers.to("numbers", key="json", feedback=True, partitioner=placed)
    pairs = builder.stream("pairs", key="string", value=wm.json("n long"))
    pairs.to("pairs", feedback=True, partitioner=placed)


def test_what_nothing_reads_does_not_come_back() -> None:
    builder = wm.StreamsBuilder("unread")
    builder.stream("numbers", key="string", value="long").to("others", feedback=True)
    with pytest.raises(TopologyError, match=r"(?s)needs an input of its topic 'others'.*Hint: Read it"):
        builder.build()


def test_feedback_is_yes_or_no() -> None:
    stream = wm.StreamsBuilder("refused").stream("numbers", key="string", value="long")
    with pytest.raises(TopologyError, match="feedback='yes'"):
        stream.to("numbers", feedback="yes")  # type: ignore[call-overload]
