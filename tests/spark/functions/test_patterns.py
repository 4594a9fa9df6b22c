"""Regular expressions by chance: where Python's are taken for Java's, they find what Spark finds."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.spark.functions.kernel_kit import differences, frame_of, read, settings
from tests.spark.functions.pattern_chance import patterns, texts
from watersmeet._engine.expressions.regular import pattern_of

FORMS = [
    "t rlike {p}",
    "regexp_extract(t, {p}, 0)",
    "regexp_extract(t, {p}, 1)",
    "regexp_extract_all(t, {p}, 0)",
    "regexp_replace(t, {p}, '<$0>')",
    "regexp_replace(t, {p}, '$1')",
    "split(t, {p})",
    "split(t, {p}, 2)",
    "regexp_count(t, {p})",
]


def quoted(pattern: str) -> str:
    """A text of SQL's that stands for the pattern."""
    escapes = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r"}
    return "'" + "".join(escapes.get(each, each) for each in pattern) + "'"


def wrong(spark: SparkSession, seed: int, count: int, rows: int) -> tuple[list[str], int]:
    """Where the level and Spark differ, and how many expressions the level takes."""
    given = texts(seed, rows)
    table = pa.table({"row": pa.array(range(rows), pa.int32()), "t": given})
    known = [each for each in patterns(seed, count) if pattern_of(each) is not None]
    frame, found, taken = frame_of(spark, table), list[str](), 0
    with settings(spark, spark_sql_ansi_enabled="true"):
        for at in range(0, len(known), 12):
            asked = [form.format(p=quoted(each)) for each in known[at : at + 12] for form in FORMS]
            # Spark refuses a group that is not there: such calls do not fit
            here = [text for text, each in read(frame, asked).items() if not isinstance(each, str)]
            taken += len(here)
            found += differences(frame, table, here)
    return found, taken


def test_patterns_by_chance_find_what_java_finds(spark: SparkSession) -> None:
    found, taken = wrong(spark, seed=1, count=40, rows=120)
    assert found == []
    assert taken > 100


@pytest.mark.proof
@pytest.mark.parametrize("seed", range(2, 12))
def test_many_patterns_by_chance_find_what_java_finds(spark: SparkSession, seed: int) -> None:
    assert wrong(spark, seed, count=400, rows=300)[0] == []
