"""Reading recordings: both formats, plain and compressed, and what is said about files that are neither."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from proof.oracle import Result
from proof.oracle.records import Windowed
from proof.recordings import History, RecordedStep, RecordingError, read

LINE: dict[str, Any] = {
    "id": "one",
    "kind": "table_ops",
    "params": {"ops": []},
    "steps": [{"topic": "input", "key": "k", "value": "v", "ts": 5, "expect": [{"key": "k", "value": "v", "ts": 5}]}],
}
HISTORY = History(
    "one", "table_ops", {"ops": []}, "current", "4.3.0", (RecordedStep("input", "k", "v", 5, (Result("k", "v", 5),)),)
)


def test_a_history_is_read_plain_and_compressed(tmp_path: Path) -> None:
    plain, packed = tmp_path / "table_ops.jsonl", tmp_path / "table_ops.jsonl.gz"
    plain.write_text(json.dumps(LINE) + "\n\n" + json.dumps(LINE), encoding="utf-8")
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert read(plain) == read(packed) == [HISTORY, HISTORY]


def test_the_version_comes_from_the_line_else_from_the_name(tmp_path: Path) -> None:
    path = tmp_path / "table_ops.4.0.0.jsonl"
    path.write_text(json.dumps(LINE) + "\n" + json.dumps({**LINE, "kafka_version": "0.10.2.2"}), encoding="utf-8")
    assert [history.version for history in read(path)] == ["4.0.0", "0.10.2.2"]


def test_a_line_separator_inside_a_value_does_not_end_the_line(tmp_path: Path) -> None:
    step = {**LINE["steps"][0], "value": "a\u2028b"}
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps({**LINE, "steps": [step]}, ensure_ascii=False), encoding="utf-8")
    assert read(path)[0].steps[0].value == "a\u2028b"


def test_a_step_at_which_the_engine_failed_has_no_expectation(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps({**LINE, "steps": [{**LINE["steps"][0], "expect": None}]}), encoding="utf-8")
    assert read(path)[0].steps[0].expect is None


def test_vectors_are_read_by_sides_with_windows_written_as_text(tmp_path: Path) -> None:
    step = {"side": "input", "topic": "t", "key": "k", "value": "v", "ts": 1}
    vector = {
        "name": "OracleProbe.x",
        "operator": "window-aggregate",
        "steps": [
            {
                **step,
                "expect": [{"key": "[k@0/10]", "value": {"new": 1, "old": None}, "ts": None, "sink": "s"}],
            },
            {"side": None, "advance_wall_clock_ms": 7, "expect": []},
        ],
    }
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"meta": {}, "vectors": [vector]}), encoding="utf-8")
    (history,) = read(path)
    assert (history.kind, history.version) == ("vector:window-aggregate", "4.0.0")
    change = (("new", 1), ("old", None))
    assert history.steps[0].expect == (Result(Windowed("k", 0, 10), change, None, "s"),)
    assert history.steps[1].advance_ms == 7
    assert history.vector is not None
    assert history.vector["observes_changes"]
    assert history.vector["inputs"] == ["input"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.jsonl", b"{}", r"x\.jsonl: line 1: not a recording: 'id' is missing.*Hint:"),
        ("x.jsonl", b"not json", r"x\.jsonl: line 1: not JSON.*Hint:"),
        ("x.jsonl", b"[1]", r"x\.jsonl: line 1: not a recording.*Hint:"),
        ("x.jsonl", b"\xff\xfe", r"x\.jsonl: cannot be read.*Hint:"),
        ("x.jsonl.gz", b"\x1f\x8b broken", r"x\.jsonl\.gz: cannot be read.*Hint:"),
        ("x.json", b"{", r"x\.json: not JSON.*Hint:"),
        ("x.json", b"{}", r"x\.json: not a recording: 'vectors' is missing.*Hint:"),
        ("x.json", b'{"vectors": [{"name": "n"}]}', r"x\.json: vector 0: not a recording: 'operator'.*Hint:"),
    ],
)
def test_an_unreadable_file_says_where_and_why(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(RecordingError, match=message):
        read(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"gone\.jsonl: cannot be read"):
        read(tmp_path / "gone.jsonl")
