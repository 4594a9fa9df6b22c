"""Recordings that nobody here has seen: other names, other parameters, kinds that are unknown, steps of other shapes.

Whatever a recording looks like: it is equal, or it is refused with what it does not tell; the command never dies of
it. What is left out or altered here is so in real recordings, taken as they are.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from proof import conformance
from proof.conformance_report import KindSummary, golden_table
from proof.conformance_runners import OracleRunner, Runner
from proof.oracle.vectors.untold import FACTS
from proof.recordings import History, RecordedStep, read
from proof.runners.engine import EngineRunner
from tests.oracle.kit import HISTORIES, VECTORS

RUNNERS: list[Runner] = [OracleRunner(), EngineRunner()]


@pytest.fixture(scope="module")
def vectors() -> list[History]:
    return [vector for path in VECTORS for vector in read(path)]


@pytest.fixture(scope="module")
def families() -> list[History]:
    """The first history of each family of parameters."""
    found = {(path.name, h.id.split("/")[0]): h for path in HISTORIES for h in reversed(read(path)[:400])}
    return list(found.values())


def renamed(history: History) -> History:
    """The history under a name that says nothing."""
    assert history.vector is not None
    return replace(history, id="Other.test", vector={**history.vector, "name": "Other.test"})


def without(history: History, name: str) -> History:
    """The history without one of its parameters, or of a vector's fields."""
    params = {key: value for key, value in history.params.items() if key != name}
    if history.vector is None:
        return replace(history, params=params)
    vector = {key: value for key, value in history.vector.items() if key != name} | {"params": params}
    return replace(history, params=params, vector=vector)


def unexplained(summaries: list[KindSummary]) -> list[str]:
    return [golden_table(verdict) for summary in summaries for verdict in summary.unexplained]


@pytest.mark.parametrize("runner", RUNNERS, ids=lambda runner: type(runner).__name__)
def test_a_vector_under_another_name_is_as_before_or_says_what_it_does_not_tell(
    runner: Runner, vectors: list[History]
) -> None:
    # one of them says a joiner that is not the one it was recorded with: only its name tells
    wrong = "KStreamSlidingWindowAggregateTest.testJoin"
    others = [vector for vector in vectors if not vector.id.startswith(wrong)]
    before = conformance.measure(runner, others)
    after = conformance.measure(runner, [renamed(vector) for vector in others])
    assert unexplained(before) == []
    assert unexplained(after) == []
    assert sum(s.failed.total() for s in before) == 0
    untold = sum((s.failed for s in after), Counter[str]())
    assert all("does not tell its" in reason for reason in untold)
    assert untold.total() <= len(FACTS) + 4  # with what has a number behind its name


def dropped(histories: list[History]) -> Iterator[History]:
    for history in histories:
        names = list(history.params)
        if history.vector is not None:
            names += [name for name in history.vector if name not in ("name", "operator", "params")]
        for name in names:
            yield without(history, name)


@pytest.mark.parametrize("runner", RUNNERS, ids=lambda runner: type(runner).__name__)
def test_a_recording_that_lacks_something_stops_nothing(
    runner: Runner, vectors: list[History], families: list[History]
) -> None:
    histories = list(dropped(vectors[::3] + families[::4]))
    summaries = conformance.measure(runner, histories)
    counted = [
        (s.equal, s.rows.total(), len(s.unexplained), s.unsupported.total(), s.failed.total()) for s in summaries
    ]
    assert sum(map(sum, counted)) == len(histories)
    assert {"the recording does not tell its 'type'"} <= {reason for s in summaries for reason in s.failed}


ALTERED: list[tuple[dict[str, Any], str]] = [
    ({"type": "sideways"}, "'sideways'"),
    ({"left_ops": [{"op": "explode"}]}, "unknown table operation 'explode'"),
    ({"left_sorted": True}, "unknown parameter 'left_sorted'"),
    ({"left_ops": 7}, "cannot be set up"),
]


@pytest.mark.parametrize("runner", RUNNERS, ids=lambda runner: type(runner).__name__)
@pytest.mark.parametrize(("params", "reason"), ALTERED)
def test_a_parameter_that_is_not_known_is_named(runner: Runner, params: dict[str, Any], reason: str) -> None:
    step = RecordedStep("left", "k", "v", 0, ())
    history = History("made", "table_table", {"type": "inner", **params}, "current", "4.3.0", (step,))
    (summary,) = conformance.measure(runner, [history])
    assert [text for text in summary.failed if reason in text], summary.line()


@pytest.mark.parametrize("runner", RUNNERS, ids=lambda runner: type(runner).__name__)
def test_steps_of_other_inputs_values_and_clocks_stop_nothing(runner: Runner) -> None:
    other = RecordedStep("elsewhere", "k", "v", 0, ())
    number = RecordedStep("left", "k", 7, 0, ())
    clock = RecordedStep(None, None, None, 0, (), advance_ms=5)
    histories = [
        History(
            name, "table_table", {"type": "inner"}, "current", "4.3.0", (RecordedStep("left", "k", "v", 0, ()), step)
        )
        for name, step in (("other", other), ("number", number), ("clock", clock))
    ]
    (summary,) = conformance.measure(runner, histories)
    assert "a step's input 'elsewhere' is none of the topology's" in summary.failed
    assert summary.equal >= 1  # the clock moves nothing


def test_a_history_on_which_the_runner_breaks_is_listed_and_the_others_are_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def line(name: str, value: object) -> str:
        step = {"topic": "input", "key": "k", "value": value, "ts": 0, "expect": []}
        params = {"ops": [{"op": "filter"}, {"op": "map_values"}]}
        good = {**step, "value": "v1", "expect": [{"key": "k", "value": None, "ts": 0}]}
        return json.dumps({"id": name, "kind": "table_ops", "params": params, "steps": [good, step][: 1 + bool(value)]})

    path = tmp_path / "table_ops.jsonl"
    path.write_text("\n".join([line("good", None), line("bad", {"no": "text"}), line("fine", None)]), encoding="utf-8")
    for runner in ("oracle", "engine"):
        assert conformance.main(["--runner", runner, str(path)]) == 3
        assert "3 histories, 2 exactly equal" in capsys.readouterr().out
    path.write_text(json.dumps({"id": "a", "kind": "windows", "params": {}, "steps": []}), encoding="utf-8")
    for runner in ("oracle", "engine"):
        assert conformance.main(["--runner", runner, str(path)]) == 3
        assert "1 not run (NOT SET UP, unknown kind 'windows': 1)" in capsys.readouterr().out
