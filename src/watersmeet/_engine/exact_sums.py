"""Exact sums of doubles, from which a value can be taken back and leaves nothing behind.

A sum is an integer that counts units of 2**-2176, in digits of 32 bits: every double, and every square of one, is a
multiple of that. Its state has the digits that are not zero, and how many NaN and infinities there are: it follows from
the values alone, whatever has come and gone. Rows are added in columns, a digit each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.arrays import Int64s
from watersmeet.aggregates.numbers.totals import EXACT

STATE = EXACT
BITS = 32
UNIT = 2176
"""The lowest bit counts 2**-UNIT."""
_MASK = (1 << BITS) - 1
_CELLS = 1 << 22
"""Digits that are reckoned with at once."""
_ROOM = 3
"""Digits above the highest that a term touches: two that its shift may reach, and one for carries and the sign."""
_SPECIAL = ("nan", "most", "least")


@dataclass(frozen=True)
class Term:
    """An integer of each row, of at most 57 bits, times a power of two."""

    integer: Int64s
    exponent: Int64s

    @property
    def minus(self) -> Term:
        """The digits that subtract it."""
        return Term(-self.integer, self.exponent)

    @property
    def lane(self) -> Int64s:
        """The place of the lowest digit that it touches."""
        return (self.exponent + UNIT) // BITS


def values_of(numbers: npt.NDArray[np.float64]) -> list[Term]:
    """Doubles as terms; what is not finite is none."""
    return [Term(*_parts(numbers))]


def squares_of(numbers: npt.NDArray[np.float64]) -> list[Term]:
    """The squares of doubles as terms."""
    integer, exponent = _parts(numbers)
    high, low = integer >> 27, integer & ((1 << 27) - 1)
    products = ((high * high, 54), (2 * high * low, 27), (low * low, 0))
    return [Term(product, 2 * exponent + more) for product, more in products]


def _parts(numbers: npt.NDArray[np.float64]) -> tuple[Int64s, Int64s]:
    fraction, exponent = np.frexp(np.where(np.isfinite(numbers), numbers, 0.0))
    integer = (fraction * 2.0**53).astype(np.int64)
    return integer, np.where(integer == 0, 0, exponent.astype(np.int64) - 53)


def specials(numbers: npt.NDArray[np.float64]) -> list[Int64s]:
    """The doubles that are not finite: which are NaN, which infinity, which -infinity, as 1 and 0."""
    found = (np.isnan(numbers), numbers == np.inf, numbers == -np.inf)
    return [each.astype(np.int64) for each in found]


def nothing(count: int) -> pa.Array:
    """So many sums of no values."""
    zeros = pa.array(np.zeros(count, dtype=np.int64))
    digits = pa.array([b""] * count, pa.binary())
    return pa.StructArray.from_arrays([zeros, digits, zeros, zeros, zeros], fields=list(STATE))


def filled(kept: pa.Array) -> pa.Array:
    """The sums, in place of null ones such of no values."""
    return pc.if_else(kept.is_valid(), kept, nothing(len(kept))) if kept.null_count else kept


def running(starts: Int64s, kept: pa.Array, terms: list[Term], counts: list[Int64s]) -> pa.Array:
    """The sum behind each row.

    Parameters
    ----------
    starts : where each group begins, and the number of rows as last entry.
    kept : what each group begins with.
    terms : what each row adds; an integer of 0 adds nothing.
    counts : how many NaN, infinities and -infinities each row adds.
    """
    low, width = _window(kept, terms)
    now = _spread(kept, low, width)
    made = [_packed(block, low) for block in _blocks(np.diff(starts), now, terms, low)]
    digits = pa.concat_arrays(made) if made else nothing(0)
    begins = [kept.field(name).to_numpy(zero_copy_only=False) for name in _SPECIAL]
    totals = [_counted(starts, begin, count) for begin, count in zip(begins, counts, strict=True)]
    columns = [digits.field("low"), digits.field("digits"), *map(pa.array, totals)]
    return pa.StructArray.from_arrays(columns, fields=list(STATE))


def merged(one: pa.Array, other: pa.Array) -> pa.Array:
    """Two sums as one."""
    low, width = _window(pa.concat_arrays([one, other]), [])
    both = _spread(one, low, width) + _spread(other, low, width)
    digits = _packed(_carried(both), low)
    totals = [
        pa.array(sum(each.field(name).to_numpy(zero_copy_only=False) for each in (one, other))) for name in _SPECIAL
    ]
    return pa.StructArray.from_arrays([digits.field("low"), digits.field("digits"), *totals], fields=list(STATE))


def rounded(kept: pa.Array) -> npt.NDArray[np.float64]:
    """The double next to each sum, of two as near the even one."""
    low, width = _window(kept, [])
    lanes = _carried(_spread(kept, low, width))
    negative = lanes[-1] < 0
    lanes = _carried(np.where(negative, -lanes, lanes))
    # two digits below the lowest, so that each has two below it
    lanes = np.concatenate([np.zeros((2, len(kept)), dtype=np.int64), lanes])
    some = lanes != 0
    top = np.maximum(len(lanes) - 1 - some[::-1].argmax(axis=0), 2)
    row = np.arange(len(kept))
    first, second, third = (lanes[top - down, row].astype(np.uint64) for down in range(3))
    _, length = np.frexp(first.astype(np.float64))
    free = (BITS - length).astype(np.uint64)
    rest = np.uint64(BITS) - free
    window = first << (free + np.uint64(BITS)) | second << free | third >> rest
    below = (third & ((np.uint64(1) << rest) - np.uint64(1)) != 0) | (some.argmax(axis=0) < top - 2)
    # 64 bits are more than a double has: one bit says of all that is below that it is there
    with np.errstate(over="ignore"):
        size = np.ldexp(
            (window | below).astype(np.float64), BITS * (top - 2 + low) - UNIT - BITS - free.astype(np.int64)
        )
    found = np.where(some.any(axis=0), np.where(negative, -size, size), 0.0)
    nan, most, least = (kept.field(name).to_numpy(zero_copy_only=False) > 0 for name in _SPECIAL)
    found = np.where(most, np.inf, np.where(least, -np.inf, found))
    return np.asarray(np.where(nan | (most & least), np.nan, found))


def integers(kept: pa.Array) -> Iterator[tuple[int, int]]:
    """Each finite sum as (integer, exponent of two)."""
    lows, digits = kept.field("low").to_pylist(), kept.field("digits").to_pylist()
    for low, figures in zip(lows, digits, strict=True):
        yield int.from_bytes(figures, "little", signed=True), BITS * low - UNIT


def is_finite(kept: pa.Array) -> npt.NDArray[np.bool_]:
    """Which sums have neither NaN nor an infinity in them."""
    return np.asarray(sum(kept.field(name).to_numpy(zero_copy_only=False) for name in _SPECIAL) == 0)


def _counted(starts: Int64s, begins: Int64s, counts: Int64s) -> Int64s:
    """Running counts of each group, from what it begins with on."""
    sums = np.cumsum(counts)
    before = np.append(0, sums)[starts[:-1]]
    return np.asarray(sums + np.repeat(begins - before, np.diff(starts)))


def _window(kept: pa.Array, terms: list[Term]) -> tuple[int, int]:
    """Place of the lowest digit that there is, and how many there are up to that of the sign."""
    lengths = _lengths(kept)
    lows = kept.field("low").to_numpy(zero_copy_only=False)[lengths > 0]
    highs = lows + lengths[lengths > 0]
    lanes = [term.lane[term.integer != 0] for term in terms]
    least = min((int(each.min()) for each in (lows, *lanes) if len(each)), default=0)
    most = max((int(each.max()) for each in (highs, *lanes) if len(each)), default=0)
    return least, most - least + 1 + _ROOM


def _lengths(kept: pa.Array) -> Int64s:
    """How many digits each has."""
    lengths = pc.binary_length(kept.field("digits")).to_numpy(zero_copy_only=False)
    return np.asarray(lengths, dtype=np.int64) // 4


def _spread(kept: pa.Array, low: int, width: int) -> Int64s:
    """Digits in columns, each row's highest with its sign."""
    lanes = np.zeros((width, len(kept)), dtype=np.int64)
    digits = kept.field("digits")
    lengths = _lengths(kept)
    figures = np.frombuffer(b"".join(digits.to_pylist()), "<u4").astype(np.int64)
    row = np.repeat(np.arange(len(kept)), lengths)
    starts = np.cumsum(lengths) - lengths
    place = kept.field("low").to_numpy(zero_copy_only=False)[row] - low + np.arange(len(figures)) - starts[row]
    lanes[place, row] = figures
    ends = (starts + lengths - 1)[lengths > 0]
    lanes[place[ends], row[ends]] = figures[ends].astype(np.uint32).view(np.int32)
    return lanes


