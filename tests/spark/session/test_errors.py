"""Wrong topologies fail where they are written: on the user's line, with what was given and a hint."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from watersmeet.errors import ConfigError, FunctionError, TopologyError, WatersmeetError

pytestmark = pytest.mark.usefixtures("spark")
VALUE = wm.json("id long, name string")


def builder() -> wm.StreamsBuilder:
    return wm.StreamsBuilder("test")


def failing(kind: type[WatersmeetError], act: Callable[[], Any]) -> WatersmeetError:
    """The error that `act` raises; it names what was given or gives a hint, and this file is in its trace."""
    with pytest.raises(kind) as caught:
        act()
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert any(frame.filename == __file__ for frame in frames)
    assert "Given:" in str(caught.value) or "Hint:" in str(caught.value)
    return caught.value


def test_tables_with_different_key_types_do_not_join() -> None:
    b = builder()
    left, right = b.table("l", key="long", value="string"), b.table("r", key="string", value="string")
    error = failing(TopologyError, lambda: left.join(right, lambda a, c: F.concat(a, c)))
    assert "different key types" in str(error)
    assert "select_key" in str(error)


def test_an_unknown_field_is_named_on_the_line_that_uses_it() -> None:
    table = builder().table("t", key="long", value=VALUE)
    error = failing(FunctionError, lambda: table.map_values(lambda value: value["nme"]))
    assert "nme" in str(error)


def test_a_joiner_must_return_a_column() -> None:
    b = builder()
    left, right = b.table("l", key="long", value="string"), b.table("r", key="long", value="string")
    error = failing(FunctionError, lambda: left.join(right, lambda a, c: "constant"))
    assert "F.lit" in str(error)


def test_a_predicate_must_be_a_condition() -> None:
    table = builder().table("t", key="long", value="string")
    assert "boolean" in str(failing(FunctionError, lambda: table.filter(lambda value: F.length(value))))


def test_a_function_that_fails_is_shown_with_its_error() -> None:
    table = builder().table("t", key="long", value="string")
    error = failing(FunctionError, lambda: table.filter(lambda value: value > undefined_name))  # type: ignore[name-defined]  # noqa: F821
    assert "NameError" in str(error)


@pytest.mark.parametrize("function", [lambda: F.lit(1), lambda a, b, c: a, "value"])
def test_a_function_of_another_number_of_arguments_is_refused(function: Any) -> None:
    table = builder().table("t", key="long", value="string")
    failing(FunctionError, lambda: table.map_values(function))


def test_operators_inputs_and_stores_need_names_of_their_own() -> None:
    b = builder()
    table = b.table("t", key="long", value="string", store="s")
    table.map_values(F.upper, name="same")
    assert "'same'" in str(failing(TopologyError, lambda: table.map_values(F.lower, name="same")))
    assert "'t'" in str(failing(TopologyError, lambda: b.stream("t", key="long", value="string")))
    assert "'s'" in str(failing(TopologyError, lambda: table.filter(lambda v: v.isNotNull(), store="s")))


def test_a_checkpoint_must_be_named(spark: SparkSession) -> None:
    b = builder()
    b.stream("in", key="string", value="string").to("out")
    topology = b.build()
    assert "checkpoint" in str(failing(ConfigError, lambda: topology.start(spark, checkpoint="")))


def test_topics_need_a_connection(spark: SparkSession, tmp_path: Any) -> None:
    b = builder()
    b.stream("in", key="string", value="string").to("out")
    error = failing(ConfigError, lambda: b.build().start(spark, checkpoint=str(tmp_path / "cp")))
    assert "wm.Kafka" in str(error)


def test_an_unknown_start_option_is_refused_by_python_itself(spark: SparkSession) -> None:
    b = builder()
    b.stream("in", key="string", value="string").to("out")
    with pytest.raises(TypeError, match="chekpoint"):
        b.build().start(spark, checkpoint="/cp", chekpoint=1)  # type: ignore[call-arg]


def test_a_stream_joins_only_what_it_can(spark: SparkSession) -> None:
    b = builder()
    stream, table = b.stream("s", key="long", value="string"), b.table("t", key="long", value="string")
    failing(TopologyError, lambda: table.join(stream, lambda a, c: a))  # type: ignore[arg-type]


def test_old_generations_have_no_inner_join_of_stream_and_table() -> None:
    b = wm.StreamsBuilder("old", generation="old")
    stream, table = b.stream("s", key="long", value="string"), b.table("t", key="long", value="string")
    error = failing(TopologyError, lambda: stream.join(table, lambda a, c: F.concat(a, c)))
    assert "0.10" in str(error)


def test_sides_of_two_builders_do_not_join() -> None:
    left = builder().table("l", key="long", value="string")
    right = builder().table("r", key="long", value="string")
    failing(TopologyError, lambda: left.join(right, lambda a, c: a))


def test_an_unknown_generation_names_the_known_ones() -> None:
    assert "'old'" in str(failing(TopologyError, lambda: wm.StreamsBuilder("x", generation="0.9")))


def test_a_map_must_return_a_pair() -> None:
    stream = builder().stream("s", key="long", value="string")
    assert "pair" in str(failing(FunctionError, lambda: stream.map(lambda value: value)))


def test_a_merge_needs_one_type() -> None:
    b = builder()
    one, other = b.stream("a", key="long", value="string"), b.stream("b", key="long", value="long")
    assert "map_values" in str(failing(TopologyError, lambda: one.merge(other)))


def test_an_empty_topology_cannot_be_built_and_one_without_sink_cannot_start(spark: SparkSession) -> None:
    failing(TopologyError, lambda: builder().build())
    b = builder()
    b.stream("s", key="long", value="string")
    failing(TopologyError, lambda: b.build().start(spark, checkpoint="/cp"))
