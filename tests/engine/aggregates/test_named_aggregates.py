"""Aggregates by name, beside what Python makes of the values that a key has at each record."""

from __future__ import annotations

import math
import statistics
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import watersmeet.aggregates as wm
from proof.arrow import arrow_builder
from tests.engine.kit import LIBRARY, by_step, driver_of
from tests.lengths import examples
from watersmeet._engine.aggregates.folds import ROUNDS, Groups
from watersmeet._engine.aggregates.kernel import AggregateKernel, KernelTypes
from watersmeet._engine.aggregates.registry import NamedFoldKernel, part_of
from watersmeet._plan import folds
from watersmeet.errors import FunctionError, TopologyError

NUMBERS = st.sampled_from([None, 0, 1, 2, 3, 7, -5, 2**40])
STEPS = st.lists(st.tuples(st.just("in"), st.sampled_from("abc"), NUMBERS, st.integers(0, 9)), max_size=20)
CUTS = st.frozensets(st.integers(0, 20))


def odd_null(value: Any) -> Any:
    """The argument: the number, null of 7."""
    return pc.if_else(pc.equal(value, 7), pa.scalar(None, pa.int64()), value)


def halved(value: Any) -> Any:
    return pc.divide(odd_null(value).cast(pa.float64()), 2.0)


def text(value: Any) -> Any:
    return odd_null(value).cast(pa.string())


def positive(value: Any) -> Any:
    return pc.greater(odd_null(value), 0)


def everything(*, of_table: bool) -> dict[str, wm.AnyAggregate]:
    more = {} if of_table else _of_streams()
    return more | {
        "n": wm.count(),
        "present": wm.count(odd_null),
        "total": wm.sum(odd_null),
        "halves": wm.sum(halved),
        "least": wm.min(text),
        "most": wm.max(halved),
        "mean": wm.avg(odd_null),
        "spread": wm.stddev(odd_null),
        "all": wm.collect_list(odd_null),
        "different": wm.collect_set(text),
        "distinct": wm.count_distinct(odd_null),
        "top": wm.top_k(odd_null, 2),
        "best": wm.max_by(text, odd_null),
        "worst": wm.min_by(text, odd_null),
        "tops": wm.top_k(k=2, by=odd_null),
        "usual": wm.mode(odd_null),
        "middle": wm.percentile(odd_null, 0.5),
        "every": wm.bool_and(positive),
        "any": wm.bool_or(positive),
    }


def _of_streams() -> dict[str, wm.AnyAggregate]:
    return {"first": wm.first(odd_null), "last": wm.last(text), "recent": wm.last_k(odd_null, k=3)}


def kernel_of(aggregate: wm.AnyAggregate, kind: pa.DataType, *, takes_back: bool = False) -> AggregateKernel:
    """What an aggregate does to values of a type."""
    names = tuple(aggregate.arguments)
    kinds = dict.fromkeys(names, kind)
    types = aggregate.types(wm.Use(kinds, takes_back=takes_back))
    return part_of(aggregate, KernelTypes(*types, takes_back=takes_back))


def it(value: Any) -> Any:
    return value


def expected(rows: list[int], *, of_table: bool) -> dict[str, Any]:
    """What Python makes of the values of a key, in the order in which they came."""
    values = [row for row in rows if row != 7]
    texts = [str(value) for value in values]
    edges = {"first": values[0] if values else None, "last": texts[-1] if texts else None, "recent": values[-3:]}
    more = {} if of_table else edges
    return more | {
        "n": len(rows),
        "present": len(values),
        "total": sum(values) if values else None,
        "halves": sum(value / 2 for value in values) if values else None,
        "least": min(texts, default=None),
        "most": max(values) / 2 if values else None,
        "mean": sum(values) / len(values) if values else None,
        "spread": statistics.stdev(values) if len(values) > 1 else None,
        "all": values,
        "different": list(dict.fromkeys(texts)),
        "distinct": len(set(values)),
        "top": sorted(values, reverse=True)[:2],
        "best": str(max(values)) if values else None,
        "worst": str(min(values)) if values else None,
        "tops": sorted(values, reverse=True)[:2],
        "usual": min(statistics.multimode(values), default=None),
        "middle": statistics.median(values) if values else None,
        "every": all(value > 0 for value in values) if values else None,
        "any": any(value > 0 for value in values) if values else None,
    }


def same(got: dict[str, Any], wanted: dict[str, Any], *, taken_back: int = 0) -> bool:
    """Equal, deviations within what doubles leave behind where values as large as this one were taken back."""
    spread, other = got["spread"], wanted["spread"]
    near = spread == other or (
        None not in (spread, other) and math.isclose(spread, other, rel_tol=1e-6, abs_tol=1e-3 + 1e-7 * taken_back)
    )
    return near and {**got, "spread": 0} == {**wanted, "spread": 0}


