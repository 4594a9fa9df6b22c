"""`make bench`: runs the workloads and prints Markdown tables.

`python bench/run.py [workload ...] [options]`, see `--help`; docs/performance.md keeps what was measured.
`python bench/run.py --of FILE ... [--picture FILE]` prints, and draws, what earlier runs have kept with `--json`.
Data, checkpoints and logs lie under .bench/.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from bench.measuring.turns import Turn, alternate, spark_turn
from bench.reports import picture, report
from bench.reports.results import OURS, Section, load, runs_of, save
from bench.workloads import nested as rows
from bench.workloads.datasets import Shape, prepared
from bench.workloads.every import EVERY, MANY_SHARDS, SHARDS, a_day, few_records, records_of_many_shards
from bench.workloads.every import WORKLOADS as ON_KAFKA

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


def table_table(options: argparse.Namespace) -> Iterator[Section]:
    """watersmeet's join of two updating tables beside one group per key."""
    shape = Shape(50_000, 25_000, 2, 25_000) if options.quick else MILLION
    part = Shape(2_000, 2_000, 2, 2_000) if options.quick else SLICE if options.slice else FEW_UPDATES
    contenders = [("per key", prepared(WORK, part)), (OURS, prepared(WORK, shape))]
    turns = alternate(contenders, options.turns, WORK / "work", profile=options.profile)
    title = f"table_table: {shape.keys:,} keys per side, one group per key: {part.keys:,}"
    yield Section("table_table", title, runs_of(turn for each in turns.values() for turn in each))


def growth(options: argparse.Namespace) -> Iterator[Section]:
    """Batch time at a constant batch, state ten times as large from row to row."""
    shapes = [Shape(k, k, 4, 1_000) for k in (1_000, 10_000)] if options.quick else GROWTH[: options.sizes]
    rows: list[tuple[int, Turn, int]] = []
    for shape in shapes:
        turn = spark_turn(OURS, prepared(WORK, shape), WORK / "work" / "growth", profile=options.profile)
        rows.append((shape.keys, turn, min(COUNTED, shape.updates)))
        print(f"growth: {shape.keys:,} keys done", file=sys.stderr, flush=True)
    title = f"growth: batches of {2 * shapes[0].rows:,} updates"
    yield Section("growth", title, runs_of(turn for _, turn, _ in rows), tables=[report.growth(rows)])


def day(options: argparse.Namespace) -> Iterator[Section]:
    """A windowed join over a day of event time: how much state it keeps."""
    data = a_day(WORK, options.quick)
    turn = spark_turn("windows", data.folder, WORK / "work" / "day", profile=options.profile)
    yield Section("day", f"day: {data.shown}", {OURS: runs_of([turn])["windows"]}, tables=[report.state_table(turn)])


def kafka(options: argparse.Namespace) -> Iterator[Section]:
    """Kafka to Kafka, exactly once: Kafka Streams without and (one turn) with record cache, and watersmeet."""
    from bench.kafka.contenders import compiled, notes_of

    classes = compiled(WORK)
    for name in options.only or ON_KAFKA:
        title = f"{name}, Kafka to Kafka: {ON_KAFKA[name].data(WORK, options.quick).shown}"
        turns: list[Turn] = []
        failed = []
        try:
            turns.extend(_rounds(options, name, classes))
        except RuntimeError as failure:
            # the workloads behind it are measured all the same
            failed = [f"**Failed**: {failure}"]
        yield Section(f"kafka {name}", title, runs_of(turns), [*failed, *notes_of(turns)])


