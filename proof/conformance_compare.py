"""Compares what a runner emitted with a recording, and explains differences by rows of section A.

Owns what counts as equal and what counts as explained. Law: a difference is explained only when the
faithful oracle gives the recording AND the oracle with the named rows repaired gives the runner's output;
the set of rows named is the smallest one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from proof.conformance_runners import Output, run_oracle
from proof.oracle.records import Result
from proof.oracle.semantics import Semantics
from proof.oracle.vectors.untold import NotBuildableError
from proof.recordings import History

EXHAUSTIVE_ROWS = 8


@dataclass(frozen=True, slots=True)
class Verdict:
    """How one history compares: the first step that differs, and the rows that explain it."""

    history: History
    output: Output
    differs_at: int | None = None
    rows: frozenset[int] = frozenset()

    @property
    def equal(self) -> bool:
        """Exactly the recording."""
        return self.differs_at is None

    @property
    def explained(self) -> bool:
        """Different, for named reasons."""
        return not self.equal and bool(self.rows)


def same(expected: Sequence[Result] | None, got: Sequence[Result] | None) -> bool:
    """Equal results in equal order; a timestamp or a sink that was not recorded is not compared."""
    if expected is None or got is None:
        return expected is None and got is None
    return len(expected) == len(got) and all(_same(one, other) for one, other in zip(expected, got, strict=True))


def _same(expected: Result, got: Result) -> bool:
    return (
        expected.key == got.key
        and type(expected.value) is type(got.value)
        and expected.value == got.value
        and (expected.ts is None or expected.ts == got.ts)
        and (expected.sink is None or expected.sink == got.sink)
    )


def first_difference(expected: Output, got: Output) -> int | None:
    """The first step whose results differ."""
    if len(expected) != len(got):
        return min(len(expected), len(got))
    for step, (one, other) in enumerate(zip(expected, got, strict=True)):
        if not same(one, other):
            return step
    return None


def judge(history: History, output: Output) -> Verdict:
    """Compare one history's output with its recording."""
    at = first_difference([step.expect for step in history.steps], output)
    if at is None:
        return Verdict(history, output)
    try:
        return Verdict(history, output, at, explain(history, output))
    except NotBuildableError:  # the oracle cannot say why
        return Verdict(history, output, at)


def explain(history: History, output: Output) -> frozenset[int]:
    """The smallest set of rows whose repair turns the faithful oracle's output into this one, if any."""
    faithful = Semantics(history.version)
    if first_difference([step.expect for step in history.steps], _oracle_output(history, faithful)) is not None:
        return frozenset()
    repaired = Semantics(history.version, faithful=False)
    run_oracle(history, repaired)
    rows = sorted(faithful.asked | repaired.asked)
    for size in range(1, len(rows) + 1):
        if len(rows) > EXHAUSTIVE_ROWS and 3 < size < len(rows):
            continue
        for chosen in combinations(rows, size):
            semantics = Semantics(history.version, rows=frozenset(chosen))
            if first_difference(_oracle_output(history, semantics), output) is None:
                return frozenset(chosen)
    return frozenset()


def new_value(result: Result) -> Result:
    """A result without its old value, where a test observed whole changes."""
    return replace(result, value=result.value[0][1]) if _is_whole(result) else result


def _is_whole(result: Result) -> bool:
    value = result.value
    return isinstance(value, tuple) and len(value) == 2 and value[0][0] == "new"


def _oracle_output(history: History, semantics: Semantics) -> Output:
    """What the oracle gives; by new values, where the history has been reduced to these."""
    output = run_oracle(history, semantics)
    if any(_is_whole(result) for step in history.steps for result in step.expect or ()):
        return output
    return [None if results is None else list(map(new_value, results)) for results in output]
