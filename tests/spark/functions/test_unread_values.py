"""Errors in values that nothing reads: none is raised, by the level as by Spark (law 4).

Random chains of functions: some fail at some rows, and some leave out what those before them have
made.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from tests.spark.functions.kernel_kit import settings
from watersmeet._engine.expressions.program import Program
from watersmeet._engine.expressions.tree import EvaluationError
from watersmeet._engine.rows import array
from watersmeet._spark.dataflow.fusion import NotFused, program_of
from watersmeet._spark.dataflow.stage import Stage, columns_of, outlets_of, peeks_of
from watersmeet._spark.local import Piped, PipedFrame
from watersmeet.testing.driver import TopologyTestDriver

VALUES = [0.0, 1.0, 2.0, -1.0, 3e10, 1e300, None]
Function = Callable[..., Any]
NUMBER: tuple[Callable[[Column], Column], ...] = (
    lambda n: 1 / n,
    lambda n: n.cast("int").cast("double"),
    lambda n: (10 / (n - 1)) + n,
    lambda n: n * 2,
    lambda n: F.when(n > 0, 1 / (n - 2)),
    lambda n: F.lit(7.0),
)
"""Of a number, some of which fail and one of which does not look at it."""


def step(r: random.Random, stream: Any, kind: str) -> tuple[Any, str]:
    """One more function, and what its values are: numbers, or structs of two."""
    of = r.choice(NUMBER)

    def number(value: Column) -> Column:
        return value if kind == "number" else value[field]

    field = r.choice("ab")
    drawn = r.randrange(8)
    if drawn == 0:
        # both fields fail at the same rows: of one alone that is not read, Spark may compute nothing or all
        return stream.map_values(lambda v: F.struct(of(number(v)).alias("a"), of(number(v)).alias("b"))), "struct"
    if drawn == 1:
        return stream.map(lambda k, v: (k, F.lit(5.0))), "number"
    if drawn == 2:
        return stream.map(lambda k, v: (of(number(v)).cast("int").cast("string"), number(v))), "number"
    if drawn == 3:
        return stream.select_key(lambda k, v: F.lit("k")), kind
    if drawn == 4:
        return stream.select_key(lambda k, v: of(number(v)).cast("int").cast("string")), kind
    if drawn == 5:
        return stream.filter(lambda k, v: k != "zz"), kind
    if drawn == 6:
        return stream.filter(lambda k, v: of(number(v)) > 0), kind
    return stream.map_values(lambda v: of(number(v))), "number"


def topology(seed: int) -> wm.Topology:
    r = random.Random(seed)
    builder = wm.StreamsBuilder("unread")
    stream, kind = builder.stream("in", key="string", value="double"), "number"
    for _ in range(r.randint(2, 5)):
        stream, kind = step(r, stream, kind)
    end = r.randrange(4)
    if end == 0:
        stream.group_by_key().count().to("out")
    elif end == 1:
        stream.map_values(lambda v: F.lit(1)).to("out")
    elif end == 2 and kind == "struct":
        stream.map(lambda k, v: (k, v["b"])).to("out")
    else:
        stream.to("out")
    return builder.build()


def unlike(spark: SparkSession, seed: int) -> tuple[list[str], int]:
    """Rows at which the level and Spark differ, and how many fail."""
    physical = topology(seed).physical
    form = PipedFrame(physical, headers=False)
    given = [Piped(0, "k", value, number, (), number) for number, value in enumerate(VALUES)]
    frame = spark.createDataFrame(form.rows([given]), form.schema)
    stage = Stage(physical, 0, frame, frozenset({"in"}))
    wanted = columns_of(outlets_of(physical, stage, 0), peeks_of(physical, stage))
    program = program_of(stage, wanted, "in")
    assert not isinstance(program, NotFused), program
    # which source a row is of is marked behind the functions
    wanted = [name for name in wanted if not name.startswith("root:")]
    rows = frame.toArrow().combine_chunks()
    found, failing = [], 0
    for row in range(len(rows)):
        ours, theirs = level(program, rows.slice(row, 1), wanted), by_spark(stage, row, wanted)
        failing += isinstance(ours, str)
        if ours != theirs:
            found.append(f"seed {seed}, {VALUES[row]}: {ours} but Spark {theirs}")
    return found, failing


def level(program: Program, row: pa.Table, wanted: list[str]) -> Any:
    """What the level makes of a row, or the condition of the error."""
    try:
        made = program(row)
    except EvaluationError as error:
        return error.condition
    return [repr(array(made, name).to_pylist()) for name in wanted]


def by_spark(stage: Stage, row: int, wanted: list[str]) -> Any:
    """The same by Spark, which reads what is packed."""
    frame = stage.frame.where(F.col("offset") == row).select(*(F.col(f"`{name}`") for name in wanted))
    try:
        made = frame.toArrow()
    except PySparkException as error:
        return error.getCondition()
    return [repr(array(made, name).to_pylist()) for name in wanted]


@pytest.mark.parametrize("seeds", [range(6), pytest.param(range(6, 200), marks=pytest.mark.proof)])
def test_an_error_in_a_value_is_raised_where_it_is_read_and_nowhere_else(spark: SparkSession, seeds: range) -> None:
    failing = 0
    with settings(spark, spark_sql_ansi_enabled="true", spark_sql_session_timeZone="UTC"):
        for seed in seeds:
            wrong, failed = unlike(spark, seed)
            assert wrong == []
            failing += failed
    assert failing > len(seeds) // 2


def test_a_division_by_zero_that_the_next_function_leaves_out_is_no_error_and_one_that_it_asks_for_is() -> None:
    builder = wm.StreamsBuilder("unread")
    divided = builder.stream("in", key="string", value="double").map_values(lambda v: 1 / v)
    divided.map(lambda k, v: (k, F.lit(1))).to("ignored")
    driver = TopologyTestDriver(builder.build())
    driver.pipe("in", "k", 0.0, ts=0)
    assert [r.value for r in driver.read("ignored")] == [1]
    # whether there is a value is asked as well
    builder = wm.StreamsBuilder("read")
    divided = builder.stream("in", key="string", value="double").map_values(lambda v: 1 / v)
    divided.map_values(lambda v: F.lit(1)).to("looked_at")
    driver = TopologyTestDriver(builder.build())
    driver.pipe("in", "k", 0.0, ts=0)
    with pytest.raises(wm.FunctionError, match="DIVIDE_BY_ZERO"):
        driver.read("looked_at")
