"""Cases of joins as text: golden pages and recordings give what they say, and what does not read is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from proof import cases, golden, recordings
from proof.oracle.records import Result
from proof.recordings import History
from tests.oracle.kit import RECORDINGS

GOLDEN = sorted((Path(__file__).resolve().parents[1] / "golden").glob("*.md"))
GENERATION_OF = {
    "0.10.0.1": "0.10.0",
    "0.10.1.1": "0.10.1",
    "0.10.2.2": "0.10.2 to 2.2",
    "4.3.0": "4.0.1 and later",
}
OPERATOR_OF = {"table_table": "table-table", "stream_table": "stream-table", "stream_stream": "stream-stream"}
RECORDED = [f"{kind}{version}" for kind in OPERATOR_OF for version in ("", ".0.10.0.1", ".0.10.1.1", ".0.10.2.2")]


def of_generation(ran: dict[str, Any], name: str) -> list[list[list[Any]] | None]:
    """The results of each step in the column of a generation."""
    each = [g.name for g in cases.GENERATIONS if g.name in ran["generations"]]
    column = next(at for at, title in enumerate(ran["columns"]) if name in expanded(title, each))
    return [step["results"][column] for step in ran["steps"]]


def expanded(title: str, names: list[str]) -> list[str]:
    """The generations that a column's title names."""
    generations = [g for g in cases.GENERATIONS if g.name in names]
    stretches = [generations[a:b] for a in range(len(generations)) for b in range(a + 1, len(generations) + 1)]
    titles = title.split(", ")
    return [g.name for stretch in stretches if cases.named(stretch) in titles for g in stretch]


def told(results: tuple[Result, ...] | None) -> list[list[Any]]:
    return [[cases.in_line(each.key), cases.in_line(each.value), each.ts] for each in results or ()]


def case_of(history: History) -> str:
    facts = {"operator": OPERATOR_OF.get(history.kind, "three-way"), "type": history.params["type"]}
    if "type2" in history.params:
        facts |= {"then": history.params["type2"]}
    else:
        facts |= {"joiner": "L + '+' + R"}
    if "before_ms" in history.params:
        lengths = {"grace_ms": 0, **history.params}
        facts |= {"window": "{before_ms} ms before, {after_ms} ms after, grace {grace_ms} ms".format_map(lengths)}
    return cases.text_of_case(facts, list(history.steps))


def recorded(name: str, count: int) -> list[History]:
    """Those of a file that have nothing a case cannot tell."""
    known = {"type", "type2", "before_ms", "after_ms", "grace_ms"}
    found = recordings.read(RECORDINGS / "histories" / f"{name}.jsonl.gz")
    plain = [
        each
        for each in found
        if not each.params.keys() - known and not any(step.advance_ms or step.ts < 0 for step in each.steps)
    ]
    return [each for each in plain if "grace_ms" not in each.params or "before_ms" in each.params][:count]


@pytest.mark.parametrize("page", GOLDEN, ids=lambda page: page.stem)
def test_each_section_of_a_golden_page_is_a_case_that_gives_what_the_page_says(page: Path) -> None:
    for (title, text), history in zip(cases.cases_of(page), golden.read(page), strict=True):
        name = "watersmeet" if history.semantics == "current" else GENERATION_OF[history.version]
        assert of_generation(cases.run(text), name) == [told(step.expect) for step in history.steps], title


@pytest.mark.parametrize("name", [*RECORDED, "three_way"])
def test_a_recorded_history_gives_as_a_case_what_that_release_gave(name: str) -> None:
    histories = recorded(name, 30)
    assert len(histories) >= 15
    for history in histories:
        ran = cases.run(case_of(history))
        assert of_generation(ran, GENERATION_OF[history.version]) == [told(s.expect) for s in history.steps], history.id


def test_the_text_of_a_case_gives_back_its_facts_and_records() -> None:
    text = 'operator: table-table\ntype: inner\n\nleft a two words @1\nright null "" @2\n'
    facts, steps = cases.read(f"# a comment\n{text}")
    assert cases.text_of_case(facts, steps) == text
    assert [(step.key, step.value) for step in steps] == [("a", "two words"), (None, "")]


WINDOWED = "operator: stream-stream\ntype: left\nwindow: 5 ms before, 5 ms after, grace 0 ms\n\nleft a 1 @10\n"


def test_what_waits_is_shown_until_it_is_sent_and_generations_that_give_the_same_stand_together() -> None:
    ran = cases.run(WINDOWED + "left b 2 @30\n")
    assert ran["columns"] == ["0.10.0 to 3.0", "3.1 and later, watersmeet"]
    assert ran["latest"] == 1
    first, second = ran["steps"]
    assert first["results"] == [[["a", "1-null", 10]], []]
    assert second["results"] == [[["b", "2-null", 30]], [["a", "1-null", 10]]]
    assert ["", "pending left", "a", "1", 10] in first["state"][-1]
    assert second["state"][-1] == [["", "left", "b", "2", 30], ["", "pending left", "b", "2", 30]]
    assert all(row[1] != "pending left" for row in first["state"][0])


def test_state_names_the_input_of_a_row_and_has_subscriptions() -> None:
    text = (
        "operator: fk-table-table\ntype: inner\nforeign_key: the value is the foreign key\n\nleft k r @1\nright r x @2"
    )
    state = cases.run(text)["steps"][-1]["state"][-1]
    assert ["left", "row", "k", "r", 1] in state
    assert ["right", "row", "r", "x", 2] in state
    assert ["", "subscription", "r", "k", 1] in state


def test_a_join_is_shown_from_the_release_that_brought_it() -> None:
    assert cases.generations_of({"operator": "stream-table", "type": "left"})[0].name == "0.10.0"
    assert cases.generations_of({"operator": "stream-table", "type": "inner"})[0].name == "0.10.2 to 2.2"
    assert cases.generations_of({"operator": "fk-table-table", "type": "left"})[0].name == "2.3 to 3.0"
    assert [each.name for each in cases.generations_of({"operator": "stream-match"})] == ["watersmeet"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("operator: table-table\ntype: inner\nleft a 1", "Case, line 3: 'left a 1' is no record. Hint: write it as"),
        ("left a 1 @1", "Join: none is chosen. Hint:"),
        ("operator: nope\ntype: inner\nleft a 1 @1", "Join: there is no join 'nope'. Hint: choose one under Join"),
        (
            "operator: table-table\ntype: full\nleft a 1 @1",
            "Type: this join has no type 'full'. Hint: choose one under Type",
        ),
        ("operator: table-table\nleft a 1 @1", "Case: the line 'type: ...' is missing"),
        ("operator: table-table\ntype: inner\nmiddle a 1 @1", "Case: this join has no input 'middle'"),
        (WINDOWED.replace("5 ms before, ", ""), "ms before, ms after, Grace: '"),
        ("operator: expiry\nttl: soon\nsince: record\ninput a 1 @1", "soon"),
        ("operator: three-way\ntype: inner\nleft a 1 @1", "Case: the line 'then: ...' is missing"),
        (f"{WINDOWED}left a 2 @{2**63}", "is out of range"),
    ],
)
def test_what_does_not_read_is_refused_and_named(text: str, said: str) -> None:
    assert said in json.loads(cases.run_to_json(text))["error"]
