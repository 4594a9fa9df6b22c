"""Aggregates that take back: whatever has come and gone, they are the aggregate of the values which are left."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import watersmeet.aggregates as by_name
from tests.engine.aggregates.aggregate_chance import (
    NAN,
    PLACES,
    TYPES,
    aggregates,
    column,
    double,
    doubles,
    exact,
    form,
)
from tests.engine.kit import by_step, driver_of
from watersmeet._engine.aggregates import sums


def rounded(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, value)


def total(values: list[float]) -> float:
    """The sum of doubles, rounded once."""
    special = [value for value in values if not math.isfinite(value)]
    return sum(special) if special else rounded(sum(map(Fraction, values), Fraction(0)))


def deviation(values: list[float]) -> float:
    if not all(map(math.isfinite, values)):
        return NAN
    terms = [Fraction(value) for value in values]
    squares, whole, count = sum(term * term for term in terms), sum(terms), len(terms)
    return math.sqrt(rounded((count * squares - whole * whole) / (count * (count - 1))))


def expected(left: list[Any], kind: pa.DataType) -> dict[str, Any]:
    """The aggregates of the values which are left, in the order in which they came; nulls are left out."""
    array = column([value for value in left if value is not None], kind)
    values, numbers = array.to_pylist(), doubles(array)
    floating = pa.types.is_floating(kind)
    with localcontext(prec=80):
        whole = (
            sum(values, Decimal(0)) if pa.types.is_decimal(kind) else sum(values) if not floating else total(numbers)
        )
    order = sorted(range(len(values)), key=lambda at: (numbers[at] != numbers[at], values[at]))
    different = [0.0 if value == 0 else value for value in values] if floating else values
    names = list({repr(value): value for value in different}.values())
    return {
        "count": len(values),
        "sum": whole if values else None,
        "min": values[order[0]] if values else None,
        "max": values[min(at for at in order if same(values[at], values[order[-1]]))] if values else None,
        "avg": total(numbers) / len(values) if values else None,
        "stddev": deviation(numbers) if len(values) > 1 else None,
        "collect_list": values,
        "collect_set": names,
        "count_distinct": len(names),
        "top_k": largest(values)[:3],
    } | found_by(values, numbers)


def found_by(values: list[Any], numbers: list[float]) -> dict[str, Any]:
    """What is found by another value, by its place, or by how often it is there."""
    is_large = [value > 0 or value != value for value in values]
    pairs = [(value if it else None, value) for value, it in zip(values, is_large, strict=True)]
    keys = [(number != number, value) for number, value in zip(numbers, values, strict=True)]
    return {
        "max_by": latest([shown for shown, _ in pairs], keys, largest=True),
        "min_by": latest([shown for shown, _ in pairs], keys, largest=False),
        "max_of": latest(values, is_large, largest=True),
        "min_of": latest(values, is_large, largest=False),
        "bool_and": all(is_large) if values else None,
        "bool_or": any(is_large) if values else None,
        "mode": most_often(values),
        "top_by": [v for wanted in (True, False) for v, it in zip(values, is_large, strict=True) if it == wanted][:3],
        **{f"p{p}": at_place(values, numbers, p) for p in PLACES},
    }


def latest(values: list[Any], keys: list[Any], *, largest: bool) -> Any:
    """The value of the last one of those whose key is largest, or smallest; NaN are alike."""
    found, best = None, None
    for value, key in zip(values, keys, strict=True):
        key = (True, 0) if isinstance(key, tuple) and key[0] else key
        if best is None or (key >= best if largest else key <= best):
            found, best = value, key
    return found


def most_often(values: list[Any]) -> Any:
    """Of those that are there most often the smallest, NaN last."""
    values = [plain(value) for value in values]
    count = Counter(map(repr, values))
    order = sorted(values, key=lambda v: (-count[repr(v)], in_order(v)))
    return order[0] if values else None


def in_order(value: Any) -> tuple[bool, Any]:
    return value != value, 0 if value != value else value


def plain(value: Any) -> Any:
    """The value, -0.0 as 0.0."""
    return 0.0 if isinstance(value, float) and value == 0 else value


def at_place(values: list[Any], numbers: list[float], p: float) -> float | None:
    """The percentile, in Spark's steps."""
    if not values:
        return None
    numbers = [plain(number) for number in numbers]
    order = sorted(range(len(values)), key=lambda at: in_order(values[at]))
    place = (len(values) - 1) * p
    low, high = math.floor(place), math.ceil(place)
    one, other = order[low], order[high]
    if low == high or values[one] == values[other] or (numbers[one] != numbers[one]):
        return numbers[one]
    return numbers[one] + (place - low) * (numbers[other] - numbers[one])


def same(one: Any, other: Any) -> bool:
    return bool(one == other or (one != one and other != other))


