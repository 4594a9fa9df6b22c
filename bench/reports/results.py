"""What the benchmarks found, as a file: tables and picture of the documentation are made from the same figures."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from bench.measuring.turns import Turn

OURS, OURS_CACHED, OURS_PLAIN = "watersmeet", "watersmeet, record cache", "watersmeet, plain"
STREAMS, STREAMS_CACHED = "Kafka Streams", "Kafka Streams, cache"
SPARK = "Spark, update mode, at least once"
LATE, LATE_PER_CPU = "records/s, second half", "records per CPU-second, second half"
BROKER = "the broker's CPU-seconds, second half"
FROM_START, MEMORY = "records/s, from the process's start", "peak memory, MB"
FIGURES: dict[str, Callable[[Turn], float]] = {
    FROM_START: lambda t: t.from_start,
    "records/s, whole run": lambda t: t.rates.whole,
    LATE: lambda t: t.rates.second_half,
    "records per CPU-second, whole run": lambda t: t.per_cpu_second,
    LATE_PER_CPU: lambda t: t.per_cpu_second_late,
    "CPU-seconds": lambda t: t.usage.cpu_seconds,
    MEMORY: lambda t: t.usage.peak_bytes / 1e6,
    "checkpoint, MB": lambda t: t.state_bytes / 1e6,
}
OF_BROKER: dict[str, Callable[[Turn], float]] = {
    BROKER: lambda t: t.broker_seconds_late,
    f"{LATE_PER_CPU}, the broker's with them": lambda t: t.per_cpu_second_with_broker,
}
"""Figures of turns from Kafka to Kafka."""
RATED = [name for name in (*FIGURES, *OF_BROKER) if name.startswith("records")]
"""Figures that are better when larger, so that a ratio says something."""


@dataclass(frozen=True)
class Run:
    """One turn of a contender: its records, its figures, and CPU-seconds per million records by part."""

    records: int
    figures: Mapping[str, float]
    parts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Table:
    """A table as it is to be read."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Section:
    """What one workload gave.

    Parameters
    ----------
    name, title : of the workload.
    runs : turns of each contender.
    notes : sentences.
    tables : what is no comparison of contenders.
    """

    name: str
    title: str
    runs: Mapping[str, Sequence[Run]] = field(default_factory=dict)
    notes: Sequence[str] = ()
    tables: Sequence[Table] = ()


def pairs(runs: Mapping[str, Sequence[Run]]) -> list[tuple[str, str]]:
    """(ours, theirs) of all that is to be compared, where watersmeet is among the contenders.

    The plain workload of the same shape is beside watersmeet alone: both write each change.
    """
    ours = [who for who in (OURS, OURS_CACHED) if who in runs and OURS in runs]
    found = [(one, other) for one in ours for other in runs if other not in ours]
    return [(one, other) for one, other in found if one == OURS or other != OURS_PLAIN]


def better(runs: Mapping[str, Sequence[Run]]) -> str | None:
    """Kafka Streams without or with its cache, whichever has the better median in the second half; None: neither."""
    both = [who for who in (STREAMS, STREAMS_CACHED) if runs.get(who)]
    return max(both, key=lambda who: median(run.figures[LATE] for run in runs[who]), default=None)


def runs_of(turns: Iterable[Turn]) -> dict[str, list[Run]]:
    """Turns by contender."""
    found: dict[str, list[Run]] = {}
    for turn in turns:
        wanted = FIGURES if turn.broker is None else FIGURES | OF_BROKER
        figures = {name: figure(turn) for name, figure in wanted.items()}
        parts = {name: seconds / turn.rates.half_records * 1e6 for name, seconds in turn.parts.items()}
        found.setdefault(turn.contender, []).append(Run(turn.rates.records, figures, parts))
    return found


def save(file: Path, machine: str, sections: Sequence[Section]) -> None:
    """Write the results of one invocation."""
    given = {"machine": machine, "sections": [asdict(section) for section in sections]}
    file.write_text(json.dumps(given, indent=1) + "\n")


def load(files: Iterable[Path]) -> tuple[list[str], list[Section]]:
    """The machines and results of several invocations; turns of one workload are put together.

    Raises
    ------
    ValueError : a file holds something else.
    """
    machines: dict[str, None] = {}
    found: dict[str, Section] = {}
    for file in files:
        try:
            given = json.loads(file.read_text())
            machines[given["machine"]] = None
            sections = [_section(each) for each in given["sections"]]
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{file} does not hold results of bench/run.py --json: {error!r}") from error
        for section in sections:
            before = found.get(section.name)
            found[section.name] = section if before is None else _together(before, section)
    return list(machines), list(found.values())


def _section(given: dict[str, Any]) -> Section:
    runs = {who: [Run(**run) for run in each] for who, each in given.pop("runs").items()}
    return Section(**{**given, "runs": runs, "tables": [Table(**table) for table in given["tables"]]})


def _together(one: Section, other: Section) -> Section:
    names = dict.fromkeys([*one.runs, *other.runs])
    runs = {name: [*one.runs.get(name, ()), *other.runs.get(name, ())] for name in names}
    notes = list(dict.fromkeys([*one.notes, *other.notes]))
    return Section(one.name, one.title, runs, notes, [*one.tables, *other.tables])
