"""Aggregates without windows through the engine, beside the oracle: streams and tables, whatever the batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proof.arrow import arrow_builder
from proof.engine import EngineDriver
from proof.oracle import Semantics, Topology
from proof.oracle import functions as text
from proof.oracle.graph import Node
from proof.oracle.tables.table import TableSource
from proof.oracle.windows.aggregate import GroupTable, StreamAggregate, TableAggregate
from proof.oracle.windows.aggregation import AGGREGATORS
from tests.engine.kit import LIBRARY, REF, by_step, driver_of, run
from tests.lengths import examples
from watersmeet._engine.aggregates import contributions as operator
from watersmeet._engine.aggregates.folds import ROUNDS, ArrayFold, Work, in_rounds
from watersmeet._engine.expressions.program import Evaluated
from watersmeet._engine.expressions.tree import Call, Operand
from watersmeet._plan.folds import FunctionFold, Step
from watersmeet.aggregates.collections import collect_list
from watersmeet.aggregates.user_defined import python
from watersmeet.errors import FunctionError

PAYLOAD = LIBRARY.lift(text.payload, "string")
KEYS = st.sampled_from(["a", "b", "é", None])
VALUES = st.sampled_from(["1", "2", "3", "g|1", "h|2", "g|3", "g|", None])
STEPS = st.lists(st.tuples(st.just("in"), KEYS, VALUES, st.integers(-1, 9)), max_size=25)
CUTS = st.frozensets(st.integers(0, 25))


def joined(one: Any, other: Any) -> Any:
    return pc.binary_join_element_wise(one, other, "+")


def of_stream(grouped: Any, name: str) -> Any:
    fold = AGGREGATORS[name]
    if name == "count":
        return grouped.count()
    if name == "columns":
        return grouped.aggregate(lambda: "0", lambda value, aggregate: joined(aggregate, value))
    if fold.initial is None:
        return grouped.reduce(python(fold.add))
    return grouped.aggregate(fold.initial, python(lambda value, aggregate: fold.add(aggregate, value)))


def of_table(grouped: Any, name: str) -> Any:
    fold = AGGREGATORS[name]
    if name == "count":
        return grouped.count()
    if fold.initial is None:
        return grouped.reduce(python(fold.add), python(fold.subtract))
    steps = (lambda v, a: fold.add(a, v)), (lambda v, a: fold.subtract(a, v))  # type: ignore[misc]
    return grouped.aggregate(fold.initial, *map(python, steps))


def oracle_steps(topology: Topology, steps: list[Any]) -> list[list[tuple[Any, Any, int | None]]]:
    return [[(r.key, r.value, r.ts) for r in topology.pipe(*step)] for step in steps]


@settings(max_examples=examples(60), deadline=None)
@given(
    steps=STEPS, cuts=CUTS, shards=st.sampled_from([1, 3]), name=st.sampled_from(["count", "reduce", "log", "reset"])
)
def test_a_stream_gives_what_one_record_at_a_time_gives(steps: Any, cuts: Any, shards: int, name: str) -> None:
    topology = Topology(Semantics(faithful=False))
    source = Node()
    topology.source("in", source)
    topology.sink(StreamAggregate(topology, source, AGGREGATORS[name]))
    driver = driver_of(lambda b: of_stream(b.stream("in", key="string", value="string").group_by_key(), name))
    driver.shards = shards
    assert by_step(driver, steps, cuts) == oracle_steps(topology, steps)


@settings(max_examples=examples(60), deadline=None)
@given(steps=STEPS, cuts=CUTS, shards=st.sampled_from([1, 3]), name=st.sampled_from(["count", "reduce", "log", "set"]))
def test_a_table_gives_what_one_change_at_a_time_gives(steps: Any, cuts: Any, shards: int, name: str) -> None:
    topology = Topology(Semantics(faithful=False))
    source = TableSource(topology)
    topology.source("in", source)
    groups = GroupTable(topology, source, lambda _, value: (text.ref(value), text.payload(value)))
    topology.sink(TableAggregate(topology, groups.topic, AGGREGATORS[name]))

    def build(builder: Any) -> Any:
        table = builder.table("in", key="string", value="string")
        return of_table(table.group_by(lambda _, value: (REF(value), PAYLOAD(value))), name)

    driver = driver_of(build)
    driver.shards = shards
    assert by_step(driver, steps, cuts) == oracle_steps(topology, steps)


@settings(max_examples=examples(40), deadline=None)
@given(steps=STEPS, cuts=CUTS)
def test_functions_of_arrays_give_what_plain_ones_give(steps: Any, cuts: Any) -> None:
    def said(columns: bool) -> Any:
        def build(builder: Any) -> Any:
            stream = builder.stream("in", key="string", value="string").group_by_key()
            table = builder.table("table", key="string", value="string")
            grouped = table.group_by(lambda _, value: (REF(value), PAYLOAD(value)))
            if columns:
                stream.reduce(joined).to("reduced")
                stream.aggregate(lambda: "0", lambda v, a: joined(a, v)).to("folded")
                grouped.aggregate(lambda: "0", lambda v, a: joined(a, v), lambda v, a: joined(v, a)).to("out")
            else:
                stream.reduce(python(text.plus)).to("reduced")
                stream.aggregate(lambda: "0", python(lambda v, a: f"{a}+{v}")).to("folded")
                adder, subtractor = python(lambda v, a: f"{a}+{v}"), python(lambda v, a: f"{v}+{a}")
                grouped.aggregate(lambda: "0", adder, subtractor).to("out")

        driver = driver_of(build)
        both = [each for step in steps for each in (step, ("table", *step[1:]))]
        return by_step(driver, both, cuts), driver.read("reduced"), driver.read("folded")

    assert said(columns=True) == said(columns=False)


def test_records_without_key_or_value_are_counted_and_left_out() -> None:
    driver = driver_of(lambda b: b.stream("in", key="string", value="string").group_by_key().count(name="n"))
    assert run(driver, ("in", "a", "1", 5), ("in", None, "1", 6), ("in", "a", None, 7), ("in", "a", "2", 3)) == [
        ("a", 1, 5),
        ("a", 2, 5),
    ]
    assert {reason: n for (node, reason), n in driver.drops.items() if node == "n"} == {"null_key": 1, "null_value": 1}


def test_a_filter_behind_an_aggregate_knows_its_old_values() -> None:
    def build(builder: Any) -> Any:
        counted = builder.stream("in", key="string", value="string").group_by_key().count(store="n")
        return counted.filter(lambda n: pc.less(n, 3))

    steps = [("in", "a", "x", ts) for ts in range(4)]
    assert run(driver_of(build), *steps) == [("a", 1, 0), ("a", 2, 1), ("a", None, 2)]


@pytest.mark.parametrize("limit", [1, 200])
def test_rows_are_folded_in_stretches_without_a_difference(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [("in", key, value, ts) for ts, (key, value) in enumerate([("a", "1"), ("b", "2"), ("a", "3")] * 20)]

    def build(builder: Any) -> Any:
        return of_stream(builder.stream("in", key="string", value="string").group_by_key(), "log")

    whole = run(driver_of(build), *steps)
    monkeypatch.setattr(operator, "RESULT_BYTES", limit)
    monkeypatch.setattr(operator, "MOST_ROWS", 7)
    assert run(driver_of(build), *steps) == whole


def test_with_the_record_cache_a_key_gives_one_change_of_all_that_it_went_through() -> None:
    builder = arrow_builder("test")
    stream = builder.stream("in", key="string", value="string")
    of_stream(stream.group_by_key(), "reset").to("out")
    driver = EngineDriver(builder.build(), record_cache=True)
    assert run(driver, ("in", "a", "1", 0), ("in", "b", "1", 1), ("in", "a", "2", 2), ("in", "c", "3", 3)) == [
        ("b", "0+1", 1),
        ("a", "0+1+2", 2),
    ]
    assert run(driver, ("in", "a", "4", 3), ("in", "a", "3", 4), ("in", "b", "2", 5)) == [
        ("a", None, 4),
        ("b", "0+1+2", 5),
    ]


def test_the_aggregate_has_one_type() -> None:
    grouped = arrow_builder("test").stream("in", key="string", value="long").group_by_key()
    with pytest.raises(FunctionError, match="but the aggregate's type is"):
        grouped.reduce(lambda one, other: pc.cast(other, pa.string()))
    widened = grouped.aggregate(lambda: pa.scalar(0, pa.int32()), lambda value, total: pc.add(value, total))
    assert widened.value_type == pa.int64()
    with pytest.raises(FunctionError, match="null"):
        grouped.aggregate(lambda: None, lambda value, total: total)


def test_a_plain_function_that_gives_another_type_says_so() -> None:
    driver = driver_of(
        lambda b: b.stream("in", key="string", value="long").group_by_key().reduce(python(lambda a, v: "x"))
    )
    driver.pipe("in", "a", 1, ts=0)
    driver.pipe("in", "a", 2, ts=0)
    with pytest.raises(FunctionError, match="not of the aggregate's type"):
        driver.run_batch()


@settings(max_examples=examples(40), deadline=None)
@given(
    steps=st.lists(st.tuples(st.sampled_from(["one", "two"]), KEYS, VALUES, st.integers(0, 9)), max_size=25),
    cuts=CUTS,
    shards=st.sampled_from([1, 3]),
    plain=st.booleans(),
)
def test_cogrouped_streams_are_folded_in_their_order_each_by_its_own_function(
    steps: Any, cuts: Any, shards: int, plain: bool
) -> None:
    def build(builder: Any) -> Any:
        one, two = (builder.stream(name, key="string", value="string").group_by_key() for name in ("one", "two"))
        if plain:
            both = one.cogroup(python(lambda v, a: f"{a}+{v}")).cogroup(two, python(lambda v, a: f"{v}-{a}"))
        else:
            both = one.cogroup(lambda v, a: joined(a, v)).cogroup(
                two, lambda v, a: pc.binary_join_element_wise(v, a, "-")
            )
        return both.aggregate(lambda: "0")

    driver = driver_of(build, shards=shards)
    wanted, kept = [], {}
    for topic, key, value, ts in steps:
        wanted.append([])
        if key is not None and value is not None:
            before, latest = kept.get(key, ("0", ts))
            after = f"{before}+{value}" if topic == "one" else f"{value}-{before}"
            kept[key] = after, max(latest, ts)
            wanted[-1].append((key, *kept[key]))
    assert by_step(driver, steps, cuts) == wanted


@pytest.mark.parametrize("plain", [True, False])
def test_a_cogroup_may_have_one_stream_or_one_stream_twice(plain: bool) -> None:
    def build(builder: Any, twice: bool) -> Any:
        one = builder.stream("one", key="string", value="string").group_by_key()
        first = python(lambda v, a: f"{a}+{v}") if plain else lambda v, a: joined(a, v)
        second = python(lambda v, a: f"{v}-{a}") if plain else lambda v, a: pc.binary_join_element_wise(v, a, "-")
        grouped = one.cogroup(first).cogroup(one, second) if twice else one.cogroup(first)
        return grouped.aggregate(lambda: "0")

    steps = [("one", "a", "1", 0), ("one", "a", "2", 1)]
    assert run(driver_of(lambda b: build(b, False)), *steps) == [("a", "0+1", 0), ("a", "0+1+2", 1)]
    assert run(driver_of(lambda b: build(b, True)), *steps) == [
        ("a", "0+1", 0),
        ("a", "1-0+1", 0),
        ("a", "1-0+1+2", 1),
        ("a", "2-1-0+1+2", 1),
    ]


def test_an_aggregate_that_holds_too_much_is_refused_with_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator, "LARGEST_RECORD", 4_000)
    driver = driver_of(
        lambda b: b.stream("in", key="string", value="string").group_by_key().agg(all=collect_list(lambda value: value))
    )
    driver.pipe("in", "small", "x", ts=0)
    for ts in range(5):
        driver.pipe("in", "large", "x" * 1_000, ts=ts)
    with pytest.raises(FunctionError, match="key 'large'"):
        driver.run_batch()


def test_states_that_grow_with_each_record_are_made_in_stretches_of_bounded_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(operator, "RESULT_BYTES", 60_000)
    made: list[int] = []

    def finished(_: Any, states: Any) -> Any:
        made.append(states.nbytes)
        return states

    monkeypatch.setattr(operator, "finished", finished)

    def build(builder: Any) -> Any:
        return builder.stream("in", key="string", value="string").group_by_key().reduce(python(text.plus))

    said = run(driver_of(build, shards=1), *[("in", "k", "x" * 100, ts) for ts in range(100)])
    assert [len(value) for _, value, _ in said] == [101 * n + 100 for n in range(100)]
    assert max(made) < 3 * 60_000


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64()])
@pytest.mark.parametrize("starts", [True, False])
def test_a_fold_that_adds_gives_in_one_scan_what_it_gives_round_by_round(kind: pa.DataType, starts: bool) -> None:
    value, total = Operand("value", kind), Operand("total", kind)
    doubled = Call("Add", (value, value), kind)
    add = Evaluated(Call("Add", (doubled, total), kind), ("key", "value", "total"))
    assert add.addend("total") == Evaluated(doubled, add.operands)
    assert Evaluated(Call("Add", (total, total), kind), add.operands).addend("total") is None
    fold = ArrayFold(FunctionFold(Step(add, plain=False), starts=starts, initial=3 if starts else None), kind)
    numbers = np.random.default_rng(1).integers(-1000, 1000, 4 * ROUNDS)
    begins = np.array([0, 1, 3 * ROUNDS, 4 * ROUNDS])
    values = pa.array(numbers).cast(kind) if pa.types.is_integer(kind) else pa.array(numbers * 0.1)
    prior = pa.array([None, 5, None]).cast(kind)
    ts = np.arange(len(numbers))
    work = Work(pa.array(["a", "b", "c"]), begins, values, ts, prior, np.zeros(3, dtype=np.int64))
    scanned, rounds = fold.run(work), in_rounds(fold, work)
    assert scanned.states.take(pa.array(scanned.after)) == rounds.states.take(pa.array(rounds.after))
    assert (scanned.before >= 0).tolist() == (rounds.before >= 0).tolist()
