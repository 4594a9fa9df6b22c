"""Decimals: quotients and rounding of long ones beside Python's, where Arrow's own division errs by one."""

from __future__ import annotations

import random
from decimal import ROUND_HALF_UP, Context, Decimal

import pyarrow as pa

from watersmeet._engine.expressions.decimals import KERNELS, rounded
from watersmeet._engine.expressions.tree import Call, Operand

EXACT = Context(prec=120)


def drawn(r: random.Random, precision: int, scale: int) -> Decimal:
    """A decimal, more often than by chance next to a power of ten or in the middle between two."""
    some = 10 ** r.randint(0, precision - 1)
    digits = r.choice([r.randrange(10**precision), some - 1, some, some * 5, some * 5 - 1])
    return Decimal((r.randint(0, 1), tuple(map(int, str(digits))), -scale))


def to_scale(value: Decimal, scale: int) -> Decimal:
    return value.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, EXACT)


def test_decimals_of_any_length_are_rounded_half_up_to_any_scale():
    r = random.Random(1)
    for kind in (pa.decimal128, pa.decimal256):
        precision = 38 if kind is pa.decimal128 else 76
        for scale in range(precision):
            values = [drawn(r, precision - 1, scale) for _ in range(20)]
            for to in range(0, scale, 5):
                found = rounded(pa.array(values, kind(precision, scale)), to).to_pylist()
                assert found == [to_scale(value, to) for value in values]


def test_quotients_are_rounded_at_39_digits_and_then_to_the_scale_of_the_result():
    r = random.Random(2)
    for one, other, result in [((38, 18), (9, 2), (38, 12)), ((10, 2), (9, 8), (28, 13)), ((18, 0), (1, 0), (24, 6))]:
        kinds = pa.decimal128(*one), pa.decimal128(*other)
        uppers = [drawn(r, *one) for _ in range(300)]
        lowers = [drawn(r, *other) or Decimal(3).scaleb(-other[1]) for _ in range(300)]
        call = Call("Divide", (Operand("a", kinds[0]), Operand("b", kinds[1])), pa.decimal128(*result), False)
        found = KERNELS["Divide"](call, [pa.array(uppers, kinds[0]), pa.array(lowers, kinds[1])]).to_pylist()
        exact = [EXACT.divide(upper, lower) for upper, lower in zip(uppers, lowers, strict=True)]
        wanted = [to_scale(to_scale(each, 39), result[1]) for each in exact]
        assert found == [each if abs(each) < 10 ** (result[0] - result[1]) else None for each in wanted]
