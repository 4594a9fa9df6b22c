"""The joins and aggregates that are put to the test, each as the handles build it and as the oracle does.

Both constructions are those of the random histories (`proof.histories`); the functions of values are
native columns here, unless others are given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from proof.histories.kinds import functions as values
from proof.histories.kinds.functions import Lifts
from proof.histories.kinds.kind import BuildSite, OracleSite
from proof.histories.kinds.registry import KINDS
from proof.histories.kinds.shapes import PLAIN
from proof.oracle.graph import Topology
from proof.oracle.semantics import Semantics

SIDES = ("left", "right")


@dataclass(frozen=True)
class Join:
    """One join of the topics `left` and `right`, or what takes the records of both.

    Parameters
    ----------
    kind : its name among the kinds of histories.
    sides : what each topic is read as: "stream", "table" or "global".
    params : of the kind.
    then : kinds with parameters, one behind the other, that its results go through; into both sides of a join.
    levels : stateful levels that it takes.
    history : how long its tables remember their past, in ms; None: they are not versioned.
    bad : share of records that are no text, which are to be dead letters.
    """

    kind: str
    sides: tuple[str, str]
    params: Mapping[str, Any] = field(default_factory=dict)
    then: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    levels: int = 1
    history: int | None = None
    bad: float = 0.0

    def read(self, kind: str) -> Mapping[str, Any]:
        """Parameters of what a topic is read as."""
        return {"history": self.history} if kind == "table" and self.history is not None else {}


_PROCESSOR: tuple[str, Mapping[str, Any]] = (
    "process",
    {
        "record": [["count"], ["append"], ["set", 200], ["set_soon", 50], ["once"], ["forward"]],
        "timer": [["counted"], ["listed"], ["shorten"], ["first"]],
        "lasts": {"m": 1_000},
    },
)
"""Values once in a while, counts and lists by timers of each key."""

_BY_WALL: dict[str, Any] = {
    "record": [["count"], ["append"], ["set", 200], ["set_wall", 1_500], ["set_wall_near", 400], ["once"]],
    "timer": [["counted"], ["set_wall", 700]],
    "wall": [["listed"], ["shorten"], ["first"], ["again_wall", 300], ["wall"]],
    "lasts": {"m": 1_000},
}
"""Timers by the wall clock, some of which set further ones, beside those of stream time."""

JOINS = {
    "table_table": Join("table_table", ("table", "table"), {"how": "outer"}),
    "dead_letters": Join("table_table", ("table", "table"), {"how": "outer"}, bad=0.2),
    "stream_table": Join("stream_table", ("stream", "table"), {"how": "left"}),
    "stream_stream": Join(
        "stream_stream",
        ("stream", "stream"),
        {"how": "outer", "before": 1_000, "after": 500, "grace": 500},
    ),
    "grace": Join("stream_table", ("stream", "table"), {"how": "left", "grace": 500}, history=2_000),
    "foreign_key": Join("foreign_key", ("table", "table"), {"how": "left"}, levels=2),
    "one_to_many": Join("one_to_many", ("table", "table"), levels=2),
    "stream_global": Join("stream_global", ("stream", "global"), {"how": "left"}),
    "count": Join("merge", ("stream", "stream"), then=(("stream_aggregate", {"fold": "count"}),)),
    "session": Join(
        "merge",
        ("stream", "stream"),
        then=(
            ("window_aggregate", {"windows": "session", "size": 150, "grace": 500, "close": True, "fold": "log"}),
            ("windowed_stream", {}),
        ),
    ),
    "suppress": Join(
        "merge",
        ("stream", "stream"),
        then=(
            ("window_aggregate", {"windows": "tumbling", "size": 300, "grace": 500, "close": False, "fold": "log"}),
            ("windowed_suppress", {"ms": 0, "close": True}),
            ("windowed_stream", {}),
        ),
        levels=2,
    ),
    # a merge: one time for all partitions
    "process": Join("merge", ("stream", "stream"), then=(_PROCESSOR,)),
    # a join: each partition has a time of its own
    "process_joined": Join("stream_table", ("stream", "table"), {"how": "left"}, then=(_PROCESSOR,), levels=2),
    # the clock's readings are in the checkpoint, from where the judge has them
    "process_wall": Join("merge", ("stream", "stream"), then=(("process", _BY_WALL),)),
    "process_shared": Join(
        "process_shared",
        ("stream", "stream"),
        {
            **_BY_WALL,
            "other": {"record": [["counted"], ["append"], ["set_wall", 900]], "timer": [], "wall": [["count"]]},
        },
    ),
    "process_table": Join(
        "process_table",
        ("stream", "table"),
        {
            "record": [["row"], ["past", -300], ["set", 200], ["append"]],
            "timer": [["row"], ["listed"], ["shorten"]],
            "lasts": {},
        },
        history=2_000,
    ),
    # each window beside the one before it
    "wtable_shift": Join(
        "merge",
        ("stream", "stream"),
        then=(
            ("window_aggregate", {"windows": "tumbling", "size": 300, "grace": 500, "close": False, "fold": "log"}),
            ("wtable_wtable", {"how": "left", "shift": 1, "keep": 1_000}),
            ("windowed_stream", {}),
        ),
        levels=2,
    ),
}


def by_wall(join: Join) -> bool:
    """Whether it goes by the wall clock."""
    return any("wall" in params for params in (join.params, *(params for _, params in join.then)))


TABLES = ("table_table", "foreign_key", "count")
"""Those whose results are a table by the key of their records, which a database can keep."""


def handles(join: Join, builder: Any, topics: Mapping[str, str], library: Lifts | None = None) -> Any:
    """The joined handle, from the topics of these sides; `library`: of functions, else as native columns."""
    library = library or Columns()
    inputs = [
        KINDS[kind].handles(BuildSite(builder, library, topics[side], "string"), [], join.read(kind))[0]
        for side, kind in zip(SIDES, join.sides, strict=True)
    ]
    made = KINDS[join.kind].handles(
        BuildSite(builder, library, "joined", "string"), _ordered(join, inputs), join.params
    )[0]
    for number, (kind, params) in enumerate(join.then):
        inputs = [made] * len(KINDS[kind].takes)
        made = KINDS[kind].handles(BuildSite(builder, library, f"then{number}", "string"), inputs, params)[0]
    return made


def oracle(join: Join) -> Topology:
    """The oracle's topology of `left` and `right`, which knows where their partitions have times of their own."""
    topology = Topology(Semantics(faithful=False))
    topology.partitioned = True
    sites = {side: OracleSite(topology, side, "string", False) for side in SIDES}
    inputs = [
        KINDS[kind].nodes(sites[side], [], join.read(kind))[0] for side, kind in zip(SIDES, join.sides, strict=True)
    ]
    site = OracleSite(topology, "joined", "string", False)
    made = KINDS[join.kind].nodes(site, _ordered(join, inputs), join.params)[0]
    for kind, params in join.then:
        made = KINDS[kind].nodes(site, [made] * len(KINDS[kind].takes), params)[0]
    topology.sink(made)
    return topology


