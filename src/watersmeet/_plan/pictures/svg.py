"""A picture as SVG: one piece of text that needs nothing besides, neither scripts nor fonts nor the network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from watersmeet._plan.pictures.layout import LINE, PADDING, STORES_GAP, BoxPlace, Drawn, cut, has_line, laid_out, lines
from watersmeet._plan.pictures.picture import Arrow, Box, Kind, Picture

_FILL: dict[Kind, tuple[str, str]] = {
    "input": ("#e3f0fb", "#2f6ea5"),
    "output": ("#e6f4e6", "#3d7d3d"),
    "step": ("#ffffff", "#8a8f98"),
    "operator": ("#fff4dc", "#b07a1e"),
}
"""Inside and edge of each kind of box."""
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
        *(part for box, place in zip(picture.boxes, drawn.places, strict=True) for part in _box(box, place)),
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


def _box(box: Box, place: BoxPlace) -> Iterator[str]:
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
    found = [f"M{x:.1f},{y:.1f}"]
    for to_x, to_y in points[1:]:
        middle = (y + to_y) / 2
        found.append(f"C{x:.1f},{middle:.1f} {to_x:.1f},{middle:.1f} {to_x:.1f},{to_y:.1f}")
        x, y = to_x, to_y
    return " ".join(found)


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
    found = [0.0] * len(boxes)
    for box in set(boxes):
        mine = sorted((at for at, each in enumerate(boxes) if each == box), key=lambda at: (near[at], at))
        step = min(44.0, places[box].width * 0.7 / len(mine))
        for number, at in enumerate(mine):
            found[at] = places[box].x + (number - (len(mine) - 1) / 2) * step
    return found
