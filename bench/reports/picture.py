"""The ratios to Kafka Streams as a drawing: a bar for a workload, from the line at 1, on a logarithmic scale."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from xml.sax.saxutils import escape

from bench.reports import report
from bench.reports.results import LATE, OURS, Section, better

ROWS = {
    "nexmark_q11": "NEXMark q11: bids by session",
    "demo": "flights: four levels of joins",
    "foreign_key": "foreign-key join of tables",
    "session_count": "count by session",
    "table_table": "join of tables",
    "stream_stream": "join of streams",
    "count": "count by key",
    "stream_table": "join of a stream with a table",
    "nexmark_q3": "NEXMark q3: most records left out",
    "nexmark_q5": "NEXMark q5: many updates, few results",
}
"""The workloads that are drawn, in words: of each kind one, and all that are slower."""
FASTER, SLOWER = "#2f6ea5", "#8a9099"
WIDTH, LEFT, RIGHT = 720, 270, 60
BAR, GAP, TOP = 18, 8, 84
TICKS = (0.5, 1, 2, 3, 5)


def drawn(sections: Iterable[Section]) -> str:
    """An SVG picture of how many times as many records watersmeet reads as Kafka Streams in the better of its settings.

    Raises
    ------
    ValueError : nothing was compared.
    """
    ratios = {
        section.name.removeprefix("kafka "): report.ratio(section.runs, theirs, LATE)
        for section in sections
        if OURS in section.runs and (theirs := better(section.runs))
    }
    if not ratios:
        raise ValueError("No workload in these results has Kafka Streams beside watersmeet: there is no ratio to draw.")
    # of other results than those of the documentation all are drawn, under their names
    rows = [(ROWS[name], ratios[name]) for name in ROWS if name in ratios] or list(ratios.items())
    rows.sort(key=lambda row: -row[1])
    height = TOP + len(rows) * (BAR + GAP) + 24
    pieces = [*_title(list(ratios.values())), *_scale(height)]
    for number, row in enumerate(rows):
        pieces += _bar(TOP + number * (BAR + GAP), *row)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
    head += f'viewBox="0 0 {WIDTH} {height}" font-family="Helvetica,Arial,sans-serif" font-size="12">'
    # its own ground, so that it can be read on a dark page too
    return "\n".join([head, f'<rect width="{WIDTH}" height="{height}" fill="white"/>', *pieces, "</svg>"]) + "\n"


def _title(ratios: list[float]) -> list[str]:
    """The finding, and what was measured."""
    faster = sum(ratio > 1 for ratio in ratios)
    finding = f"Faster than Kafka Streams in {faster} of {len(ratios)} workloads, {max(ratios):.1f} times at most"
    measured = (
        "Records a second as times Kafka Streams in the better of its settings; two cores, Kafka to Kafka, exactly once"
    )
    return [
        text_at(12, 22, finding, "start", size=15, weight="bold"),
        text_at(12, 42, measured, "start", colour="#5d646d"),
    ]


def _place(ratio: float) -> float:
    """Horizontal place of a ratio."""
    share = math.log(ratio / TICKS[0]) / math.log(TICKS[-1] / TICKS[0])
    return LEFT + min(1.0, max(0.0, share)) * (WIDTH - LEFT - RIGHT)


def _scale(height: int) -> list[str]:
    pieces = [text_at(_place(1), TOP - 14, "Kafka Streams", "middle")]
    for tick in TICKS:
        x, colour = _place(tick), "#22262b" if tick == 1 else "#dfe2e7"
        pieces.append(f'<line x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{height - 22}" stroke="{colour}"/>')
        pieces.append(text_at(x, height - 8, f"{tick:g}x", "middle"))
    return pieces


def _bar(top: int, workload: str, ratio: float) -> list[str]:
    begin, end = sorted((_place(1), _place(ratio)))
    box = f'x="{begin:.1f}" y="{top}" width="{max(1.0, end - begin):.1f}" height="{BAR}"'
    beside = text_at(end + 5, top + BAR - 5, f"{ratio:.1f}", "start")
    if ratio < 1:
        beside = text_at(begin - 5, top + BAR - 5, f"{ratio:.1f}", "end")
    fill = SLOWER if ratio < 1 else FASTER
    return [text_at(LEFT - 10, top + BAR - 5, workload, "end"), f'<rect {box} fill="{fill}"/>', beside]


RATE_COLOURS = {"watersmeet": FASTER, "kafka streams": "#22262b", "spark": SLOWER}


def trickle_drawn(costs: Sequence[tuple[str, float, float]]) -> str:
    """An SVG picture of CPU-seconds a minute by contender and rate.

    Parameters
    ----------
    costs : (contender, records a second, CPU-seconds a minute).
    """
    rates = sorted({rate for _, rate, _ in costs})
    most = max(cpu for _, _, cpu in costs)
    height = 96 + len(rates) * (3 * (BAR + 2) + 16)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
    head += f'viewBox="0 0 {WIDTH} {height}" font-family="Helvetica,Arial,sans-serif" font-size="12">'
    pieces = [head, f'<rect width="{WIDTH}" height="{height}" fill="white"/>']
    pieces.append(text_at(12, 22, "CPU of small traffic", "start", size=15, weight="bold"))
    measured = "CPU-seconds a minute, Kafka to Kafka; three levels of joins, and one aggregation in plain Spark"
    pieces.append(text_at(12, 42, measured, "start", colour="#5d646d"))
    top = 66
    for rate in rates:
        pieces.append(text_at(130, top + BAR + 15, f"{rate:,.0f} records/s", "end", weight="bold"))
        for contender, _, cpu in (each for each in costs if each[1] == rate):
            width = max(1.0, (WIDTH - LEFT - RIGHT) * cpu / most)
            box = f'x="{LEFT}" y="{top}" width="{width:.1f}" height="{BAR}"'
            pieces.append(text_at(LEFT - 10, top + BAR - 5, contender, "end"))
            pieces.append(f'<rect {box} fill="{RATE_COLOURS[contender]}"/>')
            pieces.append(text_at(LEFT + width + 5, top + BAR - 5, f"{cpu:.1f}", "start"))
            top += BAR + 2
        top += 16
    return "\n".join([*pieces, "</svg>"]) + "\n"


def text_at(
    x: float, y: float, text: str, anchor: str, *, size: int = 12, weight: str = "normal", colour: str = "#22262b"
) -> str:
    """A line of text in a picture, by the place of its anchor."""
    style = f'font-size="{size}" font-weight="{weight}" fill="{colour}"'
    return f'<text x="{x:.1f}" y="{y}" text-anchor="{anchor}" {style}>{escape(text)}</text>'
