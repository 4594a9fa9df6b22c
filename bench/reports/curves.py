"""Notes of a long run as a drawing: a curve for each number, each in a field of its own that begins at nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.reports.picture import text_at

WIDTH, COLUMNS = 940, 3
FIELD, HEIGHT, GAP, TOP = 296, 120, 26, 40
COLOUR, PART = "#3b6ea5", "#b0c4de"
CURVES = (
    ("driver: MB", "driver's Python, resident MB"),
    ("JVM: MB", "JVM, resident MB"),
    ("workers: MB", "Python workers, resident MB"),
    ("driver: objects", "objects of the driver's Python"),
    ("JVM: heap, MB", "JVM's heap behind a collection, MB"),
    ("JVM: threads", "threads of the JVM"),
    ("JVM: open files", "open files of the JVM"),
    ("workers: open files", "open files of the workers"),
    ("workers: processes", "processes of the workers"),
    ("files: cp", "files in the checkpoint"),
    ("files: cache", "files in the cache"),
    ("seconds", "seconds of a batch, median"),
)
Note = dict[str, Any]


def drawn(notes: Sequence[Note]) -> str:
    """An SVG picture of the notes of a run; a line stands where a process began.

    Raises
    ------
    ValueError : there are fewer than two notes.
    """
    if len(notes) < 2:
        raise ValueError(f"A curve needs two notes, there are {len(notes)}.")
    rows = -(-len(CURVES) // COLUMNS)
    height = TOP + rows * (HEIGHT + GAP + 20)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
    head += f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12">'
    said = f"batches 0 to {notes[-1]['batch']:,}; a vertical line: a new process"
    # its own ground, so that it can be read on a dark page too
    pieces = [head, f'<rect width="{WIDTH}" height="{height}" fill="white"/>', text_at(12, 20, said, "start")]
    for number, (name, title) in enumerate(CURVES):
        x = 12 + number % COLUMNS * (FIELD + 14)
        y = TOP + number // COLUMNS * (HEIGHT + GAP + 20)
        pieces += _field(x, y, title, notes, [value_of(note, name) for note in notes])
    return "\n".join([*pieces, "</svg>"]) + "\n"


def value_of(note: Note, name: str) -> float:
    """A number of a note, by its name."""
    return float(note["held"][name] if name in note["held"] else note[name])


def _field(x: int, y: int, title: str, notes: Sequence[Note], values: Sequence[float]) -> list[str]:
    top, base, last = y + 20, y + 20 + HEIGHT, max(1, notes[-1]["batch"])
    # the first batch compiles everything
    most = max(values[1:]) or 1.0
    places = [x + FIELD * note["batch"] / last for note in notes]
    heights = [base - HEIGHT * min(1.0, value / most) for value in values]
    line = " ".join(f"{place:.1f},{at:.1f}" for place, at in zip(places, heights, strict=True))
    begins = [place for place, note in zip(places, notes, strict=True) if note["first"]]
    return [
        text_at(x, y + 12, f"{title}: {values[-1]:,.4g} (most {most:,.4g})", "start"),
        f'<rect x="{x}" y="{top}" width="{FIELD}" height="{HEIGHT}" fill="none" stroke="#ddd"/>',
        *(f'<line x1="{at:.1f}" y1="{top}" x2="{at:.1f}" y2="{base}" stroke="{PART}"/>' for at in begins),
        f'<polyline points="{line}" fill="none" stroke="{COLOUR}" stroke-width="1.5"/>',
    ]