@settings(max_examples=examples(60), deadline=None)
@given(steps=STEPS, cuts=CUTS)
def test_of_a_stream_they_are_what_python_makes_of_the_values(steps: Any, cuts: Any) -> None:
    def build(builder: Any) -> Any:
        return builder.stream("in", key="string", value="long").group_by_key().agg(**everything(of_table=False))

    rows: dict[str, list[int]] = {}
    for (_, key, value, _), said in zip(steps, by_step(driver_of(build), steps, cuts), strict=True):
        assert len(said) == (value is not None)
        if value is not None:
            rows.setdefault(key, []).append(value)
            assert same(said[0][1], expected(rows[key], of_table=False))


@settings(max_examples=examples(60), deadline=None)
@example(steps=[("in", "a", 2**40, 0), ("in", "b", 2, 0), ("in", "c", 3, 0), ("in", "a", None, 0)], cuts=frozenset())
@given(steps=STEPS, cuts=CUTS)
def test_of_a_table_they_are_what_python_makes_of_the_rows_that_are_left(steps: Any, cuts: Any) -> None:
    def build(builder: Any) -> Any:
        table = builder.table("in", key="string", value="long")
        grouped = table.group_by(lambda _, value: (pc.if_else(pc.less(value, 2), "small", "large"), value))
        return grouped.agg(**everything(of_table=True))

    rows: dict[str, list[int]] = {"small": [], "large": []}
    table: dict[str, int] = {}
    largest = max((abs(value) for _, _, value, _ in steps if value is not None), default=0)
    for (_, key, value, _), said in zip(steps, by_step(driver_of(build), steps, cuts), strict=True):
        old, changed = table.pop(key, None), []
        if old is not None:
            group = "small" if old < 2 else "large"
            rows[group].remove(old)
            changed.append(group)
        if value is not None:
            table[key] = value
            group = "small" if value < 2 else "large"
            rows[group].append(value)
            changed += [] if changed == [group] else [group]
        assert [group for group, *_ in said] == changed
        wanted = {group: expected(rows[group], of_table=True) for group in changed}
        assert all(same(result, wanted[group], taken_back=largest) for group, result, _ in said)


@settings(max_examples=examples(40), deadline=None)
@given(data=st.data(), takes_back=st.booleans())
def test_two_states_as_one_are_the_state_of_all_values(data: Any, takes_back: bool) -> None:
    values = st.lists(st.sampled_from([None, 1, 2, 5]), max_size=5)
    parts = [data.draw(values), data.draw(values)]
    for name, aggregate in everything(of_table=True).items():
        kind = pa.bool_() if name in ("every", "any") else pa.int64()
        part, names = kernel_of(aggregate, kind, takes_back=takes_back), list(aggregate.arguments)

        def state_of(
            rows: list[int | None], part: AggregateKernel = part, kind: Any = kind, names: Any = names
        ) -> pa.Array:
            kept = part.init(1)
            for row in rows:
                value = pa.array([row], pa.int64()).cast(kind)
                both = value if len(names) == 1 else pa.StructArray.from_arrays([value] * 2, names)
                kept = part.add(kept, part.given(both))
            return kept

        merged = part.finish(part.merge(*map(state_of, parts)))[0].as_py()
        whole = part.finish(state_of(parts[0] + parts[1]))[0].as_py()
        assert merged == (pytest.approx(whole) if name == "spread" else whole), name


def test_floats_are_added_one_after_the_other_however_many_a_group_has() -> None:
    rows = np.random.default_rng(3).normal(size=5 * ROUNDS) * 10.0 ** np.arange(5 * ROUNDS)
    starts = np.array([0, 2, 2 + 3 * ROUNDS, 5 * ROUNDS])
    sums = Groups(starts).running_sums(np.array([0.5, 0.25, -1.0]), rows)
    for begin, end, head in zip(starts, starts[1:], [0.5, 0.25, -1.0], strict=False):
        for at in range(begin, end):
            head += rows[at]
            assert sums[at] == head


def test_nan_is_the_largest_number_and_a_null_argument_is_none() -> None:
    largest, least = (kernel_of(each, pa.float64()) for each in (wm.max(it), wm.min(it)))
    values = pa.array([1.0, None, math.nan, math.inf])
    for part, wanted in ((largest, [1.0, 1.0, "nan", "nan"]), (least, [1.0, 1.0, 1.0, 1.0])):
        run = part.run(Groups(np.array([0, 4])), pa.nulls(1, pa.float64()), values, None)
        assert ["nan" if math.isnan(v) else v for v in run.to_pylist()] == wanted


def test_a_sum_that_64_bits_do_not_hold_is_an_error_and_not_another_number() -> None:
    driver = driver_of(
        lambda b: b.stream("in", key="string", value="long").group_by_key().agg(total=wm.sum(lambda value: value))
    )
    driver.pipe("in", "a", 2**63 - 2, ts=0)
    driver.pipe("in", "a", 1, ts=0)
    driver.run_batch()
    assert [r.value["total"] for r in driver.read("out")] == [2**63 - 2, 2**63 - 1]
    driver.pipe("in", "a", 1, ts=0)
    with pytest.raises(FunctionError, match="too large for its type"):
        driver.run_batch()


