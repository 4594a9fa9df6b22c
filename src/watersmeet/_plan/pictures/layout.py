"""Where the boxes of a picture stand: in rows from top to bottom, a level's rows together, few arrows crossing.

A layered drawing (Sugiyama, Tagawa, Toda 1981): rows by the longest way from an input, order within a row by the
median of what a box is joined with, places by least squares under the order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from watersmeet._plan.pictures.picture import Box, Picture

CHARACTER, LINE, PADDING = 6.9, 16.0, 11.0
"""Of text of 12 pixels: how wide a character is about, how far apart lines are, and what is left around them."""
STORES_GAP = 6.0
"""Between what a box is and its stores."""
_ROW_GAP, _BOX_GAP, _BAND_GAP = 38.0, 26.0, 16.0
_LABEL_GAP = 22.0
"""Above the boxes of a level, where its name stands."""
_ROUNDS = 12
LONGEST = 40
"""Longer texts are cut."""


@dataclass(frozen=True)
class BoxPlace:
    """Where a box is: its centre from left, its top, its size."""

    x: float
    top: float
    width: float
    height: float


@dataclass(frozen=True)
class Band:
    """Where a level is, from top to bottom."""

    level: int
    top: float
    bottom: float


@dataclass(frozen=True)
class Drawn:
    """A picture with places.

    Parameters
    ----------
    places : of the boxes.
    ways : of each arrow the points that it goes through, (x, top, bottom) of each row between its boxes.
    bands : of the levels.
    width, height : of all.
    """

    places: tuple[BoxPlace, ...]
    ways: tuple[tuple[tuple[float, float, float], ...], ...]
    bands: tuple[Band, ...]
    width: float
    height: float


def lines(box: Box) -> tuple[str, ...]:
    """The text of a box; of stores that have its name only their own part."""
    return (cut(box.name), cut(box.about), *(cut(_own(store, box.name)) for store in box.stores))


def _own(store: str, box: str) -> str:
    return store.removeprefix(box) if store.startswith(f"{box}.") else store


def has_line(box: Box) -> bool:
    """Whether a line stands between what a box is and its stores."""
    return bool(box.stores) and box.kind != "input"


def cut(text: str) -> str:
    """The text, shortened where it is long."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def laid_out(picture: Picture) -> Drawn:
    """The picture with places."""
    rows = _rows(picture)
    ways = _arrow_points(picture, rows)
    count = len(picture.boxes)
    row_of = [*rows, *(row for way in ways for row, _ in way)]
    sizes = [_size(box) for box in picture.boxes]
    widths = [width for width, _ in sizes] + [0.0] * (len(row_of) - count)
    chains = [
        [arrow.tail, *(point for _, point in way), arrow.head] for arrow, way in zip(picture.arrows, ways, strict=True)
    ]
    order = _ordered(row_of, chains)
    x = _across(order, widths, chains)
    tops, heights, bands = _down(picture, rows, [height for _, height in sizes], len(order))
    left = min((x[place] - widths[place] / 2 for place in range(len(x))), default=0.0) - 2 * PADDING
    x = [each - left for each in x]
    places = tuple(
        BoxPlace(x[at], tops[rows[at]] + (heights[rows[at]] - height) / 2, width, height)
        for at, (width, height) in enumerate(sizes)
    )
    points = tuple(tuple((x[at], tops[row], tops[row] + heights[row]) for row, at in way) for way in ways)
    width = max((x[at] + widths[at] / 2 for at in range(len(x))), default=0.0) + 2 * PADDING
    return Drawn(places, points, bands, width, tops[-1] + heights[-1] + 2 * PADDING if tops else 0.0)


def _size(box: Box) -> tuple[float, float]:
    written = lines(box)
    return max(map(len, written)) * CHARACTER + 2 * PADDING, len(written) * LINE + PADDING + has_line(box) * STORES_GAP


def _rows(picture: Picture) -> list[int]:
    """Row of each box: below all that it reads, the rows of a level apart from those of others."""
    above: list[list[int]] = [[] for _ in picture.boxes]
    for arrow in picture.arrows:
        above[arrow.head].append(arrow.tail)
    # twice the level for what stands below it, one less for the level itself
    bands = [2 * s - (level is not None) for s, level in zip(picture.stages, picture.levels, strict=False)]
    bands = bands or [0] * len(picture.boxes)
    depth: list[int] = []
    for at, band in enumerate(bands):
        depth.append(max((depth[other] + 1 for other in above[at] if bands[other] == band), default=0))
    place = {each: row for row, each in enumerate(sorted(set(zip(bands, depth, strict=True))))}
    return [place[each] for each in zip(bands, depth, strict=True)]


def _arrow_points(picture: Picture, rows: Sequence[int]) -> list[list[tuple[int, int]]]:
    """Of each arrow (row, number) of the points in the rows between its boxes; numbers follow those of the boxes."""
    found, number = [], len(rows)
    for arrow in picture.arrows:
        between = range(rows[arrow.tail] + 1, rows[arrow.head])
        found.append([(row, number + place) for place, row in enumerate(between)])
        number += len(between)
    return found


def _neighbours(chains: Sequence[Sequence[int]], count: int) -> tuple[list[list[int]], list[list[int]]]:
    up: list[list[int]] = [[] for _ in range(count)]
    down: list[list[int]] = [[] for _ in range(count)]
    for chain in chains:
        for one, other in itertools.pairwise(chain):
            down[one].append(other)
            up[other].append(one)
    return up, down


