"""Views of global tables: looked up in one level, the oracle beside; and their stores, beside rows computed apart."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proof.arrow import arrow_builder
from proof.engine import EngineDriver
from proof.oracle import functions as text
from proof.oracle.graph import Node
from proof.oracle.tables.global_lookup import (
    GlobalLookup,
    GlobalTable,
    GlobalTableLookup,
    GlobalView,
)
from tests.engine.joins.test_foreign_key import HOW, SHARDS, histories
from tests.engine.kit import (
    LIBRARY,
    PLUS,
    REF,
    Step,
    by_step,
    driver_of,
    oracle_says,
    oracle_tables,
    run,
    tables,
)
from tests.lengths import examples
from watersmeet._engine.state.runs import State
from watersmeet.errors import TopologyError

GLOBALS = ("one", "two", "three")


def method(handle: Any, how: str) -> Any:
    return handle.join if how == "inner" else handle.left_join


def globals_of(builder: Any) -> list[Any]:
    return [builder.global_table(name, key="string", value="string") for name in GLOBALS]


def looked_up(hows: tuple[str, ...], shards: int = 3, *, of: str = "stream") -> EngineDriver:
    """A stream, or a table, joined with a view of two or three tables; the join's own type is the first."""

    def build(builder: Any) -> Any:
        view, *others = reversed(globals_of(builder)[: len(hows)])
        for table, how in zip(others, reversed(hows[1:]), strict=True):
            view = method(table, how)(view, PLUS, key=REF)
        left = getattr(builder, of)("left", key="string", value="string")
        return method(left, hows[0])(view, PLUS, **{"key" if of == "stream" else "foreign_key": REF})

    return driver_of(build, shards=shards)


def mapper(_: Any, value: Any) -> Any:
    return text.ref(value)


def oracle_of(hows: tuple[str, ...], *, of: str) -> Any:
    """The same in the oracle."""
    topology, lefts = oracle_tables(*(["left"] if of == "table" else []))
    left: Any = lefts[0] if lefts else Node()
    if not lefts:
        topology.source("left", left)
    sources = [GlobalTable() for _ in hows]
    for name, source in zip(GLOBALS, sources, strict=False):
        topology.source(name, source)
    view: Any = sources[-1]
    for table, how in zip(reversed(sources[:-1]), reversed(hows[1:]), strict=True):
        view = GlobalView(table, view, how, mapper, text.plus)
    join = GlobalTableLookup if of == "table" else GlobalLookup
    topology.sink(join(topology, left, view, hows[0], mapper, text.plus))
    return topology


STEPS: list[Step] = [
    ("one", "p", "q|1", 0),
    ("left", "k", "p|1", 1),
    ("two", "q", "Q", 9),
    ("left", "k", "p|2", 2),
    ("two", "q", None, 3),
    ("left", "l", "p|3", 4),
    ("left", "m", "x|4", 5),
]


def test_a_view_is_looked_up_as_it_is_then_and_gives_nothing_of_its_own_accord() -> None:
    joined = [("k", "p|2+q|1+Q", 2)]
    assert run(looked_up(("inner", "inner")), *STEPS) == joined
    without = [("k", "p|1+null", 1), *joined, ("l", "p|3+null", 4), ("m", "x|4+null", 5)]
    assert run(looked_up(("left", "inner")), *STEPS) == without
    alone = [("k", "p|1+q|1+null", 1), *joined, ("l", "p|3+q|1+null", 4)]
    assert run(looked_up(("inner", "left")), *STEPS) == alone


def test_a_view_needs_one_level_however_many_tables_stand_behind_it() -> None:
    physical = looked_up(("inner", "inner", "inner")).topology.physical
    assert physical.levels == 1
    (operator,) = physical.operators
    assert operator.stores == tuple(f"global_lookup-left-one-two-three.replica{number}" for number in ("", 1, 2))
    assert "global_view global_view-one-two-three <- one, global_view-two-three: global of string -> string" in (
        looked_up(("inner", "inner", "inner")).topology.describe()
    )


def test_every_task_has_all_tables_and_deletes_leave_nothing() -> None:
    driver = looked_up(("inner", "inner"), shards=4)
    run(driver, *(("one", f"p{n}", f"q{n}|", 0) for n in range(30)), *(("two", f"q{n}", "Q", 0) for n in range(20)))
    assert driver.rows_in_stores() == 2 * 50
    run(driver, *(("one", f"p{n}", None, 1) for n in range(30)), *(("two", f"q{n}", None, 1) for n in range(20)))
    assert driver.rows_in_stores() == 0


