"""Upper and lower case of all scripts: by the tables of the Spark that would do it, since those of Unicode grow.

The tables are options of the call. Texts of ASCII need none.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.expressions.functions.texts import sliced
from watersmeet._engine.expressions.kernel import Kernel, LazyKernel
from watersmeet._engine.expressions.tree import Call, type_of
from watersmeet._engine.expressions.vectors import flags
from watersmeet._engine.keys.keyform import spans

CASES, CASED, IGNORED = "cases", "cased", "ignored"
"""Options of a call: characters and what becomes of them, as pairs in lines; and of `Lower` characters that have a
case, and others that do not come between such ones and the end of a word.
"""
_ALL = 0x110000
_SIGMA, _FINAL_SIGMA = 0x3A3, 0x3C2
_MOST = 3
"""Characters that one becomes, at most."""
Points = npt.NDArray[np.uint32]


def fits(call: Call) -> bool:
    """See `kernel`."""
    (text,) = call.arguments
    # of two such calls Spark leaves the inner one out
    twice = isinstance(text, Call) and text.function in KERNELS
    return call.option(CASES) is not None and type_of(text) == pa.string() and not twice


@lru_cache(maxsize=4)
def _table(cases: str) -> tuple[Points, Int64s]:
    """The result of each character, and its length in characters."""
    to = np.zeros((_ALL, _MOST), np.uint32)
    to[:, 0] = np.arange(_ALL)
    many = np.ones(_ALL, np.int64)
    lines = cases.split("\n")
    for line in lines if cases else ():
        one, *others = map(ord, line)
        to[one, : len(others)] = others
        many[one] = len(others)
    return to, many


@lru_cache(maxsize=4)
def _set(characters: str) -> Bools:
    found = np.zeros(_ALL, np.bool_)
    found[[ord(each) for each in characters]] = True
    return found


def _changed(call: Call, arguments: list[pa.Array]) -> pa.Array:
    (values,) = arguments
    upper = call.function == "Upper"
    plain = pc.ascii_upper(values) if upper else pc.ascii_lower(values)
    other = ~flags(pc.fill_null(pc.string_is_ascii(values), True))
    if not other.any():
        return plain
    mask = pa.array(other)
    return pc.replace_with_mask(plain, mask, _by_table(call, values.filter(mask)))


def _by_table(call: Call, values: pa.Array) -> pa.Array:
    starts, lengths, data = spans(values)
    points = np.frombuffer(data.tobytes().decode("utf-8").encode("utf-32-le"), np.uint32)
    begins = np.append(np.flatnonzero((data & 0xC0) != 0x80), len(data))
    rows = np.repeat(np.arange(len(values)), begins.searchsorted(starts + lengths) - begins.searchsorted(starts))
    to, many = _table(str(call.option(CASES)))
    count = many[points]
    first = np.repeat(np.cumsum(count) - count, count)
    found = to[np.repeat(points, count), np.arange(count.sum()) - first]
    if call.function == "Lower":
        ends = _ends_word(points, rows, call)
        found[np.repeat(ends, count)] = _FINAL_SIGMA
    octets = np.frombuffer(found.tobytes().decode("utf-32-le").encode("utf-8"), np.uint8)
    width = 1 + (found >= 0x80).astype(np.int64) + (found >= 0x800) + (found >= 0x10000)
    sizes = np.bincount(np.repeat(rows, count), weights=width, minlength=len(values)).astype(np.int64)
    return sliced(octets, np.cumsum(sizes) - sizes, sizes)


def _ends_word(points: Points, rows: Int64s, call: Call) -> Bools:
    """Where a sigma stands behind a letter with a case, and before none."""
    cased, ignored = _set(str(call.option(CASED) or "")), _set(str(call.option(IGNORED) or ""))
    sigmas = np.flatnonzero(points == _SIGMA)
    ends = np.zeros(len(points), np.bool_)
    seen = np.flatnonzero(~ignored[points])
    at = seen.searchsorted(sigmas)
    # a sigma is a letter itself, so the one before it stands one place before, the one behind it one place behind
    before, behind = at - 1, at + 1
    for places, wanted in ((before, True), (behind, False)):
        there = (places >= 0) & (places < len(seen))
        place = seen[np.clip(places, 0, max(len(seen) - 1, 0))]
        lettered = there & (rows[place] == rows[sigmas]) & cased[points[place]]
        ends[sigmas] = lettered if wanted else ends[sigmas] & ~lettered
    return ends


KERNELS: Mapping[str, Kernel] = dict.fromkeys(("Upper", "Lower"), _changed)
LAZY: Mapping[str, LazyKernel] = {}
