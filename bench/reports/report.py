"""The benchmarks' results as Markdown tables: median, min and max of the turns, and ratios of medians."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from statistics import median

from bench.measuring.turns import Turn
from bench.reports.results import (
    FIGURES,
    FROM_START,
    LATE,
    LATE_PER_CPU,
    MEMORY,
    OF_BROKER,
    OURS,
    OURS_CACHED,
    OURS_PLAIN,
    RATED,
    SPARK,
    STREAMS,
    STREAMS_CACHED,
    Run,
    Section,
    Table,
    better,
    pairs,
)

BESIDE = {"per CPU-second": LATE_PER_CPU, "from the process's start": FROM_START}
"""Other ratios of a summary, and what they are of."""


def section_text(section: Section) -> str:
    """A workload's results: what they are beside, its tables, where the CPU went."""
    pieces = [f"## {section.title}", *section.notes]
    pieces += [side_by_side(section.runs, theirs, ours) for ours, theirs in pairs(section.runs)]
    pieces += [_markdown(table) for table in section.tables]
    pieces += [f"### {who}\n\n{parts(runs)}" for who, runs in section.runs.items() if any(run.parts for run in runs)]
    return "\n\n".join(pieces) + "\n"


def summary(sections: Sequence[Section]) -> str:
    """Two lines for each workload beside Kafka Streams: rates of the second half, and ratios to its better setting."""
    contenders = (OURS, OURS_CACHED, STREAMS, STREAMS_CACHED, SPARK)
    rates, ratios = [], []
    for section in sections:
        runs, theirs = section.runs, better(section.runs)
        if theirs is None or OURS not in runs:
            continue
        name = section.name.removeprefix("kafka ")
        late = [spread([run.figures[LATE] for run in runs[who]]) if who in runs else "" for who in contenders]
        rates.append([name, str(len(runs[OURS])), *late])
        compared = [(OURS, theirs, LATE), (OURS_CACHED, theirs, LATE), (OURS, OURS_PLAIN, LATE)]
        compared += [(OURS, theirs, figure) for figure in BESIDE.values()]
        shown = [f"{ratio(runs, b, figure, a):.2f}" if a in runs and b in runs else "" for a, b, figure in compared]
        memory = "; ".join(format(median(run.figures[MEMORY] for run in runs[who]), ",.0f") for who in (OURS, theirs))
        ratios.append([name, *shown, memory])
    if not rates:
        return ""
    heads = ["ratio", "record cache", "to the plain workload", *BESIDE, MEMORY]
    return "\n\n".join([_markdown(Table([LATE, "turns", *contenders], rates)), _markdown(Table(["", *heads], ratios))])


def side_by_side(runs: Mapping[str, Sequence[Run]], theirs: str, ours: str = OURS) -> str:
    """A table of watersmeet and another contender."""
    both = [runs[ours], runs[theirs]]
    rows = [["records in a turn", *(f"{each[0].records:,}" for each in both), ""]]
    for name in (*FIGURES, *OF_BROKER):
        if any(name not in run.figures for each in both for run in each):
            # kept before there was this figure, or there is no broker
            continue
        columns = [[run.figures[name] for run in each] for each in both]
        shown = f"{ratio(runs, theirs, name, ours):.1f}" if name in RATED else ""
        rows.append([name, *map(spread, columns), shown])
    counts = [len(each) for each in both]
    if counts[0] != counts[1]:
        rows.append(["turns", *map(str, counts), ""])
    return _markdown(Table(["median (min to max)" if max(counts) > 1 else "", ours, theirs, "ratio"], rows))


def ratio(runs: Mapping[str, Sequence[Run]], theirs: str, figure: str, ours: str = OURS) -> float:
    """Of the medians of a figure: watersmeet's by the other's."""
    one, other = (median(run.figures[figure] for run in runs[who]) for who in (ours, theirs))
    return one / other


def spread(values: Sequence[float], form: str = ",.0f") -> str:
    """Median, with the smallest and largest behind it where there are several."""
    middle = format(median(values), form)
    if len(values) == 1:
        return middle
    return f"{middle} ({format(min(values), form)} to {format(max(values), form)})"


def parts(runs: Sequence[Run]) -> str:
    """Where the CPU of a second half went: CPU-seconds per million records, the largest first."""
    profiled = [run.parts for run in runs if run.parts]
    names = {name for each in profiled for name in each}
    values = {name: [each.get(name, 0.0) for each in profiled] for name in names}
    ordered = sorted(values, key=lambda name: -median(values[name]))
    rows = [[name, spread(values[name], ".2f")] for name in ordered if median(values[name]) >= 0.005]
    whole = [sum(each.values()) for each in profiled]
    return _markdown(Table(["CPU-seconds per million records", ""], [*rows, ["all", spread(whole, ".2f")]]))


def growth(rows: Sequence[tuple[int, Turn, int]]) -> Table:
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
    lines = []
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
        lines.append([*row, f"{turn.state_bytes / 1e6:,.0f}", f"{turn.usage.peak_bytes / 1e6:,.0f}"])
    return Table(heads, lines)


def state_table(turn: Turn) -> Table:
    """State (the live runs, as the machine's cache has them) by the share of the batches that are done."""
    rows = []
    read, quarters = 0, [round(len(turn.batches) * part / 4) for part in range(1, 5)]
    for number, batch in enumerate(turn.batches, start=1):
        read += batch.records
        if number in quarters:
            sizes = [size for at, size in turn.report["kept"] if at <= batch.end + 0.5]
            rows.append([str(number), f"{read:,}", f"{(sizes[-1] if sizes else 0) / 1e6:.1f}"])
    most = max(size for _, size in turn.report["kept"])
    return Table(["batches done", "records read", "state, MB"], [*rows, ["most at any time", "", f"{most / 1e6:.1f}"]])


def shards(turns: Sequence[Turn]) -> Table:
    """What a batch of the second half takes, by number of shards."""
    columns = []
    for turn in turns:
        late = [b for b in turn.batches if b.records and b.begin >= turn.rates.half_time - 0.01]
        cpu = turn.usage.cpu_between(turn.rates.half_time, turn.rates.end_time) / len(late)
        state, work = turn.report["state"], turn.report["work"]
        columns.append(
            {
                "seconds": spread([b.end - b.begin for b in late], ".2f"),
                "CPU-seconds": f"{cpu:.2f}",
                **{name: f"{count:.1f}" for name, count in work.items()},
                "state: reads, writes": f"{state['rocksdbGetCount']:,.0f}, {state['rocksdbPutCount']:,.0f}",
                "state: MB read, written": f"{state['rocksdbTotalBytesRead'] / 1e6:.2f}, "
                f"{state['rocksdbTotalBytesWritten'] / 1e6:.2f}",
                "checkpoint at the end, MB": f"{turn.state_bytes / 1e6:.1f}",
            }
        )
    rows = [[name, *(column[name] for column in columns)] for name in columns[0]]
    return Table(["per batch", *(turn.contender for turn in turns)], rows)


def _markdown(table: Table) -> str:
    lines = ["| " + " | ".join(table.heads) + " |", "|" + "---|" * len(table.heads)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in table.rows)])


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