def test_the_joiner_of_a_view_may_take_its_key_and_never_sees_a_row_that_is_not_there() -> None:
    def build(builder: Any) -> Any:
        one, two, three = globals_of(builder)

        def joiner(key: pa.Array, left: pa.Array, right: pa.Array) -> pa.Array:
            assert not left.null_count
            assert not key.null_count
            return pc.binary_join_element_wise(key, left, right, "/", null_handling="replace", null_replacement="-")

        view = one.left_join(two.left_join(three, joiner, key=REF), joiner, key=REF)
        return builder.stream("left", key="string", value="string").left_join(view, PLUS, key=REF)

    steps: list[Step] = [("one", "p", "q|1", 0), ("two", "q", "none", 0), ("one", "r", "x|2", 0)]
    lefts: list[Step] = [("left", "k", "p|", 1), ("left", "l", "r|", 1), ("left", "m", "none", 1)]
    assert [value for _, value, _ in run(driver_of(build), *steps, *lefts)] == [
        "p|+p/q|1/q/none/-",
        "r|+r/x|2/-",
        "none+null",
    ]


def test_a_table_may_stand_in_a_view_twice() -> None:
    def build(builder: Any) -> Any:
        one = builder.global_table("one", key="string", value="string", store="kept")
        return builder.stream("left", key="string", value="string").join(one.join(one, PLUS, key=REF), PLUS, key=REF)

    driver = driver_of(build)
    (operator,) = driver.topology.physical.operators
    assert operator.stores == ("kept", "global_lookup-left-one.replica1")
    assert run(driver, ("one", "p", "q|1", 0), ("one", "q", "Q", 0), ("left", "k", "p|", 1)) == [("k", "p|+q|1+Q", 1)]


def test_keys_of_the_tables_may_be_of_several_types() -> None:
    def build(builder: Any) -> Any:
        one = builder.global_table("one", key="string", value="string")
        two = builder.global_table("two", key="long", value="string")
        number = LIBRARY.lift(lambda value: None if value == "-" else int(value), "long")
        view = one.join(two, PLUS, key=lambda value: number(value))
        return builder.stream("left", key="string", value="string").join(view, PLUS, key=REF)

    steps: list[Step] = [
        ("one", "p", str(2**53 + 1), 0),
        ("one", "q", "-", 0),
        ("two", 2**53 + 1, "T", 0),
        ("two", 2**53, "wrong", 0),
        ("left", "k", "p|", 1),
        ("left", "l", "q|", 1),
    ]
    assert run(driver_of(build), *steps) == [("k", f"p|+{2**53 + 1}+T", 1)]


def test_what_does_not_fit_is_refused() -> None:
    builder = arrow_builder("test")
    one, two, three = globals_of(builder)
    (table,) = tables(builder, "table")
    number = builder.global_table("number", key="long", value="string")
    with pytest.raises(TopologyError, match=r"joins with global tables only(.|\n)*Hint: A global table drives nothing"):
        one.join(table, PLUS, key=REF)
    with pytest.raises(TopologyError, match="returns another type"):
        one.join(number, PLUS, key=REF)
    with pytest.raises(TopologyError, match="store name 'kept'"):
        one.join(two, PLUS, key=REF, store="kept").left_join(three, PLUS, key=REF, store="kept")


# -- beside the oracle ---------------------------------------------------------------------------------------


@settings(max_examples=examples(120), deadline=None)
@given(
    history=histories(("left", "left", *GLOBALS)),
    hows=st.lists(HOW, min_size=2, max_size=3).map(tuple),
    shards=SHARDS,
    of=st.sampled_from(["stream", "table"]),
)
def test_views_are_looked_up_as_the_oracle_does(
    history: tuple[list[Step], set[int]], hows: tuple[str, ...], shards: int, of: str
) -> None:
    steps, cuts = history
    steps = [step for step in steps if step[0] == "left" or step[0] in GLOBALS[: len(hows)]]
    said = by_step(looked_up(hows, shards, of=of), steps, cuts)
    assert said == oracle_says(oracle_of(hows, of=of), steps)


# -- stores ----------------------------------------------------------------------------------------------------

Rows = dict[Any, str]
NESTING = st.sampled_from(["two", "right", "left"])


def nested(sides: Any, join: Any, nesting: str, hows: tuple[str, ...]) -> Any:
    """A view of two tables; or of three, with a view on its right side or on its left one."""
    one, two, three = sides
    if nesting == "right":
        return join(one, join(two, three, hows[1], "inner"), hows[0])
    return join(join(one, two, hows[1], "inner"), three, hows[0]) if nesting == "left" else join(one, two, hows[0])


def latest(steps: list[Step]) -> list[Rows]:
    """The rows of the global tables behind these steps."""
    rows: dict[str, Rows] = {name: {} for name in GLOBALS}
    for name, key, value, _ in steps:
        if name in rows and key is not None:
            rows[name].pop(key, None)
            rows[name].update({} if value is None else {key: value})
    return list(rows.values())


