"""Several sinks of one topic: order belongs to the topic, and what cannot be brought into one is refused."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from proof.arrow import arrow_builder
from tests.engine.kit import PLUS, driver_of, run, tables
from watersmeet.errors import TopologyError
from watersmeet.io.outputs import Writer

RECORDS = 40


def even(value: Any) -> Any:
    return pc.equal(pc.bit_wise_and(pc.cast(value, pa.int64()), pa.scalar(1, pa.int64())), pa.scalar(0, pa.int64()))


@pytest.mark.parametrize("joined", [False, True])
def test_two_sinks_of_one_topic_keep_each_keys_order(joined: bool) -> None:
    def build(builder: Any) -> None:
        stream = builder.stream("in", key="string", value="string")
        if joined:
            one, two = tables(builder, "one", "two")
            one.join(two, PLUS).to("out")
        stream.filter(even).to("out")
        stream.filter_not(even).to("out")

    driver = driver_of(build, shards=3)
    steps = [("in", "k", str(number), number) for number in range(RECORDS)]
    expected = [("k", str(number), number) for number in range(RECORDS)]
    if joined:
        steps[20:20] = [("one", "k", "a", 20), ("two", "k", "b", 20)]
        expected.insert(20, ("k", "a+b", 20))
    assert run(driver, *steps) == expected


def test_outputs_of_one_topic_whose_keys_are_written_differently_are_refused_where_they_are_made() -> None:
    builder = arrow_builder("keys")
    builder.stream("one", key="string", value="string").to("out")
    with pytest.raises(TopologyError, match=r"'out'.*keys of string, and of int64(.|\n)*Hint: .*select_key"):
        builder.stream("two", key="long", value="string").to("out")
    one, many = (builder.table(name, key="string", value="string") for name in ("three", "four"))
    combined = one.one_to_many_join(many, key=lambda key, value: value, joiner=PLUS)
    combined.to("pairs")
    with pytest.raises(TopologyError, match="by prefix"):
        combined.to_stream().select_key(lambda key, value: key).to("pairs")


def test_two_writers_of_one_folder_are_refused() -> None:
    builder = arrow_builder("folder")
    stream = builder.stream("one", key="string", value="string")
    stream.to(Writer("parquet", path="/data/out"), name="first")
    with pytest.raises(TopologyError, match=r"/data/out: 'first' and 'second'(.|\n)*merge"):
        stream.to(Writer("json", path="/data/out"), name="second")
