"""The demo as a user runs it, on the first flights of the year, and its own check, which must find faults.

One run of the real program over files; the rest, the comparison with pandas among it, needs no Spark.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pyarrow.parquet as pq
import pytest

from demo import picture, progress
from demo.check import DEPARTURE, FLIGHT, FLOWN, differences, expected_by_plane, expected_departures, expected_flights
from demo.inputs import TABLES, Inputs, load, write_files
from demo.run import judge

ROOT = Path(__file__).resolve().parents[2]
FLIGHTS = 3000
Outputs = dict[str, pd.DataFrame]


@pytest.fixture(scope="module")
def inputs() -> Inputs:
    return load(FLIGHTS)


def right_results(inputs: Inputs) -> tuple[Outputs, int]:
    """What a run without fault writes, but for the changes that later ones replace."""
    departures, flights = expected_departures(inputs), expected_flights(inputs)
    outputs = {
        "departures": departures.assign(key=departures["flight"]),
        "flights-by-plane": expected_by_plane(inputs).rename(columns={"tailnum": "key"}),
        "flights": flights.assign(key=flights["flight"]),
    }
    return outputs, int(departures["tailnum"].isna().sum())


def faults(inputs: Inputs, outputs: Outputs, dropped: int) -> list[bool]:
    """Which of the four checks find something."""
    return [bool(found) for found in differences(inputs, outputs, dropped).values()]


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
        "9,338 records in 2 batches",
        "2013-01-01 EV 4321 EWR MCI  6 h 19 N21197",
        "mean delay, min",
        "Envoy Air",
        str(tmp_path / "out" / "flights-by-plane"),
    ):
        assert shown in done.stdout
    assert "DIFFERS" not in done.stdout
    assert "9.34k/9.34k" in done.stderr
    for output, rows in {"departures": 6000, "flights-by-plane": 2502, "flights": 6000}.items():
        written = pq.read_table(tmp_path / "out" / output, columns=["key"], partitioning=None)
        assert written.num_rows == rows


def test_each_flight_and_each_plane_has_a_key_of_its_own(inputs: Inputs) -> None:
    assert inputs.schedule["flight"].is_unique
    assert inputs.actual["flight"].is_unique
    assert inputs.planes["tailnum"].is_unique
    assert inputs.airlines["carrier"].is_unique
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
    assert faults(inputs, *right_results(inputs)) == [False, False, False, False]


@pytest.mark.parametrize(("name", "check"), [("departures", 0), ("flights", 3)])
def test_the_check_finds_a_flight_that_is_missing(inputs: Inputs, name: str, check: int) -> None:
    outputs, dropped = right_results(inputs)
    rows = outputs[name]
    found = faults(inputs, outputs | {name: rows[rows["flight"] != rows["flight"].iloc[7]]}, dropped)
    assert found[check]


@pytest.mark.parametrize(("name", "check"), [("departures", 0), ("flights", 3)])
def test_the_check_finds_a_flight_that_an_older_change_has_replaced(inputs: Inputs, name: str, check: int) -> None:
    outputs, dropped = right_results(inputs)
    older = with_a_later_change(outputs[name], ["tailnum", "departed", "delay"])
    counted = dropped + 1 if name == "departures" else dropped
    assert faults(inputs, outputs | {name: older}, counted) == [number == check for number in range(4)]


@pytest.mark.parametrize(("name", "check"), [("departures", 0), ("flights", 3)])
def test_the_check_finds_a_deleted_flight(inputs: Inputs, name: str, check: int) -> None:
    outputs, dropped = right_results(inputs)
    deleted = with_a_later_change(outputs[name], DEPARTURE if name == "departures" else FLIGHT)
    counted = dropped + 1 if name == "departures" else dropped
    assert faults(inputs, outputs | {name: deleted}, counted) == [number == check for number in range(4)]


def test_the_check_finds_a_record_that_was_written_twice(inputs: Inputs) -> None:
    outputs, dropped = right_results(inputs)
    by_plane = outputs["flights-by-plane"]
    twice = pd.concat([by_plane, by_plane.iloc[[3]]])
    assert faults(inputs, outputs | {"flights-by-plane": twice}, dropped) == [False, True, False, False]


@pytest.mark.parametrize(("name", "check"), [("flights-by-plane", 1), ("flights", 3)])
def test_the_check_finds_another_plane_under_a_departure(inputs: Inputs, name: str, check: int) -> None:
    outputs, dropped = right_results(inputs)
    rows = outputs[name]
    wrong = rows.assign(seats=rows["seats"].where(rows.index != 3, 1))
    assert FLOWN[-1] == FLIGHT[-1] == "seats"
    assert faults(inputs, outputs | {name: wrong}, dropped) == [number == check for number in range(4)]


def test_the_check_finds_another_airline_under_a_flight(inputs: Inputs) -> None:
    outputs, dropped = right_results(inputs)
    flights = outputs["flights"]
    wrong = flights.assign(airline=flights["airline"].where(flights.index != 3, None))
    assert faults(inputs, outputs | {"flights": wrong}, dropped) == [False, False, False, True]


def test_the_check_finds_a_dropped_record_that_was_not_counted(inputs: Inputs) -> None:
    outputs, dropped = right_results(inputs)
    assert faults(inputs, outputs, dropped - 1) == [False, False, True, False]


def test_a_difference_is_shown_and_ends_the_demo_with_status_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert judge({"the table": [], "the stream": []}) == 0
    assert judge({"the table": [], "the stream": ["2 rows, 3 by pandas"]}) == 1
    assert "DIFFERS: the stream\n    2 rows, 3 by pandas" in capsys.readouterr().out


def test_the_bar_moves_within_a_step_and_never_reaches_the_next() -> None:
    ways = [progress.moved(seconds) for seconds in (0.2, 1, 5, 60, 600)]
    assert ways == sorted(ways)
    assert 0 < ways[0] < ways[2] < 1
    assert ways[-1] <= 1


def test_the_picture_has_a_bar_for_each_airline_and_hour(inputs: Inputs) -> None:
    drawn = picture.delays(expected_flights(inputs))
    root = ElementTree.fromstring(drawn)
    texts = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"Envoy Air", "United Air Lines Inc.", "06 h", "17 h"} <= set(texts)
    assert "03 h" not in texts
    bars = [each for each in root.iter("{http://www.w3.org/2000/svg}rect") if each.get("class") == "bar"]
    assert len(bars) == (len(texts) - 2) / 2
    assert all(0 < float(each.get("width", "0")) < picture.WIDTH for each in bars)
