"""The conformance command: what it counts, what it explains, what it prints, and its exit status."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from proof import conformance
from proof.conformance_compare import first_difference, judge
from proof.conformance_report import golden_table
from proof.conformance_runners import RUNNERS, OracleRunner, Output, run_oracle
from proof.oracle import Result, Semantics
from proof.recordings import History, RecordedStep, read
from tests.oracle.kit import RECORDINGS

FINDINGS = str(RECORDINGS / "histories" / "findings.jsonl.gz")


def history(*steps: RecordedStep, kind: str = "table_ops", **params: object) -> History:
    return History("made", kind, params, "current", "4.3.0", steps)


ECHO = history(
    RecordedStep("input", "k", "a", 1, (Result("k", "a", 1),)),
    RecordedStep("input", "k", "b", 2, (Result("k", "b", 2),)),
    RecordedStep("input", "k", "c", 3, (Result("k", "c", 3),)),
    ops=[],
)


class Forgetful(OracleRunner):
    """An oracle that loses the second step's results."""

    def run_many(self, histories: Sequence[History]) -> Sequence[Output]:
        outputs = [list(output) for output in super().run_many(histories)]
        for output in outputs:
            output[1] = []
        return outputs


def test_a_lost_result_is_unexplained_and_shown_as_the_shortest_prefix() -> None:
    (summary,) = conformance.measure(Forgetful(), [ECHO])
    assert (summary.equal, len(summary.unexplained)) == (0, 1)
    assert golden_table(summary.unexplained[0]).splitlines() == [
        "### made (table_ops, 4.3.0)",
        'params: {"ops": []}',
        "",
        "| step | topic | key | value | ts | expected | got |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        "| 0 | input | k | a | 1 | (k, a, 1) | (k, a, 1) |",
        "| 1 | input | k | b | 2 | (k, b, 2) | - |",
    ]


def test_a_difference_is_explained_by_the_smallest_set_of_rows() -> None:
    (jump,) = [found for found in read(FINDINGS) if found.id == "emit-final-jump"]
    verdict = judge(jump, run_oracle(jump, Semantics(faithful=False)))
    assert verdict.explained
    assert verdict.rows == {7}


def test_two_rows_are_named_when_one_does_not_do() -> None:
    steps = [
        RecordedStep("left", "x", "x", 100, ()),
        RecordedStep("left", "k", "l", 80, (Result("k", "l+null", 80),)),
        RecordedStep("right", None, "r", 500, ()),
    ]
    both = history(*steps, kind="stream_stream", type="left", before_ms=10, after_ms=10, grace_ms=100)
    repaired = run_oracle(both, Semantics(faithful=False))
    assert repaired[2] == [Result("k", "l+null", 80), Result("x", "x+null", 100)]
    assert judge(both, repaired).rows == {1, 2}


def test_nothing_is_explained_where_the_faithful_oracle_is_wrong() -> None:
    (jump,) = [found for found in read(FINDINGS) if found.id == "emit-final-jump"]
    wrong = History(
        jump.id,
        jump.kind,
        jump.params,
        "current",
        "4.3.0",
        (*jump.steps[:3], RecordedStep("input", "k", "x", 140, (Result("k", "?", 0),))),
    )
    verdict = judge(wrong, run_oracle(wrong, Semantics(faithful=False)))
    assert not verdict.equal
    assert not verdict.explained


@pytest.mark.parametrize(
    "other",
    [
        Result("k", "1", 5),
        Result("k", True, 5),
        Result("j", 1, 5),
        Result("k", 1, 6),
        Result("k", None, 5),
    ],
)
def test_results_differ_by_key_value_type_and_timestamp(other: Result) -> None:
    assert first_difference([(Result("k", 1, 5),)], [[Result("k", 1, 5)]]) is None
    assert first_difference([(Result("k", 1, 5),)], [[other]]) == 0


def test_a_timestamp_that_was_not_recorded_is_not_compared() -> None:
    assert first_difference([(Result("k", 1, None),)], [[Result("k", 1, 5)]]) is None


def test_a_missing_or_an_additional_step_is_a_difference() -> None:
    assert first_difference([()], []) == 0
    assert first_difference([], [[]]) == 0


def test_what_a_runner_cannot_run_is_listed_not_counted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "new_kind.jsonl"
    path.write_text(json.dumps({"id": "a", "kind": "new_kind", "params": {}, "steps": []}), encoding="utf-8")
    assert conformance.main([str(path)]) == 3
    assert capsys.readouterr().out == (
        "new_kind 4.3.0: 1 histories, 0 exactly equal, 0 equal after rows of section A, 0 unexplained, "
        "1 not run (NOT SET UP, unknown kind 'new_kind': 1)\n"
    )


def test_the_command_succeeds_when_all_is_equal_or_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert conformance.main(["--runner", "oracle", FINDINGS]) == 0
    assert "windowed_aggregate 4.3.0: 5 histories, 5 exactly equal" in capsys.readouterr().out
    assert conformance.main(["--runner", "oracle-repaired", FINDINGS]) == 0
    out = capsys.readouterr().out
    assert "stream_table 4.3.0: 1 histories, 0 exactly equal, 1 equal after rows of section A (row 3: 1)" in out
    assert "  row 14 (stream-stream: stored records disappear" in out


def test_the_command_fails_on_an_unexplained_difference(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    step = {"topic": "input", "key": "k", "value": "v", "ts": 5, "expect": []}
    line = {"id": "a", "kind": "table_ops", "params": {"ops": []}, "steps": [step]}
    path = tmp_path / "table_ops.jsonl"
    path.write_text(json.dumps(line), encoding="utf-8")
    assert conformance.main([str(path)]) == 1
    assert "| 0 | input | k | v | 5 | - | (k, v, 5) |" in capsys.readouterr().out


def test_an_unreadable_file_gives_status_2_and_the_others_are_still_compared(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    broken = tmp_path / "broken.jsonl"
    broken.write_text("no", encoding="utf-8")
    assert conformance.main([str(broken), FINDINGS]) == 2
    captured = capsys.readouterr()
    assert "broken.jsonl: line 1: not JSON" in captured.err
    assert captured.err.count("error:") == 1
    assert "fk_join 4.3.0: 3 histories, 3 exactly equal" in captured.out


def test_a_runner_that_is_not_there_is_said_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(RUNNERS, "spark", "watersmeet.testing.no_such_module:Runner")
    assert conformance.main(["--runner", "spark", FINDINGS]) == 2
    assert "the runner 'spark' (watersmeet.testing.no_such_module:Runner) cannot be loaded" in capsys.readouterr().err
