"""Runs many seeds: `python -m simulation --count 100000`; one of them, with its steps: `--only 17`."""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from simulation.driver import Defect
from simulation.runs import Run

SHOWN = 5


def main() -> int:
    """Run them; 1 where one is wrong."""
    parser = argparse.ArgumentParser(prog="simulation", description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--only", type=int, help="this one alone, with its steps")
    parser.add_argument("--defect", action="append", default=[], choices=[each.name for each in Defect])
    options = parser.parse_args()
    defects = [Defect[name] for name in options.defect]
    if options.only is not None:
        run = Run(options.only, defects)
        verdict = run.judged()
        print(*run.schedule.trace, sep="\n")
        for turn in run.schedule.turns:
            print(f"{turn.name} ended with {turn.failure!r}")
        print(verdict.outcome)
        return 0 if verdict.is_right else 1
    outcomes: Counter[str] = Counter()
    wrong = []
    for seed in range(options.seed, options.seed + options.count):
        verdict = Run(seed, defects).judged()
        outcomes[verdict.outcome] += 1
        if not verdict.is_right:
            wrong.append(seed)
    for outcome, count in outcomes.most_common():
        print(f"{count:>8} {outcome}")
    if wrong:
        print(f"wrong: {len(wrong)}; the first seeds: {', '.join(map(str, wrong[:SHOWN]))}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
