"""Whoever makes a mistake is told what it is, what was given, and what to write, on their own line."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from tests.api.mistakes import aggregates, columns, names, options, processors, runs, settings, values
from tests.api.mistakes.kit import faults, parsed, run, scene

pytestmark = pytest.mark.spark
TABLE = {
    f"{m.__name__.rpartition('.')[2]} {n}": row
    for m in (names, options, values, columns, aggregates, processors, runs, settings)
    for n, row in enumerate(m.ROWS)
}


@pytest.fixture(scope="module")
def schemas(spark: SparkSession) -> dict[str, Any]:
    return parsed(spark)


@pytest.fixture(scope="module")
def frames(spark: SparkSession, schemas: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    frame = spark.createDataFrame([], "id long, at timestamp, text string, row int")
    folder = str(tmp_path_factory.mktemp("checkpoints"))
    return {"frame": frame, "schema": schemas["click"], "pandas": pd.DataFrame({"id": [1]}), "folder": folder}


@pytest.mark.parametrize("case", TABLE)
def test_a_mistake_is_answered_with_what_was_given_and_what_to_write(
    case: str, spark: SparkSession, schemas: dict[str, Any], frames: dict[str, Any]
) -> None:
    row, file = TABLE[case], f"<{case}>"
    error = run(row[0], scene(spark, schemas, frames), file)
    assert faults(row, error, file) == [], row[0]


def test_the_table_has_hundreds_of_mistakes_each_once() -> None:
    programs = [program for program, _, _ in TABLE.values()]
    assert len(programs) == len(set(programs)) >= 300
