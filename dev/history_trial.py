"""What is tried of tables with all versions of a row (`wm.History`), with a Spark that Delta or Iceberg is made for.

Run by `versions` with the interpreter of an environment that has that PySpark; `HISTORIES=100 SEED=1` for more. In
each history random changes come in batches: several of a key in a batch, deletions, times that are equal or go back,
nulls in keys. Some starts are killed before or behind the merge, or fail behind it. Behind each start the table is what
a loop over all changes makes of them.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
if not __package__:  # run by its path: the repository's root is then not on the module path
    sys.path.insert(0, str(ROOT))

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from dev.catalog_trial import FORMATS, Trial, raises
from watersmeet._spark.outputs import databases
from watersmeet.errors import ConfigError, TopologyError

SCHEMA = "k struct<id: bigint, part: string>, v struct<text: string>, at bigint"
COLUMNS = "id bigint, part string, text string, valid_from timestamp, valid_to timestamp, current boolean"
PARTS = ("a", None)
Change = tuple[int, str | None, str | None, int]
"""Key, text (None: a deletion), time in milliseconds."""


class Dimension(Trial):
    """A table with versions, in a folder of each history's own."""

    number = 0

    def begin(self, number: int) -> None:
        """The history of this number, with an empty table."""
        self.number, name = number, f"kept{number}"
        self.table = f"lake.shop.{name}" if self.format == "iceberg" else name
        self.make(COLUMNS, name)

    @property
    def files(self) -> Path:
        """The changes."""
        return self.folder / f"in{self.number}"

    def put(self, *rows: Change) -> None:
        """Changes, in a file of their own."""
        given = self.spark.createDataFrame(list(rows), "id long, part string, text string, at long")
        value = F.when(F.col("text").isNotNull(), F.struct("text")).alias("v")
        given = given.select(F.struct("id", "part").alias("k"), value, "at")
        given.coalesce(1).write.mode("append").parquet(str(self.files))

    def run(self, behind: object = None, checkpoint: str = "checkpoint", adopt: bool = False) -> None:
        """Read what is there, a file a batch."""
        builder = wm.StreamsBuilder("dimension")
        frame = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(self.files))
        table = builder.table(frame, name="in", key="k", value="v", timestamp="at")
        table.to(wm.History(self.table, adopt=adopt))

        def call(rows: DataFrame, batch: int) -> None:
            if callable(behind):
                behind(batch)

        table.to(wm.ForeachBatch(call), name="behind")
        place = self.folder / f"{checkpoint}{self.number}"
        cache = self.folder / "cache"
        query = builder.build().start(
            self.spark, checkpoint=place, available_now=True, local_cache=cache, shards=2, tasks=2
        )
        query.awaitTermination()

    def versions(self) -> list[tuple[Any, ...]]:
        """The table, sorted."""
        times = (F.unix_millis(name).alias(name) for name in ("valid_from", "valid_to"))
        rows = self.spark.table(self.table).select("id", "part", "text", *times, "current").collect()
        return sorted(map(tuple, rows), key=repr)


def recomputed(changes: list[Change]) -> list[tuple[Any, ...]]:
    """The versions that changes make, one after the other."""
    starts: dict[Any, int] = {}
    rows: dict[Any, list[list[Any]]] = {}
    for id, part, text, at in changes:
        key = (id, part)
        versions = rows.setdefault(key, [])
        is_there = bool(versions) and versions[-1][-1]
        if text is None and not is_there:
            continue
        starts[key] = start = max(at, starts.get(key, at))
        if is_there:
            versions[-1][-2:] = [start, False]
        if text is not None:
            versions.append([*key, text, start, None, True])
    return sorted((tuple(row) for versions in rows.values() for row in versions), key=repr)


def changed(draw: random.Random, number: int) -> list[Change]:
    """The changes of a batch: times go on, back, and stand still."""
    now = 10 * number
    return [
        (
            draw.randrange(3),
            draw.choice(PARTS),
            None if draw.random() < 0.3 else f"{number}-{at}",
            now + draw.randint(-12, 12),
        )
        for at in range(draw.randint(1, 6))
    ]