def _rounds(options: argparse.Namespace, name: str, classes: Path) -> Iterator[Turn]:
    """Turns of a workload on Kafka, round after round, each told of on stderr."""
    from bench.kafka.contenders import one_turn_each, placed
    from dev.broker import KafkaBroker

    begin, beside = time.monotonic(), ON_KAFKA[name].plain
    # a broker of its own for each workload, so that its disk holds one workload's topics
    with KafkaBroker() as broker:
        place = placed(broker, name, ON_KAFKA[name].data(WORK, options.quick), WORK)
        plain = placed(broker, beside, EVERY[beside].data(WORK, options.quick), WORK) if beside else None
        for done in range(options.turns):
            since, number = time.monotonic(), options.first - 1 + done
            if done and since - begin > 60 * options.minutes:
                print(f"kafka: {done} turns of {name}, there is no time for more", file=sys.stderr, flush=True)
                return
            for turn in one_turn_each(place, name, number, classes, plain, profile=options.profile):
                shown = f"second half {turn.rates.second_half:,.0f}/s, {turn.per_cpu_second_late:,.0f} per CPU-second"
                shown += f", the broker {turn.broker_seconds_late:.1f} CPU-seconds"
                took = f"{time.monotonic() - since:.0f} s with what is read back"
                print(f"{name}, turn {number + 1}, {turn.contender}: {shown} ({took})", file=sys.stderr, flush=True)
                yield turn
                since = time.monotonic()


def exactly_once(options: argparse.Namespace) -> Iterator[Section]:
    """What exactly once costs: the join of two tables from Kafka to Kafka, beside at least once."""
    from bench.kafka.contenders import one_turn_of_each_delivery, placed
    from dev.broker import KafkaBroker

    data = ON_KAFKA["table_table"].data(WORK, options.quick)
    turns: list[Turn] = []
    with KafkaBroker() as broker:
        place = placed(broker, "table_table", data, WORK)
        for number in range(options.turns):
            turns += one_turn_of_each_delivery(place, number, profile=options.profile)
            print(f"exactly_once: turn {number + 1} of {options.turns} done", file=sys.stderr, flush=True)
    title = f"exactly_once: table_table, Kafka to Kafka: {data.shown}"
    yield Section("exactly_once", title, runs_of(turns), [turns[-1].report["agreed"]])


def latency(options: argparse.Namespace) -> Iterator[Section]:
    """A trickle through one, two and three levels: how long a record takes, and what a batch costs."""
    from bench.kafka import latency as bench

    seconds = min(15, options.seconds) if options.quick else options.seconds
    for folder in options.folders:
        work = folder / "watersmeet-latency"
        trickles = [bench.measured(levels, seconds, work, profile=options.profile) for levels in (1, 2, 3)]
        tables = [bench.table(trickles), *([bench.parts(trickles)] if options.profile else [])]
        title = f"latency: {bench.RATE} records a second, checkpoint in {folder}"
        yield Section(f"latency {folder}", title, tables=tables)


def trickle(options: argparse.Namespace) -> Iterator[Section]:
    """Small traffic: CPU, waits, start and memory at some rates, beside Kafka Streams and plain Spark."""
    from bench.kafka import latency as bench
    from bench.kafka.contenders import compiled

    seconds, classes, costs = min(40, options.seconds), compiled(WORK), []
    for rate in bench.RATES[1:2] if options.quick else bench.RATES:
        for contender in bench.CONTENDERS:
            levels = 1 if contender == "spark" else 3
            costs.append(bench.cost(contender, levels, rate, seconds, WORK / "work" / "trickle", classes))
            print(f"trickle: {costs[-1]}", file=sys.stderr, flush=True)
    if options.picture:
        options.picture.write_text(picture.trickle_drawn([(c.contender, c.rate, c.cpu) for c in costs]))
        options.picture = None
    yield Section("trickle", "trickle: small traffic", tables=[bench.cost_table(costs)])


def shards(options: argparse.Namespace) -> Iterator[Section]:
    """The same few records over ever more shards: what a shard costs when hardly anything is in it."""
    for made, counts in ((few_records, SHARDS), (records_of_many_shards, MANY_SHARDS)):
        data, turns = made(WORK), []
        for count in counts[:1] if options.quick else counts:
            turns.append(spark_turn(f"shards {count}", data.folder, WORK / "work" / "shards", profile=options.profile))
            print(f"shards: {count} done", file=sys.stderr, flush=True)
        yield Section(f"shards {counts[-1]}", f"shards: {data.shown}", runs_of(turns), tables=[report.shards(turns)])


