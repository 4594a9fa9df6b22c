"""The net that mutants are thrown at: fixed topologies under random records, batches, shards, crashes.

Each has a name, by which the table of mutants says what kills a mutant.
"""

from __future__ import annotations

from proof.histories import Blueprint, Difference, Op, check
from proof.histories.draw import draw_case
from proof.histories.kinds.choices import Dice
from tests.histories import ops
from tests.histories.ops import op

COUNT = 60


def joined(how: str) -> tuple[Op, ...]:
    return op("table"), op("table"), op("table_table", 0, 1, how=how), op("table_to", 2)


def windowed(how: str, before: int = 5, after: int = 5, grace: int = 3) -> tuple[Op, ...]:
    return op("stream"), op("stream"), ops.windowed(0, 1, how, before, after, grace), op("to", 2)


def foreign(how: str) -> tuple[Op, ...]:
    return op("table"), op("table"), op("foreign_key", 0, 1, how=how), op("table_to", 2)


def by_window(windows: str, *, close: bool = False) -> tuple[Op, ...]:
    aggregate = op("window_aggregate", 0, windows=windows, size=10, grace=3, close=close, fold="log")
    return op("stream"), aggregate, op("table_to", 1)


def with_rows(how: str, *more: Op) -> tuple[Op, ...]:
    """Windows of ten, kept for twenty, with a table by key."""
    views = op("window_aggregate", 0, windows="tumbling", size=10, grace=0, close=False, fold="log")
    joined = op("wtable_table", 1, 2, how=how, keep=20)
    return op("stream"), views, op("table"), joined, *more, op("table_to", 3 + len(more))


NETS: dict[str, Blueprint] = {
    "table_table inner": Blueprint(joined("inner")),
    "table_table outer": Blueprint(joined("outer")),
    "table_table left, long keys": Blueprint(joined("left"), "long"),
    "stream_table left": Blueprint((op("stream"), op("table"), op("stream_table", 0, 1, how="left"), op("to", 2))),
    "stream_stream left": Blueprint(windowed("left")),
    "stream_stream chain": Blueprint(
        (
            *windowed("left")[:3],
            op("stream_stream", 2, 1, how="left", before=5, after=5, grace=0),
            op("to", 3),
        )
    ),
    "table_table chain": Blueprint(
        (
            op("table"),
            op("table_table", 0, 0, how="inner"),
            op("table"),
            op("table_table", 1, 2, how="outer"),
            op("table_to", 3),
        ),
        # today's joins of one source go by arrival: what is sent is what lookups see
        generation="spurious",
    ),
    "foreign_key inner": Blueprint(foreign("inner")),
    "foreign_key left": Blueprint(foreign("left")),
    "hopping": Blueprint(by_window("hopping")),
    "tumbling on close": Blueprint(by_window("tumbling", close=True)),
    "sliding": Blueprint(by_window("sliding")),
    "session": Blueprint(by_window("session")),
    "stream_aggregate": Blueprint((op("stream"), op("stream_aggregate", 0, fold="log"), op("table_to", 1))),
    "table_aggregate": Blueprint((op("table"), op("table_aggregate", 0, fold="log"), op("table_to", 1))),
    "cogroup": Blueprint((op("stream"), op("stream"), op("cogroup", 0, 1), op("table_to", 2))),
    "suppress": Blueprint((op("table"), op("suppress", 0, ms=5), op("table_to", 1))),
    "suppress, then filter": Blueprint(
        (op("table"), op("suppress", 0, ms=5), op("table_filter", 1, negate=False), op("table_to", 2))
    ),
    "wtable_table": Blueprint(with_rows("left")),
    "wtable_table, then filter": Blueprint(with_rows("left", op("windowed_filter", 3, negate=True))),
    "wtable_wtable shifted": Blueprint(
        (*by_window("tumbling")[:2], op("wtable_wtable", 1, 1, how="left", keep=10, shift=1), op("table_to", 2))
    ),
    "table_wtable": Blueprint(
        (*by_window("tumbling")[:2], op("table"), op("table_wtable", 2, 1, how="inner", keep=40), op("table_to", 3))
    ),
    "session until it closes": Blueprint(
        (*by_window("session")[:2], op("windowed_suppress", 1, ms=5, close=True), op("table_to", 2))
    ),
}


def caught(net: str, count: int = COUNT) -> Difference | None:
    """The first difference that a net finds."""
    blueprint = NETS[net]
    cases = (draw_case(Dice(f"net/{net}/{number}"), blueprint) for number in range(count))
    return next((found for found in map(check, cases) if found is not None), None)
