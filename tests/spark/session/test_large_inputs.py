"""A label's rows beyond a size lie in a file: the same rows, and no file and no memory is left behind."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.spark.driver import test_driver_in_process as driven
from watersmeet._engine import row_sizes
from watersmeet._worker import spill
from watersmeet._worker.spill import LabelInputs
from watersmeet.testing.driver import TopologyTestDriver

SIDES = {4: 0, 5: 1, 6: 1}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/nowhere")
    return tmp_path


def table(number: int, *, held: bool = False) -> pa.Table:
    rows = np.arange(500) + number
    columns = {"offset": rows, "value": [None if n % 3 == 0 else f"{number}-{n}" for n in rows]}
    return pa.table(columns | ({"held_key": [b"k"] * 500} if held else {}))


def given(tables: list[tuple[int, pa.Table]]) -> LabelInputs:
    made = LabelInputs(SIDES)
    for port, rows in tables:
        made.add(port, row_sizes.encode(rows))
    return made


@pytest.mark.parametrize("held_bytes", [0, 40_000, 1 << 30], ids=["all in a file", "some in a file", "in memory"])
def test_rows_are_those_of_the_blobs_in_their_order_wherever_they_lie(
    monkeypatch: pytest.MonkeyPatch, folder: Path, held_bytes: int
) -> None:
    monkeypatch.setattr(spill, "INPUTS_HELD_BYTES", held_bytes)
    parts = [((4, 5, 6)[number % 3], table(number, held=number == 7)) for number in range(12)]
    made = given(parts)
    assert len(list(folder.iterdir())) == (held_bytes < 1 << 30)
    found = made.tables()
    assert list(folder.iterdir()) == []
    for side in (0, 1):
        rows = pa.concat_tables([each for port, each in parts if SIDES[port] == side], promote_options="default")
        assert found[side].equals(rows)
        found[side].validate(full=True)


def test_what_lies_in_a_file_takes_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [(4, table(number)) for number in range(40)]
    size = sum(rows.nbytes for _, rows in parts)
    del parts[1:]
    monkeypatch.setattr(spill, "INPUTS_HELD_BYTES", 0)
    before = pa.total_allocated_bytes()
    found = given(parts * 40).tables()
    assert found[0].nbytes > 0.9 * size
    assert pa.total_allocated_bytes() - before < size / 10


def test_a_label_that_fails_before_its_operator_runs_leaves_no_file(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setattr(spill, "INPUTS_HELD_BYTES", 0)
    made = given([(4, table(0))])
    assert len(list(folder.iterdir())) == 1
    del made
    assert list(folder.iterdir()) == []
    assert tempfile.gettempdir() != str(folder)


def test_results_are_the_same_where_all_rows_of_a_level_lie_in_files(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for held_bytes in (1 << 30, 0):
        monkeypatch.setattr(spill, "INPUTS_HELD_BYTES", held_bytes)
        for write in (driven.foreign_keys, driven.stream_joins):
            run = TopologyTestDriver(driven.built(write))
            for each in driven.ORDERS:
                run.pipe(*each[:3], ts=each[3])
            found.append(driven.plain(driven.outputs(driven.built(write), run, "")))
    assert found[:2] == found[2:]
    assert any(found[0].values())