def _blocks(sizes: Int64s, now: Int64s, terms: list[Term], low: int) -> Iterator[Int64s]:
    """Digits behind each row, of some rows at a time, which go on with what those before them have left."""
    step = max(_CELLS // len(now), 1)
    group = np.repeat(np.arange(len(sizes)), sizes)
    for begin in range(0, len(group), step):
        rows = slice(begin, begin + step)
        mine = group[rows]
        lanes = np.zeros((len(now), len(mine)), dtype=np.int64)
        for term in terms:
            _put(lanes, term.integer[rows], term.exponent[rows] + UNIT - BITS * low)
        np.cumsum(lanes, axis=1, out=lanes)
        firsts = np.flatnonzero(np.diff(mine, prepend=-1))
        before = lanes[:, np.maximum(firsts - 1, 0)] * (firsts > 0)
        lanes += np.repeat(now[:, mine[firsts]] - before, np.diff(firsts, append=len(mine)), axis=1)
        _carried(lanes)
        now[:, mine[-1]] = lanes[:, -1]
        yield lanes


def _put(lanes: Int64s, integer: Int64s, bit: Int64s) -> None:
    """Add integers from a bit on."""
    row = np.flatnonzero(integer)
    lane, shift = bit[row] // BITS, bit[row] % BITS
    low, high = (integer[row] & _MASK) << shift, (integer[row] >> BITS) << shift
    lanes[lane, row] += low & _MASK
    lanes[lane + 1, row] += (low >> BITS) + (high & _MASK)
    lanes[lane + 2, row] += high >> BITS


def _carried(lanes: Int64s) -> Int64s:
    """The same numbers in place, all digits but the highest from 0 to 2**32 - 1."""
    for lane in range(len(lanes) - 1):
        lanes[lane + 1] += lanes[lane] >> BITS
        lanes[lane] &= _MASK
    return lanes


def _packed(lanes: Int64s, low: int) -> pa.Array:
    """Digits in columns as (low, digits): from the lowest that is not zero to the one above which all say the sign."""
    digits = np.ascontiguousarray(lanes.T).astype("<u4")
    some = digits != 0
    bottom = some.argmax(axis=1)
    signs = np.where(lanes[-1] < 0, _MASK, 0).astype("<u4")
    more = digits != signs[:, None]
    top = np.where(more.any(axis=1), digits.shape[1] - more[:, ::-1].argmax(axis=1), 0)
    there = some.any(axis=1)
    lengths = np.where(there, np.maximum(top, bottom) - bottom + 1, 0)
    place = np.arange(digits.shape[1])
    taken = (place >= bottom[:, None]) & (place < (bottom + lengths)[:, None])
    offsets = np.append(0, np.cumsum(lengths * 4)).astype(np.int32)
    data = pa.Array.from_buffers(
        pa.binary(), len(digits), [None, pa.py_buffer(offsets), pa.py_buffer(digits[taken].tobytes())]
    )
    lows = np.where(there, bottom + low, 0)
    return pa.StructArray.from_arrays([pa.array(lows), data], names=["low", "digits"])
