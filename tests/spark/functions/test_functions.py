"""Functions: what kernels make of an expression is what Spark makes of it, to the bit, errors included."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.spark.functions.kernel_chance import drawn_texts
from tests.spark.functions.kernel_kit import differences, evaluated, frame_of, functions_of, plain, read, settings
from tests.spark.functions.kernel_rows import sample
from tests.spark.functions.kernel_texts import CHANGED, SUBJECTS
from tests.spark.functions.kernel_types import pairs, typed, typed_sample, typed_texts
from watersmeet._engine.expressions.evaluate import FAMILIES, RowsOfArrays
from watersmeet._engine.rows import array

SEED = 5
LETTERS_AROUND = [
    "",
    "A",
    "1",
    ".",
    "A.",
    "A:1",
    "\u0301",
    "A\u0301",
    "\u02b0",
    " ",
    "\u00aa",
    "\u2160",
    "\u0345",
    ".A",
    "x y",
]
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
        assert differences(frame_of(spark, rows), rows, SUBJECTS[subject]) == []


@pytest.mark.proof
@pytest.mark.parametrize("seed", range(100, 104))
def test_kernels_and_spark_agree_on_other_rows_and_on_each_error(spark: SparkSession, seed):
    rows = sample(seed)
    for ansi in ("true", "false"):
        with settings(spark, **SETTINGS, spark_sql_ansi_enabled=ansi):
            frame = frame_of(spark, rows)
            for texts in SUBJECTS.values():
                assert differences(frame, rows, texts, most=1000) == []


@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.proof) for seed in range(2, 6))])
def test_functions_within_functions_are_sparks(spark: SparkSession, rows, seed, ansi):
    with settings(spark, **SETTINGS, spark_sql_ansi_enabled=ansi):
        frame = frame_of(spark, rows)
        found = read(frame, drawn_texts(seed, 150))
        known = [text for text, each in found.items() if not isinstance(each, str)]
        assert len(known) > 100
        assert differences(frame, rows, known, most=8) == []


def _differing(spark: SparkSession, seed: int, ansi: str, texts: list[str]) -> list[str]:
    """Where kernels and Spark differ in expressions over columns of types by chance."""
    rows = typed_sample(seed)
    with settings(spark, **SETTINGS, spark_sql_ansi_enabled=ansi):
        frame = frame_of(spark, rows)
        found = read(frame, typed(frame, texts))
        known = [text for text, each in found.items() if not isinstance(each, str)]
        assert len(known) > len(texts) // 4
        parts = [known[at : at + 60] for at in range(0, len(known), 60)]
        return [each for part in parts for each in differences(frame, rows, part, most=8)]


@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize("seed", [5, *(pytest.param(seed, marks=pytest.mark.proof) for seed in range(100, 120))])
def test_functions_of_types_by_chance_are_sparks(spark: SparkSession, seed, ansi):
    proof = seed >= 100
    assert _differing(spark, seed, ansi, typed_texts(seed, 400 if proof else 60)) == []


@pytest.mark.proof
@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize("seed", range(3))
def test_casts_between_all_pairs_of_types_are_sparks(spark: SparkSession, seed, ansi):
    assert _differing(spark, seed, ansi, pairs(seed)) == []


def test_what_sparks_optimizer_makes_other_expressions_of_stays_sparks(spark: SparkSession, rows):
    with settings(spark, **SETTINGS, spark_sql_ansi_enabled="true"):
        found = read(frame_of(spark, rows), CHANGED)
    assert [text for text, each in found.items() if not isinstance(each, str)] == []


def test_a_part_of_the_rows_gives_a_part_of_the_values_and_none_gives_none(spark: SparkSession, rows):
    texts = [text for listed in SUBJECTS.values() for text in listed]
    with settings(spark, **SETTINGS, spark_sql_ansi_enabled="false"):
        expressions = read(frame_of(spark, rows), texts)
    nothing = rows.slice(0, 0)
    for text, each in expressions.items():
        assert not isinstance(each, str), text
        whole, part = evaluated(each, rows), evaluated(each, rows.slice(37, 50))
        assert plain(part.values) == plain(whole.values)[37:87], text
        assert len(RowsOfArrays(0, lambda name: array(nothing, name)).evaluate(each)) == 0, text


def test_upper_and_lower_case_are_sparks_for_every_character(spark: SparkSession, tmp_path: Path):
    texts = [chr(c) + "x" for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    words = [one + "\u03a3" + other for one in LETTERS_AROUND for other in LETTERS_AROUND]
    rows = pa.table({"row": pa.array(range(len(texts + words)), pa.int32()), "t": texts + words})
    # from a file: a million rows of a local relation take a third of the heap
    pq.write_table(rows, tmp_path / "rows.parquet")
    frame = spark.read.parquet(str(tmp_path / "rows.parquet")).coalesce(1)
    assert differences(frame, rows, ["upper(t)", "lower(t)"]) == []


def test_each_function_that_has_a_kernel_is_tried(spark: SparkSession, rows):
    texts = [text for listed in SUBJECTS.values() for text in listed]
    with settings(spark, **SETTINGS, spark_sql_ansi_enabled="true"):
        read_ones = read(frame_of(spark, rows), texts).values()
    tried = {name for each in read_ones if not isinstance(each, str) for name in functions_of(each)}
    assert {name for family in FAMILIES for name in (*family.kernels, *family.lazy)} - tried == set()
