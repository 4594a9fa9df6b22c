"""What grows while a query runs: many small batches, and every so often a note of what its processes and folders hold.

`python bench/studies/growth.py --batches 20000 --seed 7 [--every 100] [--minutes 40] [--kafka]`. Two tables are joined,
by key and by foreign key, and counted by key in windows of event time; keys are drawn anew all the time from a fixed
number, so that nothing that is kept should grow. A call goes on where the one before it ended: notes and checkpoint
lie in `--folder`. With `--kafka` records go through topics, whose broker lasts as long as the folder. `--json FILE`
keeps the notes, `--picture FILE` draws those of all parts. Each part is a process of its own (`--parts`)."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
if not __package__:  # run by its path: the repository's root is then not on the module path
    sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from bench.measuring import census
from bench.reports.curves import drawn
from dev.broker import KafkaBroker
from dev.jars import spark_jars

ROWS, KEYS, CUSTOMERS = 40, 500, 50
"""Records of a source in a batch, keys of a table, and of the one that is referred to."""
STEP = "10 seconds"
"""Event time of a batch."""
WINDOWS = wm.TimeWindows.of_size_and_grace("1 minute", "20 seconds")
LOOKED_AT = 5
"""Batches of which the files are counted."""
SOURCES = ("orders", "payments", "customers")
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    # Spark remembers these many of its own; with its defaults that grows for a thousand batches and more
    "spark.ui.retainedJobs": "100",
    "spark.ui.retainedStages": "100",
    "spark.ui.retainedTasks": "1000",
    "spark.sql.ui.retainedExecutions": "50",
    "spark.sql.streaming.ui.retainedQueries": "5",
}
Note = dict[str, Any]


def generated(spark: SparkSession, name: str, seed: int) -> DataFrame:
    """A source of its own for each name: as many records a batch as it says, the same in every run of a seed."""
    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).option("numPartitions", 1)
    step = int(STEP.split()[0]) * 1000
    rows = rate.option("startTimestamp", 0).option("advanceMillisPerBatch", step).load()
    drawn_by = [
        F.xxhash64("value", F.lit(f"{seed} {name} {what}")) for what in ("key", "deleted", "customer", "amount")
    ]
    key, deleted, customer, amount = drawn_by
    fields = F.concat_ws(" ", F.pmod(customer, F.lit(CUSTOMERS)), F.pmod(amount, F.lit(1000)))
    return rows.select(
        F.pmod(key, F.lit(CUSTOMERS if name == "customers" else KEYS)).alias("key"),
        F.when(F.pmod(deleted, F.lit(20)) != 0, fields).alias("value"),
        "timestamp",
        F.col("value").alias("seq"),
    )


def topology(source: Callable[[wm.StreamsBuilder, str], Any], sink: Callable[[str], Any]) -> wm.Topology:
    """A join of two tables, one by foreign key of its results, and a count in windows of these."""
    builder = wm.StreamsBuilder("growth")
    orders, payments, customers = (source(builder, name) for name in SOURCES)
    paid = orders.join(payments, lambda order, payment: F.concat_ws(" ", order, payment))
    named = paid.join(
        customers,
        lambda order, customer: F.concat_ws(" ", order, customer),
        foreign_key=lambda order: F.split(order, " ")[0].cast("long"),
    )
    named.to(sink("named"), name="named")
    counted = named.to_stream().group_by_key().windowed_by(WINDOWS).count()
    counted.to_stream(key="key").to(sink("counted"), name="counted")
    return builder.build()


def part(folder: Path, until: int, given: argparse.Namespace, servers: str | None) -> None:
    """One process: from the checkpoint's last batch to batch `until`, or as long as there is time."""
    spark = wm.session("growth", master="local[2]", jars=spark_jars() if servers else None, config=SETTINGS)
    spark.sparkContext.setLogLevel("ERROR")
    if servers:
        made = topology(lambda b, name: b.table(name, key="long", value="string"), lambda name: name)
    else:
        made = topology(
            lambda b, name: b.table(
                generated(spark, name, given.seed),
                name=name,
                key="key",
                value="value",
                timestamp="timestamp",
                order="seq",
            ),
            lambda name: wm.Writer("noop"),
        )
    kafka = wm.Kafka(servers) if servers else None
    query = made.start(spark, checkpoint=str(folder / "cp"), local_cache=str(folder / "cache"), kafka=kafka)
    writers = [_written(spark, name, given.seed, servers, folder) for name in SOURCES] if servers else []
    _watch(spark, query, folder, until, given, made.physical.levels)
    for each in (query, *writers):
        each.stop()
    spark.stop()


