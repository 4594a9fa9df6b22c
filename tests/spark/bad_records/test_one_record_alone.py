"""Functions see one record and give the same for it at all times; what does not is refused on the user's own line."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import Column, SparkSession, Window
from pyspark.sql import functions as F

import watersmeet as wm
from watersmeet.errors import FunctionError, TopologyError

pytestmark = pytest.mark.usefixtures("spark")
VALUE = wm.json("id long, name string, tags array<int>, at timestamp")
WINDOWS = wm.JoinWindows.of_time_difference_with_no_grace("1 minute")
Made = Callable[[Column], Column]


def by_chance(v: Column) -> Column:
    return F.udf(lambda x: x, "long").asNondeterministic()(v["id"])


FLAWED: dict[str, tuple[str, Made]] = {
    "rand": ("another result", lambda v: v["id"] + F.rand()),
    "uuid": ("another result", lambda v: F.uuid()),
    "shuffle": ("another result", lambda v: F.shuffle(v["tags"])),
    "a counter": ("another result", lambda v: F.monotonically_increasing_id()),
    "the task": ("another result", lambda v: F.spark_partition_id()),
    "the file": ("another result", lambda v: F.input_file_name()),
    "a udf": ("another result", by_chance),
    "within a condition": ("another result", lambda v: F.when(v["id"] > 1, F.lit("x")).otherwise(F.uuid())),
    "within a lambda": ("another result", lambda v: F.transform(v["tags"], lambda tag: tag + F.rand())),
    "timestamp": ("reads the clock", lambda v: F.current_timestamp()),
    "now": ("reads the clock", lambda v: F.expr("now()")),
    "date": ("reads the clock", lambda v: F.date_diff(F.current_date(), F.to_date(v["at"]))),
    "local": ("reads the clock", lambda v: F.localtimestamp()),
    "seconds": ("reads the clock", lambda v: F.unix_timestamp()),
    "the user": ("who runs the query", lambda v: F.expr("user") == v["name"]),
    "another name of the user": ("who runs the query", lambda v: F.session_user()),
    "the database": ("who runs the query", lambda v: F.current_database()),
    "explode": ("several rows", lambda v: F.explode(v["tags"])),
    "posexplode": ("several rows", lambda v: F.posexplode(v["tags"])),
    "a part of explode": ("several rows", lambda v: F.explode(v["tags"]) + 1),
    "sum": ("more than one record", lambda v: F.sum(v["id"])),
    "a share": ("more than one record", lambda v: v["id"] / F.max(v["id"])),
    "row number": ("more than one record", lambda v: F.row_number().over(Window.orderBy(v["id"]))),
    "lag": ("more than one record", lambda v: F.lag(v["id"]).over(Window.orderBy(v["id"]))),
    "window": ("more than one record", lambda v: F.window(v["at"], "1 minute")),
    "session": ("more than one record", lambda v: F.session_window(v["at"], "1 minute")),
    "a query": ("a query of its own", lambda v: F.expr("(select max(id) from range(3))")),
}


def refusal(act: Callable[[], Any]) -> str:
    """The text of the FunctionError that `act` raises; this file is in its trace, and it has a hint."""
    with pytest.raises(FunctionError) as caught:
        act()
    assert any(frame.filename == __file__ for frame in traceback.extract_tb(caught.value.__traceback__))
    assert "Hint: " in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", FLAWED)
def test_what_is_no_function_of_one_record_is_refused_where_it_is_written(name: str) -> None:
    said, function = FLAWED[name]
    stream = wm.StreamsBuilder("refused").stream("s", key="long", value=VALUE)
    assert said in refusal(lambda: stream.map_values(function)).splitlines()[0]


@pytest.mark.parametrize("name", ["user", "current_user", "session_user", "current_date", "current_timestamp"])
def test_a_field_with_the_name_of_a_function_without_parentheses_is_not_taken_for_the_function(name: str) -> None:
    stream = wm.StreamsBuilder("named").stream("s", key="long", value=wm.json(f"{name} string, id long"))
    said = refusal(lambda: stream.filter(lambda v: F.expr(f"{name} > 'a'")))
    assert f"Hint: Spark takes {name!r} for a function; the field is v[{name!r}]" in said
    stream.filter(lambda v: v[name] > "a")


def test_it_is_refused_wherever_a_function_is_given() -> None:
    b = wm.StreamsBuilder("refused")
    stream, other = (b.stream(name, key="long", value=VALUE) for name in ("s", "o"))
    table, more = (b.table(name, key="long", value=VALUE) for name in ("t", "u"))
    copies, others = (b.global_table(name, key="string", value=VALUE) for name in ("g", "h"))
    given: dict[str, Callable[[], Any]] = {
        "predicate": lambda: stream.filter(lambda v: F.rand() > 0.5),
        "mapper": lambda: stream.map(lambda k, v: (k, F.uuid())),
        "mapper ": lambda: stream.map(lambda k, v: (F.uuid(), v)),
        "mapper  ": lambda: table.map_values(lambda v: F.uuid()),
        "mapper   ": lambda: stream.flat_map(lambda k, v: F.array(F.struct(k, F.uuid()))),
        "mapper    ": lambda: stream.flat_map_values(lambda v: F.array(F.uuid())),
        "key selector": lambda: stream.select_key(lambda v: F.uuid()),
        "predicate of 'a'": lambda: stream.split({"a": lambda v: F.rand() > 0.5}),
        "joiner": lambda: stream.join(other, lambda a, c: F.uuid(), WINDOWS),
        "joiner ": lambda: stream.left_join(table, lambda a, c: F.uuid()),
        "joiner  ": lambda: table.outer_join(more, lambda a, c: F.uuid()),
        "joiner   ": lambda: table.join(more, lambda a, c: F.uuid(), foreign_key=lambda v: v["id"]),
        "foreign key extractor": lambda: table.join(more, lambda a, c: a, foreign_key=lambda v: F.uuid()),
        "key mapper": lambda: stream.join(copies, lambda a, c: a, key=lambda v: F.uuid()),
        "joiner    ": lambda: stream.join(copies, lambda a, c: F.uuid(), key=lambda v: v["name"]),
        "joiner     ": lambda: copies.join(others, lambda a, c: F.uuid(), key=lambda v: v["name"]),
        "key extractor": lambda: table.one_to_many_join(more, lambda a, c: a, key=lambda v: F.uuid()),
        "result key": lambda: table.one_to_many_join(
            more, lambda a, c: a, key=lambda v: v["id"], result_key=lambda one, many: F.uuid()
        ),
    }
    assert {role: refusal(act).splitlines()[0] for role, act in given.items()} == {
        role: f"The {role.strip()} returns another result at each evaluation." for role in given
    }


@pytest.mark.parametrize(
    "function",
    [
        lambda v: F.udf(lambda x: x, "long")(v["id"]),
        lambda v: F.transform(v["tags"], lambda tag: tag + 1),
        lambda v: F.to_timestamp(v["name"]),
        lambda v: F.xxhash64(v["id"]),
        lambda v: F.aggregate(v["tags"], F.lit(0), lambda total, tag: total + tag),
        lambda v: F.current_timezone(),
        lambda v: F.struct(v["id"].alias("now()"), F.lit("rand()").alias("sum")),
        lambda v: F.struct(v.alias("was"))["was"]["at"],
    ],
)
def test_functions_of_one_record_are_taken(function: Made) -> None:
    b = wm.StreamsBuilder("taken")
    b.stream("s", key="long", value=VALUE).map_values(function).map_values(lambda v: v)


def test_a_streaming_dataframes_columns_are_held_to_it_and_a_static_ones_are_copied(spark: SparkSession) -> None:
    b = wm.StreamsBuilder("frames")
    rate = spark.readStream.format("rate").load()
    with pytest.raises(TopologyError, match=r"key of a DataFrame returns another result(.|\n)*Hint: "):
        b.stream(rate, name="r", key=F.uuid(), value="value", timestamp="timestamp", order=["value"])
    with pytest.raises(TopologyError, match=r"timestamp of a DataFrame reads the clock(.|\n)*Hint: "):
        b.stream(rate, name="r", key="value", value="value", timestamp=F.current_timestamp(), order=["value"])
    b.stream(rate, name="r", key="value", value="value", timestamp="timestamp", order=["value"])
    b.stream(spark.range(3), name="s", key=F.uuid(), timestamp=F.current_timestamp(), value="id", order=["id"])


def test_the_users_own_errors_of_pyspark_stay_what_they_are(spark: SparkSession) -> None:
    with pytest.raises(TopologyError):
        wm.StreamsBuilder("order").table(
            spark.range(3), name="t", key="id", value="id", timestamp=F.lit(0).cast("long")
        )
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        assert not logging.getLogger(name).disabled
    with pytest.raises(AnalysisException, match="nope"):
        spark.range(3).select("nope")
    with pytest.raises(AnalysisException, match="nope"):
        spark.range(3).selectExpr("nope + 1")
