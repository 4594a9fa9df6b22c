"""The benchmarks' results as Markdown tables: min, median and max of the turns, and ratios within one run.

Called by `run`. Ratios are taken turn by turn, since turns that follow each other met the same machine.
"""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from statistics import median

from turns import Turn

Figure = Callable[[Turn], float]
FIGURES: tuple[tuple[str, Figure], ...] = (
    ("records/s, whole run", lambda t: t.rates.whole),
    ("records/s, second half", lambda t: t.rates.second_half),
    ("records per CPU-second, whole run", lambda t: t.per_cpu_second),
    ("records per CPU-second, second half", lambda t: t.per_cpu_second_late),
    ("CPU-seconds", lambda t: t.usage.cpu_seconds),
    ("peak memory, MB", lambda t: t.usage.peak_bytes / 1e6),
    ("checkpoint, MB", lambda t: t.state_bytes / 1e6),
)
RATIOS = 4
"""How many of the figures are better when larger, so that a ratio says something."""


def side_by_side(turns: Mapping[str, Sequence[Turn]], ours: str, theirs: str) -> str:
    """A table of two contenders and the ratios between them."""
    lines = [f"| | {ours} | {theirs} | ratio |", "|---|---|---|---|"]
    read = [f"{turns[who][0].rates.records:,}" for who in (ours, theirs)]
    lines += [f"| records in a turn | {read[0]} | {read[1]} | |"]
    for number, (name, figure) in enumerate(FIGURES):
        mine, other = ([figure(turn) for turn in turns[who]] for who in (ours, theirs))
        ratios = [a / b for a, b in zip(mine, other, strict=True)] if number < RATIOS else []
        lines.append(f"| {name} | {spread(mine)} | {spread(other)} | {spread(ratios, '.1f')} |")
    return "\n".join(lines)


def spread(values: Sequence[float], form: str = ",.0f") -> str:
    """Median, with the smallest and largest behind it where there are several."""
    if not values:
        return ""
    middle = format(median(values), form)
    if len(values) == 1:
        return middle
    return f"{middle} ({format(min(values), form)} to {format(max(values), form)})"


def growth(rows: Sequence[tuple[int, Turn, int]]) -> str:
    """Batch time by size of state: (keys per side, turn, batches that count, from the end)."""
    heads = (
        "keys per side",
        "batch, s",
        "to the row above",
        "its CPU-seconds",
        "to the row above",
        "checkpoint, MB",
        "peak memory, MB",
    )
    lines = ["| " + " | ".join(heads) + " |", "|---|---|---|---|---|---|---|"]
    before: tuple[float, float] | None = None
    for keys, turn, counted in rows:
        batches = turn.batches[-counted:]
        times = [batch.end - batch.begin for batch in batches]
        # whatever else the machine does makes a batch longer, its CPU hardly more; a look may miss an end, so
        # the batches are taken together
        work = turn.usage.cpu_between(batches[0].begin, batches[-1].end) / len(batches)
        now = (median(times), work)
        ratios = ["", ""] if before is None else [f"{a / b:.2f}" for a, b in zip(now, before, strict=True)]
        before = now
        row = [f"{keys:,}", spread(times, ".2f"), ratios[0], f"{work:.2f}", ratios[1]]
        row += [f"{turn.state_bytes / 1e6:,.0f}", f"{turn.usage.peak_bytes / 1e6:,.0f}"]
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines)


def kept(turn: Turn) -> str:
    """State (the live runs, as the machine's cache has them) by the share of the batches that are done."""
    lines = ["| batches done | records read | state, MB |", "|---|---|---|"]
    read, quarters = 0, [round(len(turn.batches) * part / 4) for part in range(1, 5)]
    for number, batch in enumerate(turn.batches, start=1):
        read += batch.records
        if number in quarters:
            sizes = [size for at, size in turn.report["kept"] if at <= batch.end + 0.5]
            lines.append(f"| {number} | {read:,} | {(sizes[-1] if sizes else 0) / 1e6:.1f} |")
    most = max(size for _, size in turn.report["kept"])
    return "\n".join([*lines, f"| most at any time | | {most / 1e6:.1f} |"])


def cpu(turn: Turn) -> str:
    """Where a turn's CPU went: by program, the JVM's by thread."""
    lines = ["| CPU-seconds | |", "|---|---|"]
    kinds = sorted(turn.usage.by_kind().items(), key=lambda item: -item[1])
    lines += [f"| {name} | {seconds:.1f} |" for name, seconds in kinds if seconds >= 0.5]
    threads = turn.usage.by_thread().items()
    lines += [f"| java, {name} | {seconds:.1f} |" for name, seconds in threads if seconds >= 0.5]
    return "\n".join(lines)


def machine() -> str:
    """What the figures were measured on."""
    names = ("pyspark", "pyarrow", "numpy")
    asked = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    java = asked.stderr.splitlines()
    parts = [f"{os.cpu_count()} cores ({_processor()})", f"Python {platform.python_version()}"]
    parts += [java[0] if java else "no java on the path"]
    parts += [f"{name} {version(name)}" for name in names]
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return "; ".join([*parts, f"load average at the end {load}"])


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()