def rows_joined(left: Rows, right: Rows, how: str, _store: str = "") -> Rows:
    matches = {key: right.get(text.ref(value)) for key, value in left.items()}
    return {key: text.plus(left[key], row) for key, row in matches.items() if row is not None or how == "left"}


def stored(driver: EngineDriver, name: str) -> Rows:
    """The rows of a store, over all shards."""
    rows: Rows = {}
    for operator, shard in driver.stores:
        state = State(driver.stores[operator, shard], None)
        for table in driver.layout.tables_of(operator):
            for part in state.table(table).scan() if table.name == name else ():
                rows |= dict(zip(part.column("key").to_pylist(), part.column("value").to_pylist(), strict=True))
    return rows


@settings(max_examples=examples(120), deadline=None)
@given(
    history=histories((*GLOBALS, "left")),
    nesting=NESTING,
    hows=st.tuples(HOW, HOW, HOW),
    shards=st.lists(SHARDS, min_size=1, max_size=3),
    of=st.sampled_from(["stream", "table"]),
)
def test_a_views_store_has_the_join_of_the_latest_rows_and_lookups_see_the_same(
    history: tuple[list[Step], set[int]], nesting: str, hows: tuple[str, ...], shards: list[int], of: str
) -> None:
    steps, cuts = history

    def build(builder: Any) -> Any:
        def with_store(left: Any, right: Any, how: str, store: str = "kept") -> Any:
            return method(left, how)(right, PLUS, key=REF, store=store)

        view = nested(globals_of(builder), with_store, nesting, hows)
        left = getattr(builder, of)("left", key="string", value="string")
        left = left if of == "stream" else left.filter(LIBRARY.lift(lambda _: True, "boolean"))
        return method(left, hows[2])(view, PLUS, **{"key" if of == "stream" else "foreign_key": REF})

    driver, begun = driver_of(build, shards=shards[0]), 0
    expected: list[tuple[Any, Any]] = []
    standing: set[Any] = set()
    for number, end in enumerate([*sorted(cuts), len(steps)]):
        for place in range(begun, end):
            name, key, value, ts = steps[place]
            driver.pipe(name, key, value, ts=ts)
            if name == "left" and (value is not None or of == "table") and key is not None:
                row = nested(latest(steps[:place]), rows_joined, nesting, hows).get(
                    mapper(key, value) if value else None
                )
                there = value is not None and (row is not None or hows[2] == "left")
                if there or key in standing:
                    expected.append((key, text.plus(value, row) if there else None))
                if of == "table":
                    (standing.add if there else standing.discard)(key)
        begun = end
        driver.run_batch()
        rows = latest(steps[:end])
        assert stored(driver, "kept") == nested(rows, rows_joined, nesting, hows)
        if nesting != "two":
            inside = rows[1:] if nesting == "right" else rows[:2]
            assert stored(driver, "inner") == rows_joined(*inside, hows[1])
        driver.rescale(shards[number % len(shards)])
    assert sorted(map(str, expected)) == sorted(str((result.key, result.value)) for result in driver.read("out"))


class Priced:
    """Sends the row that a view has for each value."""

    def process(self, record: Any, context: Any) -> None:
        context.forward(value=str(context.global_table("priced").get(record.value)))


def test_a_processor_reads_a_view_by_any_key_with_a_store_and_without() -> None:
    for store in (None, "priced"):

        def build(builder: Any, store: str | None = store) -> Any:
            one, two, _ = globals_of(builder)
            view = one.left_join(two, PLUS, key=REF, store=store)
            left = builder.stream("left", key="string", value="string")
            left.process_values(Priced, value="string", tables=[view] if store else {"priced": view}).to("out")

        steps: list[Step] = [
            ("one", "p", "q|1", 0),
            ("left", "k", "p", 1),
            ("two", "q", "Q", 2),
            ("left", "k", "p", 3),
            ("one", "p", None, 4),
            ("left", "l", "p", 5),
        ]
        assert [value for _, value, _ in run(driver_of(build), *steps)] == ["q|1+null", "q|1+Q", "None"]


def test_a_global_table_that_nothing_looks_up_has_its_store() -> None:
    def build(builder: Any) -> Any:
        builder.global_table("one", key="string", value="string", store="alone")
        return builder.stream("left", key="string", value="string")

    driver = driver_of(build)
    run(driver, ("one", "p", "P", 0), ("one", "q", "Q", 1), ("one", "p", None, 2))
    assert stored(driver, "alone") == {"q": "Q"}


def test_rows_of_a_view_that_is_only_looked_up_are_kept_nowhere() -> None:
    def build(builder: Any) -> Any:
        one, two, _ = globals_of(builder)
        one.join(two, PLUS, key=REF)
        return builder.stream("left", key="string", value="string").join(one.join(two, PLUS, key=REF), PLUS, key=REF)

    assert [operator.stem for operator in driver_of(build).topology.physical.operators] == ["global_lookup"]
