"""The tables of a run: who was killed when, and what was wrong afterwards.

docs/faults.md holds what came out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from chaos.joins import JOINS
from chaos.round import Outcome
from chaos.strikes import ON_EXECUTORS, STRIKES, WRITERS

_SUMS = ("batches", "records", "results", "lost", "doubled", "wrong", "out_of_order")


def tables(outcomes: Sequence[Outcome]) -> str:
    """All tables in Markdown, and what differed."""
    parts = [by_join(outcomes), by_writers(outcomes), by_moment(outcomes)]
    differing = [outcome for outcome in outcomes if not outcome.verdict.sound]
    if differing:
        parts.append("\n".join(["Differences:", "", *map(_difference, differing)]))
    return "\n\n".join(parts) + "\n"


def by_join(outcomes: Sequence[Outcome]) -> str:
    """One row for each join."""
    return _sums("join", {name: [o for o in outcomes if name in ("all", o.round.join)] for name in [*JOINS, "all"]})


def by_writers(outcomes: Sequence[Outcome]) -> str:
    """One row for each way of writing the output."""
    return _sums("writers", {name: [o for o in outcomes if name == o.round.writers] for name in WRITERS})


def _sums(title: str, groups: Mapping[str, Sequence[Outcome]]) -> str:
    lines = [
        f"| {title} | rounds | kills | query failures | batches | records in | results | lost | doubled | wrong "
        "| out of order |",
        "|---" * 11 + "|",
    ]
    for name, some in groups.items():
        if not some:
            continue
        row = [len(some), sum(len(o.met) for o in some), sum(len(o.failures) for o in some)]
        row += [sum(_figure(o, what) for o in some) for what in _SUMS]
        lines.append(f"| {name} | " + " | ".join(f"{figure:,}" for figure in row) + " |")
    return "\n".join(lines)


def by_moment(outcomes: Sequence[Outcome]) -> str:
    """One row for each victim and moment: kills per join, and what was wrong in the batches that they met."""
    names = [name for name in JOINS if any(o.round.join == name for o in outcomes)]
    kills = Counter((strike, o.round.join) for o in outcomes for strike, _ in o.met)
    blamed = Counter(strike for o in outcomes for strike in blame(o))
    lines = [f"| killed | moment | {' | '.join(names)} | all | differences |", "|---" * (len(names) + 4) + "|"]
    for strike in dict.fromkeys((*STRIKES, *ON_EXECUTORS)):
        row = [kills[(strike, name)] for name in names]
        if sum(row):
            shown = " | ".join(map(str, [*row, sum(row), blamed[strike]]))
            lines.append(f"| {strike.victim} | {strike.moment.replace('_', ' ')} | {shown} |")
    return "\n".join(lines)


def blame(outcome: Outcome) -> list[object]:
    """For each batch with a difference, the last strike before it or in it."""
    found: list[object] = []
    for batch in outcome.verdict.batches:
        before = [strike for strike, met in outcome.met if met <= batch]
        found += before[-1:] or [strike for strike, _ in outcome.met[:1]]
    return found


def _figure(outcome: Outcome, what: str) -> int:
    return int(getattr(outcome if hasattr(outcome, what) else outcome.verdict, what))


def _difference(outcome: Outcome) -> str:
    given = outcome.round
    shown = "\n".join(f"  {line}" for line in outcome.verdict.details)
    return f"* seed {given.seed}, round {given.number}, {given.join}: {outcome.verdict!r}\n{shown}"
