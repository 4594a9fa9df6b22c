"""Folds whose functions raise, where that is tolerated: the oracle without what such records would have changed."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from traceback import format_exception
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
from proof.oracle.graph import Node
from proof.oracle.parts import window_aggregate
from proof.oracle.records import Windowed
from proof.oracle.windows.aggregate import StreamAggregate
from proof.oracle.windows.aggregation import Aggregator
from proof.runners.library import as_written
from tests.engine.kit import by_step
from tests.lengths import examples
from watersmeet._engine.aggregates import contributions
from watersmeet._engine.aggregates.folds import ROUNDS, ArrayFold, Work, in_rounds
from watersmeet._engine.expressions.program import Evaluated
from watersmeet._engine.expressions.tree import Call, EvaluationError, Operand
from watersmeet._engine.rows import gather
from watersmeet._plan.folds import FunctionFold, Step
from watersmeet.aggregates.sums import sum as total
from watersmeet.aggregates.user_defined import python
from watersmeet.windows import EmitStrategy, SessionWindows, SlidingWindows, TimeWindows

KEYS = st.sampled_from(["a", "b"])
VALUES = st.sampled_from(["1", "2", "3", "4", "5"])
STEPS = st.lists(st.tuples(st.just("in"), KEYS, VALUES, st.integers(0, 40)), max_size=30)
CUTS = st.frozensets(st.integers(0, 30))
WINDOWS: dict[str, Any] = {
    "none": (None, {}),
    "tumbling": (TimeWindows(10, 10, 5), {"window": "tumbling", "size_ms": 10, "grace_ms": 5}),
    "hopping": (TimeWindows(10, 3, 6), {"window": "hopping", "size_ms": 10, "advance_ms": 3, "grace_ms": 6}),
    "sliding": (SlidingWindows(7, 3), {"window": "sliding", "difference_ms": 7, "grace_ms": 3}),
    "session": (SessionWindows(4, 6), {"window": "session", "gap_ms": 4, "grace_ms": 6}),
}


def added(aggregate: Any, value: Any) -> Any:
    """Raises for a value at all times, and for others by what there is; two in a row vanish together."""
    if value == "1" or (value == "2" and aggregate[-1] in "34") or (value == "3" and len(aggregate) % 4 == 1):
        raise ValueError(value)
    return None if aggregate[-1] == value == "5" else aggregate + value


def merged(one: Any, other: Any) -> Any:
    if one[-1] == "4" and other[-1] == "5":
        raise ValueError(other)
    return f"{one}&{other}"


FOLD = Aggregator(lambda: "0", added, merge=merged)


def of_arrays(function: Callable[..., Any]) -> Any:
    """The function of arrays, a row each."""

    def called(one: pa.Array, other: pa.Array) -> pa.Array:
        try:
            return pa.array([function(*row) for row in zip(other.to_pylist(), one.to_pylist(), strict=True)], "string")
        except ValueError as error:
            raise EvaluationError("TOLD", str(error)) from None

    return called


def adder_of(form: str) -> Any:
    add = of_arrays(added)
    return python(lambda value, aggregate: added(aggregate, value)) if "plain" in form else lambda v, a: add(v, a)


def folded(grouped: Any, form: str) -> Any:
    merge = of_arrays(merged)
    steps = [] if "cogrouped" in form else [adder_of(form)]
    if type(grouped).__name__.startswith("Session"):
        steps.append(python(merged) if "columns" not in form else lambda one, other: merge(other, one))
    return grouped.aggregate(FOLD.initial, *steps)


def told_by_oracle(windows: str, steps: Any, *, on_close: bool) -> tuple[list[Any], int]:
    """(the results of each step, how many records end): a record moves time, and is as if it had not come."""
    topology = Topology(Semantics(faithful=False))
    source = Node()
    topology.source("in", source)
    params = WINDOWS[windows][1] | ({"emit": "close"} if on_close else {})
    node: Any = window_aggregate(topology, source, params, FOLD) if params else StreamAggregate(topology, source, FOLD)
    topology.sink(node)
    said, count = [], 0
    for step in steps:
        try:
            deepcopy(topology).pipe(*step)
        except ValueError:
            count += 1
            if windows != "none":
                node.aggregate = lambda _: True
                said.append(topology.pipe(*step))
                del node.aggregate
            else:
                said.append([])
        else:
            said.append(topology.pipe(*step))
    return [[(r.key, r.value, r.ts) for r in results] for results in said], count


def driver_of(windows: str, form: str, *, on_close: bool = False, on_error: Any = "skip", shards: int = 2) -> Any:
    builder = arrow_builder("test", on_error=on_error)
    grouped: Any = builder.stream("in", key="string", value="string").group_by_key()
    if "cogrouped" in form:
        other = builder.stream("other", key="string", value="string").group_by_key()
        grouped = other.cogroup(adder_of(form)).cogroup(grouped, adder_of(form))
    if windows != "none":
        grouped = grouped.windowed_by(WINDOWS[windows][0])
        grouped = grouped.emit_strategy(EmitStrategy(on_close))
    as_written(folded(grouped, form)).to("out")
    return EngineDriver(builder.build(), shards=shards)


def under_windows(rows: Any) -> Any:
    return [[(Windowed(**k) if isinstance(k, dict) else k, value, ts) for k, value, ts in step] for step in rows]


@settings(max_examples=examples(200), deadline=None)
@given(
    steps=STEPS,
    cuts=CUTS,
    shards=st.sampled_from([1, 3]),
    windows=st.sampled_from(sorted(WINDOWS)),
    form=st.sampled_from(["plain", "columns", "both", "plain cogrouped", "columns cogrouped"]),
    on_close=st.booleans(),
    stretch=st.sampled_from([3, contributions.MOST_ROWS]),
)
def test_a_record_for_which_a_fold_raises_is_as_if_it_had_not_come_whatever_the_batches(
    steps: Any, cuts: Any, shards: int, windows: str, form: str, on_close: bool, stretch: int
) -> None:
    on_close = on_close and windows != "none"
    expected, count = told_by_oracle(windows, steps, on_close=on_close)
    driver = driver_of(windows, form, on_close=on_close, shards=shards)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contributions, "MOST_ROWS", stretch)
        assert under_windows(by_step(driver, steps, cuts)) == expected
    assert ended(driver) == count


def ended(driver: EngineDriver) -> int:
    """How many records ended since a function raised for them."""
    return sum(count for (_, reason), count in driver.drops.items() if reason == "function_error")


def piped(driver: EngineDriver, *steps: tuple[Any, ...]) -> list[tuple[Any, Any, int]]:
    for topic, key, value, ts in steps:
        driver.pipe(topic, key, value, ts=ts)
    driver.run_batch()
    return [(result.key, result.value, result.ts) for result in driver.read("out")]


def test_without_a_policy_a_fold_that_raises_fails_the_query() -> None:
    with pytest.raises(ValueError, match="1"):
        piped(driver_of("hopping", "plain", on_error="fail"), ("in", "a", "1", 5))
    with pytest.raises(EvaluationError, match="TOLD"):
        piped(driver_of("session", "columns", on_error="fail"), ("in", "a", "1", 5))


def test_what_ends_is_no_change_of_the_record_cache_and_moves_no_aggregates_time() -> None:
    builder = arrow_builder("test", on_error="skip")
    grouped: Any = builder.stream("in", key="string", value="string").group_by_key()
    as_written(folded(grouped, "columns")).to("out")
    driver = EngineDriver(builder.build(), record_cache=True)
    steps = [("in", "a", "4", 1), ("in", "b", "1", 2), ("in", "a", "2", 9), ("in", "a", "4", 3), ("in", "a", "1", 8)]
    assert piped(driver, *steps) == [("a", "044", 3)]
    assert ended(driver) == 3


def test_cogrouped_streams_end_records_each_by_its_own_function() -> None:
    for plain in (True, False):
        builder = arrow_builder("test", on_error="skip")
        one, two = (builder.stream(name, key="string", value="string").group_by_key() for name in ("one", "two"))
        # the second adds what it is given to the front, and never raises
        steps: list[Any] = [python(lambda v, a: added(a, v)), python(lambda v, a: v + a)]
        if not plain:
            steps = [lambda v, a: of_arrays(added)(v, a), lambda v, a: pc.binary_join_element_wise(v, a, "")]
        as_written(one.cogroup(steps[0]).cogroup(two, steps[1]).aggregate(lambda: "0")).to("out")
        driver = EngineDriver(builder.build())
        given = [("one", "a", "4", 0), ("two", "a", "1", 1), ("one", "a", "1", 2), ("one", "a", "2", 3)]
        assert piped(driver, *given) == [("a", "04", 0), ("a", "104", 1)], plain
        assert ended(driver) == 2


def test_a_reducer_that_raises_and_a_plain_function_that_gives_another_type_end_the_record() -> None:
    builder = arrow_builder("test", on_error="skip")
    grouped = builder.stream("in", key="string", value="long").group_by_key()
    as_written(grouped.reduce(python(lambda one, new: "x" if new == 7 else one + 10 // new))).to("out")
    driver = EngineDriver(builder.build())
    # the first value is taken as it is
    assert piped(driver, *(("in", "a", value, value) for value in (0, 7, 5, 0, 2))) == [
        ("a", 0, 0),
        ("a", 2, 5),
        ("a", 7, 5),
    ]
    assert ended(driver) == 2


def test_a_sum_that_its_type_does_not_hold_ends_the_record() -> None:
    builder = arrow_builder("test", on_error="skip")
    grouped = builder.stream("in", key="string", value="long").group_by_key()
    as_written(grouped.agg(total=total(lambda value: value))).to("out")
    driver = EngineDriver(builder.build())
    large = 2**63 - 3
    said = piped(driver, *(("in", "a", value, 0) for value in (large, 1, 5, 1, 1)))
    assert [value["total"] for _, value, _ in said] == [large, large + 1, large + 2]
    assert ended(driver) == 2


def test_folds_that_take_values_back_and_tables_with_a_history_fail_the_query_whatever_is_said() -> None:
    def adds(value: Any, aggregate: Any) -> Any:
        return added(aggregate, value)

    def of_table(builder: Any) -> Any:
        table = builder.table("in", key="string", value="string")
        grouped = table.group_by(lambda key, value: (key, value))
        return grouped.aggregate(lambda: "0", python(adds), python(lambda value, aggregate: aggregate))

    def with_history(builder: Any) -> Any:
        grouped = builder.stream("in", key="string", value="string").group_by_key()
        return grouped.aggregate(lambda: "0", python(adds), history="1 minute")

    for build in (of_table, with_history):
        builder = arrow_builder("test", on_error="skip")
        as_written(build(builder)).to("out")
        with pytest.raises(ValueError, match="1"):
            piped(EngineDriver(builder.build()), ("in", "a", "1", 0))


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64()])
def test_of_a_key_with_most_of_a_batch_the_rows_that_end_are_left_out_of_its_one_scan(kind: pa.DataType) -> None:
    value, sum_ = Operand("value", kind), Operand("sum", kind)
    share = Call("IntegralDivide" if pa.types.is_integer(kind) else "Divide", (value, value), kind)
    add = Evaluated(Call("Add", (share, sum_), kind), ("key", "value", "sum"))
    fold = ArrayFold(FunctionFold(Step(add, plain=False), starts=True, initial=3), kind)
    fold.tolerates_errors = True
    values = pa.array([*[0, 0, 1], *([2, 0, 4] * ROUNDS), 0], kind)
    begins, ts = np.array([0, 3, len(values) - 1, len(values)]), np.arange(len(values))[::-1].copy()
    prior = pa.array([None, 5, None]).cast(kind)
    work = Work(pa.array(["a", "b", "c"]), begins, values, ts, prior, np.zeros(3, dtype=np.int64))
    scanned, rounds = fold.run_by_policy(work), in_rounds(fold, work, {})
    assert len(scanned.failed) == ROUNDS + 3
    assert len(scanned.states) == len(prior) + len(values)
    for one, other in ((scanned.after, rounds.after), (scanned.before, rounds.before)):
        assert gather(scanned.states, one) == gather(rounds.states, other)
    assert (scanned.void == rounds.void).all()
    assert (scanned.ts == rounds.ts).all()


@pytest.mark.parametrize("form", ["plain", "columns", "both"])
@pytest.mark.parametrize("steps", [[("1", 0)], [("4", 0), ("5", 8), ("3", 4)]], ids=["adder", "merger"])
def test_a_failure_says_whose_function_it_was_so_that_another_policy_may_be_chosen(form: str, steps: Any) -> None:
    driver = driver_of("session", form, on_error="fail")
    with pytest.raises((ValueError, EvaluationError)) as raised:
        piped(driver, *(("in", "a", value, ts) for value, ts in steps))
    text = "".join(format_exception(raised.value))
    (node,) = (operator.node for operator in driver.layout.physical.operators)
    assert f"\nIn a function of {node}.\n" in text


def test_the_first_value_of_a_key_with_most_of_a_batch_is_taken_as_it_is_by_a_reducer() -> None:
    value, before = Operand("value", pa.int64()), Operand("before", pa.int64())
    share = Call("IntegralDivide", (value, value), pa.int64())
    add = Evaluated(Call("Add", (share, before), pa.int64()), ("key", "value", "before"))
    values = pa.array([0, *[5] * 2 * ROUNDS], pa.int64())
    begins, ts = np.array([0, len(values)]), np.arange(len(values))
    work = Work(pa.array(["a"]), begins, values, ts, pa.nulls(1, pa.int64()), np.zeros(1, dtype=np.int64))
    done = ArrayFold(FunctionFold(Step(add, plain=False)), pa.int64()).run_by_policy(work)
    assert gather(done.states, done.after).to_pylist() == list(range(2 * ROUNDS + 1))
