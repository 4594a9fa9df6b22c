"""The text of a conformance report: a line per kind, a golden table per difference.

Owns the wording and nothing else. Law: everything that was read is counted somewhere in it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from proof.conformance_compare import Verdict
from proof.oracle.records import Result, Windowed

HEADER = ("step", "topic", "key", "value", "ts", "expected", "got")


@dataclass(slots=True)
class KindSummary:
    """What is known about the histories of one kind and version.

    Attributes
    ----------
    unsupported : those that are not to be run, by reason.
    failed : those that could not be set up, or on which the runner broke, by reason.
    """

    kind: str
    version: str
    equal: int = 0
    rows: Counter[frozenset[int]] = field(default_factory=Counter)
    unsupported: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    unexplained: list[Verdict] = field(default_factory=list)

    def add(self, verdict: Verdict) -> None:
        """Count one compared history."""
        if verdict.equal:
            self.equal += 1
        elif verdict.explained:
            self.rows[verdict.rows] += 1
        else:
            self.unexplained.append(verdict)

    def line(self) -> str:
        """One line for the report."""
        skipped = self.unsupported.total() + self.failed.total()
        compared = self.equal + self.rows.total() + len(self.unexplained)
        parts = [f"{self.kind} {self.version}: {compared + skipped} histories", f"{self.equal} exactly equal"]
        explained = f"{self.rows.total()} equal after rows of section A"
        if self.rows:
            explained += f" ({', '.join(_counts(Counter({_names(rows): n for rows, n in self.rows.items()})))})"
        parts += [explained, f"{len(self.unexplained)} unexplained"]
        if skipped:
            failed = [f"NOT SET UP, {counted}" for counted in _counts(self.failed)]
            parts.append(f"{skipped} not run ({'; '.join([*_counts(self.unsupported), *failed])})")
        return ", ".join(parts)


def _counts(counter: Counter[str]) -> list[str]:
    """Each text with its count, the most frequent first: the same whatever order the histories were run in."""
    return [f"{text}: {count}" for text, count in sorted(counter.items(), key=lambda item: (-item[1], item[0]))]


def _names(rows: Iterable[int]) -> str:
    ordered = sorted(rows)
    return ("row " if len(ordered) == 1 else "rows ") + "+".join(str(row) for row in ordered)


def row_totals(summaries: Iterable[KindSummary]) -> Counter[int]:
    """How many histories each row takes part in explaining."""
    totals: Counter[int] = Counter()
    for summary in summaries:
        for rows, count in summary.rows.items():
            for row in rows:
                totals[row] += count
    return totals


def golden_table(verdict: Verdict) -> str:
    """The shortest prefix of a history that shows its difference, as a Markdown table."""
    history = verdict.history
    last = verdict.differs_at if verdict.differs_at is not None else len(history.steps) - 1
    lines = [
        f"### {history.id} ({history.kind}, {history.version})",
        f"params: {json.dumps(dict(history.params))}",
        "",
    ]
    lines += [_row(HEADER), _row(["---"] * len(HEADER))]
    for number, step in enumerate(history.steps[: last + 1]):
        got = verdict.output[number] if number < len(verdict.output) else ()
        topic = step.topic if step.advance_ms is None else f"(wall clock +{step.advance_ms})"
        cells = [str(number), str(topic), _text(step.key), _text(step.value), str(step.ts)]
        lines.append(_row([*cells, _results(step.expect), _results(got)]))
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _results(results: Sequence[Result] | None) -> str:
    if results is None:
        return "(fails)"
    return "; ".join(f"({_text(result.key)}, {_text(result.value)}, {result.ts})" for result in results) or "-"


def _text(value: object) -> str:
    if isinstance(value, Windowed):
        return f"{_text(value.key)}@{value.start}/{value.end}"
    if value is None:
        return "null"
    return value if isinstance(value, str) and value.isprintable() and value else repr(value)
