"""A case of a join as text, and what each generation of Kafka Streams gives for it, step by step.

The page "Joins in the browser" runs this module in the browser: it and all that it imports are the standard library's
or the oracle's. A case has the facts of a section of a golden page, and its records, a line each:

    operator: stream-stream
    type: left
    window: 15 ms before, 15 ms after, grace 4 ms

    left a 1 @10
    right a null @12

Law: a line either reads or is refused with its number; nothing is skipped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from proof.conformance_runners import build_topology
from proof.golden import history_of, sections, text_of, value_of
from proof.oracle.graph import EngineFailsError, Topology
from proof.oracle.records import Result
from proof.oracle.semantics import Semantics
from proof.oracle.vectors.untold import NotBuildableError
from proof.recordings import History, RecordedStep, RecordingError

_FACT = re.compile(r"^(\w+): (\S.*)$")
_RECORD = re.compile(r"^(?P<topic>\w+) (?P<key>\S+) (?P<value>\S.*) @(?P<ts>\d+)$")
_JOINER = "L + '-' + R"
_LATEST = 2**53 - 1
"""What JavaScript tells apart; the year 287396."""


class CaseError(Exception):
    """A case does not read, or no operator has its facts; the message says which line or fact."""


class Generation(NamedTuple):
    """A stretch of releases in which no join changed, told by one of them."""

    name: str
    version: str
    faithful: bool = True


GENERATIONS = (
    Generation("0.10.0", "0.10.0.1"),
    Generation("0.10.1", "0.10.1.1"),
    Generation("0.10.2 to 2.2", "0.10.2.2"),
    Generation("2.3 to 3.0", "3.0.2"),
    Generation("3.1 to 3.6", "3.6.2"),
    Generation("3.7 to 4.0.0", "4.0.0"),
    Generation("4.0.1 and later", "4.3.0"),
    Generation("watersmeet", "4.3.0", faithful=False),
)
"""In the order of time; watersmeet is the last release with the rows of section A repaired."""
_NAMES = [each.name for each in GENERATIONS]
_SINCE = {"stream-stream": 0, "stream-table": 0, "table-table": 0, "stream-globaltable": 2, "fk-table-table": 3}
"""The first generation that has a join; what is not here is compared as it is now."""
_OURS = frozenset(
    {"stream-wtable", "table-wtable", "wtable-table", "wtable-wtable", "one-to-many", "multi-join"}
    | {"stream-globalview", "distinct", "expiry", "stream-match", "many-to-many", "table-set"}
)
"""What no release of Kafka Streams has."""


def read(text: str) -> tuple[dict[str, str], list[RecordedStep]]:
    """Facts and records of a case; empty lines, and those that begin with #, say nothing.

    Raises
    ------
    CaseError : a line is neither.
    """
    facts: dict[str, str] = {}
    steps: list[RecordedStep] = []
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.strip()
        if fact := _FACT.match(line):
            facts[fact[1]] = fact[2]
        elif record := _RECORD.match(line):
            key, value = _value(record["key"]), _value(record["value"])
            if int(record["ts"]) > _LATEST:
                raise CaseError(f"Case, line {number}: the time {record['ts']} is out of range. Hint: 0 to {_LATEST}")
            steps.append(RecordedStep(record["topic"], key, value, int(record["ts"]), None))
        elif line and not line.startswith("#"):
            raise CaseError(f"Case, line {number}: {line!r} is no record. Hint: write it as 'left a 1 @10'")
    return facts, steps


def text_of_case(facts: Mapping[str, str], steps: list[RecordedStep]) -> str:
    """The text of a case; `read` gives both back."""
    said = "".join(f"{name}: {fact}\n" for name, fact in facts.items() if name != "generation")
    return f"{said}\n" + "".join(
        f"{step.topic} {in_line(step.key)} {in_line(step.value)} @{step.ts}\n" for step in steps
    )


def in_line(value: Any) -> str:
    """A key or value as a line has it.

    >>> in_line("a"), in_line(None), in_line("")
    ('a', 'null', '""')
    """
    return text_of(value) or '""'


def _value(text: str) -> str | None:
    return "" if text == '""' else value_of(text)


def cases_of(page: Path) -> list[tuple[str, str]]:
    """Title and case of each section of a golden page."""
    return [(title, text_of_case(facts, steps)) for title, facts, steps in sections(page)]


def generations_of(facts: Mapping[str, str]) -> list[Generation]:
    """Those that have the operator of these facts."""
    operator = facts["operator"]
    if operator in _OURS:
        return [GENERATIONS[-1]]
    since = _SINCE.get(operator, 0 if operator == "three-way" else len(GENERATIONS) - 2)
    if operator == "stream-table" and facts.get("type") == "inner":
        since = 2
    if "history" in facts or "grace" in facts:
        since = 4
    return list(GENERATIONS[since:])


def history_of_case(facts: Mapping[str, str], steps: list[RecordedStep]) -> History:
    """The history that a case tells.

    Raises
    ------
    CaseError : a fact is missing or unknown.
    """
    if "operator" not in facts:
        raise CaseError("Join: none is chosen. Hint: choose one, or begin the case with 'operator: table-table'")
    joined = {} if "fold" in facts else {"joiner": _JOINER}
    try:
        return history_of("the case", facts["operator"], joined | dict(facts) | {"generation": "current"}, steps)
    except (RecordingError, ValueError) as problem:
        raise CaseError(_in_words_of_the_form(str(problem))) from problem


_COMPLAINTS = (
    (r"unknown join type (.*)", "Type: this join has no type {}. Hint: choose one under Type"),
    (r"no topology for vectors of (.*)", "Join: there is no join {}. Hint: choose one under Join"),
    (r"a step's input (.*) is none of the topology's", "Case: this join has no input {}. Hint: see the Example"),
    (r"unknown joiner (.*)", "Case: there is no joiner {}. Hint: joiner: L + '-' + R"),
    (r".* a window is '.*', not '(.*)'", "ms before, ms after, Grace: {!r} is no window. Hint: type three numbers"),
    (r".* does not say its \['(.*)'\]", "Case: the line '{}: ...' is missing. Hint: see the Example"),
)
"""What the oracle complains of, and the same by the fields of the form."""


def _in_words_of_the_form(complaint: str) -> str:
    """A complaint by the fields of the page's form.

    >>> _in_words_of_the_form("unknown join type 'middle'")
    "Type: this join has no type 'middle'. Hint: choose one under Type"
    """
    matches = ((re.fullmatch(pattern, complaint), text) for pattern, text in _COMPLAINTS)
    return next((text.format(match[1]) for match, text in matches if match), f"Case: it cannot be run: {complaint}")


def run(text: str) -> dict[str, Any]:
    """What each generation gives for a case.

    Returns
    -------
    dict : `generations`, their names; `columns`, the names of those together that give the same at each step; `latest`,
    the column of the last release of Kafka Streams (None: none has the operator); and `steps`, of each its record, its
    `results` by column (None: the engine fails), and its `state` by generation (None: the operator does not tell).

    Raises
    ------
    CaseError : the case does not read, or cannot be built.
    """
    facts, steps = read(text)
    history = history_of_case(facts, steps)
    chosen = generations_of(facts)
    try:
        runs = [list(_steps(history, Semantics(each.version, faithful=each.faithful))) for each in chosen]
    except NotBuildableError as problem:
        raise CaseError(_in_words_of_the_form(str(problem))) from problem
    columns: dict[str, list[int]] = {}
    for number, ran in enumerate(runs):
        columns.setdefault(json.dumps([results for results, _ in ran]), []).append(number)
    firsts = [numbers[0] for numbers in columns.values()]
    latest = next((n for n, each in enumerate(chosen) if each.name == _NAMES[-2]), None)
    return {
        "generations": [each.name for each in chosen],
        "columns": [named([chosen[n] for n in numbers]) for numbers in columns.values()],
        "latest": next((at for at, numbers in enumerate(columns.values()) if latest in numbers), None),
        "steps": [
            {
                "record": [step.topic, in_line(step.key), in_line(step.value), step.ts],
                "results": [runs[first][at][0] for first in firsts],
                "state": [ran[at][1] for ran in runs],
            }
            for at, step in enumerate(steps)
        ],
    }


def named(generations: list[Generation]) -> str:
    """One name for several generations.

    >>> named([*GENERATIONS[2:4], *GENERATIONS[6:]])
    '0.10.2 to 3.0, 4.0.1 and later, watersmeet'
    """
    runs: list[list[int]] = []
    for number in (GENERATIONS.index(each) for each in generations):
        if runs and number == runs[-1][-1] + 1 and GENERATIONS[number].faithful:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(_stretch(_NAMES[each[0]], _NAMES[each[-1]]) for each in runs)


def _stretch(first: str, last: str) -> str:
    """From the beginning of one generation to the end of another."""
    begin = first.split(" ")[0]
    end = last.split(" to ")[-1]
    return first if first == last else f"{begin} and later" if last.endswith("later") else f"{begin} to {end}"


def run_to_json(text: str) -> str:
    """`run` as JSON, for the page; a case that is refused is `{"error": ...}`."""
    try:
        return json.dumps(run(text))
    except CaseError as problem:
        return json.dumps({"error": str(problem)})


_Told = tuple[list[list[Any]] | None, list[list[Any]] | None]


def _steps(history: History, semantics: Semantics) -> Iterator[_Told]:
    """Results and state of each step."""
    topology = build_topology(history, semantics)
    for step in history.steps:
        try:
            results = [_result(each) for each in topology.pipe(str(step.topic), step.key, step.value, step.ts)]
            yield results, _state(topology)
        except EngineFailsError:
            yield None, _state(topology)


def _result(result: Result) -> list[Any]:
    return [in_line(result.key), in_line(result.value), result.ts]


def _state(topology: Topology) -> list[list[Any]] | None:
    """What all operators hold: where, as what, key, value, time; None where one that has state does not tell."""
    told: list[list[Any]] = []
    seen: set[int] = set()
    for topic, nodes in topology.sources.items():
        for node in (each for source in nodes for each in source.behind()):
            if id(node) in seen:
                continue
            seen.add(id(node))
            kept = node.state_rows()
            if kept is None and node.stateful:
                return None
            where = topic if node in nodes else ""
            told += ([where, each.what, in_line(each.key), in_line(each.value), each.ts] for each in kept or ())
    return told
