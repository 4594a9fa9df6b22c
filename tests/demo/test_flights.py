"""The demo as a user runs it, on the first flights of the year, and its own check, which must find faults.

One run of the real program over files; the rest, the comparison with pandas among it, needs no Spark.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from demo.check import DEPARTURE, FLOWN, differences, expected_by_plane, expected_departures
from demo.inputs import TABLES, Inputs, load, write_files

ROOT = Path(__file__).resolve().parents[2]
FLIGHTS = 3000


@pytest.fixture(scope="module")
def inputs() -> Inputs:
    return load(FLIGHTS)


def right_results(inputs: Inputs) -> tuple[pd.DataFrame, pd.DataFrame, int]:
    """What a run without fault writes, but for the changes of departures that later ones replace."""
    departures = expected_departures(inputs)
    by_plane = expected_by_plane(inputs).rename(columns={"tailnum": "key"})
    return (
        departures.assign(key=departures["flight"]),
        by_plane,
        int(departures["tailnum"].isna().sum()),
    )


def faults(inputs: Inputs, departures: pd.DataFrame, by_plane: pd.DataFrame, dropped: int) -> list[bool]:
    """Which of the three checks find something."""
    return [bool(found) for found in differences(inputs, departures, by_plane, dropped).values()]


def with_a_later_change(departures: pd.DataFrame, emptied: list[str]) -> pd.DataFrame:
    """One flight changes once more: these fields become null."""
    changes = pd.concat([departures, departures.iloc[[7]]], ignore_index=True)
    changes.loc[len(departures), emptied] = None
    return changes


@pytest.mark.spark
def test_the_demo_runs_shows_its_results_and_finds_them_as_pandas_has_them(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "demo/flights.py", "--rows", str(FLIGHTS), "--batches", "2"),
            *("--folder", str(tmp_path)),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for shown in (
        "3,000 flights from New York",
        "Topology flights (current semantics)",
        "departures-with-planes: null_key: 3,022",
        "9,322 records in 2 batches",
        "2013-01-01 EV 4321 EWR MCI  6 h 19 N21197",
        "mean delay, min",
        str(tmp_path / "out" / "flights-by-plane"),
    ):
        assert shown in done.stdout
    assert "DIFFERS" not in done.stdout
    assert "9.32k/9.32k" in done.stderr
    for output in ("departures", "flights-by-plane"):
        written = pq.read_table(tmp_path / "out" / output, columns=["key"], partitioning=None)
        assert written.num_rows == {"departures": 6000, "flights-by-plane": 2502}[output]


def test_each_flight_and_each_plane_has_a_key_of_its_own(inputs: Inputs) -> None:
    assert inputs.schedule["flight"].is_unique
    assert inputs.actual["flight"].is_unique
    assert inputs.planes["tailnum"].is_unique
    assert load().schedule["flight"].is_unique


def test_no_flight_leaves_before_it_is_published(inputs: Inputs) -> None:
    both = inputs.schedule.merge(inputs.actual, on="flight", suffixes=("_published", "_left"))
    assert (both["at_published"] < both["at_left"]).all()


def test_the_files_hold_every_record_once_and_follow_one_another_in_time(inputs: Inputs, tmp_path: Path) -> None:
    folder = write_files(inputs, tmp_path, 3)
    ends = []
    for name in TABLES:
        files = sorted((folder / name).glob("*.parquet"), key=lambda file: file.stat().st_mtime)
        parts = [pq.read_table(file).to_pandas() for file in files]
        assert len(parts) == 3
        assert pd.concat(parts)["at"].tolist() == getattr(inputs, name)["at"].tolist()
        ends.append([part["at"] for part in parts])
    for number in range(2):
        latest = max(part[number].max() for part in ends if len(part[number]))
        earliest = min(part[number + 1].min() for part in ends if len(part[number + 1]))
        assert latest < earliest


def test_files_that_are_there_are_not_written_again(inputs: Inputs, tmp_path: Path) -> None:
    first = write_files(inputs, tmp_path, 2)
    (first / "planes" / "000.parquet").write_bytes(b"still there")
    assert write_files(inputs, tmp_path, 2) == first
    assert (first / "planes" / "000.parquet").read_bytes() == b"still there"


def test_the_check_finds_nothing_in_right_results(inputs: Inputs) -> None:
    assert faults(inputs, *right_results(inputs)) == [False, False, False]


def test_the_check_finds_a_departure_that_is_missing(inputs: Inputs) -> None:
    departures, by_plane, dropped = right_results(inputs)
    assert faults(inputs, departures[departures["flight"] != departures["flight"].iloc[7]], by_plane, dropped)[0]


def test_the_check_finds_a_departure_that_an_older_change_has_replaced(inputs: Inputs) -> None:
    departures, by_plane, dropped = right_results(inputs)
    older = with_a_later_change(departures, ["tailnum", "departed", "delay"])
    assert faults(inputs, older, by_plane, dropped + 1) == [True, False, False]


def test_the_check_finds_a_deleted_flight(inputs: Inputs) -> None:
    departures, by_plane, dropped = right_results(inputs)
    deleted = with_a_later_change(departures, DEPARTURE)
    assert faults(inputs, deleted, by_plane, dropped + 1) == [True, False, False]


def test_the_check_finds_a_record_that_was_written_twice(inputs: Inputs) -> None:
    departures, by_plane, dropped = right_results(inputs)
    twice = pd.concat([by_plane, by_plane.iloc[[3]]])
    assert faults(inputs, departures, twice, dropped) == [False, True, False]


def test_the_check_finds_another_plane_under_a_departure(inputs: Inputs) -> None:
    departures, by_plane, dropped = right_results(inputs)
    wrong = by_plane.assign(seats=by_plane["seats"].where(by_plane.index != 3, 1))
    assert FLOWN[-1] == "seats"
    assert faults(inputs, departures, wrong, dropped) == [False, True, False]


def test_the_check_finds_a_dropped_record_that_was_not_counted(inputs: Inputs) -> None:
    departures, by_plane, dropped = right_results(inputs)
    assert faults(inputs, departures, by_plane, dropped - 1) == [False, False, True]
