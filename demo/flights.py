"""The demo: a year of real flights through four joins, shown, and checked against plain pandas.

python demo/flights.py              from Parquet files to Parquet files
    python demo/flights.py --kafka      from Kafka topics to Kafka topics, through a broker of its own

Owns the order of things; what the topology is stands in `topology`. Started by `make demo`. Ends with
status 1 when a result differs from what pandas makes of the same data.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BEGAN = time.perf_counter()

ROOT = Path(__file__).resolve().parents[1]
if not __package__:  # run by its path: the repository's root is then not on the module path
    sys.path.insert(0, str(ROOT))

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import watersmeet as wm
from demo import check, report, topology
from demo.inputs import TABLES, DataMissing, Inputs, load, write_files
from demo.progress import Display, Run, display, follow
from dev.broker import BrokerFailed, KafkaBroker
from dev.jars import JarsMissing, spark_jars
from dev.jvm import SHORT_LIVED, JavaMissing

SPARK = {
    "spark.ui.enabled": "false",
    "spark.driver.extraJavaOptions": SHORT_LIVED,
}


@dataclass(frozen=True)
class Place:
    """The demo's folder, and the parts of it that each run makes anew."""

    folder: Path

    @property
    def out(self) -> Path:
        """Where the results lie, one folder for each output."""
        return self.folder / "out"

    @property
    def checkpoint(self) -> Path:
        """The query's checkpoint."""
        return self.folder / "checkpoint"

    @property
    def log(self) -> Path:
        """What Spark itself has to say."""
        return self.folder / "spark.log"

    @property
    def cache(self) -> Path:
        """The workers' cache of state."""
        return self.folder / "cache"

    def clear(self) -> None:
        """Remove what an earlier run has left, but for its inputs."""
        for made in (self.out, self.checkpoint, self.cache):
            shutil.rmtree(made, ignore_errors=True)

    def display_path(self, path: Path) -> str:
        """A path as the reader of the demo can use it."""
        return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; 0 if all is as pandas has it."""
    options = _options(arguments)
    place = Place(options.folder.resolve())
    try:
        place.clear()
        with display(BEGAN) as shown, _ready(options, place, shown) as (spark, inputs):
            run = (_through_kafka if options.kafka else _through_files)(spark, inputs, place, options.batches, shown)
            shown.close()
            return _show(spark, inputs, place, run)
    except (DataMissing, JarsMissing, JavaMissing, BrokerFailed, wm.WatersmeetError) as problem:
        print(problem, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A year of real flights through watersmeet.")
    parser.add_argument("--kafka", action="store_true", help="through a real broker on loopback")
    parser.add_argument("--rows", type=int, help="only so many flights, from New Year on (default: all)")
    parser.add_argument("--batches", type=int, default=8, help="cut the year into so many (default 8)")
    parser.add_argument("--folder", type=Path, default=ROOT / ".demo", help="of all files (default .demo)")
    options = parser.parse_args(arguments)
    if options.batches < 1 or (options.rows is not None and options.rows < 1):
        parser.error("--rows and --batches are numbers from 1 on")
    return options


def _what(inputs: Inputs) -> str:
    cancelled = int(inputs.actual["cancelled"].sum())
    flights = len(inputs.schedule)
    return (
        f"{flights:,} flights from New York in 2013: {flights - cancelled:,} departures, {cancelled:,} "
        f"cancelled; {len(inputs.planes):,} planes, {len(inputs.airlines)} airlines. {inputs.records:,} records."
    )


@contextmanager
def _ready(options: argparse.Namespace, place: Place, shown: Display) -> Iterator[tuple[SparkSession, Inputs]]:
    """Spark, and the flights, which are read while it starts."""
    with ThreadPoolExecutor(1) as beside:
        reading = beside.submit(_read, options, place)
        shown.waits_for("starting Spark")
        with _errors_to(place.log):
            jars = spark_jars() if options.kafka else None
            spark = wm.session("flights", jars=jars, config=SPARK)
        try:
            shown.waits_for("reading the flights")
            inputs = reading.result()
            shown.says(_what(inputs))
            yield spark, inputs
        finally:
            spark.stop()


def _read(options: argparse.Namespace, place: Place) -> Inputs:
    inputs = load(options.rows)
    if not options.kafka:
        write_files(inputs, place.folder, options.batches)
    return inputs


@contextmanager
def _errors_to(log: Path) -> Iterator[None]:
    """Processes that start meanwhile write their standard error to a file: Spark's Java is one for good."""
    sys.stderr.flush()
    ours = os.dup(2)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)


# -- files -------------------------------------------------------------------------------------------------


