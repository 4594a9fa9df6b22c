"""What a failure looks like on paper: a seed line, the topology, and a golden table of records and results.

Owns the wording. Law: the text is enough to see the failure again without the machine it was found on.
"""

from __future__ import annotations

import json

from proof.histories.case import to_json
from proof.histories.check import Difference, Steps

HEADER = ("step", "input", "key", "value", "ts", "expected", "got")


def seed_line(seed: int, number: int, found: Difference, *, tables: bool = False) -> str:
    """One line that gives the failure again."""
    again = f"python -m proof.histories --seed {seed} --only {number}{' --tables' * tables}"
    return f"FAILED seed {seed} number {number}: {found.check}: {found.message}; again: {again}"


def page(found: Difference) -> str:
    """The failing case as a golden table, with the topology above and the case as data below."""
    case = found.case
    lines = ["```", *case.blueprint.lines(), "```", ""]
    lines.append(
        f"keys {case.blueprint.keys}, values {case.blueprint.values}, on_error {case.blueprint.on_error}, "
        f"generation {case.blueprint.generation}, {case.shards} shards, "
        f"batches begin at {[0, *case.cuts]}{', each replayed' if case.replay else ''}"
    )
    if case.partitioned:
        lines.append(f"of partitions {[record.partition for record in case.records]}, merged by time")
    if case.rescaled:
        lines.append(f"behind batches the state is divided over, by turns, {case.rescaled} shards; 0: as it is")
    if case.clock and case.idle_after:
        shown = ", ".join(f"{wall} ms behind {place} records" for place, wall in case.clock)
        lines.append(f"the wall clock shows {shown}; the input rests after {case.idle_after} ms")
    lines += ["", _row(HEADER), _row(("---",) * len(HEADER))]
    for step, record in enumerate(case.records):
        cells = (str(step), record.source, _text(record.key), _text(record.value), str(record.ts))
        lines.append(_row((*cells, _results(found.expected, step), _results(found.got, step))))
    return "\n".join([*lines, "", json.dumps(to_json(case))])


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _results(steps: Steps | None, step: int) -> str:
    if steps is None:
        return "?"
    return "; ".join(f"{r.sink}: {_text(r.key)} = {_text(r.value)} @{r.ts}" for r in steps[step]) or "-"


def _text(value: object) -> str:
    if value is None:
        return "null"
    return value if isinstance(value, str) and value.isprintable() and value else repr(value)
