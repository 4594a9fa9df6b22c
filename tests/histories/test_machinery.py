"""The random histories' own machinery: shrinking, reports, soaks that resume; and histories that once failed."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path

import pytest

from proof.histories import Blueprint, Case, Input, check, shrink
from proof.histories.__main__ import main
from proof.histories.case import of_json, to_json
from proof.histories.check import run_oracle
from proof.histories.draw import case_of
from proof.histories.report import page, seed_line
from proof.histories.soak import load, soak
from tests.histories.ops import op, windowed
from watersmeet._engine.operators import table_join
from watersmeet._engine.state import runs

TWO_TABLES = (op("table"), op("table"))
JOINED = Blueprint((*TWO_TABLES, op("table_table", 0, 1, how="inner"), op("table_to", 2)))
LAST_MOMENT = (
    op("stream"),
    op("stream"),
    windowed(0, 1, "left", 0, 1, 3),
    op("stream"),
    windowed(3, 2, "left", 1, 5, 0),
    op("to", 4),
)
ONCE_DIFFERENT = {
    "a record elsewhere moves the time of a join": (
        (op("stream"), op("stream"), op("stream"), windowed(1, 2, "left", 0, 5, 0), op("to", 3), op("to", 0)),
        (Input("n0", "b", "1", 41), Input("n1", "a", "1", 1)),
    ),
    "what is let go of twice changes places": (
        (op("stream"), op("stream"), windowed(0, 1, "outer", 0, 20, 3), windowed(2, 2, "left", 5, -5, 0), op("to", 3)),
        (Input("n0", "a", "1", 0), Input("n1", "b", "1", 9), Input("n1", "a", "1", 55)),
    ),
    "a partner is let go of in the last moment in which it can come": (
        LAST_MOMENT,
        (Input("n3", "a", "1", 6), Input("n0", "a", "2", 11), Input("n3", "a", "3", 43)),
    ),
    "so it is where both sides wait": (
        (
            op("stream"),
            op("stream"),
            windowed(0, 1, "outer", 1, 0, 0),
            op("stream"),
            windowed(2, 3, "outer", 5, -5, 0),
            op("to", 4),
        ),
        (Input("n0", "a", "1", 5), Input("n3", "a", "1", 0), Input("n3", "a", "1", 41)),
    ),
    "two joins of a chain let go at one place": (
        (op("stream"), windowed(0, 0, "outer", -1, 5, 0), windowed(1, 1, "outer", 5, -5, 0), op("to", 2)),
        (Input("n0", "a", "1", 80), Input("n0", "a", "1", 86)),
    ),
}


@pytest.mark.parametrize("name", list(ONCE_DIFFERENT))
def test_what_once_differed_holds(name: str) -> None:
    ops, records = ONCE_DIFFERENT[name]
    found = check(Case(Blueprint(ops), records))
    assert found is None, page(found)


def test_a_row_is_not_let_go_in_the_moment_in_which_a_partner_that_was_held_back_comes() -> None:
    _, records = ONCE_DIFFERENT["a partner is let go of in the last moment in which it can come"]
    *before, last = run_oracle(Case(Blueprint(LAST_MOMENT), records))[0]
    assert before == [[], []]
    assert [(result.ts, "null" in result.value.split("+")[:2]) for result in last] == [(11, False)]


def broken(monkeypatch: pytest.MonkeyPatch) -> Case:
    """A case that fails, since an inner join now loses its tombstones."""
    rule = table_join._current_rule

    def without_tombstones(how, changes):  # type: ignore[no-untyped-def]
        emitted, joins, old_joins = rule(how, changes)
        return emitted & joins, joins, old_joins

    monkeypatch.setattr(table_join, "_current_rule", without_tombstones)
    noise = tuple(Input(f"n{number % 2}", "b", str(number), number) for number in range(20))
    told = (Input("n0", "a", "1", 30), Input("n1", "a", "2", 31), Input("n0", "a", None, 32))
    return Case(JOINED, noise[:10] + told + noise[10:], cuts=(3, 9, 15), shards=3, replay=True)


def test_a_failing_case_shrinks_to_the_records_that_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    found = check(broken(monkeypatch))
    assert found is not None
    small = shrink(found).case
    assert len(small.records) == 2, "a value on one side, a tombstone on the other"
    assert (small.cuts, small.shards, small.replay) == ((), 1, False)


def test_a_report_holds_all_that_is_needed_to_see_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    found = check(broken(monkeypatch))
    assert found is not None
    text = page(found)
    assert "n2 = table_table(n0, n1, how='inner')" in text
    assert "| 12 | n0 | a | null | 32 | n3: a = null @32 | - |" in text
    assert of_json(json.loads(text.splitlines()[-1])) == found.case
    assert "--seed 4 --only 9" in seed_line(4, 9, found)


def test_a_case_survives_being_written_down() -> None:
    for number in range(30):
        case = case_of(3, number)
        assert str(of_json(json.loads(json.dumps(to_json(case)))).blueprint.lines()) == str(case.blueprint.lines())
        assert of_json(json.loads(json.dumps(to_json(case)))).records == case.records


def test_a_soak_goes_on_where_it_stopped(tmp_path: Path) -> None:
    path, said = tmp_path / "soak.json", []
    assert soak(30, 5, workers=1, path=path, say=said.append).done == 30
    assert load(path, 5).done == 30
    assert soak(40, 5, workers=1, path=path, say=said.append).done == 40
    assert said[-1].startswith("40 of 40 histories, 0 failed")


def test_a_soak_of_another_seed_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "soak.json"
    soak(5, 5, workers=1, path=path, say=str)
    assert main(["--count", "10", "--seed", "6", "--resume", str(path)]) == 2
    assert "Hint:" in capsys.readouterr().err


def test_the_command_fails_when_a_history_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken(monkeypatch)
    assert main(["--count", "110", "--seed", "1", "--workers", "1"]) == 1
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("FAILED"))
    number = line.split("number ")[1].split(":")[0]
    assert main(["--seed", "1", "--only", number]) == 1


def test_a_replay_that_writes_other_bytes_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers, writer = count(1_000), runs.RunWriter
    monkeypatch.setattr(runs, "RunWriter", lambda store, reader, _, size: writer(store, reader, next(numbers), size))
    found = check(Case(JOINED, (Input("n0", "a", "1", 0), Input("n1", "a", "1", 1)), replay=True))
    assert found is not None
    assert (found.check, found.message) == ("replay", "a replayed batch wrote other state")