def _through_files(spark: SparkSession, inputs: Inputs, place: Place, batches: int, shown: Display) -> Run:
    folder = write_files(inputs, place.folder, batches)
    shown.says(f"Inputs: {place.display_path(folder)}/{{{','.join(TABLES)}}}/*.parquet\n")
    shown.waits_for("building the topology")
    flights = topology.build(topology.between_files(spark, folder, place.out))
    shown.says(flights.describe())
    run = Run()
    _followed(spark, flights, run, inputs, place, shown)
    return run


def _followed(
    spark: SparkSession, flights: wm.Topology, run: Run, inputs: Inputs, place: Place, shown: Display, **options: Any
) -> None:
    """Start the query, and follow it until it has read all that there is."""
    shown.waits_for("starting the query")
    checkpoint, cache = str(place.checkpoint), str(place.cache)
    query = flights.start(spark, checkpoint=checkpoint, available_now=True, local_cache=cache, **options)
    shown.waits_for("planning the batch")
    follow(spark, query, run, shown, inputs.records, BEGAN)


# -- Kafka -------------------------------------------------------------------------------------------------


def _through_kafka(spark: SparkSession, inputs: Inputs, place: Place, batches: int, shown: Display) -> Run:
    # imported late: without --kafka the demo does without confluent-kafka
    from demo import topics

    shown.says("Starting a Kafka broker ...")
    with KafkaBroker() as broker:
        servers = broker.bootstrap_servers
        broker.create_topics([*TABLES, *topology.OUTPUTS], partitions=topics.PARTITIONS)
        shown.says(f"{servers}, {topics.PARTITIONS} partitions for each topic.\n")
        shown.waits_for("building the topology")
        flights = topology.build(topology.between_topics())
        shown.says(flights.describe())
        kafka = wm.Kafka(servers, max_records_per_batch=-(-inputs.records // batches))
        run = Run()
        # First the planes, so that departures find them; then, from the checkpoint on, the flights.
        for names in (("airlines", "planes"), ("schedule", "actual")):
            for name in names:
                _produce(servers, name, inputs, shown)
            _followed(spark, flights, run, inputs, place, shown, kafka=kafka)
        shown.close()
        for name in topology.OUTPUTS:
            (place.out / name).mkdir(parents=True)
            pq.write_table(topics.consume(servers, name), place.out / name / "consumed.parquet")
    return run


def _produce(servers: str, name: str, inputs: Inputs, shown: Display) -> None:
    from demo import topics

    begin = time.perf_counter()
    frame = getattr(inputs, name)
    topics.produce(servers, name, frame, topology.KEYS[name], topology.fields(name))
    shown.says(f"produced {len(frame):,} records to topic {name} in {time.perf_counter() - begin:.1f} s")


# -- results -----------------------------------------------------------------------------------------------


def _show(spark: SparkSession, inputs: Inputs, place: Place, run: Run) -> int:
    outputs = {name: report.read_files(place.out / name) for name in topology.OUTPUTS}
    print(f"\n{_speed(run)}")
    for name, what, of in (
        ("departures", "changes", "flights"),
        ("flights-by-plane", "departures", "planes"),
        ("flights", "changes", "flights"),
    ):
        print(f"  {name:16}  {len(outputs[name]):>9,} {what} of {outputs[name]['key'].nunique():,} {of}")
    print("Dropped records, by operator and reason:")
    for (operator, reason), count in sorted(run.drops.items()):
        print(f"  {operator}: {reason}: {count:,}")
    flown = spark.read.parquet(str(place.out / "flights-by-plane"))
    print(f"\nThe longest delays:\n{report.most_delayed(flown)}")
    print(f"\nDelay of departure by the plane's manufacturer:\n{report.delay_by_manufacturer(flown)}")
    print(f"\nDelay of departure by airline:\n{report.delay_by_airline(check.final_rows(outputs['flights']))}")
    print(f"\nResults: {', '.join(place.display_path(place.out / name) for name in topology.OUTPUTS)}")
    dropped = sum(count for (operator, _), count in run.drops.items() if operator == topology.ENRICH)
    return judge(check.differences(inputs, outputs, dropped))


def _speed(run: Run) -> str:
    warm = f" ({run.warm_rate:,.0f} after the first batch)" if run.warm_rate else ""
    batches = f"{run.records:,} records in {run.batches} batches and {run.seconds:.1f} s"
    first = f"first results {run.first_result:.1f} s after the start of the demo"
    return f"{batches}: {run.rate:,.0f} records/s{warm}; {first}"


def judge(checked: dict[str, list[str]]) -> int:
    """Say what was checked and what differs; the exit status."""
    print("Checked against plain pandas:")
    for what, found in checked.items():
        print(f"  {'DIFFERS' if found else 'same'}: {what}")
        for difference in found:
            print(f"    {difference}")
    return 1 if any(checked.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