def histories(trial: Dimension, count: int, seed: int) -> int:
    """So many random histories; how many starts were killed in them."""
    killed = 0
    for number in range(count):
        draw, changes = random.Random(f"{seed} {number}"), list[Change]()
        trial.begin(number)
        for batch in range(draw.randint(2, 4)):
            news = changed(draw, 2 * batch + 2)
            changes += news
            trial.put(*news)
            how = draw.choice(("run", "run", "fails", "before", "behind") if number % 4 == 0 else ("run", "fails"))
            if how == "fails":
                raises(Exception, "behind the merge", trial.run, behind=fails)
            elif how != "run":
                command = [sys.executable, __file__, str(trial.folder), str(number), how]
                done = subprocess.run(command, start_new_session=True, check=False)
                assert done.returncode == -signal.SIGKILL, done
                killed += 1
            trial.run()
            wanted = recomputed(changes)
            found = trial.versions()
            assert found == wanted, (f"history {number} of seed {seed}", changes, found, wanted)
    return killed


def fails(batch: int) -> None:
    """A function of batches that fails."""
    raise RuntimeError("failed behind the merge")


def die(trial: Dimension, number: int, moment: str) -> None:
    """Be killed before or behind the merge, with all processes of the session."""

    def killed(*given: object) -> None:
        os.killpg(0, signal.SIGKILL)

    trial.begin(number)
    if moment == "before":
        databases.MergedTable._merge = killed  # type: ignore[assignment,method-assign]
    trial.run(behind=killed)


def times(trial: Dimension, number: int) -> None:
    """What the page says of times: the state at a time, a change that comes late, and one that stands no time."""
    trial.begin(number)
    trial.put((1, "a", "ten", 10), (1, "a", "thirty", 30), (1, "a", "late", 20), (1, "a", None, 40))
    trial.put((1, "a", "later", 35), (1, "a", "fifty", 50), (2, None, None, 5))
    trial.run()
    rows = [("ten", 10, 30), ("thirty", 30, 30), ("late", 30, 40), ("later", 40, 50), ("fifty", 50, None)]
    wanted = [(1, "a", text, start, end, end is None) for text, start, end in rows]
    assert trial.versions() == sorted(wanted, key=repr), trial.versions()
    for at, text in ((10, "ten"), (30, "late"), (40, "later"), (99, "fifty")):
        moment = datetime.fromtimestamp(at / 1000, UTC).isoformat()
        held = f"valid_from <= '{moment}' AND (valid_to > '{moment}' OR current)"
        assert [row["text"] for row in trial.spark.table(trial.table).filter(held).collect()] == [text], at


def refused(trial: Dimension) -> None:
    """A table of other columns; a value with a field of such a name; the same table twice."""
    trial.number = -1
    trial.table = "lake.shop.refused" if trial.format == "iceberg" else "refused"
    trial.put((1, "a", "x", 1))
    raises(ConfigError, "`valid_from` timestamp, `valid_to` timestamp, `current` boolean", trial.run)
    trial.make("id bigint, part string, text string, valid_from timestamp, valid_to timestamp", "refused")
    raises(ConfigError, "current (boolean) is missing", trial.run)
    table = wm.StreamsBuilder("refused").table(
        trial.spark.createDataFrame([], "k long, current string, at long"),
        name="in",
        key="k",
        timestamp="at",
        order="at",
    )
    raises(TopologyError, "Two columns of the table are named 'current'", table.to, target=wm.History("t"))


def main() -> None:
    """Try it all; with a folder, a history and a moment: die there."""
    spark = SparkSession.getActiveSession()
    assert spark is None
    format = FORMATS[".".join(pyspark.__version__.split(".")[:2])]
    if len(sys.argv) > 1:
        die(Dimension(format, Path(sys.argv[1])), int(sys.argv[2]), sys.argv[3])
        return
    count, seed = int(os.environ.get("HISTORIES", "1")), int(os.environ.get("SEED", "1"))
    with tempfile.TemporaryDirectory() as name:
        trial = Dimension(format, Path(name))
        refused(trial)
        killed = histories(trial, count, seed)
        times(trial, count)
        trial.spark.stop()
    done = f"{count} histories of versions in tables of {format}, {killed} starts killed"
    print(f"as it should be: {done}, PySpark {pyspark.__version__}")


if __name__ == "__main__":
    main()