def test_what_cannot_be_aggregated_is_refused_with_the_reason() -> None:
    builder = arrow_builder("test")
    stream = builder.stream("in", key="string", value="string").group_by_key()
    table = builder.table("table", key="string", value="string").group_by(lambda key, value: (key, value))
    with pytest.raises(TopologyError, match="takes numbers"):
        stream.agg(total=wm.sum(lambda value: value))
    with pytest.raises(TopologyError, match="no first value"):
        table.agg(begin=wm.first(lambda value: value))
    with pytest.raises(TopologyError, match="nothing to aggregate"):
        stream.agg()
    with pytest.raises(TopologyError, match="must be an aggregate"):
        stream.agg(n=max)
    with pytest.raises(TopologyError, match="more than zero"):
        wm.top_k(lambda value: value, 0)
    with pytest.raises(TopologyError, match=r"last_k keeps .* more than zero: k=1\.5"):
        wm.last_k(lambda value: value, 1.5)  # type: ignore[arg-type]
    with pytest.raises(TopologyError, match="no last values"):
        table.agg(recent=wm.last_k(lambda value: value, k=3))


def test_a_fold_by_name_says_the_same_in_one_run_and_record_by_record() -> None:
    aggregates = {"count": wm.count(it), "sum": wm.sum(it), "max": wm.max(it), "collect_list": wm.collect_list(it)}
    names = tuple(aggregates)
    kinds = [each.types(wm.Use({"argument": pa.int64()})) for each in aggregates.values()]
    state, result = (pa.struct([(n, kind[at]) for n, kind in zip(names, kinds, strict=True)]) for at in (0, 1))
    fold = NamedFoldKernel(folds.NamedFold(tuple(aggregates.items())), state, result)
    values = pa.array([dict.fromkeys(names, n) for n in (3, 1, 2)])
    kept = pa.nulls(1, state)
    for at in range(3):
        kept = fold.add(pa.array(["a"]), kept, values.slice(at, 1))
    assert fold.finish(kept).to_pylist() == [{"count": 3, "sum": 6, "max": 3, "collect_list": [3, 1, 2]}]
    assert fold.finish(pa.nulls(1, state)).to_pylist() == [None]


def test_a_deviation_is_the_same_to_the_bit_for_groups_of_any_size() -> None:
    values = np.random.default_rng(5).normal(size=4 * ROUNDS)
    column = pa.array(values, mask=values > 1.5)
    part = kernel_of(wm.stddev(it), pa.float64())
    kept, states = part.init(1), []
    for at in range(len(column)):
        kept = part.add(kept, column.slice(at, 1))
        states += kept.to_pylist()
    assert part.run(Groups(np.array([0, len(column)])), part.init(1), column, None).to_pylist() == states


@pytest.mark.parametrize("takes_back", [True, False])
def test_decimals_are_summed_exactly_and_a_sum_that_does_not_fit_is_an_error(takes_back: bool) -> None:
    for precision in (10, 38):
        kind = pa.decimal128(precision, 2)
        part = kernel_of(wm.sum(it), kind, takes_back=takes_back)
        values = pa.array([Decimal("1.10"), None, Decimal("2.25")], kind)
        run = part.finish(part.run(Groups(np.array([0, 3])), part.init(1), values, None))
        assert run.type == pa.decimal128(min(precision + 10, 38), 2)
        assert run.to_pylist() == [Decimal("1.10"), Decimal("1.10"), Decimal("3.35")]
    nines = pa.array([Decimal("9" * 36 + ".99")] * 2, pa.decimal128(38, 2))
    with pytest.raises(FunctionError, match="too large for its type"):
        part.run(Groups(np.array([0, 2])), part.init(1), nines, None)


@pytest.mark.parametrize(("size", "advance"), [(3, 3), (4, 2), (3, 1), (2, 5)])
def test_windows_of_so_many_records_are_the_last_values_at_every_so_manieth_record(size: int, advance: int) -> None:
    def is_due(row: dict[str, Any]) -> bool:
        return row["n"] >= size and (row["n"] - size) % advance == 0

    def build(builder: Any) -> Any:
        table = (
            builder.stream("in", key="string", value="long")
            .group_by_key()
            .agg(n=wm.count(it), values=wm.last_k(it, k=size))
        )
        return table.to_stream().filter(LIBRARY.lift(is_due, "boolean"))

    dice = Random(size * 10 + advance)
    steps = [("in", dice.choice("ab"), number, dice.randrange(50)) for number in range(40)]
    whole = [[v for _, k, v, _ in steps if k == key] for key in "ab"]
    said = by_step(driver_of(build), steps, {7, 8, 30})
    found = [(key, row["n"], row["values"]) for results in said for key, row, _ in results]
    wanted = {
        (key, end): values[end - size : end]
        for key, values in zip("ab", whole, strict=True)
        for end in range(size, len(values) + 1, advance)
    }
    assert {(key, n): values for key, n, values in found} == wanted
    assert len(found) == len(wanted) > 5
