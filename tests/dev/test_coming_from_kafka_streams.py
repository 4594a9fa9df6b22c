"""The page for people who come from Kafka Streams has each method of Kafka Streams, and each name of ours exists."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import watersmeet as wm
from watersmeet import testing
from watersmeet._spark.query.query import Query

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "coming_from_kafka_streams.md").read_text()
API = Path(__file__).with_name("kafka_streams_api.txt").read_text().split("\n\n", 1)[1]
ROOTS: dict[str, Any] = {"wm": wm, "Query": Query, **{name: getattr(testing, name) for name in testing.__all__}}
NAME = re.compile(rf"`((?:{'|'.join(ROOTS)})(?:\.\w+)*)(?:\((\w+)=\))?`")
HANDLES = (
    wm.StreamsBuilder, wm.KStream, wm.KTable, wm.GlobalKTable, wm.KGroupedStream, wm.KGroupedTable, wm.CogroupedKStream,
    wm.TimeWindows, wm.SlidingWindows, wm.SessionWindows, wm.UnlimitedWindows, wm.JoinWindows, wm.EmitStrategy,
)  # fmt: skip


def rows() -> list[tuple[str, list[str], str, str]]:
    """(heading, names of Kafka Streams, what it is here, what differs) of each row of the page."""
    found, heading = [], ""
    for line in PAGE.splitlines():
        if line.startswith("## "):
            heading = line[3:]
        elif line.startswith("| `"):
            kafka, here, differs = (cell.strip() for cell in line.strip("|").split(" |"))
            found.append((heading, re.findall(r"`([^`]+)`", kafka), here, differs))
    return found


def told() -> set[str]:
    """The methods that have a row, each behind the name of its class."""
    return {
        name if "." in name else f"{owner}.{name}"
        for heading, names, _, _ in rows()
        for owner in re.split(r", | and ", heading)
        for name in names
    }


def methods() -> list[str]:
    """Those of Kafka Streams."""
    listed = re.findall(r"^(\w+):((?:[^:]|\n {4})*)$", API, re.MULTILINE)
    return [f"{owner}.{name}" for owner, names in listed for name in names.split()]


def found(name: str) -> Any:
    first, *path = name.split(".")
    thing = ROOTS[first]
    for part in path:
        thing = getattr(thing, part)
    return thing


def test_each_method_of_kafka_streams_has_a_row():
    assert len(methods()) > 200
    assert sorted(set(methods()) - told()) == []


def test_each_row_names_something_that_is_there_or_says_that_nothing_is():
    nothing = ("not there", "not needed")
    assert [row for row in rows() if row[2] not in nothing and not NAME.search(row[2])] == []


def test_what_is_not_needed_has_a_reason_and_what_is_not_there_has_one_of_sparks():
    assert [row for row in rows() if row[2] == "not needed" and not row[3]] == []
    assert [row for row in rows() if row[2] == "not there" and "Spark" not in row[3]] == []


def ours() -> list[tuple[str, str]]:
    """The names of watersmeet on the page, with a parameter or without; the first column has Kafka Streams' own."""
    prose = [line for line in PAGE.splitlines() if not line.startswith("| `")]
    return NAME.findall("\n".join([*prose, *(f"{here} {differs}" for _, _, here, differs in rows())]))


def test_each_name_and_parameter_of_the_page_is_there():
    for name, parameter in ours():
        thing = found(name)
        assert not parameter or parameter in inspect.signature(thing).parameters, f"{name}({parameter}=)"


def test_a_name_that_is_not_there_is_noticed():
    with pytest.raises(AttributeError):
        found("wm.KStream.leftJoin")


def test_each_public_method_of_the_handles_is_on_the_page():
    public = {
        f"wm.{handle.__name__}.{name}"
        for handle in HANDLES
        for name, thing in inspect.getmembers(handle)
        if not name.startswith("_") and callable(thing)
    }
    assert sorted(public - {name for name, _ in ours()}) == []
