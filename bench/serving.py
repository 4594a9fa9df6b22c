"""What served tables cost a query, and how fast they answer beside it, asked by clients that are not watersmeet's.

`python bench/serving.py [files] [rows of a file]`. Records of 100,000 keys are counted and summed by key, a file a
batch: once as it is, once with its table served and nobody reading, and once while readers ask for random keys all the
time, in a process of its own: wrk over HTTP, and pyarrow's Flight client. All in one run, each way twice, in turns.
Printed: records a second of the query, and of the readers answers a second with the middle and the 99th percentile.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[1]
if not __package__:  # run by its path: the repository's root is then not on the module path
    sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

import watersmeet as wm

WORK = ROOT / ".bench" / "work" / "serving"
KEYS, SKIPPED = 100_000, 2
CONNECTIONS = 16
WAYS = ("alone", "served", "read by wrk", "read by Flight")
_WRK = """request = function() return wrk.format("GET", "/tables/totals/" .. math.random(0, {keys} - 1)) end"""


def prepared(files: int, rows: int) -> None:
    """The inputs: as many files, all alike."""
    shutil.rmtree(WORK, ignore_errors=True)
    (WORK / "in").mkdir(parents=True)
    dice = random.Random(1)
    for number in range(files):
        at = number * rows
        table = {
            "k": pa.array([dice.randrange(KEYS) for _ in range(rows)], pa.int64()),
            "v": pa.array([dice.random() for _ in range(rows)], pa.float64()),
            "ts": pa.array(range(at, at + rows), pa.int64()),
        }
        pq.write_table(pa.table(table), WORK / "in" / f"{number:05d}.parquet")
    (WORK / "keys.lua").write_text(_WRK.format(keys=KEYS))


def topology(spark: SparkSession) -> wm.Topology:
    """Counts and sums by key."""
    builder = wm.StreamsBuilder("serving")
    frame = spark.readStream.schema("k long, v double, ts long").option("maxFilesPerTrigger", 1)
    events = builder.stream(frame.parquet(str(WORK / "in")), name="in", key="k", value="v", timestamp="ts")
    totals = events.group_by_key().agg(n=wm.count(), total=wm.sum(lambda value: value), store="totals")
    totals.to(wm.ForeachBatch(lambda rows, batch: rows.write.format("noop").mode("overwrite").save()), name="out")
    return builder.build()


def reader(way: str, served: Any) -> subprocess.Popen[str] | None:
    """A process that asks all the time, until it is ended."""
    if way == "read by wrk":
        command = ["wrk", "-t1", f"-c{CONNECTIONS}", "-d10000s", "--latency", "-s", str(WORK / "keys.lua"), served.url]
    elif way == "read by Flight":
        command = [sys.executable, __file__, "--flight", served.flight_url]
    else:
        return None
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def end_reader(way: str, asking: subprocess.Popen[str]) -> str:
    """End a reader; the rate, the median and the 99th percentile of its answers, as a text."""
    # wrk says what it has measured when it is interrupted
    asking.send_signal(2)
    said = asking.communicate()[0]
    if way == "read by Flight":
        return said.strip()
    found = {name: re.search(pattern, said) for name, pattern in _SAID.items()}
    rate, middle, late = (match[1] if match else "?" for match in found.values())
    errors = re.search(r"Non-2xx or 3xx responses: (\d+)", said)
    return f"{rate} a second, p50 {middle}, p99 {late}" + (f", {errors[1]} refused" if errors else "")


_SAID = {"rate": r"Requests/sec:\s+(\S+)", "p50": r"\n +50% +(\S+)", "p99": r"\n +99% +(\S+)"}


def run(spark: SparkSession, way: str, number: int) -> tuple[float, str]:
    """Records a second of the query behind its first batches, and what its readers say."""
    checkpoint = WORK / f"cp-{number}"
    query = topology(spark).start(spark, checkpoint=str(checkpoint), shards=2, tasks=2)
    asking = None
    try:
        if way != "alone":
            served = query.serve("127.0.0.1:0", tables=["totals"])
            query.table("totals").get(0, at_least=0, timeout=60)
            asking = reader(way, served)
        query.processAllAvailable()
        said = "" if asking is None else end_reader(way, asking)
        progresses = [p for p in query.recentProgress if p["numInputRows"]][SKIPPED:]
        rows = sum(p["numInputRows"] for p in progresses)
        seconds = sum(p["durationMs"]["triggerExecution"] for p in progresses) / 1_000
        return rows / seconds, said
    finally:
        query.stop()


def ask_by_flight(url: str) -> None:
    """Ask for random keys until interrupted, and say how long it took."""
    import pyarrow.flight as fl

    client, took, dice = fl.connect(url), [], random.Random(2)
    begin = time.perf_counter()
    try:
        while True:
            ticket = json.dumps({"table": "totals", "key": dice.randrange(KEYS)}).encode()
            at = time.perf_counter()
            client.do_get(fl.Ticket(ticket)).read_all()
            took.append(time.perf_counter() - at)
    except KeyboardInterrupt:
        seconds = time.perf_counter() - begin
        late = quantiles(took, n=100)[98]
        print(f"{len(took) / seconds:.0f} a second, p50 {median(took) * 1e3:.2f}ms, p99 {late * 1e3:.2f}ms")


def main(files: int, rows: int) -> None:
    """Print a line for each way and turn."""
    spark = wm.session("serving", master="local[2]", kafka=False, config={"spark.ui.enabled": "false"})
    spark.sparkContext.setLogLevel("ERROR")
    prepared(files, rows)
    rates: dict[str, list[float]] = {way: [] for way in WAYS}
    for turn in range(2):
        for at, way in enumerate(WAYS):
            rate, said = run(spark, way, turn * len(WAYS) + at)
            rates[way].append(rate)
            print(f"{way:>16}{rate:12,.0f} records a second   {said}", flush=True)
    alone = median(rates["alone"])
    for way in WAYS[1:]:
        print(f"{way:>16}: {median(rates[way]) / alone:.2f} of the rate alone")
    shutil.rmtree(WORK, ignore_errors=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--flight"]:
        ask_by_flight(sys.argv[2])
    else:
        main(*([int(each) for each in sys.argv[1:]] or [20, 20_000]))
