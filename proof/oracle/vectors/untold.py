"""What recordings do not tell of themselves, and how a topology is set up nevertheless, or refused.

Topologies are set up from what a recording says. Some vectors leave out what their test did in code. Of these
`FACTS` has what is known of certain tests of Kafka's, by name; conventions hold for all vectors of one source
(`SOURCES`); the aggregate shows in the results. Law: what neither says is refused with what is missing; nothing
is guessed, and no other vector is treated by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from proof.oracle.records import Value

Vector = Mapping[str, Any]


class NotBuildableError(Exception):
    """No topology for this recording; the message is the reason."""


class IncompleteVectorError(NotBuildableError):
    """The recording does not tell enough to set its topology up, or tells what is not known here."""


_COUNTED = {"grouping": "groupBy((k,v) -> (k, v)); count()"}
_CLOCK = {"refused": "the test moved a clock between records, which the steps do not show"}
_AT_ONCE = {"emit_interval_ms": 0}
FACTS: dict[str, dict[str, Any]] = {
    "seed.fk_inner": {"joiner": "L + ',' + R"},
    "seed.fk_left": {"joiner": "L + ',' + R"},
    # the vector says +, its results say %
    "KStreamSlidingWindowAggregateTest.testJoin": {"joiner": "L + '%' + R"},
    "KStreamWindowAggregateTest.shouldEmitFromLastEmitTime#2": _CLOCK,
    "KStreamWindowAggregateTest.shouldEmitWithLargeInterval#2": _CLOCK,
    "KStreamWindowAggregateTest.shouldEmitWithInterval0#2": _AT_ONCE,
    "KStreamWindowAggregateTest.shouldNotEmitFinalIfNotProgressEnough#2": _AT_ONCE,
    "KTableAggregateTest.testShouldSendTransientStateWhenUpgrading": _COUNTED,
    "KTableImplTest.testKTable": {"shape": "a sink behind each table, and one behind a topic", "mapper": "integer"},
    "OracleProbe.stDerivedTable": {"right": "filter"},
}
"""Facts of single vectors, by name, with or without the number behind it."""

_PROBE = {"predicate": "x", "mapper": "probe", "grouping": "probe"}
SOURCES: dict[str, dict[str, Any]] = {
    "OracleProbe": _PROBE,
    "KTableImplTest": {"predicate": "even"},
    # its processors are given a store that keeps three gaps, and emit at once
    "KStreamSessionWindowAggregateProcessorTest": {"retention_gaps": 3, "emit_interval_ms": 0},
}
"""What all vectors of a source have in common, by the first word of their `source_class`."""

_SAID = {
    "predicate": {"even value": "even", "values with x pass": "x"},
    "mapper": {"integer of the string value": "integer"},
    "rejoined": {"then A.join(fkResult": "left with result", "rejoin-output-topic": "elsewhere"},
}
"""What a note says, by words in it."""


def described(vector: Vector) -> Vector:
    """The vector with what is known of it beside what it tells.

    Raises
    ------
    NotBuildableError : what is known is that it cannot be run.
    """
    said = " ".join(str(vector.get(name) or "") for name in ("topology_note", "note"))
    known = {what: found for what, words in _SAID.items() for word, found in words.items() if word in said}
    source = str(vector.get("source_class") or "").split(" ")[0]
    name = str(vector["name"])
    facts = FACTS.get(name, FACTS.get(name.split("#")[0], {}))
    whole = {**SOURCES.get(source, {}), **known, **vector, **facts}
    if said.lstrip().startswith("DISPUTED"):
        whole["refused"] = (
            "section A row 11: the page's table closes one step early, the engine's recordings are followed"
        )
    if vector.get("records_nothing") and str(vector["operator"]) in ("table-source", "table-mapValues", "table-filter"):
        whole["refused"] = "no result was recorded: the test looked into stores"
    if "refused" in whole:
        raise NotBuildableError(whole["refused"])
    return whole


def described_value(vector: Vector, what: str) -> Any:
    """What a described vector says of this.

    Raises
    ------
    NotToldError : nothing.
    """
    if vector.get(what) is None:
        raise IncompleteVectorError(f"the recording does not tell its {what.replace('_', ' ')}")
    return vector[what]


def join_type(said: Any) -> str:
    """The type of a join.

    Raises
    ------
    NotToldError : it is none.
    """
    if said not in ("inner", "left", "outer"):
        raise IncompleteVectorError(f"unknown join type {said!r}")
    return str(said)


def predicate(vector: Vector) -> Callable[[Value], bool]:
    """What a table's filter lets pass: even numbers and accepted text, or what contains an x."""
    return {"even": _even, "x": lambda value: "x" in value}[described_value(vector, "predicate")]


def mapper(vector: Vector) -> tuple[Callable[[Value], Value], str]:
    """What a table's values are mapped with, and the type of the result."""
    known: dict[str, tuple[Callable[[Value], Value], str]] = {
        "integer": (int, "long"),
        "probe": (_probe_mapped, "string"),
    }
    return known[described_value(vector, "mapper")]


def _even(value: Value) -> bool:
    if isinstance(value, int):
        return value % 2 == 0
    return bool(value.lower() == "accept")


def _probe_mapped(value: Value) -> Value:
    return None if value == "n" else f"{value}!"


def aggregate_of_vector(vector: Vector) -> str:
    """The aggregate of a windowed vector, as its results show it: they all begin or look alike.

    Raises
    ------
    NotToldError : they show several.
    """
    values = [str(value) for value in vector.get("emitted", ())]
    for name, shows in _SHOWN.items():
        if all(map(shows, values)):
            return name
    raise IncompleteVectorError("the recording does not tell its aggregate")


_SHOWN: dict[str, Callable[[str], bool]] = {
    "log": lambda text: text.startswith("0"),
    "count": str.isdigit,
    "empty log": lambda text: text.startswith("+"),
    "sorted": lambda text: "+" not in text and list(text) == sorted(text),
    "reduce": bool,
}