def nested(options: argparse.Namespace) -> Iterator[Section]:
    """Orders with line items, joined by foreign key three times: rows of many fields and lists."""
    size = rows.Size(2_500, 400, 100, 20, 4) if options.quick else rows.Size()
    turn = spark_turn("nested", rows.prepared(WORK, size), WORK / "work" / "nested", profile=options.profile)
    title = f"nested: {size.orders:,} orders, {rows.HOT:,} of them one customer's"
    yield Section("nested", title, {OURS: runs_of([turn])["nested"]})


WORKLOADS: dict[str, Callable[[argparse.Namespace], Iterator[Section]]] = {
    "table_table": table_table,
    "growth": growth,
    "day": day,
    "kafka": kafka,
    "exactly_once": exactly_once,
    "latency": latency,
    "trickle": trickle,
    "shards": shards,
    "nested": nested,
}


def main() -> None:
    """Run what was asked for, or show what earlier runs have kept."""
    options = _options()
    if options.of:
        machines, sections = load(options.of)
        for section in sections:
            print(report.section_text(section))
        print(report.summary(sections), *machines, sep="\n")
    else:
        sections = _run(options)
    if options.picture:
        options.picture.write_text(picture.drawn(sections))
    if any(note.startswith("**Failed**") for section in sections for note in section.notes):
        sys.exit(1)


def _run(options: argparse.Namespace) -> list[Section]:
    sections = []
    for name in options.workloads or WORKLOADS:
        for section in WORKLOADS[name](options):
            print(report.section_text(section), flush=True)
            sections.append(section)
            if options.json:
                # each time, so that what is done is kept whatever comes behind it
                save(options.json, report.machine(), sections)
    print(report.summary(sections), report.machine(), sep="\n")
    return sections


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*", choices=[[], *WORKLOADS], default=[])
    parser.add_argument("--turns", type=int, default=3, help="of each contender")
    parser.add_argument("--sizes", type=int, default=2, choices=(1, 2, 3), help="of growth: 3 is 10 million keys")
    parser.add_argument(
        "--first", type=int, default=1, help="of kafka: what the first turn counts as; after 1 the main ones alone run"
    )
    parser.add_argument("--only", type=some_of_kafka, help=f"of kafka, with commas: {', '.join(ON_KAFKA)}")
    parser.add_argument("--minutes", type=float, default=60, help="of each workload of kafka: then no new turn begins")
    parser.add_argument("--slice", action="store_true", help="table_table: one group per key on 12 thousand keys alone")
    parser.add_argument("--folders", type=Path, nargs="+", default=[WORK / "work"], help="of latency: for checkpoints")
    parser.add_argument("--seconds", type=float, default=120, help="of latency: how long to send (default 120)")
    parser.add_argument("--quick", action="store_true", help="small data: whether it runs, not how fast")
    parser.add_argument("--profile", action="store_true", help="where the CPU goes in the second half; costs some")
    parser.add_argument("--json", type=Path, help="file that keeps the results")
    parser.add_argument("--of", type=Path, nargs="+", help="files of earlier runs: shown, nothing is run")
    parser.add_argument("--picture", type=Path, help="file for a drawing (SVG) of the ratios")
    return parser.parse_args()


def some_of_kafka(given: str) -> list[str]:
    """The workloads that are named, with commas between them; raises where one is not there."""
    unknown = set(found := given.split(",")) - set(ON_KAFKA)
    if unknown:
        raise argparse.ArgumentTypeError(f"no such workload: {', '.join(sorted(unknown))}")
    return found


if __name__ == "__main__":
    main()
