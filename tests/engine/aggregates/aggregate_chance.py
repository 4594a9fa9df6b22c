"""Values by chance for aggregates by name: every type of number, its limits, NaN, infinities, -0.0 and nulls."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import watersmeet.aggregates as by_name
from watersmeet.io.formats import Format
from watersmeet.io.formats import decimal as decimal_format

PLACES = (0.0, 0.3, 0.99)
Draw = Callable[[random.Random], Any]
NAN, INFINITY = float("nan"), float("inf")


def integers(bits: int) -> Draw:
    """Integers of a width: limits, neighbours of powers of two beyond which doubles have gaps, and small ones."""
    most = (1 << bits - 1) - 1
    edges = [each for each in (2**53 + 1, 2**53 - 1, -(2**53) - 1, 2**62 + 1) if abs(each) <= most]
    edges += [0, 1, -1, most, -most - 1, most - 1]
    return lambda r: r.choice([r.choice(edges), r.randint(-most - 1, most), r.randint(-9, 9)])


def double(r: random.Random) -> float:
    """Doubles: what sums lose, spoil and cancel."""
    edges = [0.0, -0.0, NAN, INFINITY, -INFINITY, 5e-324, 1.7976931348623157e308, -1.7976931348623157e308]
    edges += [1e17, -1e17, 1.0, 0.1, 2.0**-1022]
    (wild,) = struct.unpack("<d", r.randbytes(8))
    return r.choice([r.choice(edges), wild, round(r.uniform(-100, 100), 2), float(r.randint(-3, 3)), r.gauss(0, 1e9)])


def single(r: random.Random) -> float:
    """Floats, as doubles have them."""
    (wild,) = struct.unpack("<f", r.randbytes(4))
    edges = [0.0, -0.0, NAN, INFINITY, -INFINITY, 3.4028234663852886e38, 1.401298464324817e-45, 16777216.0]
    return r.choice([wild, r.choice(edges), float(r.randint(-9, 9)), r.randint(-999, 999) / 8])


def decimals(precision: int, scale: int) -> Draw:
    """Decimals of a type: a digit less where sums would not fit."""
    most = 10 ** (precision if precision <= 28 else precision - 3) - 1

    def draw(r: random.Random) -> Decimal:
        digits = r.choice([0, 1, -1, most, -most, r.randint(-most, most), r.randint(-99, 99) % (most + 1)])
        return Decimal((int(digits < 0), tuple(map(int, str(abs(digits)))), -scale))

    return draw


TYPES: dict[str, tuple[Any, pa.DataType, Draw]] = {
    "byte": ("short", pa.int8(), integers(8)),
    "short": ("short", pa.int16(), integers(16)),
    "int": ("int", pa.int32(), integers(32)),
    "long": ("long", pa.int64(), integers(64)),
    "float": ("float", pa.float32(), single),
    "double": ("double", pa.float64(), double),
    **{
        f"decimal({p},{s})": (decimal_format(p, s), pa.decimal128(p, s), decimals(p, s))
        for p, s in ((1, 0), (1, 1), (9, 2), (18, 18), (19, 0), (28, 6), (38, 0), (38, 18), (38, 38))
    },
}
"""By name: the format that brings the values, their type, and what draws them."""


def large(values: Any) -> Any:
    """Whether numbers are above zero: NaN is, as Spark has it."""
    found = pc.greater(values, pa.scalar(Decimal(0) if pa.types.is_decimal(values.type) else 0, values.type))
    return pc.or_(found, pc.is_nan(values)) if pa.types.is_floating(values.type) else found


def aggregates(kind: pa.DataType, *, takes_back: bool) -> dict[str, by_name.AnyAggregate]:
    """All aggregates by name of values of a type."""

    def it(value: Any) -> Any:
        return value.cast(kind)

    def is_large(value: Any) -> Any:
        return large(it(value))

    def held(value: Any) -> Any:
        """The value where it is large; else there is none to show."""
        return pc.if_else(is_large(value), it(value), pa.scalar(None, kind))

    more = {} if takes_back else {"first": by_name.first(it), "last": by_name.last(it), "last_k": by_name.last_k(it, 3)}
    names = ("count", "sum", "min", "max", "avg", "stddev", "collect_list", "collect_set", "count_distinct", "mode")
    picks = {"max_by": by_name.max_by(held, it), "min_by": by_name.min_by(held, it)}
    # of many that are equal the last one
    picks |= {"max_of": by_name.max_by(it, is_large), "min_of": by_name.min_by(it, is_large)}
    picks |= {"bool_and": by_name.bool_and(is_large), "bool_or": by_name.bool_or(is_large)}
    places = {f"p{p}": by_name.percentile(it, p) for p in PLACES}
    tops = {"top_k": by_name.top_k(it, 3), "top_by": by_name.top_k(k=3, by=is_large, value=it)}
    return more | {name: getattr(by_name, name)(it) for name in names} | picks | places | tops


def exact(value: Any) -> Any:
    """A value that is equal only to itself: -0.0 is not 0.0, NaN is NaN."""
    if isinstance(value, list):
        return [exact(each) for each in value]
    if isinstance(value, dict):
        return {name: exact(each) for name, each in value.items()}
    return repr(value)


def column(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Values as an array of a type; floats are rounded to it."""
    return pa.array(values, pa.float64()).cast(kind) if pa.types.is_float32(kind) else pa.array(values, kind)


def form(name: str) -> Format:
    """The format that brings values of a type."""
    return Format.of(TYPES[name][0])


def doubles(values: pa.Array) -> list[float]:
    """Values as the doubles next to them."""
    if pa.types.is_decimal(values.type):
        return [float(each) for each in values.to_pylist()]
    return list(pc.cast(values, pa.float64(), safe=False).to_pylist())
