"""`make bench`: runs the workloads and prints Markdown tables.

`python bench/run.py [workload ...] [--turns N] [--sizes N] [--only WORKLOAD ...] [--slice]
[--quick] [--cpu]`; docs/performance.md keeps what was measured. Data, checkpoints and logs lie under .bench/.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bench"))

import report
from datasets import Shape, prepared
from turns import Turn, alternate, spark_turn
from workloads import WORKLOADS as ON_KAFKA
from workloads import a_day

WORK = ROOT / ".bench"
# Batches of a million records, the most that a batch from Kafka has by default.
MILLION = Shape(keys=1_000_000, fill=500_000, updates=12, rows=500_000)
# One group per key is so slow that it gets fewer updates, eleven minutes with the fill; or a slice: fewer keys, which
# is to its advantage.
FEW_UPDATES = Shape(keys=1_000_000, fill=500_000, updates=1, rows=250_000)
SLICE = Shape(keys=12_000, fill=12_000, updates=2, rows=12_000)
GROWTH = tuple(Shape(keys, fill=250_000, updates=10, rows=50_000) for keys in (100_000, 1_000_000, 10_000_000))
COUNTED = 8
"""Batches, from the end, whose time counts for growth: the first ones after a fill merge what it left."""


def table_table(options: argparse.Namespace) -> list[Turn]:
    """millpond's join of two updating tables beside one group per key."""
    shape = Shape(50_000, 25_000, 2, 25_000) if options.quick else MILLION
    part = Shape(2_000, 2_000, 2, 2_000) if options.quick else SLICE if options.slice else FEW_UPDATES
    contenders = [("per key", prepared(WORK, part)), ("millpond", prepared(WORK, shape))]
    turns = alternate(contenders, options.turns, WORK / "work")
    print(f"## table_table: {shape.keys:,} keys per side, one group per key: {part.keys:,}\n")
    print(report.side_by_side(turns, "millpond", "per key") + "\n")
    return [turn for each in turns.values() for turn in each]


def growth(options: argparse.Namespace) -> list[Turn]:
    """Batch time at a constant batch, state ten times as large from row to row."""
    shapes = [Shape(k, k, 4, 1_000) for k in (1_000, 10_000)] if options.quick else GROWTH[: options.sizes]
    rows = []
    for shape in shapes:
        turn = spark_turn("millpond", prepared(WORK, shape), WORK / "work" / "growth")
        rows.append((shape.keys, turn, min(COUNTED, shape.updates)))
        print(f"growth: {shape.keys:,} keys done", file=sys.stderr, flush=True)
    print(f"## growth: batches of {2 * shapes[0].rows:,} updates\n")
    print(report.growth(rows) + "\n")
    return [turn for _, turn, _ in rows]


def day(options: argparse.Namespace) -> list[Turn]:
    """A windowed join over a day of event time: how much state it keeps."""
    data = a_day(WORK, options.quick)
    turn = spark_turn("windows", data.folder, WORK / "work" / "day")
    print(f"## day: {data.shown}\n\n{report.kept(turn)}\n")
    return [turn]


def kafka(options: argparse.Namespace) -> list[Turn]:
    """Kafka to Kafka, exactly once: Kafka Streams without and with record cache, and millpond."""
    from kafka import KafkaBroker, Place, compiled, load, one_turn_each

    classes = compiled(WORK)
    everything = []
    for name in options.only or ON_KAFKA:
        workload = ON_KAFKA[name]
        data = workload.data(WORK, options.quick)
        found: dict[str, list[Turn]] = {}
        # a broker of its own for each workload, so that its disk holds one workload's topics
        with KafkaBroker() as broker:
            place = Place(broker, data, WORK)
            load(place)
            for number in range(options.turns):
                for turn in one_turn_each(place, name, number, classes):
                    found.setdefault(turn.contender, []).append(turn)
                print(f"kafka: turn {number + 1} of {name} done", file=sys.stderr, flush=True)
        print(f"## {name}, Kafka to Kafka: {data.shown}\n")
        print(found["millpond"][-1].report["agreed"] + "\n")
        for theirs in [contender for contender in found if contender != "millpond"]:
            print(report.side_by_side(found, "millpond", theirs) + "\n")
        everything += [turn for each in found.values() for turn in each]
    return everything


def exactly_once(options: argparse.Namespace) -> list[Turn]:
    """What exactly once costs: the join of two tables from Kafka to Kafka, beside at least once."""
    from kafka import LEAST, ONCE, KafkaBroker, Place, load, one_turn_of_each_delivery

    data = ON_KAFKA["table_table"].data(WORK, options.quick)
    turns: list[Turn] = []
    with KafkaBroker() as broker:
        place = Place(broker, data, WORK)
        load(place)
        for number in range(options.turns):
            turns += one_turn_of_each_delivery(place, number)
            print(f"exactly_once: turn {number + 1} of {options.turns} done", file=sys.stderr, flush=True)
    found = {who: [turn for turn in turns if turn.contender == who] for who in (ONCE, LEAST)}
    print(f"## exactly_once: table_table, Kafka to Kafka: {data.shown}\n")
    print(turns[-1].report["agreed"] + "\n")
    print(report.side_by_side(found, ONCE, LEAST) + "\n")
    return turns


WORKLOADS = {"table_table": table_table, "growth": growth, "day": day, "kafka": kafka, "exactly_once": exactly_once}


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workloads", nargs="*", choices=[[], *WORKLOADS], default=[])
    parser.add_argument("--turns", type=int, default=3, help="of each contender")
    parser.add_argument("--sizes", type=int, default=2, choices=(1, 2, 3), help="of growth: 3 is 10 million keys")
    parser.add_argument("--only", nargs="+", choices=[*ON_KAFKA], help="of kafka: these of its workloads")
    parser.add_argument("--slice", action="store_true", help="table_table: one group per key on 12 thousand keys alone")
    parser.add_argument("--quick", action="store_true", help="small data: whether it runs, not how fast")
    parser.add_argument("--cpu", action="store_true", help="where the CPU went, turn by turn")
    options = parser.parse_args()
    for name in options.workloads or WORKLOADS:
        turns = WORKLOADS[name](options)
        for turn in turns if options.cpu else ():
            print(f"### {turn.contender}\n\n{report.cpu(turn)}\n")
    print(report.machine())


if __name__ == "__main__":
    main()
