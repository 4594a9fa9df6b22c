"""What is said of the lengths of tests: the table of long ones, and each file's budget in `make test`."""

from __future__ import annotations

import json
from pathlib import Path

from tests.lengths import BUDGET, BUDGET_OF_ALL, LARGER, LONG, SECONDS, TESTS, Line, lines, parted, recorded, stale

ROOT = TESTS.parent
TABLE = """
# a comment
[kills: why]
tests/a.py
tests/b.py::test_x but one | two-*
"""


def test_a_line_names_a_file_or_a_test_and_keeps_parameters() -> None:
    file, test = lines(TABLE)
    assert (file, test) == (
        Line("tests/a.py", (), "kills: why"),
        Line("tests/b.py::test_x", ("one", "two-*"), "kills: why"),
    )
    assert file.takes("tests/a.py::test_y[3]")
    assert not file.takes("tests/ab.py::test_y")
    assert [test.takes(f"tests/b.py::test_x[{each}]") for each in ("one", "two-3", "three")] == [False, False, True]
    assert not test.takes("tests/b.py::test_xy")


def test_a_line_that_names_or_keeps_no_test_is_found() -> None:
    there = ["tests/b.py::test_x[one]", "tests/b.py::test_x[three]"]
    assert stale(lines(TABLE), there) == ["tests/b.py::test_x but two-*"]
    assert stale(lines(TABLE), ["tests/a.py::test_z", "tests/b.py::test_z"]) == ["tests/b.py::test_x"]
    assert stale(lines(TABLE), ["tests/c.py::test_z"]) == []


def test_each_line_of_the_table_names_what_is_there_and_has_a_reason() -> None:
    table = lines(LONG.read_text())
    assert len({line.place for line in table}) == len(table)
    for line in table:
        file, _, test = line.place.partition("::")
        assert (ROOT / file).exists(), line.place
        assert not test or f"def {test.partition('[')[0]}(" in (ROOT / file).read_text(), line.place
        assert line.why, line.place


def test_the_table_alone_says_what_is_long() -> None:
    mark = "mark" + ".long"
    assert [str(file) for file in TESTS.rglob("*.py") if mark in file.read_text()] == []


def test_no_file_takes_more_in_make_test_than_its_budget() -> None:
    took = {name: each.get("test", 0.0) for name, each in json.loads(SECONDS.read_text()).items()}
    over = {name: took[name] for name in took if took[name] > LARGER.get(name, (BUDGET, ""))[0]}
    assert over == {}
    assert sum(took.values()) < BUDGET_OF_ALL


def test_a_larger_budget_is_needed_where_it_is_given() -> None:
    took = json.loads(SECONDS.read_text())
    assert [name for name in LARGER if took.get(name, {}).get("test", 0.0) <= BUDGET] == []
    assert [name for name, (_, why) in LARGER.items() if not why] == []


def test_seconds_of_files_that_did_not_run_stay_and_those_of_files_that_are_gone_go(tmp_path: Path) -> None:
    before = recorded({"tests/lengths.py": {"test": 3.0}, "tests/gone.py": {"test": 1.0}}, "{}")
    after = json.loads(recorded({"tests/test_lengths.py": {"long": 2.04}}, before))
    assert after == {"tests/lengths.py": {"test": 3.0}, "tests/test_lengths.py": {"long": 2.0}}


def test_each_file_is_in_one_part_and_the_parts_take_about_as_long() -> None:
    took = {name: each.get("long", 0.0) for name, each in json.loads(SECONDS.read_text()).items()}
    files = [*took, "tests/new.py"]
    parts = parted(files, took, 3)
    assert sorted(name for part in parts for name in part) == sorted(files)
    sums = [sum(took.get(name, 0.0) for name in part) for part in parts]
    assert max(sums) - min(sums) <= max(took.values())


def test_parts_do_not_depend_on_the_order_in_which_files_are_collected() -> None:
    took = {"tests/a.py": 2.0, "tests/b.py": 2.0, "tests/c.py": 1.0}
    assert parted([*took], took, 2) == parted([*reversed(took)], took, 2)
