"""The order of the demo's steps: inputs, topology, query, results, and their comparison with pandas.

What the topology is stands in `topology`, the command line in `flights`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import watersmeet as wm
from demo import check, picture, report, topology
from demo.inputs import TABLES, DataMissing, Inputs, load, write_files
from demo.progress import Display, Run, follow
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


@dataclass
class Live:
    """What stays open with `--live`: the page is served from the first batch on, until Ctrl-C.

    Parameters
    ----------
    wanted : whether there is a page.
    """

    wanted: bool
    query: Any = field(default=None, init=False)

    def serve(self, query: Any, shown: Display) -> None:
        """Serve the tables of a query that has just been started."""
        if self.wanted:
            self.query = query
            server = query.serve("127.0.0.1:0", tables=topology.SERVED)
            shown.says(f"\nA page to watch the query, until Ctrl-C: {server.url}\n")

    def wait(self) -> None:
        """Keep the page open until the reader has seen enough."""
        if self.query is not None:
            print("\nThe page stays until Ctrl-C.", flush=True)
            with suppress(KeyboardInterrupt):
                self.query.awaitTermination()

    def close(self) -> None:
        """End the query."""
        if self.query is not None:
            self.query.stop()


def demo(options: argparse.Namespace, shown: Display, began: float) -> int:
    """Run it; 0 if all is as pandas has it.

    Parameters
    ----------
    options : those of the command line.
    shown : the bar, which is there already.
    began : `time.perf_counter()` when the demo began.
    """
    place, live = Place(options.folder.resolve()), Live(options.live)
    try:
        place.clear()
        with _ready(options, place, shown) as (spark, inputs):
            steps = Steps(spark, inputs, place, shown, live, began)
            through = _through_kafka if options.kafka else _through_files
            with through(steps, options.batches) as run:
                try:
                    shown.close()
                    status = _show(spark, inputs, place, run)
                    live.wait()
                    return status
                finally:
                    live.close()
    except (DataMissing, JarsMissing, JavaMissing, BrokerFailed, wm.WatersmeetError) as problem:
        print(problem, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


@dataclass(frozen=True)
class Steps:
    """What the steps have in common."""

    spark: SparkSession
    inputs: Inputs
    place: Place
    shown: Display
    live: Live
    began: float


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


@contextmanager
def _through_files(steps: Steps, batches: int) -> Iterator[Run]:
    place, shown = steps.place, steps.shown
    folder = write_files(steps.inputs, place.folder, batches)
    shown.says(f"Inputs: {place.display_path(folder)}/{{{','.join(TABLES)}}}/*.parquet\n")
    shown.waits_for("building the topology")
    flights = topology.build(topology.between_files(steps.spark, folder, place.out), served=steps.live.wanted)
    shown.says(flights.describe())
    run = Run()
    _followed(steps, flights, run)
    yield run


def _followed(steps: Steps, flights: wm.Topology, run: Run, *, last: bool = True, **options: Any) -> None:
    """Start the query, and follow it until it has read all that there is; the last one goes on if it is watched."""
    place, shown = steps.place, steps.shown
    shown.waits_for("starting the query")
    stays = steps.live.wanted and last
    checkpoint, cache = str(place.checkpoint), str(place.cache)
    query = flights.start(steps.spark, checkpoint=checkpoint, available_now=not stays, local_cache=cache, **options)
    if stays:
        steps.live.serve(query, shown)
    shown.waits_for("planning the batch")
    follow(steps.spark, query, run, shown, steps.inputs.records, steps.began, stays=stays)


# -- Kafka -------------------------------------------------------------------------------------------------


@contextmanager
def _through_kafka(steps: Steps, batches: int) -> Iterator[Run]:
    # imported late: without --kafka the demo does without confluent-kafka
    from demo import topics

    inputs, shown = steps.inputs, steps.shown
    shown.says("Starting a Kafka broker ...")
    with KafkaBroker() as broker:
        servers = broker.bootstrap_servers
        broker.create_topics([*TABLES, *topology.OUTPUTS], partitions=topics.PARTITIONS)
        shown.says(f"{servers}, {topics.PARTITIONS} partitions for each topic.\n")
        shown.waits_for("building the topology")
        flights = topology.build(topology.between_topics(), served=steps.live.wanted)
        shown.says(flights.describe())
        kafka = wm.Kafka(servers, max_records_per_batch=-(-inputs.records // batches))
        run = Run()
        # First the planes, so that departures find them; then, from the checkpoint on, the flights.
        for names in (("airlines", "planes"), ("schedule", "actual")):
            for name in names:
                _produce(servers, name, inputs, shown)
            _followed(steps, flights, run, last="actual" in names, kafka=kafka)
        shown.close()
        for name in topology.OUTPUTS:
            (steps.place.out / name).mkdir(parents=True)
            pq.write_table(topics.consume(servers, name), steps.place.out / name / "consumed.parquet")
        yield run


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
    final = check.final_rows(outputs["flights"])
    print(f"\nDelay of departure by airline:\n{report.delay_by_airline(final)}")
    drawn = place.folder / "delays.svg"
    drawn.write_text(picture.delays(final), encoding="utf-8")
    print(f"\nThe same as a picture, with the hours of the day: {place.display_path(drawn)}")
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
