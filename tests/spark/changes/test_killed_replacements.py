"""A driver that is killed while a table is replaced: the rows that differ are written once, or not yet."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import watersmeet as wm
from tests.spark.changes import killed_replacement
from tests.spark.changes.killed_replacement import KIND
from tests.spark.changes.views import NAMES, Table, contents, counts_of, random_rows
from tests.spark.checkpoints.killing import killed

STEPS = ("clear", "gather", "carry_state", "replace_tables", "number_state", "write_logs")
BOUND = ("recorded", "written")
"""Moments from which on the checkpoint belongs to the new definition."""


def changes(spark: SparkSession, folder: Path, name: str) -> list[tuple[Any, Any]]:
    """What was written, in its order."""
    rows = spark.read.parquet(str(folder / "out" / name)).orderBy("batch_id", "sequence").collect()
    return [(row["key"], row["value"]) for row in rows]


@pytest.mark.parametrize(
    "moments",
    [("replace_tables", "written"), pytest.param((*STEPS, *BOUND) * 3, marks=pytest.mark.proof)],
    ids=["two", "all"],
)
def test_a_driver_that_is_killed_while_a_table_is_replaced_writes_each_row_that_differs_once(
    spark: SparkSession, tmp_path: Path, moments: tuple[str, ...]
) -> None:
    rng, number = random.Random(4), 0
    tables: dict[str, Table] = defaultdict(dict)
    random_rows(rng, spark, tmp_path, tables, 12)
    killed_replacement.run(spark, tmp_path, number)
    for moment in moments:
        before, seen = contents(tables, (KIND, number)), len(changes(spark, tmp_path, "view"))
        other = rng.choice([n for n in range(6) if n != number])
        killed(killed_replacement, tmp_path, other, moment)
        if moment in BOUND:
            with pytest.raises(wm.ChangedTopology):
                killed_replacement.run(spark, tmp_path, number)
        else:
            # nothing has happened yet
            killed_replacement.run(spark, tmp_path, number)
            assert len(changes(spark, tmp_path, "view")) == seen
        killed_replacement.run(spark, tmp_path, other, evolve=True, replace=["view"])
        number, after = other, contents(tables, (KIND, other))
        differ = {k: after.get(k) for k in before.keys() | after.keys() if before.get(k) != after.get(k)}
        told = changes(spark, tmp_path, "view")[seen:]
        assert sorted(told) == sorted(differ.items()), moment
    counts = {value: n for value, n in dict(changes(spark, tmp_path, "view n")).items() if n != "0"}
    assert counts == counts_of(contents(tables, (KIND, number)))
    assert set(tables) <= set(NAMES)
