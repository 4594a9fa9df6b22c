"""Two checkouts of watersmeet side by side: the same data from Kafka to Kafka, by turns, in one run.

`python bench/beside.py OTHER [--only table_table foreign_key] [--turns 2] [--quick]`: OTHER is a checkout of another
commit, with a `.venv` and `.jars` (links to those of this one do). Who is first changes from turn to turn.
`--only trickle1 trickle3`: a trickle through so many levels (`latency`), `--seconds` long, and what its records wait.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
if not __package__:  # run by its path: the repository's root is then not on the module path
    sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from bench.kafka import latency
from bench.kafka.contenders import placed, watersmeet_turn
from bench.workloads.every import EVERY
from dev.broker import KafkaBroker

WORK = ROOT / ".bench"
TRICKLES = {f"trickle{levels}": levels for levels in (1, 2, 3)}


def compared(workload: str, other: Path, turns: int, *, quick: bool) -> float:
    """Prints each turn; the ratio of the medians of the second halves, this checkout to the other."""
    rates: dict[Path, list[float]] = defaultdict(list)
    data = EVERY[workload].data(WORK, quick)
    with KafkaBroker() as broker:
        place = placed(broker, workload, data, WORK)
        for number in range(turns):
            for root in (other, ROOT) if number % 2 == 0 else (ROOT, other):
                who = "this" if root == ROOT else "other"
                turn = watersmeet_turn(place, workload, f"{workload}-{who}-{number}".replace("_", "-"), root=root)
                rates[root].append(turn.rates.second_half)
                peak = turn.usage.peak_bytes / 1e9
                parts = ", ".join(f"{part} {size / 1e9:.2f}" for part, size in sorted(turn.usage.at_peak.items()))
                cpu = turn.usage.cpu_seconds
                shown = f"{turn.rates.second_half:,.0f} records/s, {cpu:.0f} CPU-s, {peak:.2f} GB ({parts})"
                print(f"{workload} {who} {number}: {shown}", flush=True)
    return median(rates[ROOT]) / median(rates[other])


def waited(levels: int, other: Path, turns: int, seconds: float) -> tuple[float, float]:
    """Prints each turn; ratios of the medians of what a record waits and a batch takes, this checkout to the other."""
    found: dict[Path, list[tuple[float, float]]] = defaultdict(list)
    for number in range(turns):
        for root in (other, ROOT) if number % 2 == 0 else (ROOT, other):
            trickle = latency.measured(levels, seconds, WORK / "work" / "beside", root=root)
            found[root].append(latency.medians(trickle))
            wait, batch = found[root][-1]
            who = "this" if root == ROOT else "other"
            cpu = trickle.turn.usage.cpu_seconds
            print(f"trickle{levels} {who} {number}: {wait:.2f} s, batch {batch:.2f} s, {cpu:.0f} CPU-s", flush=True)
    ours, theirs = (list(zip(*found[root], strict=True)) for root in (ROOT, other))
    return median(ours[0]) / median(theirs[0]), median(ours[1]) / median(theirs[1])


def main() -> None:
    """Compare, a workload at a time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path)
    choices = [*sorted(EVERY), *TRICKLES]
    parser.add_argument("--only", nargs="+", choices=choices, default=["table_table", "foreign_key"])
    parser.add_argument("--seconds", type=float, default=40, help="of a trickle: how long to send")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="small data: whether it runs, not how fast")
    options = parser.parse_args()
    for workload in options.only:
        if workload in TRICKLES:
            wait, batch = waited(TRICKLES[workload], options.other.resolve(), options.turns, options.seconds)
            print(f"{workload}: records wait {wait:.2f} of the other, a batch takes {batch:.2f}", flush=True)
            continue
        ratio = compared(workload, options.other.resolve(), options.turns, quick=options.quick)
        print(f"{workload}: {ratio:.2f} of the other", flush=True)


if __name__ == "__main__":
    main()