def _ordered(join: Join, inputs: list[Any]) -> list[Any]:
    """One-to-many has its one side first, and it is the left rows that refer."""
    return inputs[::-1] if join.kind == "one_to_many" else inputs


class Columns:
    """The functions of values as native columns; see `histories.functions.Library`."""

    shape = PLAIN

    def lift(self, function: Callable[..., Any], kind: str) -> Callable[..., Any]:
        """`function` as one of columns."""
        return _NATIVE[function]()


def _plus() -> Callable[..., Any]:
    from pyspark.sql import functions as F

    def text(value: Any) -> Any:
        return F.coalesce(value, F.lit("null"))

    return lambda left, right: F.concat(text(left), F.lit("+"), text(right))


def _ref() -> Callable[..., Any]:
    from pyspark.sql import functions as F

    return lambda value: F.when(F.instr(value, "|") > 1, F.substring_index(value, "|", 1))


def _both() -> Callable[..., Any]:
    from pyspark.sql import functions as F

    return lambda prefix, suffix: F.concat(F.length(prefix).cast("string"), F.lit(":"), prefix, suffix)


def _joiner() -> Callable[..., Any]:
    return lambda value: value.cast("string")


_NATIVE: dict[Callable[..., Any], Callable[[], Callable[..., Any]]] = {
    values.plus: _plus,
    values.referrer("string"): _ref,
    values.both_keys("string"): _both,
    str: _joiner,
}
