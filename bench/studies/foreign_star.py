"""A table with three foreign keys: a chain of joins, and three joins beside one another that one `multi_join` gathers.

Run by its path: `python bench/studies/foreign_star.py [facts] [keys]`. The second way is what one operator for a star
would be made of: it sends the facts to all three tables at once, and has rows of all of them under the fact's key. Rows
come from files: the three tables, and facts, each of them twice. With the record cache both ways write a row once a
batch. Each way runs twice, in turn; the first is to warm up. The value of a fact begins with its three foreign keys.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from bench.measuring.measure import Sampler, folder_bytes
from bench.studies.global_tables import COLUMNS, written
from bench.workloads.datasets import values
from dev.jars import spark_jars
from watersmeet._spark.session import session

TABLES = ("one", "two", "three")
DIGITS = 4


def referring(folder: Path, facts: int, keys: int) -> None:
    """A file of facts, each with three random keys before its text."""
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(facts)
    picked = ["".join(f"{key:0{DIGITS}d}" for key in row) for row in rng.integers(0, keys, (facts, len(TABLES)))]
    texts = [key + text[: -len(key)] for key, text in zip(picked, values(facts, rng).to_pylist(), strict=True)]
    stamps = pa.array(np.full(facts, 1_700_000_001_000), pa.timestamp("ms", "UTC"))
    rows = pa.table({"key": np.arange(facts), "value": texts, "ts": stamps})
    pq.write_table(rows, folder / f"{time.time_ns()}.parquet", compression="none", use_dictionary=False)


def reference(place: int) -> Any:
    """Which row of a table a fact refers to."""
    return lambda value: F.substring(value, 1 + place * DIGITS, DIGITS).cast("long")


def chain(facts: Any, tables: list[Any]) -> Any:
    """A join behind a join: each value has what the joins before have found."""
    for place, table in enumerate(tables):
        facts = facts.left_join(table, lambda a, b: F.concat_ws("", a, b), foreign_key=reference(place))
    return facts


def gathered(facts: Any, tables: list[Any]) -> Any:
    """Three joins of the facts, and what they have found under the fact's key."""
    found = [facts.join(table, lambda a, b: b, foreign_key=reference(n)) for n, table in enumerate(tables)]
    return facts.multi_join(found, lambda *parts: F.concat_ws("", *parts), how="left")


def run(spark: SparkSession, folder: Path, build: Any, *, cache: bool) -> str:
    """What a start that takes what is there costs."""
    builder = wm.StreamsBuilder("foreign-star")
    options: Any = {"key": "key", "value": "value", "timestamp": "ts", "order": "ts"}
    frames = {
        name: spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(folder / name))
        for name in ("facts", *TABLES)
    }
    facts, *tables = (builder.table(frame, name=name, **options) for name, frame in frames.items())
    build(facts, tables).to(wm.Writer("noop"), name="out")
    built = builder.build()
    with tempfile.TemporaryDirectory() as place, Sampler(os.getpid(), interval=0.2) as sampler:
        # what was used before is told from the rest by a look at the processes
        time.sleep(0.5)
        begin = time.time()
        options = {"checkpoint": f"{place}/checkpoint", "local_cache": f"{place}/cache", "shards": 4, "tasks": 2}
        built.start(spark, available_now=True, record_cache=cache, **options).awaitTermination()
        end = time.time()
        time.sleep(0.5)
        state = folder_bytes(Path(place) / "checkpoint")
    cpu = sampler.usage.cpu_between(begin, end + 0.5)
    what = f"{build.__name__}{', record cache' * cache}, {built.physical.levels} levels"
    return f"{what}: {cpu:.1f} CPU-seconds, {end - begin:.1f} s, checkpoint {state / 1e6:.0f} MB"


def main(facts: int, keys: int) -> None:
    """Print what each way costs."""
    spark = session("foreign-star", jars=spark_jars(), config={"spark.driver.memory": "2g"})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for table in TABLES:
            written(folder / table, np.arange(keys))
        for _ in range(2):
            referring(folder / "facts", facts, keys)
        for _ in range(2):
            for cache in (False, True):
                for build in (chain, gathered):
                    print(run(spark, folder, build, cache=cache), flush=True)
    spark.stop()


if __name__ == "__main__":
    numbers = [int(text) for text in sys.argv[1:]]
    main(*(numbers + [100_000, 1_000][len(numbers) :]))
