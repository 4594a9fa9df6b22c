"""The program of the tests over hosts: a join of two tables by key and one by a foreign key, file by file.

`input_files` writes what it reads, `model` says in plain Python what it has to give. As a program it is called with the
folder of all files, one of its own, the addresses of the master and of its host, and what the worker does at the record
`MARK`. `ended` in its own folder says how it ended, `batches` what each batch took.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from dev.jvm import SHORT_LIVED
from tests.spark.inputs_and_outputs.test_streaming import reader

SIDES = ("left", "right")
MARK = "mark"
KEYS, REFERENCES = 40, 7
_TIMEOUTS = {
    "spark.network.timeout": "30s",
    "spark.network.timeoutInterval": "5s",
    "spark.executor.heartbeatInterval": "5s",
    "spark.shuffle.io.retryWait": "1s",
    # where others take the cores, an executor is lost now and then
    "spark.task.maxFailures": "20",
}


class Given(NamedTuple):
    """A row of an input."""

    key: int
    value: str
    ts: int


@dataclass(frozen=True)
class Wait:
    """A function for `peek`: waits at one record until there is a file `go`."""

    folder: Path

    def __call__(self, key: Any, value: str) -> None:
        if value == MARK:
            (self.folder / "waiting").touch()
            while not (self.folder / "go").exists():
                time.sleep(0.05)


def nothing(key: Any, value: str) -> None:
    """A function for `peek`: does nothing."""


def given(batches: int, rows: int, mark: int | None = None) -> list[dict[str, list[Given]]]:
    """The rows of each batch and side; no two have one time. A mark is the first left one of its batch."""
    chance, clock = random.Random(11), iter(range(1, 10_000_000))

    def row(side: str) -> Given:
        key = chance.randrange(KEYS if side == "left" else REFERENCES)
        ts = next(clock)
        return Given(key, f"{side}{ts}", ts)

    made = []
    for batch in range(batches):
        both = {side: [row(side) for _ in range(rows)] for side in SIDES}
        if batch == mark:
            both["left"][0] = both["left"][0]._replace(value=MARK)
        made.append(both)
    return made


def input_files(folder: Path, made: list[dict[str, list[Given]]]) -> None:
    """One file for each batch and side, in the order of the batches."""
    for side in SIDES:
        (folder / side).mkdir(parents=True)
        for batch, rows in enumerate(made):
            columns = dict(zip(("k", "v", "ts"), map(list, zip(*rows[side], strict=True)), strict=True))
            path = folder / side / f"{batch:04}.parquet"
            pq.write_table(pa.table(columns), path)
            os.utime(path, (1_700_000_000 + batch, 1_700_000_000 + batch))


def reference(key: int, ts: int) -> int:
    """To which right row a left one refers."""
    return (key + ts) % REFERENCES


def model(made: list[dict[str, list[Given]]]) -> tuple[list[tuple[int, str, int]], dict[int, str]]:
    """All results of the join by key with their times, and the last ones of the join by a foreign key."""
    tables: dict[str, dict[int, Given]] = {side: {} for side in SIDES}
    by_key = []
    for side, row in _in_order(made):
        tables[side][row.key] = row
        both = [tables[each][row.key].value if row.key in tables[each] else "-" for each in SIDES]
        # a result has the later time of its two records
        times = [tables[each][row.key].ts for each in SIDES if row.key in tables[each]]
        by_key.append((row.key, "+".join(both), max(times)))
    left, right = tables["left"], tables["right"]
    referred = {key: reference(key, len(row.value)) for key, row in left.items()}
    last = {key: f"{row.value}>{right[referred[key]].value}" for key, row in left.items() if referred[key] in right}
    return by_key, last


def _in_order(made: list[dict[str, list[Given]]]) -> Iterator[tuple[str, Given]]:
    for both in made:
        yield from sorted(((side, row) for side in SIDES for row in both[side]), key=lambda pair: pair[1].ts)


def topology(spark: SparkSession, folder: Path, watch: Any) -> wm.Topology:
    """Both joins, each into files."""
    b = wm.StreamsBuilder("views")
    options: Any = {"key": "k", "value": "v", "timestamp": "ts"}
    left = b.stream(reader(spark, folder / "left"), name="left", **options).peek(watch).to_table()
    right = b.table(reader(spark, folder / "right"), name="right", **options)
    either = lambda one, other: F.concat(F.coalesce(one, F.lit("-")), F.lit("+"), F.coalesce(other, F.lit("-")))  # noqa: E731
    by_key = left.outer_join(right, either, name="by key").to_stream().map_values(lambda v: F.concat(F.lit("k"), v))
    referring = left.to_stream().map(
        lambda k, v: (k, F.struct(v.alias("v"), ((k + F.length(v)) % REFERENCES).alias("of")))
    )
    referred = referring.to_table().left_join(
        right,
        lambda one, other: F.concat(F.lit("f"), one["v"], F.lit(">"), F.coalesce(other, F.lit("-"))),
        foreign_key=lambda v: v["of"],
        name="referred",
    )
    by_key.merge(referred.to_stream()).to(wm.Writer("parquet", path=str(folder / "out")), name="out")
    return b.build()


def main(folder: Path, own: Path, master: str, address: str, watched: str) -> None:
    """Run over all that there is, or until it fails."""
    link = "spark.hadoop.fs.viewfs.mounttable.shared.link./folder"
    config = {
        "spark.ui.enabled": "false",
        "spark.driver.host": address,
        "spark.driver.bindAddress": address,
        "spark.driver.extraJavaOptions": SHORT_LIVED,
        "spark.executor.extraJavaOptions": SHORT_LIVED,
        "spark.executor.memory": "700m",
        "spark.executor.cores": "1",
        "spark.cores.max": "2",
        link: f"file://{folder}",
        **_TIMEOUTS,
    }
    if watched == "wait":
        # the cut lasts as long as another driver's whole run: executors that give this one up would never come back
        config["spark.network.timeout"] = "1h"
    spark = wm.session("hosts", master=master, config=config)
    spark.sparkContext.setLogLevel("WARN")
    query = None
    try:
        # a name of the checkpoint that does not tell that it lies on this disk
        query = topology(spark, folder, Wait(folder) if watched == "wait" else nothing).start(
            spark,
            checkpoint="viewfs://shared/folder/cp",
            available_now=True,
            local_cache=str(own / "cache"),
            tasks=2,
            shards=4,
        )
        query.awaitTermination()
        ended = "well"
    except Exception as error:
        ended = f"{type(error).__name__}: {error}"
    progress = [] if query is None else query.recentProgress
    (own / "batches").write_text(json.dumps([each["durationMs"]["triggerExecution"] for each in progress]))
    (own / "ended.part").write_text(ended)
    (own / "ended.part").rename(own / "ended")
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
