"""Functions: what kernels make of an expression is what Spark makes of it, to the bit, errors included."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from millpond._engine.expressions.evaluate import MODULES
from tests.spark.kernel_kit import differences, functions_of, read, settings
from tests.spark.kernel_rows import sample
from tests.spark.kernel_texts import SUBJECTS

SEED = 5
SETTINGS = {
    "spark_sql_session_timeZone": "UTC",
    # what two columns have in common Spark evaluates once, for rows too that neither asks for
    "spark_sql_subexpressionElimination_enabled": "false",
}


@pytest.fixture(scope="module")
def rows():
    return sample(SEED)


@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize("subject", SUBJECTS)
def test_kernels_make_of_every_row_what_spark_makes_of_it(spark: SparkSession, rows, subject, ansi):
    with settings(spark, **SETTINGS, spark_sql_ansi_enabled=ansi):
        assert differences(spark.createDataFrame(rows).coalesce(1), rows, SUBJECTS[subject]) == []


@pytest.mark.proof
@pytest.mark.parametrize("seed", range(100, 104))
def test_kernels_and_spark_agree_on_other_rows_and_on_each_error(spark: SparkSession, seed):
    rows = sample(seed)
    for ansi in ("true", "false"):
        with settings(spark, **SETTINGS, spark_sql_ansi_enabled=ansi):
            frame = spark.createDataFrame(rows).coalesce(1)
            for texts in SUBJECTS.values():
                assert differences(frame, rows, texts, most=1000) == []


def test_each_function_that_has_a_kernel_is_tried(spark: SparkSession, rows):
    texts = [text for listed in SUBJECTS.values() for text in listed]
    with settings(spark, **SETTINGS, spark_sql_ansi_enabled="true"):
        read_ones = read(spark.createDataFrame(rows), texts).values()
    tried = {name for each in read_ones if not isinstance(each, str) for name in functions_of(each)}
    assert {name for module in MODULES for name in (*module.KERNELS, *module.LAZY)} - tried == set()
