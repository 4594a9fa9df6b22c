"""The ratios to Kafka Streams as a drawing: two bars for each workload, on a logarithmic scale."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from xml.sax.saxutils import escape

from bench.reports import report
from bench.reports.results import LATE, LATE_PER_CPU, OURS, Section, better

FIGURES = ((LATE, "#3b6ea5"), (LATE_PER_CPU, "#b0c4de"))
WIDTH, LEFT, RIGHT = 720, 160, 60
BAR, GAP, TOP = 14, 16, 56
TICKS = (0.5, 1, 2, 5)


def drawn(sections: Iterable[Section]) -> str:
    """An SVG picture of how many times as much watersmeet does as Kafka Streams in the better of its settings.

    Raises
    ------
    ValueError : nothing was compared.
    """
    compared = [(section, theirs) for section in sections if OURS in section.runs and (theirs := better(section.runs))]
    rows = [
        (section.name.removeprefix("kafka "), [report.ratio(section.runs, theirs, figure) for figure, _ in FIGURES])
        for section, theirs in compared
    ]
    rows.sort(key=lambda row: -row[1][0])
    if not rows:
        raise ValueError("No workload in these results has Kafka Streams beside watersmeet: there is no ratio to draw.")
    height = TOP + len(rows) * (len(FIGURES) * BAR + GAP) + 24
    pieces = [*_scale(height), *_legend()]
    for number, row in enumerate(rows):
        pieces += _bars(TOP + number * (len(FIGURES) * BAR + GAP), *row)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
    head += f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12">'
    # its own ground, so that it can be read on a dark page too
    return "\n".join([head, f'<rect width="{WIDTH}" height="{height}" fill="white"/>', *pieces, "</svg>"]) + "\n"


def _place(ratio: float) -> float:
    """Horizontal place of a ratio."""
    share = math.log(ratio / TICKS[0]) / math.log(TICKS[-1] / TICKS[0])
    return LEFT + min(1.0, max(0.0, share)) * (WIDTH - LEFT - RIGHT)


def _scale(height: int) -> list[str]:
    pieces = []
    for tick in TICKS:
        x, colour = _place(tick), "#333" if tick == 1 else "#ddd"
        pieces.append(f'<line x1="{x:.1f}" y1="{TOP - 10}" x2="{x:.1f}" y2="{height - 22}" stroke="{colour}"/>')
        pieces.append(text_at(x, height - 8, f"{tick:g}x", "middle"))
    return pieces


def _legend() -> list[str]:
    pieces = [text_at(12, 20, f"{OURS} as times Kafka Streams, the line at 1; medians; right of it is faster", "start")]
    for number, (figure, colour) in enumerate(FIGURES):
        x = 12 + number * 200
        pieces.append(f'<rect x="{x}" y="29" width="10" height="10" fill="{colour}"/>')
        pieces.append(text_at(x + 15, 38, figure, "start"))
    return pieces


def _bars(top: int, workload: str, ratios: Sequence[float]) -> list[str]:
    pieces = [text_at(LEFT - 10, top + BAR + 4, workload, "end")]
    for number, (ratio, (_, colour)) in enumerate(zip(ratios, FIGURES, strict=True)):
        begin, end = sorted((_place(1), _place(ratio)))
        y = top + number * BAR
        box = f'x="{begin:.1f}" y="{y}" width="{max(1.0, end - begin):.1f}" height="{BAR - 2}"'
        pieces += [f'<rect {box} fill="{colour}"/>', text_at(end + 5, y + BAR - 4, f"{ratio:.1f}", "start")]
    return pieces


def text_at(x: float, y: float, text: str, anchor: str) -> str:
    """A line of text in a picture, by the place of its anchor."""
    return f'<text x="{x:.1f}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>'
