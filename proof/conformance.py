"""`python -m proof.conformance [--runner NAME] FILE...`: a runner against Kafka's recordings.

Owns the command and its exit status: 0 when every history is equal, explained by rows of section A, or not to be
run for a reason that is known; 1 when anything is unexplained; 2 when a file or a runner cannot be read; 3 when a
history could not be set up, or a runner broke on it. Law: what is not run is listed with its reason, never counted
as equal.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence

from proof.conformance_compare import judge
from proof.conformance_report import KindSummary, golden_table, row_totals
from proof.conformance_runners import RUNNERS, Output, Runner, RunnerMissingError, load
from proof.oracle.semantics import ROWS
from proof.oracle.vectors.untold import IncompleteVectorError
from proof.recordings import History, RecordingError, read, topology_key

BATCH = 500


def measure(runner: Runner, histories: Iterable[History]) -> list[KindSummary]:
    """Run and compare histories, one summary per kind and version; one that cannot be run stops no other."""
    summaries: dict[tuple[str, str], KindSummary] = {}
    runnable: list[History] = []
    for history in histories:
        place = (history.kind, history.version)
        summary = summaries.setdefault(place, KindSummary(*place))
        try:
            reason = runner.supports(history)
        except Exception as error:
            summary.failed[_said(error)] += 1
            continue
        if reason is None:
            runnable.append(runner.observed(history))
        else:
            summary.unsupported[reason] += 1
    # A runner for which a run of a topology is dear, whatever goes through it, gets all histories of one at a time.
    runnable.sort(key=topology_key)
    for start in range(0, len(runnable), BATCH):
        print(f"{start} of {len(runnable)} histories", file=sys.stderr, flush=True)
        for history, output in _run(runner, runnable[start : start + BATCH]):
            summary = summaries[history.kind, history.version]
            if isinstance(output, str):
                summary.failed[output] += 1
            else:
                summary.add(judge(history, output))
    return list(summaries.values())


def _run(runner: Runner, batch: Sequence[History]) -> list[tuple[History, Output | str]]:
    """Each history with its output, or with what the runner broke on; searched by halves, since runs may be dear."""
    try:
        return list(zip(batch, runner.run_many(batch), strict=True))
    except Exception as error:
        if len(batch) == 1:
            return [(batch[0], _said(error))]
        half = len(batch) // 2
        return _run(runner, batch[:half]) + _run(runner, batch[half:])


def _said(error: Exception) -> str:
    if isinstance(error, IncompleteVectorError):
        return str(error)
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"


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
    parser = argparse.ArgumentParser(prog="python -m proof.conformance", description=__doc__)
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
    if any(summary.unexplained for summary in summaries):
        return 1
    return 3 if any(summary.failed for summary in summaries) else 0


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
