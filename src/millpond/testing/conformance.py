"""`python -m millpond.testing.conformance [--runner NAME] FILE...`: a runner against Kafka's recordings.

Owns the command and its exit status: 0 when every history is equal or explained by rows of section A, 1
when anything is unexplained, 2 when a file or a runner cannot be read. Law: what a runner cannot run is
listed, never counted as equal. Called from the command line and by tests.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence

from millpond.testing.conformance_compare import judge
from millpond.testing.conformance_report import KindSummary, golden_table, row_totals
from millpond.testing.conformance_runners import RUNNERS, Runner, RunnerMissingError, load
from millpond.testing.oracle.semantics import ROWS
from millpond.testing.recordings import History, RecordingError, read

BATCH = 500


def measure(runner: Runner, histories: Iterable[History]) -> list[KindSummary]:
    """Run and compare histories, one summary per kind and version."""
    summaries: dict[tuple[str, str], KindSummary] = {}
    runnable: list[History] = []
    for history in histories:
        place = (history.kind, history.version)
        summary = summaries.setdefault(place, KindSummary(*place))
        reason = runner.supports(history)
        if reason is None:
            runnable.append(runner.observed(history))
        else:
            summary.unsupported[reason] += 1
    for start in range(0, len(runnable), BATCH):
        batch = runnable[start : start + BATCH]
        for history, output in zip(batch, runner.run_many(batch), strict=True):
            summaries[history.kind, history.version].add(judge(history, output))
    return list(summaries.values())


def _read_all(paths: Sequence[str]) -> tuple[list[History], int]:
    histories: list[History] = []
    unreadable = 0
    for path in paths:
        try:
            histories += read(path)
        except RecordingError as error:
            unreadable += 1
            print(f"error: {error}", file=sys.stderr)
    return histories, unreadable


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m millpond.testing.conformance", description=__doc__)
    parser.add_argument("--runner", default="oracle", choices=list(RUNNERS))
    parser.add_argument("--show", type=int, default=3, help="unexplained differences printed per kind")
    parser.add_argument("files", nargs="+", metavar="FILE")
    options = parser.parse_args(arguments)
    try:
        runner = load(options.runner)
    except RunnerMissingError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    histories, unreadable = _read_all(options.files)
    summaries = measure(runner, histories)
    _print(summaries, options.show)
    if unreadable:
        return 2
    return 1 if any(summary.unexplained for summary in summaries) else 0


def _print(summaries: Sequence[KindSummary], show: int) -> None:
    for summary in summaries:
        print(summary.line())
    for row, count in sorted(row_totals(summaries).items()):
        print(f"  row {row} ({ROWS[row]}): {count}")
    for summary in summaries:
        for verdict in summary.unexplained[:show]:
            print(f"\n{golden_table(verdict)}")


if __name__ == "__main__":
    raise SystemExit(main())
