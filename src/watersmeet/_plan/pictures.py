"""Where the boxes of a picture stand: in rows from top to bottom, a level's rows together, few arrows crossing.

A layered drawing (Sugiyama, Tagawa, Toda 1981): rows by the longest way from an input, order within a row by the
median of what a box is joined with, places by least squares under the order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any, Literal

from watersmeet._plan.nodes import Node, simple_text
from watersmeet._plan.physical import Operator, Physical

# A picture of a topology: boxes of inputs, steps, operators and outputs, levels, and the arrows between.

Kind = Literal["input", "step", "operator", "output"]


@dataclass(frozen=True)
class Box:
    """A node of a topology."""

    name: str  # its name, or that of the input or output that it is
    kind: Kind  # what it is drawn as
    about: str  # what it does, in a few words
    types: str  # what flows out of it
    stores: tuple[str, ...] = ()  # names of the stores that it keeps
    node: str = ""  # name of the node; `part`: stem of the operator, where the node is several
    part: str = ""
    helpers: tuple[str, ...] = ()  # names of the nodes that the library made for it, if it stands for them too


@dataclass(frozen=True)
class Arrow:
    """From one box to another, by their numbers; `text` says which side of a join it is."""

    tail: int
    head: int
    text: str = ""


@dataclass(frozen=True)
class Picture:
    """A picture."""

    title: str  # what it is of
    boxes: tuple[Box, ...]  # those that are read stand before those that read them
    arrows: tuple[Arrow, ...]  # between them
    levels: tuple[int | None, ...]  # the level of each box; of one that stands between two levels None
    stages: tuple[int, ...] = ()  # of each box how many levels are above it; empty where levels are not known


def nodes_picture(physical: Physical) -> Picture:
    """The picture of a topology as its user wrote it: a box for each node that the user made, and no levels."""
    by_name, members = physical.plan.by_name, dict[str, list[Box]]()
    picture = levels_picture(physical)
    homes = [_home(by_name[box.node], physical) for box in picture.boxes]
    for home, box in zip(homes, picture.boxes, strict=True):
        members.setdefault(home, []).append(box)
    boxes = tuple(
        _whole_box(by_name[node.name], members[node.name]) for node in physical.plan.nodes if node.name in members
    )
    number = {box.node: at for at, box in enumerate(boxes)}
    texts: dict[tuple[int, int], dict[str, None]] = {}
    for arrow in picture.arrows:
        tail, head = number[homes[arrow.tail]], number[homes[arrow.head]]
        if tail != head:
            texts.setdefault((tail, head), {})[arrow.text] = None
    arrows = tuple(Arrow(*ends, " and ".join(sorted(sides))) for ends, sides in texts.items())
    return Picture(picture.title, boxes, arrows, (None,) * len(boxes))


def _home(node: Node, physical: Physical) -> str:
    """The node of the user that a node is shown as: a step that changes nothing, and has no name, as its input."""
    plan = physical.plan
    above = node.inputs[0] if node.same_records and node.name in plan.made_up else ""
    owner = node.part_of or above
    return _home(plan.by_name[owner], physical) if owner else node.name


def _whole_box(node: Node, members: Sequence[Box]) -> Box:
    """The box of a node of the user, for the boxes of its operators and of the nodes that were made for it."""
    last = [box for box in members if box.node == node.name][-1]
    stores = dict.fromkeys(store for box in members for store in box.stores)
    helpers = dict.fromkeys(box.node for box in members if box.node != node.name)
    about = last.about if node.is_sink or not node.inputs else _about(node, node.stem, single=True)
    return replace(last, about=about, stores=tuple(stores), helpers=tuple(helpers))


def levels_picture(physical: Physical) -> Picture:
    """The picture of what a topology becomes: a box for each node and each of its operators, in their levels."""
    boxes: list[Box] = []
    arrows: list[Arrow] = []
    levels: list[int | None] = []
    stages: list[int] = []
    last: dict[str, int] = {}
    stores = {store for operator in physical.operators for store in operator.stores}
    for node in physical.plan.nodes:
        operators = sorted((op for op in physical.operators if op.node == node.name), key=lambda op: op.level)
        first = len(boxes)
        to_come = set(range(len(node.inputs)))
        for operator in operators or (None,):
            side_of = None if operator is None else physical.declaration_of(operator).side_of
            heads = sorted(side for side in to_come if side_of is None or side_of(side) is not None)
            to_come.difference_update(heads)
            if len(boxes) > first:
                arrows.append(Arrow(len(boxes) - 1, len(boxes)))
            arrows += [Arrow(last[node.inputs[side]], len(boxes), _side(node, side)) for side in heads]
            above = [stages[arrow.tail] for arrow in arrows if arrow.head == len(boxes)]
            levels.append(None if operator is None else operator.level)
            stages.append(max(above, default=0) if operator is None else operator.level)
            boxes.append(_picture_box(node, operator, stores, single=len(operators) < 2))
        last[node.name] = len(boxes) - 1
    title = f"Topology {physical.plan.application}"
    return Picture(title, tuple(boxes), tuple(arrows), tuple(levels), tuple(stages))


def picture_above(nodes: Sequence[Node], node: Node) -> Picture:
    """The picture of what leads to a node of a topology that is being built: it has no levels yet."""
    names = {node.name}
    for step in reversed(nodes):
        if step.name in names:
            names.update(step.inputs)
    ancestors = [step for step in nodes if step.name in names]
    number = {step.name: place for place, step in enumerate(ancestors)}
    arrows = tuple(
        Arrow(number[name], number[step.name], _side(step, side))
        for step in ancestors
        for side, name in enumerate(step.inputs)
    )
    return Picture(node.name, tuple(_picture_box(step) for step in ancestors), arrows, (None,) * len(ancestors))


def _side(node: Node, side: int) -> str:
    return ("left", "right")[side] if len(node.inputs) == 2 and "type" in dict(node.details()) else ""


def _picture_box(
    node: Node, operator: Operator | None = None, kept_elsewhere: Collection[str] = (), *, single: bool = True
) -> Box:
    shape = node.shape
    types = f"{simple_text(shape.key)} -> {simple_text(shape.value)}"
    owned = () if node.store is None or node.store in kept_elsewhere else (node.store,)
    stores = owned if operator is None else operator.stores
    if not node.inputs:
        about = f"{shape.kind}, {_place(node.place)}"
        return Box(getattr(node, "input", node.name), "input", about, types, stores, node.name)
    if node.is_sink:
        return Box(getattr(node, "output", node.name), "output", _place(node.place), types, (), node.name)
    about = _about(node, node.stem if operator is None else operator.stem, single)
    stateful = operator is not None or len(node.inputs) == 2
    part = "" if operator is None or single else operator.stem
    return Box(node.name, "operator" if stateful else "step", about, types, stores, node.name, part)


def _about(node: Node, stem: str, single: bool) -> str:
    """The action of a node, or of one of its operators, by their stems: of a join also how it joins."""
    details = dict(node.details())
    if details.get("fold") in ("count", "reduce"):
        stem = stem.replace("aggregate", details["fold"])
    join_type = details.get("type", "")
    part = f"{stem}_".removeprefix(f"{node.stem}_")
    if join_type not in ("inner", "left", "outer") or not (single or len(part) <= len(stem)):
        return stem.replace("_", " ")
    join = "join" if join_type == "inner" else f"{join_type} join"
    if single:
        return f"{stem.replace('_', '-')} {join}"
    return f"{node.stem.replace('_', '-')} {join}" + (f": {part.strip('_').replace('_', ' ')}" if part else "")


def _place(place: Any) -> str:
    return "" if place is None else str(place.shown)


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
    """A picture with places."""

    places: tuple[BoxPlace, ...]  # of the boxes
    # of each arrow the points that it goes through, (x, top, bottom) of each row between its boxes
    ways: tuple[tuple[tuple[float, float, float], ...], ...]
    bands: tuple[Band, ...]  # of the levels
    # width, height: of all
    width: float
    height: float


def lines(box: Box) -> tuple[str, ...]:
    """The text of a box; of stores that have its name only their own part."""
    return (cut(box.name), cut(box.about), *(cut(_short_name(store, box.name)) for store in box.stores))


def _short_name(store: str, box: str) -> str:
    return store.removeprefix(box) if store.startswith(f"{box}.") else store


def has_line(box: Box) -> bool:
    return bool(box.stores) and box.kind != "input"


def cut(text: str) -> str:
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
    x = [centre - left for centre in x]
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
        depth.append(max((depth[tail] + 1 for tail in above[at] if bands[tail] == band), default=0))
    place = {key: row for row, key in enumerate(sorted(set(zip(bands, depth, strict=True))))}
    return [place[key] for key in zip(bands, depth, strict=True)]


def _arrow_points(picture: Picture, rows: Sequence[int]) -> list[list[tuple[int, int]]]:
    """Of each arrow (row, number) of the points in the rows between its boxes; numbers follow those of the boxes."""
    points, number = [], len(rows)
    for arrow in picture.arrows:
        between = range(rows[arrow.tail] + 1, rows[arrow.head])
        points.append([(row, number + place) for place, row in enumerate(between)])
        number += len(between)
    return points


def _neighbours(chains: Sequence[Sequence[int]], count: int) -> tuple[list[list[int]], list[list[int]]]:
    up: list[list[int]] = [[] for _ in range(count)]
    down: list[list[int]] = [[] for _ in range(count)]
    for chain in chains:
        for upper, lower in itertools.pairwise(chain):
            down[upper].append(lower)
            up[lower].append(upper)
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
            positions = {box: place for boxes in order for place, box in enumerate(boxes)}
            keys = {box: _mean([positions[neighbour] for neighbour in near[box]], positions[box]) for box in line}
            line.sort(key=keys.__getitem__)
        crossed = _crossings(order, down)
        if crossed < fewest:
            best, fewest = [list(row) for row in order], crossed
    return best


def _crossings(order: Sequence[Sequence[int]], down: Sequence[Sequence[int]]) -> int:
    at = {box: place for row in order for place, box in enumerate(row)}
    pairs = [[(at[upper], at[lower]) for upper in row for lower in down[upper]] for row in order]
    return sum(a < c and b > d for row in pairs for a, b in row for c, d in row)


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _across(order: Sequence[Sequence[int]], widths: Sequence[float], chains: Sequence[Sequence[int]]) -> list[float]:
    """The centre of each, near the middle of what it is joined with; a long arrow goes straight where it can."""
    up, down = _neighbours(chains, len(widths))
    x = [0.0] * len(widths)
    for row in order:
        for vertex, place in zip(row, _separate([0.0] * len(row), row, widths), strict=True):
            x[vertex] = place
    for turn in range(2 * _ROUNDS):
        two_sided = turn >= _ROUNDS
        straight = {
            point: _mean([x[member] for member in chain[1:-1]], 0.0) for chain in chains for point in chain[1:-1]
        }
        for row in order if turn % 2 == 0 else order[::-1]:
            near = up if turn % 2 == 0 else down
            targets = [
                straight[vertex]
                if two_sided and vertex in straight
                else _mean(
                    [x[neighbour] for neighbour in (up[vertex] + down[vertex] if two_sided else near[vertex])],
                    x[vertex],
                )
                for vertex in row
            ]
            for vertex, place in zip(row, _separate(targets, row, widths), strict=True):
                x[vertex] = place
    _straighten(order, widths, chains, x)
    return x


def _straighten(
    order: Sequence[Sequence[int]], widths: Sequence[float], chains: Sequence[Sequence[int]], x: list[float]
) -> None:
    """Set the points between the rows of an arrow upon one line, where what stands beside them leaves one."""
    beside = {right: left for row in order for left, right in itertools.pairwise(row)}
    right_of = {left: right for right, left in beside.items()}
    for points in (chain[1:-1] for chain in chains if len(chain) > 3):
        near, far = ([side[point] for point in points if point in side] for side in (beside, right_of))
        low = max((x[neighbour] + (widths[neighbour] + _BOX_GAP) / 2 for neighbour in near), default=-math.inf)
        high = min((x[neighbour] - (widths[neighbour] + _BOX_GAP) / 2 for neighbour in far), default=math.inf)
        if low <= high:
            line = min(max(_mean([x[point] for point in points], 0.0), low), high)
            for point in points:
                x[point] = line


def _separate(targets: Sequence[float], row: Sequence[int], widths: Sequence[float]) -> list[float]:
    """The places nearest to the wanted ones at which nothing of the row lies upon another (isotonic regression)."""
    offsets = [0.0]
    for left, right in itertools.pairwise(row):
        offsets.append(offsets[-1] + (widths[left] + widths[right]) / 2 + _BOX_GAP)
    blocks: list[tuple[float, int]] = []
    for place, offset in zip(targets, offsets, strict=False):
        total, count = place - offset, 1
        while blocks and blocks[-1][0] / blocks[-1][1] > total / count:
            block_total, block_count = blocks.pop()
            total, count = total + block_total, count + block_count
        blocks.append((total, count))
    base = [total / count for total, count in blocks for _ in range(count)]
    return [start + offset for start, offset in zip(base, offsets, strict=False)]


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
        Band(level, tops[span[0]] - _LABEL_GAP, tops[span[-1]] + tallest[span[-1]] + _BAND_GAP)
        for level, span in spans.items()
    )
    return tops, tallest, tuple(bands)


# A picture as SVG: one piece of text that needs nothing besides, neither scripts nor fonts nor the network.

_FILL: dict[Kind, tuple[str, str]] = {
    "input": ("#f1f2f5", "#6b727b"),
    "output": ("#f1f2f5", "#6b727b"),
    "step": ("#ffffff", "#aab0b8"),
    "operator": ("#e6f0f8", "#2f6ea5"),
}
"""Inside and edge of each kind of box: the one accent is for what keeps state."""
_TEXT = 'font-family="Helvetica,Arial,sans-serif" font-size="12" fill="#22262b"'
_FAINT, _LINE = "#5d646d", "#6b727b"
_HEAD = 6.0


def svg(picture: Picture) -> str:
    """The picture as the text of an SVG file."""
    drawn = laid_out(picture)
    size = f'width="{drawn.width:.0f}" height="{drawn.height:.0f}" viewBox="0 0 {drawn.width:.0f} {drawn.height:.0f}"'
    parts = [
        # attributes and no style sheet: that of one picture would hold for the others of a page. A page with colours of
        # its own, or with numbers for boxes and arrows, finds them by class, in the order of the picture
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" {_TEXT}>',
        f"<title>{escape(picture.title)}</title>",
        '<rect class="ground" width="100%" height="100%" fill="#ffffff"/>',
        *_bands(drawn),
        *_arrows(picture, drawn),
        *(part for box, place in zip(picture.boxes, drawn.places, strict=True) for part in _svg_box(box, place)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _bands(drawn: Drawn) -> Iterator[str]:
    for band in drawn.bands:
        height = band.bottom - band.top
        yield (
            f'<rect class="band" x="4" y="{band.top:.1f}" width="{drawn.width - 8:.1f}" height="{height:.1f}" '
            f'rx="6" fill="#f1f2f5"/><text class="faint" x="12" y="{band.top + 14:.1f}" fill="{_FAINT}">'
            f"level {band.level}</text>"
        )


def _svg_box(box: Box, place: BoxPlace) -> Iterator[str]:
    fill, edge = _FILL[box.kind]
    left, round_ = place.x - place.width / 2, place.height / 2 if box.kind in ("input", "output") else 4
    about = "; ".join([f"{box.name}: {box.about}", box.types, *box.stores])
    yield f'<g class="box {box.kind}"><title>{escape(about)}</title>'
    yield (
        f'<rect x="{left:.1f}" y="{place.top:.1f}" width="{place.width:.1f}" height="{place.height:.1f}" '
        f'rx="{round_:.1f}" fill="{fill}" stroke="{edge}"/>'
    )
    if has_line(box):
        top = place.top + 2 * LINE + PADDING / 2 + STORES_GAP / 2 + 1
        yield f'<path d="M{left:.1f},{top:.1f} h{place.width:.1f}" stroke="{edge}" stroke-dasharray="3,2"/>'
    for number, text in enumerate(lines(box)):
        weight = ' font-weight="bold"' if number == 0 else ""
        fill = f' class="faint" fill="{_FAINT}"' if number == 1 else ""
        down = place.top + PADDING / 2 + (number + 0.78) * LINE + (number > 1 and has_line(box)) * STORES_GAP
        at = f'x="{place.x:.1f}" y="{down:.1f}" text-anchor="middle"'
        yield f"<text {at}{weight}{fill}>{escape(text)}</text>"
    yield "</g>"


def _arrows(picture: Picture, drawn: Drawn) -> Iterator[str]:
    ends = _ends(picture.arrows, drawn)
    for arrow, way, (start, end) in zip(picture.arrows, drawn.ways, ends, strict=True):
        tail, head = drawn.places[arrow.tail], drawn.places[arrow.head]
        points = [(start, tail.top + tail.height)]
        points += [(x, y) for x, top, bottom in way for y in (top, bottom)]
        points.append((end, head.top - _HEAD))
        yield f'<path class="arrow" d="{_curve(points)}" fill="none" stroke="{_LINE}" stroke-width="1.2"/>'
        tip = f"M{end:.1f},{head.top:.1f} l-4,-{_HEAD + 1} h8 z"
        yield f'<path class="tip" d="{tip}" fill="{_LINE}"/>'
        if arrow.text:
            at = f'x="{end + 6:.1f}" y="{head.top - 5:.1f}" font-size="11" class="faint" fill="{_FAINT}"'
            yield f"<text {at}>{escape(cut(arrow.text))}</text>"


def _curve(points: Sequence[tuple[float, float]]) -> str:
    """Through the points, from top to bottom, upright in each of them."""
    x, y = points[0]
    commands = [f"M{x:.1f},{y:.1f}"]
    for to_x, to_y in points[1:]:
        middle = (y + to_y) / 2
        commands.append(f"C{x:.1f},{middle:.1f} {to_x:.1f},{middle:.1f} {to_x:.1f},{to_y:.1f}")
        x, y = to_x, to_y
    return " ".join(commands)


def _ends(arrows: Sequence[Arrow], drawn: Drawn) -> list[tuple[float, float]]:
    """Where each arrow begins and ends: those of one box beside one another, in the order of what they lead to."""
    places = drawn.places
    near = [
        (way[0][0], way[-1][0]) if way else (places[a.head].x, places[a.tail].x)
        for a, way in zip(arrows, drawn.ways, strict=True)
    ]
    starts = _spread([arrow.tail for arrow in arrows], [first for first, _ in near], places)
    stops = _spread([arrow.head for arrow in arrows], [last for _, last in near], places)
    return list(zip(starts, stops, strict=True))


def _spread(boxes: Sequence[int], near: Sequence[float], places: Sequence[BoxPlace]) -> list[float]:
    positions = [0.0] * len(boxes)
    for box in set(boxes):
        indices = sorted((at for at, owner in enumerate(boxes) if owner == box), key=lambda at: (near[at], at))
        step = min(44.0, places[box].width * 0.7 / len(indices))
        for number, at in enumerate(indices):
            positions[at] = places[box].x + (number - (len(indices) - 1) / 2) * step
    return positions


# A picture as the text of a Mermaid flowchart, which pages of Markdown show as a picture.

_SHAPES: dict[Kind, tuple[str, str]] = {
    "input": ('(["', '"])'),
    "output": ('(["', '"])'),
    "step": ('["', '"]'),
    "operator": ('["', '"]'),
}
_ESCAPES = {ord(sign): f"#{ord(sign)};" for sign in '#&"<>`\\'} | {ord("\n"): " "}
"""What has a meaning in Mermaid's quoted texts, by its number as Mermaid writes it."""


def mermaid(picture: Picture) -> str:
    return "\n".join(_lines(picture)) + "\n"


def _lines(picture: Picture) -> Iterator[str]:
    yield "flowchart TD"
    for level in (None, *sorted({box_level for box_level in picture.levels if box_level is not None})):
        indent = "  " if level is None else "    "
        if level is not None:
            yield f'  subgraph level{level}["level {level}"]'
        for number, box in enumerate(picture.boxes):
            if picture.levels[number] == level:
                yield from (indent + line for line in _mermaid_box(number, box))
        if level is not None:
            yield "  end"
    for arrow in picture.arrows:
        text = f"|{arrow.text}|" if arrow.text else ""
        yield f"  n{arrow.tail} -->{text} n{arrow.head}"


def _mermaid_box(number: int, box: Box) -> Iterator[str]:
    opening, closing = _SHAPES[box.kind]
    yield f"n{number}{opening}{_text(box.name)}<br/>{_text(box.about)}{closing}"
    for place, store in enumerate(box.stores):
        yield f'n{number}s{place}[("{_text(store)}")] -.- n{number}'


def _text(text: str) -> str:
    return text.translate(_ESCAPES)
