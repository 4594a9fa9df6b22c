"""A stream of all topics that a pattern matches, in the test driver; patterns that cannot be read so are refused."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pyspark.sql import functions as F

import watersmeet as wm
from watersmeet._spark.sources.topics import reader_options
from watersmeet.errors import TopologyError
from watersmeet.testing.driver import TopologyTestDriver

pytestmark = pytest.mark.usefixtures("spark")
READ: dict[str, Any] = {"key": "string", "value": "string"}
ORDERS = wm.TopicPattern("orders-.*")


class Places:
    """A processor that forwards the place of each record."""

    def process(self, record: Any, context: Any) -> None:
        """Forward it."""
        context.forward(value=f"{record.topic}/{record.partition}")


def named(value: Any, record: Any) -> Any:
    """The topic, and the value."""
    return F.concat_ws("/", record["topic"], value)


@pytest.mark.parametrize("by_spark", [False, True])
def test_records_piped_into_any_matching_topic_are_of_one_stream_and_say_their_topic(
    spark: Any, *, by_spark: bool
) -> None:
    builder = wm.StreamsBuilder("patterns")
    builder.stream("other", **READ).to("others")
    stream = builder.stream(ORDERS, **READ)
    stream.map_values(named).to("named")
    stream.group_by_key().count().to_stream().to("counts")
    driver = TopologyTestDriver(builder.build(), spark if by_spark else None)
    driver.pipe("orders-eu", "k", "a", ts=5)
    driver.create_input_topic("orders-us").pipe_input("k", "b", ts=1)
    driver.pipe("other", "k", "c", ts=2)
    driver.pipe("orders-eu", "k", "d", ts=3)
    assert [(r.value, r.ts) for r in driver.read("named")] == [
        ("orders-eu/a", 5),
        ("orders-us/b", 1),
        ("orders-eu/d", 3),
    ]
    assert [r.value for r in driver.read("counts")] == [1, 2, 3]
    assert [r.value for r in driver.read("others")] == ["c"]


def test_a_processor_and_a_dead_letter_know_the_topic_that_a_record_of_a_pattern_is_from() -> None:
    builder = wm.StreamsBuilder("placed", on_undecodable=wm.DeadLetter("bad"), on_drop=wm.DeadLetter("late"))
    stream = builder.stream(ORDERS, key="string", value="long")
    stream.group_by_key().windowed_by(wm.TimeWindows.of_size_and_grace("10 ms", "0 ms")).count()
    stream.process(Places, key="string", value="string").to("places")
    driver = TopologyTestDriver(builder.build())
    driver.pipe("orders-eu", "k", 1, ts=0)
    driver.pipe("orders-us", "k", 2, ts=0)
    driver.pipe("orders-us", "k", b"text", ts=0)
    assert [r.value for r in driver.read("places")] == ["orders-eu/0", "orders-us/0"]
    driver.pipe("orders-eu", "k", 3, ts=100)
    driver.pipe("orders-us", "k", 4, ts=0)
    for output in ("bad", "late"):
        (letter,) = driver.read(output)
        assert dict(letter.headers or ())["__streams.errors.topic"] == b"orders-us"


def test_other_names_are_no_inputs_and_the_pattern_itself_is_none() -> None:
    builder = wm.StreamsBuilder("others")
    builder.stream(ORDERS, **READ, name="orders").to("out")
    driver = TopologyTestDriver(builder.build())
    for name in ("returns-eu", "orders", "my-orders-eu"):
        with pytest.raises(TopologyError, match=rf"Unknown input '{name}'.*\nHint: Inputs: topics that match 'orders-"):
            driver.pipe(name, "k", "a", ts=0)


def test_results_that_come_back_are_piped_into_their_topic_of_the_pattern() -> None:
    builder = wm.StreamsBuilder("again")
    stream = builder.stream(ORDERS, **READ)
    stream.map_values(named).to("out")
    stream.filter(lambda value, record: record["topic"] == "orders-new").to("orders-old", feedback=True)
    driver = TopologyTestDriver(builder.build())
    driver.pipe("orders-new", "k", "a", ts=0)
    assert [r.value for r in driver.read("out")] == ["orders-new/a", "orders-old/a"]


def test_spark_reads_the_topics_whose_whole_name_matches_and_no_others(spark: Any) -> None:
    options = reader_options(wm.Kafka("host:1"), ["one.two"], headers=False, patterns=["orders-.*|returns", "[xy]"])
    java = spark._jvm.java.util.regex.Pattern.compile(options["subscribePattern"])
    names = [
        "orders-",
        "orders-eu",
        "my-orders-eu",
        "returns",
        "returns-eu",
        "old-returns",
        "x",
        "xy",
        "one.two",
        "one-two",
    ]
    # as Spark's source looks for them
    assert [name for name in names if java.matcher(name).find()] == ["orders-", "orders-eu", "returns", "x", "one.two"]


def test_an_error_about_a_record_of_a_pattern_says_its_topic() -> None:
    builder = wm.StreamsBuilder("far")
    windows = wm.TimeWindows.of_size_and_grace("10 ms", "0 ms")
    builder.stream(ORDERS, **READ).group_by_key().windowed_by(windows).count().to_stream().to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe("orders-eu", "k", "a", ts=0)
    driver.pipe("orders-us", "k", "a", ts=2**62)
    with pytest.raises(wm.SourceError, match=f"topic orders-us, partition 0, offset 1: {2**62} ms"):
        driver.read("out")


def mixed(builder: wm.StreamsBuilder) -> None:
    """An output that the pattern matches."""
    builder.stream(ORDERS, **READ).to("orders-done")


def lettered(builder: wm.StreamsBuilder) -> None:
    """Dead letters in a topic that the pattern matches."""
    builder.stream(ORDERS, **READ, on_undecodable=wm.DeadLetter("orders-bad")).to("out")
    builder.build()


def both(builder: wm.StreamsBuilder, *sources: Any) -> None:
    """Two inputs."""
    for source in sources:
        builder.stream(source, **READ)


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        (lambda b: wm.TopicPattern("orders-("), r"TopicPattern\('orders-\('\) is not a regular expression.*Hint: "),
        (lambda b: wm.TopicPattern("(?P<name>a)"), r"has '\(\?P', which Java.*Hint: The whole name"),
        (lambda b: wm.TopicPattern("a(?#note)"), r"has '\(\?#', which Java.*Hint: .*comments"),
        (lambda b: wm.TopicPattern("(?ia)a"), r"has '\(\?ia', which Java.*Hint: .*flags"),
        (lambda b: wm.TopicPattern("(?x: a)"), r"has '\(\?x', which Java.*Hint: .*flags"),
        (lambda b: wm.TopicPattern("a{,3}"), r"has '\{,', which Java.*Hint: .*\{0,3\}"),
        (lambda b: wm.TopicPattern("[a-z&&[^b]]"), r"Java reads the set of characters in wm.TopicPattern.*Hint: "),
        (lambda b: wm.TopicPattern("[[a]b]"), r"Java reads the set of characters in wm.TopicPattern.*Hint: "),
        (lambda b: wm.TopicPattern(""), r"pattern=''.*Hint: wm.TopicPattern"),
        (lambda b: b.stream(re.compile("a.*"), **READ), r"Hint: A pattern of names: .*TopicPattern\('a\.\*'\)"),
        (lambda b: b.stream("a.*", **READ), r"Hint: .*TopicPattern\('a\.\*'\)"),
        (lambda b: b.stream("a,b", **READ), r"Hint: .*as a list: builder.stream\(\['a', 'b'\]"),
        (lambda b: b.stream(ORDERS, **READ, starting_offsets={0: 1}), r"starting_offsets=\{0: 1\}.*Hint: "),
        (lambda b: b.stream(ORDERS, **READ, order="a"), r"A pattern of topics.*order"),
        (lambda b: b.table(ORDERS, **READ), r"table has no TopicPattern\('orders-\.\*'\).*Hint: .*to_table\(\)"),
        (lambda b: b.table(ORDERS, **READ, ttl="1 day"), r"table has no TopicPattern.*Hint: "),
        (lambda b: b.global_table(ORDERS, **READ), r"global table has no TopicPattern.*Hint: "),
        (lambda b: both(b, "orders-eu", ORDERS), r"'orders-\.\*'\) matches the topic 'orders-eu'.*Hint: Narrow"),
        (lambda b: both(b, ORDERS, "orders-eu"), r"'orders-\.\*'\) matches the topic 'orders-eu'.*Hint: Narrow"),
        (lambda b: both(b, ORDERS, ORDERS), r"Two inputs are named 'orders-\.\*'.*Hint: "),
        (mixed, r"reads and writes the topic 'orders-done', which wm.TopicPattern\('orders-\.\*'\) matches.*Hint: "),
        (lettered, r"Dead letters need a topic of their own.*'orders-bad'.*Hint: "),
    ],
)
def test_patterns_that_cannot_be_read_so_are_refused_with_the_way(mistake: Any, said: str) -> None:
    with pytest.raises(TopologyError, match=f"(?s){said}"):
        mistake(wm.StreamsBuilder("mistakes"))
