"""One stream of several topics, told apart by the record, and topics that say where they begin."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import functions as F

import watersmeet as wm
from watersmeet.errors import TopologyError
from watersmeet.testing.driver import TopologyTestDriver

pytestmark = pytest.mark.usefixtures("spark")
READ: dict[str, Any] = {"key": "string", "value": "long"}


def test_a_stream_of_several_topics_has_the_records_of_all_and_says_of_each_where_it_was_read() -> None:
    builder = wm.StreamsBuilder("several")
    stream = builder.stream(["one", "two", "three"], **READ, name="all", timestamp=lambda value: value)
    assert stream.name == "all"
    told = lambda value, record: F.concat_ws("/", record["topic"], value.cast("string"))  # noqa: E731
    stream.map_values(told).to("out")
    stream.group_by_key().count().to_stream().to("counts")
    driver = TopologyTestDriver(builder.build())
    for topic, value in (("two", 2), ("one", 1), ("three", 3), ("two", 4)):
        driver.pipe(topic, "k", value, ts=0)
    assert [(r.value, r.ts) for r in driver.read("out")] == [("two/2", 2), ("one/1", 1), ("three/3", 3), ("two/4", 4)]
    assert [r.value for r in driver.read("counts")] == [1, 2, 3, 4]


def test_one_name_in_a_list_is_that_topic() -> None:
    stream = wm.StreamsBuilder("one").stream(["orders"], **READ, name="all")
    assert stream.name == "all"


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        (lambda b: b.stream([], **READ), r"needs a topic.*Hint: "),
        (lambda b: b.stream(["a", "a"], **READ), r"'a' is named twice.*Hint: "),
        (lambda b: b.stream({"b", "a"}, **READ), r"a set has none.*Hint: builder.stream\(\['a', 'b'\]"),
        (lambda b: b.stream("a", **READ, starting_offsets="newest"), r"starting_offsets .*not 'newest'.*Hint: "),
        (lambda b: b.stream("a", **READ, starting_offsets={0: -1}), r"starting_offsets .*not \{0: -1\}.*Hint: "),
        (
            lambda b: b.global_table(wm.Topic("a", **READ, starting_offsets="latest")),
            r"every start reads it.*Hint: Leave",
        ),
        (lambda b: b.table(["a", "b"], **READ), r"list: \['a', 'b'\].*Hint: "),
    ],
)
def test_topics_that_cannot_be_read_so_are_refused_with_the_way(mistake: Any, said: str) -> None:
    with pytest.raises(TopologyError, match=f"(?s){said}"):
        mistake(wm.StreamsBuilder("mistakes"))
