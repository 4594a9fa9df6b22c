"""Three lookups in a row: in one level, in a level each, and one lookup alone; CPU-seconds of all processes.

Run by its path: `python bench/studies/lookups.py [records] [keys]`. Records and the rows of three global tables come
from files; each lookup's key is a function of what the one before has found. A level each is what the same topology
takes if Spark evaluates the functions between (`Plan.separate_lookups`). Each way runs twice, in turn; the first is to
warm up.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from bench.measuring.measure import Sampler
from bench.studies.global_tables import COLUMNS, written
from dev.jars import spark_jars
from watersmeet._plan.rewrite import rewrite
from watersmeet._spark.session import session

TABLES = ("one", "two", "three")


def topology(spark: SparkSession, folder: Path, lookups: int, keys: int, *, apart: bool) -> wm.Topology:
    """So many lookups in a row."""
    builder = wm.StreamsBuilder("lookups")
    options: Any = {"key": "key", "value": "value", "timestamp": "ts", "order": "ts"}
    frames = {n: spark.readStream.schema(COLUMNS).parquet(str(folder / n)) for n in ("records", *TABLES)}
    stream = builder.stream(frames["records"], name="records", **options)
    for name in TABLES[:lookups]:
        table = builder.global_table(frames[name], name=name, **options)
        stream = stream.join(
            table,
            lambda left, right: F.concat(F.substring(right, 1, 20), F.substring(left, 1, 80)),
            key=lambda key, value: (key + F.ascii(value)) % keys,
        )
    stream.to(wm.Writer("noop"), name="out")
    built = builder.build()
    if apart:
        names = frozenset(node.name for node in built.plan.nodes)
        built.physical = rewrite(replace(built.plan, separate_lookups=names))
    return built


def run(spark: SparkSession, folder: Path, lookups: int, keys: int, *, apart: bool) -> str:
    """What a start that takes what is there costs."""
    built = topology(spark, folder, lookups, keys, apart=apart)
    with tempfile.TemporaryDirectory() as place, Sampler(os.getpid(), interval=0.2) as sampler:
        # what was used before is told from the rest by a look at the processes
        time.sleep(0.5)
        begin = time.time()
        query = built.start(
            spark, checkpoint=f"{place}/checkpoint", local_cache=f"{place}/cache", available_now=True, shards=4, tasks=2
        )
        query.awaitTermination()
        end = time.time()
        time.sleep(0.5)
    cpu = sampler.usage.cpu_between(begin, end + 0.5)
    return f"{lookups} lookups, {built.physical.levels} levels: {cpu:.1f} CPU-seconds, {end - begin:.1f} s"


def main(records: int, keys: int) -> None:
    """Print what each way costs."""
    spark = session("lookups", jars=spark_jars(), config={"spark.driver.memory": "2g"})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for table in TABLES:
            written(folder / table, np.arange(keys))
        written(folder / "records", np.arange(records))
        for _ in range(2):
            for lookups, apart in ((3, False), (3, True), (1, False)):
                print(run(spark, folder, lookups, keys, apart=apart), flush=True)
    spark.stop()


if __name__ == "__main__":
    numbers = [int(text) for text in sys.argv[1:]]
    main(*(numbers + [500_000, 1_000][len(numbers) :]))
