"""What a start would refuse of `on_error` is refused when the topology is built."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import Column
from pyspark.sql import functions as F

import watersmeet as wm
from watersmeet.errors import ConfigError

pytestmark = pytest.mark.usefixtures("spark")
SAID = "A function that Spark evaluates fails the query, whatever on_error says"


def by_spark(v: Column) -> Column:
    return F.udf(lambda text: text, "string")(v)


def at_a_source(builder: wm.StreamsBuilder) -> Any:
    return builder.stream("in", key="string", value="string").map_values(by_spark)


def behind_an_operator(builder: wm.StreamsBuilder) -> Any:
    table = builder.stream("in", key="string", value="string").to_table(store="kept")
    other = builder.table("other", key="string", value="string")
    return table.join(other, lambda one, _: by_spark(one)).to_stream()


@pytest.mark.parametrize("written", [at_a_source, behind_an_operator])
def test_a_function_that_spark_evaluates_is_refused_under_a_policy_when_the_topology_is_built(
    written: Callable[[wm.StreamsBuilder], Any],
) -> None:
    policy: Any
    for policy in ("skip", wm.DeadLetter("failed")):
        builder = wm.StreamsBuilder("tolerant", on_error=policy)
        written(builder).to("out")
        with pytest.raises(ConfigError, match=SAID) as error:
            builder.build()
        assert "describe()" in str(error.value.hint)
    builder = wm.StreamsBuilder("failing")
    written(builder).to("out")
    builder.build()
