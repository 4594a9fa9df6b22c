"""What a named node reads is part of what a change compares: rows of one thing are never taken for those of another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from proof.engine import EngineDriver
from proof.histories.changed.changes import carry_tables
from tests.engine.kit import LIBRARY, PLUS, REF, driver_of
from tests.plans.test_changes import change, outcomes
from watersmeet._plan.evolve import Change
from watersmeet.aggregates.user_defined import python
from watersmeet.windows import BufferConfig, JoinWindows, Suppressed, TimeWindows, previous

WINDOWS = JoinWindows(10, 10, 0)
TENS = TimeWindows(10, 10, 0)
ADD = python(lambda value, total: f"{total}+{value}")
LAST = python(lambda _, value: value)
Make = Callable[[Any, Any, str], Any]
"""Of a left and a right input, and a name."""


def stream(builder: Any, name: str) -> Any:
    return builder.stream(name, key="string", value="string")


def table(builder: Any, name: str, **options: Any) -> Any:
    return builder.table(name, key="string", value="string", **options)


def renamed(builder: Any, topic: str) -> Any:
    return builder.table(topic, key="string", value="string", name="orders", store="kept")


def windowed(builder: Any, name: str) -> Any:
    return stream(builder, name).group_by_key().windowed_by(TENS).reduce(LAST, name=f"last-{name}")


def window_of(values: Any) -> Any:
    return LIBRARY.lift(lambda _: {"start": 0, "end": 10}, "struct<start:bigint,end:bigint>")(values)


def cogroup(left: Any, right: Any, name: str, windows: Any = None) -> Any:
    grouped = left.group_by_key().cogroup(ADD).cogroup(right.group_by_key(), ADD)
    return (grouped if windows is None else grouped.windowed_by(windows)).aggregate(lambda: "0", name=name)


def globals_of(builder: Any, name: str) -> Any:
    return builder.global_table(name, key="string", value="string")


BOTH: dict[str, tuple[Callable[[Any, str], Any], Make]] = {
    "tables": (table, lambda a, b, name: a.join(b, PLUS, name=name)),
    "outer join of tables": (table, lambda a, b, name: a.outer_join(b, PLUS, name=name)),
    "several tables": (table, lambda a, b, name: a.multi_join([b], PLUS, name=name)),
    "foreign key": (table, lambda a, b, name: a.join(b, PLUS, foreign_key=REF, name=name)),
    "one to many": (table, lambda a, b, name: a.one_to_many_join(b, PLUS, key=REF, name=name)),
    "streams": (stream, lambda a, b, name: a.left_join(b, PLUS, WINDOWS, name=name)),
    "cogroup": (stream, cogroup),
    "cogroup by window": (stream, lambda a, b, name: cogroup(a, b, name, TENS)),
    "windowed tables": (windowed, lambda a, b, name: a.join(b, PLUS, name=name)),
    "shifted windowed tables": (windowed, lambda a, b, name: a.left_join(b, PLUS, shift=previous(1), name=name)),
}
"""Operators of two inputs of one kind."""
SECOND: dict[str, tuple[Callable[[Any, str], Any], Make]] = {
    "stream with table": (table, lambda s, t, name: s.join(t, PLUS, name=name)),
    "stream with versioned table": (
        lambda b, name: table(b, name, history="1 day"),
        lambda s, t, name: s.join(t, PLUS, grace="5 ms", name=name),
    ),
    "stream with windowed table": (
        windowed,
        lambda s, t, name: s.join(t, PLUS, window_of=window_of, keep="1 day", name=name),
    ),
    "table with windowed table": (
        windowed,
        lambda s, t, name: s.to_table(name="rows").join(t, PLUS, window_of=window_of, keep="1 day", name=name),
    ),
    "stream with global table": (globals_of, lambda s, t, name: s.join(t, PLUS, key=REF, name=name)),
    "count": (stream, lambda _, b, name: b.group_by_key().count(name=name)),
    "count by window": (stream, lambda _, b, name: b.group_by_key().windowed_by(TENS).count(name=name)),
    "count of a grouped table": (
        table,
        lambda _, b, name: b.group_by(lambda key, value: (value, key), name="groups").count(name=name),
    ),
    "count of a grouped windowed table": (
        windowed,
        lambda _, b, name: b.group_by(lambda key, value: (value, value), name="groups").count(name=name),
    ),
    "suppress": (
        table,
        lambda _, b, name: b.suppress(Suppressed.until_time_limit("5 ms", BufferConfig.unbounded()), name=name),
    ),
    "suppress of windows": (
        windowed,
        lambda _, b, name: b.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()), name=name),
    ),
    "table of a stream": (stream, lambda _, b, name: b.to_table(name=name, store=f"{name}-rows")),
    "table with a history": (stream, lambda _, b, name: b.to_table(name=name, store=f"{name}-rows", history="1 day")),
    "filtered table": (table, lambda _, b, name: b.filter(is_there, name=name, store=f"{name}-rows")),
    "merged streams": (stream, lambda s, b, name: s.merge(b, name="merged").group_by_key().count(name=name)),
    "far above": (
        stream,
        lambda s, b, name: s.left_join(b, PLUS, WINDOWS, name="above").group_by_key().count(name=name),
    ),
}
"""Operators that read something else: with a stream `s` beside it, or alone."""


def is_there(values: Any) -> Any:
    return values.is_valid()


def built(make: Callable[[Any, str], Any], join: Make, sides: tuple[str, str], name: str = "it") -> Any:
    def build(builder: Any) -> None:
        inputs = {side: make(builder, side) for side in sorted({"a", "b", *sides})}
        made = join(inputs[sides[0]], inputs[sides[1]], name)
        (made.to_stream(key="key") if type(made).__name__ == "WTable" else made).to("out", name="out")

    return build


def refused(found: Change, node: str = "it") -> Any:
    assert not found.possible, str(found)
    (item,) = [item for item in found.refused if item.name == node]
    assert item.hint
    return item


@pytest.mark.parametrize("kind", BOTH)
def test_inputs_of_a_named_operator_that_are_exchanged_are_refused(kind: str) -> None:
    make, join = BOTH[kind]
    old, exchanged = built(make, join, ("a", "b")), built(make, join, ("b", "a"))
    item = refused(change(old, exchanged))
    assert item.reason.startswith("its inputs have changed places: it read "), item.reason
    assert "in the order in which they were" in item.hint
    assert change(old, built(make, join, ("b", "a"), name="other")).possible
    assert not change(old, old).changed


@pytest.mark.parametrize("kind", BOTH)
def test_an_input_of_a_named_operator_that_is_another_is_refused(kind: str) -> None:
    make, join = BOTH[kind]
    for sides in (("a", "c"), ("c", "b")):
        item = refused(change(built(make, join, ("a", "b")), built(make, join, sides)))
        assert "it read " in item.reason
        assert "c" in item.reason
        assert "another name=" in item.hint


@pytest.mark.parametrize("kind", SECOND)
def test_an_operator_that_reads_something_else_under_its_name_is_refused(kind: str) -> None:
    make, join = SECOND[kind]

    def build(second: str, name: str = "it") -> Any:
        def made(builder: Any) -> None:
            inputs = {side: make(builder, side) for side in ("b", "c")}
            result = join(stream(builder, "s"), inputs[second], name)
            (result.to_stream(key="key") if type(result).__name__ == "WTable" else result).to("out", name="out")

        return made

    assert not change(build("b"), build("b")).changed
    item = refused(change(build("b"), build("c")))
    assert "it read " in item.reason
    assert ", it reads " in item.reason
    assert "another name=" in item.hint


def test_a_table_of_another_topic_under_the_name_of_its_input_is_refused() -> None:
    def build(topic: str) -> Any:
        return lambda builder: renamed(builder, topic).to("out", name="out")

    item = refused(change(build("first"), build("second")), "orders")
    assert item.reason == "it read topic first, it reads topic second"


def test_a_store_is_not_found_by_its_name_where_it_is_of_something_else() -> None:
    def build(topic: str) -> Any:
        return lambda builder: stream(builder, topic).to_table(store="kept").to("out", name="out")

    item = refused(change(build("a"), build("b")), "kept")
    assert item.reason == "it read topic a, it reads topic b"
    assert "another store=" in item.hint


def test_a_join_is_not_filled_with_rows_of_a_table_that_was_of_something_else() -> None:
    def build(topic: str, join: str) -> Any:
        def made(builder: Any) -> None:
            rows = stream(builder, topic).to_table(name="rows")
            rows.join(table(builder, "other"), PLUS, name=join).to("out", name="out")

        return made

    assert outcomes(change(build("a", "one"), build("a", "two")), "store")["two.left"] == "filled"
    assert outcomes(change(build("a", "one"), build("b", "two")), "store")["two.left"] == "started empty"


def test_exchanged_steps_of_one_topic_are_refused_by_their_names() -> None:
    def build(*order: str) -> Any:
        def made(builder: Any) -> None:
            rows = table(builder, "rows")
            parts = {"one": rows.filter(is_there, name="one"), "other": rows.filter_not(is_there, name="other")}
            parts[order[0]].outer_join(parts[order[1]], PLUS, name="it").to("out", name="out")

        return made

    item = refused(change(build("one", "other"), build("other", "one")))
    assert item.reason == ("its inputs have changed places: it read 'one' and 'other', it reads 'other' and 'one'")


def test_steps_that_come_and_go_above_a_named_operator_do_not_stand_against_it() -> None:
    def build(*, step: bool) -> Any:
        def made(builder: Any) -> None:
            clicks = stream(builder, "clicks")
            (clicks.filter(is_there, name="some") if step else clicks).group_by_key().count(name="n").to("o", name="o")

        return made

    for one, other in ((False, True), (True, False)):
        found = change(build(step=one), build(step=other))
        assert found.possible
        assert outcomes(found, "store") == {"n.aggregate": "kept"}


def test_a_topic_that_is_merged_in_is_said_and_what_was_counted_goes_on() -> None:
    def build(*more: str) -> Any:
        def made(builder: Any) -> Any:
            merged = stream(builder, "a")
            for name in more:
                merged = merged.merge(stream(builder, name))
            return merged.group_by_key().count(name="n")

        return made

    old, new = driver_of(build("b")), driver_of(build("b", "c"))
    for driver, topics in ((old, "ab"), (new, "abc")):
        if driver is new:
            found = carry_tables(old, new)
            assert [str(i) for i in found.items if i.outcome == "changed"] == [
                "node n: changed (reads topic c, too, from now on)"
            ]
        for topic in topics:
            driver.pipe(topic, "k", "v", ts=1)
        driver.run_batch()
    assert _values(old) == [1, 2]
    assert _values(new) == [3, 4, 5]
    back = driver_of(build("b"))
    assert "reads topic c no more: what came of it stays" in str(carry_tables(new, back))


def _values(driver: EngineDriver) -> list[Any]:
    return [result.value for result in driver.read("out")]