def _written(spark: SparkSession, name: str, seed: int, servers: str, folder: Path) -> Any:
    """A query of Spark's that writes a source into its topic, a batch each half second."""
    value = F.col("value").cast("binary").alias("value")
    # Kafka's client cannot write the time 0
    rows = generated(spark, name, seed).select(
        F.unhex(F.lpad(F.hex("key"), 16, "0")).alias("key"),
        value,
        (F.col("timestamp") + F.expr("interval 1 day")).alias("timestamp"),
    )
    options = {"kafka.bootstrap.servers": servers, "topic": name, "checkpointLocation": str(folder / f"write-{name}")}
    return rows.writeStream.format("kafka").options(**options).trigger(processingTime="500 milliseconds").start()


def _watch(spark: SparkSession, query: Any, folder: Path, until: int, given: argparse.Namespace, levels: int) -> None:
    """Write a note every so many batches."""
    ends, seconds, begins = time.monotonic() + 60 * given.minutes, [], {}
    before: int | None = None
    last: int | None = None
    while last is None or (last < until and time.monotonic() < ends):
        time.sleep(0.05)
        if not query.isActive:
            query.awaitTermination()
        progress = query.lastProgress
        if progress is None or progress["batchId"] == last:
            continue
        seconds.append(progress["durationMs"].get("triggerExecution", 0) / 1000)
        before, last = last, progress["batchId"]
        begins[last] = time.time()
        if before is None or last // given.every > before // given.every:
            note = _note(spark, folder, seconds, begins, last, levels, first=before is None)
            with (folder / "notes.jsonl").open("a") as notes:
                notes.write(json.dumps(note) + "\n")
            print({name: note[name] for name in ("batch", "seconds")} | note["held"], flush=True)
            seconds, begins = [], {}


def _note(
    spark: SparkSession,
    folder: Path,
    seconds: list[float],
    begins: dict[int, float],
    batch: int,
    levels: int,
    *,
    first: bool,
) -> Note:
    seen = sorted(begins)[-1 - LOOKED_AT :]
    made: dict[str, float] = {}
    if len(seen) > 1:
        span = (begins[seen[0]], begins[seen[-1]])
        counted = {**census.files(folder / "cp", *span), "cache": sum(census.files(folder / "cache", *span).values())}
        made = {name: round(number / (seen[-1] - seen[0]), 2) for name, number in counted.items()}
    held = census.processes() | census.live(spark)
    for name in ("cp", "cache"):
        held[f"files: {name}"] = sum(census.files(folder / name).values())
    tasks = int(SETTINGS["spark.sql.shuffle.partitions"])
    return {
        "batch": batch,
        "first": first,
        "time": time.time(),
        "seconds": round(median(seconds), 3),
        "held": held,
        "files": census.files(folder / "cp"),
        "made": made,
        "per task and level": round(sum(made.values()) / (levels * tasks), 2),
        "levels": levels,
    }


def notes_of(folder: Path) -> list[Note]:
    """The notes of all parts."""
    path = folder / "notes.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the parts that are left, each in a process of its own, and keep and draw all notes."""
    parser = argparse.ArgumentParser(description="What grows while a query runs.")
    parser.add_argument("--batches", type=int, default=20_000)
    parser.add_argument("--every", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="of each part")
    parser.add_argument("--parts", type=int, default=1)
    parser.add_argument("--kafka", action="store_true")
    parser.add_argument("--folder", type=Path, default=ROOT / ".bench" / "growth")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--servers", help=argparse.SUPPRESS)
    parser.add_argument("--until", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    given.folder.mkdir(parents=True, exist_ok=True)
    if given.until is not None:
        return part(given.folder, given.until, given, given.servers)
    notes = notes_of(given.folder)
    begun = notes[-1]["batch"] + 1 if notes else 0
    if begun < given.batches:
        with KafkaBroker() if given.kafka else nullcontext() as broker:
            if broker:
                broker.create_topics([*SOURCES, "named", "counted"], partitions=2)
            _run_parts(begun, given, broker.bootstrap_servers if broker else None)
    notes = notes_of(given.folder)
    if given.json:
        given.json.write_text(json.dumps({"seed": given.seed, "kafka": given.kafka, "notes": notes}, indent=1) + "\n")
    if given.picture:
        given.picture.write_text(drawn(notes))
    return None


def _run_parts(begun: int, given: argparse.Namespace, servers: str | None) -> None:
    for number in range(1, given.parts + 1):
        until = begun + (given.batches - begun) * number // given.parts
        command = [sys.executable, str(Path(__file__)), "--until", str(until), "--seed", str(given.seed)]
        command += ["--every", str(given.every), "--minutes", str(given.minutes), "--folder", str(given.folder)]
        subprocess.run([*command, *(["--servers", servers] if servers else [])], check=True)


if __name__ == "__main__":
    main()