def largest(values: list[Any]) -> list[Any]:
    """Descending, NaN first, equal ones as they came."""
    numbers = sorted((value for value in values if value == value), reverse=True)
    return [value for value in values if value != value] + numbers


def history(r: random.Random, name: str, length: int) -> list[tuple[str, str, Any, int]]:
    """Changes of some rows of two groups."""
    draw = TYPES[name][2]
    steps = []
    table: dict[str, Any] = {}
    for ts in range(length):
        key = r.choice(["a1", "a2", "a3", "b1"])
        value = None if r.random() < 0.3 else draw(r)
        if name == "long" and value is not None:
            # a sum that a long does not hold is an error, which another test is about
            rest = sum(abs(v) for k, v in table.items() if k != key and v is not None)
            value = value if rest + abs(value) < 2**63 else 0
        table[key] = value
        steps.append(("in", key, value, ts))
    return steps


def taken_back(name: str, seed: int, counted: Callable[..., Any] | None = None) -> None:
    """`counted` makes a table of groups that are deleted with their last row."""
    r = random.Random(f"{name} {seed}")
    kind = TYPES[name][1]

    def build(builder: Any) -> Any:
        table = builder.table("in", key="string", value=form(name))
        grouped = table.group_by(lambda key, value: (pc.utf8_slice_codeunits(key, 0, 1), value))
        named = aggregates(kind, takes_back=True)
        return grouped.agg(**named) if counted is None else counted(grouped, named)

    steps = history(r, name, r.randint(1, 14))
    cuts = {at for at in range(len(steps)) if r.random() < 0.3}
    groups: dict[str, list[Any]] = {"a": [], "b": []}
    table: dict[str, Any] = {}
    for (_, key, value, _), said in zip(steps, by_step(driver_of(build), steps, cuts), strict=True):
        rows, old = groups[key[0]], table.pop(key, None)
        if old is not None:
            # of equal values the one that came first
            rows.pop(list(map(repr, rows)).index(repr(old)))
        if value is not None:
            table[key] = value
            rows.append(value)
        assert len(said) == (old is not None or value is not None)
        for _, got, _ in said:
            wanted = expected(rows, kind) if rows or counted is None else None
            assert exact(got) == exact(wanted), (steps, rows)


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("seeds", [range(3), pytest.param(range(3, 150), marks=pytest.mark.proof)])
def test_an_aggregate_that_takes_back_is_the_aggregate_of_what_is_left(name: str, seeds: range) -> None:
    for seed in seeds:
        taken_back(name, seed)


def test_nan_infinity_and_a_large_number_leave_nothing_behind() -> None:
    def build(builder: Any) -> Any:
        table = builder.table("in", key="string", value="double")
        grouped = table.group_by(lambda key, value: (pa.array(["all"] * len(key), pa.string()), value))
        named = {name: getattr(by_name, name)(lambda value: value) for name in ("sum", "avg", "stddev")}
        return grouped.agg(**named)

    for spoils in (NAN, math.inf, -math.inf, 1e300):
        steps = [("in", "x", spoils, 0), ("in", "y", 1.0, 1), ("in", "z", 3.0, 2), ("in", "x", None, 3)]
        for cuts in (set(), {1, 2, 3}):
            said = by_step(driver_of(build), steps, cuts)
            assert said[-1] == [("all", {"sum": 4.0, "avg": 2.0, "stddev": math.sqrt(2)}, 3)]


@pytest.mark.parametrize("seeds", [range(20), pytest.param(range(20, 2000), marks=pytest.mark.proof)])
def test_an_exact_sum_is_that_of_fractions_however_rows_are_reckoned_with(monkeypatch: Any, seeds: range) -> None:
    for seed in seeds:
        r = random.Random(seed)
        monkeypatch.setattr(sums, "_CELLS", r.choice([1, 200, 1 << 22]))
        groups = [[double(r) for _ in range(r.randint(1, 9))] for _ in range(r.randint(1, 4))]
        numbers = np.array([value for group in groups for value in group])
        starts = np.append(0, np.cumsum([len(group) for group in groups]))
        lasts, counts = pa.array(starts[1:] - 1), sums.specials(numbers)
        terms = sums.values_of(numbers)
        states = sums.running(starts, sums.nothing(len(groups)), terms, counts)
        wanted = [total(group[: at + 1]) + 0.0 for group in groups for at in range(len(group))]
        assert exact(list(sums.rounded(states))) == exact([np.float64(each) for each in wanted])
        squares = sums.running(starts, sums.nothing(len(groups)), sums.squares_of(numbers), counts)
        fractions = [sum(Fraction(v) ** 2 for v in group if math.isfinite(v)) for group in groups]
        got = [Fraction(n) * Fraction(2) ** power for n, power in sums.integers(squares.take(lasts))]
        assert got == fractions
        back = [term.minus for term in terms]
        left = sums.running(starts, states.take(lasts), back, [-count for count in counts])
        assert left.take(lasts).equals(sums.nothing(len(groups)))
