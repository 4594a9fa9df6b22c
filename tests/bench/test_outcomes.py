"""The comparison of what two contenders wrote, which must find differences, and the data they are given."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from bench.kafka.outcomes import Outcome, agreement, beside
from bench.workloads.every import WORKLOADS

ONE = Outcome(records=100, keys=50, all_records=1, rows=40, table=2)


@pytest.mark.parametrize(
    ("equal", "other"),
    [
        ("table", Outcome(100, 50, 1, 40, 3)),
        ("table", Outcome(100, 50, 1, 41, 2)),
        ("records", Outcome(100, 50, 3, 40, 2)),
        ("records", Outcome(101, 50, 1, 40, 2)),
        ("count", Outcome(100, 51, 1, 40, 2)),
    ],
)
def test_a_difference_ends_the_run(equal: str, other: Outcome) -> None:
    with pytest.raises(RuntimeError, match=f"do not agree in their {equal}"):
        agreement({"one": ONE, "other": other}, equal)


@pytest.mark.parametrize("equal", ["table", "records", "count"])
def test_nothing_agrees_with_nothing(equal: str) -> None:
    nothing = Outcome(0, 0, 0, 0, 0)
    with pytest.raises(RuntimeError, match="do not agree"):
        agreement({"one": nothing, "other": nothing}, equal)


@pytest.mark.parametrize(
    ("equal", "other"),
    [
        ("table", Outcome(70, 40, 9, 40, 2)),
        ("records", Outcome(100, 50, 1, 40, 2)),
        ("count", Outcome(90, 50, 9, 9, 9)),
    ],
)
def test_what_need_not_be_equal_may_differ(equal: str, other: Outcome) -> None:
    assert f"one 100, other {other.records}." in agreement({"one": ONE, "other": other}, equal)


def test_a_contender_beside_may_differ_and_that_is_said() -> None:
    said = beside({"one": ONE, "other": Outcome(100, 50, 1, 41, 3)}, "table")
    assert said.startswith("**other does not agree** in its table. Rows of the final table: one 40, other 41.")


def test_a_contender_beside_that_agrees_is_said_to() -> None:
    said = beside({"one": ONE, "other": Outcome(70, 40, 9, 40, 2)}, "table")
    assert said == "other: the final tables are the same: 40 rows. Records written: one 100, other 70."


def test_a_contender_beside_that_wrote_nothing_does_not_agree() -> None:
    assert "does not agree" in beside({"one": ONE, "other": Outcome(0, 0, 0, 0, 0)}, "records")


def side_of(folder: Path, side: str) -> pa.Table:
    return pa.concat_tables([pq.read_table(file) for file in sorted((folder / side).glob("*.parquet"))])


def test_left_rows_refer_to_right_rows_and_one_update_in_ten_to_another(tmp_path: Path) -> None:
    data = WORKLOADS["foreign_key"].data(tmp_path, True)
    left, right = side_of(data.folder, "left"), side_of(data.folder, "right")
    assert data.records == len(left) + len(right) == 202_000
    refers = pc.utf8_slice_codeunits(left["value"], 0, 8).cast(pa.int64())
    assert pc.all(pc.is_in(refers, value_set=right["key"].combine_chunks().unique())).as_py()
    assert set(pc.utf8_length(left["value"]).unique().to_pylist()) == {100}
    frame = pa.table({"key": left["key"], "refers": refers}).to_pandas()
    before = frame.groupby("key")["refers"].shift()
    updates = before.notna()
    assert int(updates.sum()) == 150_000
    assert 0.08 < (before != frame["refers"])[updates].mean() < 0.12


def test_a_record_of_a_stream_meets_about_one_partner(tmp_path: Path) -> None:
    data = WORKLOADS["stream_stream"].data(tmp_path, True)
    left, right = (side_of(data.folder, side).to_pandas() for side in ("left", "right"))
    both = left.merge(right, on="key")
    met = ((both["ts_x"] - both["ts_y"]).abs() <= 10_000).sum()
    assert 0.9 < met / len(left) < 1.1