def _ordered(row_of: Sequence[int], chains: Sequence[Sequence[int]]) -> list[list[int]]:
    """The boxes of each row, from left to right."""
    order: list[list[int]] = [[] for _ in range(max(row_of, default=-1) + 1)]
    for at, row in enumerate(row_of):
        order[row].append(at)
    up, down = _neighbours(chains, len(row_of))
    best, fewest = order, _crossings(order, down)
    for turn in range(_ROUNDS):
        near, way = (up, order) if turn % 2 == 0 else (down, order[::-1])
        for line in way:
            stands = {each: place for some in order for place, each in enumerate(some)}
            keys = {each: _mean([stands[other] for other in near[each]], stands[each]) for each in line}
            line.sort(key=keys.__getitem__)
        crossed = _crossings(order, down)
        if crossed < fewest:
            best, fewest = [list(row) for row in order], crossed
    return best


def _crossings(order: Sequence[Sequence[int]], down: Sequence[Sequence[int]]) -> int:
    at = {each: place for row in order for place, each in enumerate(row)}
    pairs = [[(at[one], at[other]) for one in row for other in down[one]] for row in order]
    return sum(a < c and b > d for row in pairs for a, b in row for c, d in row)


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _across(order: Sequence[Sequence[int]], widths: Sequence[float], chains: Sequence[Sequence[int]]) -> list[float]:
    """The centre of each, near the middle of what it is joined with; a long arrow goes straight where it can."""
    up, down = _neighbours(chains, len(widths))
    x = [0.0] * len(widths)
    for row in order:
        for each, place in zip(row, _apart([0.0] * len(row), row, widths), strict=True):
            x[each] = place
    for turn in range(2 * _ROUNDS):
        both = turn >= _ROUNDS
        straight = {point: _mean([x[other] for other in chain[1:-1]], 0.0) for chain in chains for point in chain[1:-1]}
        for row in order if turn % 2 == 0 else order[::-1]:
            near = up if turn % 2 == 0 else down
            wanted = [
                straight[each]
                if both and each in straight
                else _mean([x[other] for other in (up[each] + down[each] if both else near[each])], x[each])
                for each in row
            ]
            for each, place in zip(row, _apart(wanted, row, widths), strict=True):
                x[each] = place
    _straighten(order, widths, chains, x)
    return x


def _straighten(
    order: Sequence[Sequence[int]], widths: Sequence[float], chains: Sequence[Sequence[int]], x: list[float]
) -> None:
    """Set the points between the rows of an arrow upon one line, where what stands beside them leaves one."""
    beside = {other: one for row in order for one, other in itertools.pairwise(row)}
    behind = {one: other for other, one in beside.items()}
    for points in (chain[1:-1] for chain in chains if len(chain) > 3):
        near, far = ([side[point] for point in points if point in side] for side in (beside, behind))
        low = max((x[other] + (widths[other] + _BOX_GAP) / 2 for other in near), default=-math.inf)
        high = min((x[other] - (widths[other] + _BOX_GAP) / 2 for other in far), default=math.inf)
        if low <= high:
            line = min(max(_mean([x[point] for point in points], 0.0), low), high)
            for point in points:
                x[point] = line


def _apart(wanted: Sequence[float], row: Sequence[int], widths: Sequence[float]) -> list[float]:
    """The places nearest to the wanted ones at which nothing of the row lies upon another (isotonic regression)."""
    offsets = [0.0]
    for one, other in itertools.pairwise(row):
        offsets.append(offsets[-1] + (widths[one] + widths[other]) / 2 + _BOX_GAP)
    blocks: list[tuple[float, int]] = []
    for place, offset in zip(wanted, offsets, strict=False):
        total, count = place - offset, 1
        while blocks and blocks[-1][0] / blocks[-1][1] > total / count:
            before, more = blocks.pop()
            total, count = total + before, count + more
        blocks.append((total, count))
    base = [total / count for total, count in blocks for _ in range(count)]
    return [each + offset for each, offset in zip(base, offsets, strict=False)]


def _down(
    picture: Picture, rows: Sequence[int], heights: Sequence[float], count: int
) -> tuple[list[float], list[float], tuple[Band, ...]]:
    """Top and height of each row, and the bands of the levels."""
    tallest = [0.0] * count
    level_of: list[int | None] = [None] * count
    for row, height, level in zip(rows, heights, picture.levels, strict=True):
        tallest[row] = max(tallest[row], height)
        level_of[row] = level
    tops: list[float] = []
    at = 2 * PADDING + (_LABEL_GAP if level_of and level_of[0] is not None else 0.0)
    for row, height in enumerate(tallest):
        edge = row > 0 and level_of[row] != level_of[row - 1]
        at += (_LABEL_GAP if edge else 0.0) + (_BAND_GAP if edge and None not in level_of[row - 1 : row + 1] else 0.0)
        tops.append(at)
        at += height + _ROW_GAP
    spans: dict[int, list[int]] = {}
    for row, level in enumerate(level_of):
        if level is not None:
            spans.setdefault(level, []).append(row)
    bands = (
        Band(level, tops[found[0]] - _LABEL_GAP, tops[found[-1]] + tallest[found[-1]] + _BAND_GAP)
        for level, found in spans.items()
    )
    return tops, tallest, tuple(bands)
