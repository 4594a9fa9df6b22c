"""What is tried of tables in catalogs, with a Spark that the format is made for: Delta with 4.2, Iceberg with 4.1.

Run by `versions` with the interpreter of an environment that has that PySpark. A topology keeps a table through
batches, tombstones, a failure behind the merge, SIGKILL before and behind it, and restarts; the table is then what the
last changes make it, and no batch has been merged twice.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
if not __package__:  # run by its path: the repository's root is then not on the module path
    sys.path.insert(0, str(ROOT))

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from dev.jars import jars
from watersmeet._spark.outputs import databases
from watersmeet.errors import ConfigError, CorruptData, SinkError

FORMATS = {"4.2": "delta", "4.1": "iceberg"}
"""Of each PySpark the format whose jars are made for it."""
TABLE = "lake.shop.kept"
COLUMNS = "id bigint, part string, text string, size bigint, tags map<string, int>"
SCHEMA = "k struct<id: bigint, part: string>, v struct<text: string, size: int, tags: map<string, int>>, at bigint"


def settings(format: str, folder: Path) -> dict[str, str]:
    """Of a session whose catalog `lake` has tables of the format."""
    given = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
    if format == "iceberg":
        return given | {
            "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.lake.type": "hadoop",
            # what a killed process has written is to be seen at once
            "spark.sql.catalog.lake.cache-enabled": "false",
            "spark.sql.catalog.lake.warehouse": str(folder / "lake"),
        }
    return given | {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.warehouse.dir": str(folder / "lake"),
    }


class Trial:
    """One format in one folder.

    Parameters
    ----------
    format : "delta" or "iceberg".
    folder : for the table, the changes and the checkpoint.
    """

    def __init__(self, format: str, folder: Path) -> None:
        self.format, self.folder = format, folder
        self.table = TABLE if format == "iceberg" else "kept"
        given = [str(jar) for jar in jars(format)]
        self.spark = wm.session("catalogs", master="local[2]", jars=given, config=settings(format, folder))
        self.spark.sparkContext.setLogLevel("ERROR")
        (folder / "in").mkdir(exist_ok=True)

    def make(self, columns: str = COLUMNS, place: str = "kept") -> None:
        """The table, empty if it has not been there."""
        made = f"CREATE TABLE IF NOT EXISTS {self.table} ({columns}) USING {self.format}"
        if self.format == "iceberg":
            self.spark.sql("CREATE SCHEMA IF NOT EXISTS lake.shop")
            self.spark.sql(made)
        else:
            # a catalog without a metastore lives as long as its session
            self.spark.sql(f"{made} LOCATION '{self.folder}/lake/{place}'")

    def put(self, *rows: tuple[int, str | None, str | None, int]) -> None:
        """Changes, in a file of their own: id, part, text (None: a tombstone), time."""
        given = self.spark.createDataFrame(list(rows), "id long, part string, text string, at long")
        value = F.struct("text", F.length("text").alias("size"), F.create_map("text", F.lit(1)).alias("tags"))
        made = given.select(
            F.struct("id", "part").alias("k"), F.when(F.col("text").isNotNull(), value).alias("v"), F.col("at")
        )
        made.coalesce(1).write.mode("append").parquet(str(self.folder / "in"))

    def run(self, behind: object = None, checkpoint: str = "checkpoint", adopt: bool = False) -> None:
        """Read what is there, a file a batch; `behind` is called with each batch's number behind the merge."""
        builder = wm.StreamsBuilder("catalogs")
        frame = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(self.folder / "in"))
        table = builder.table(frame, name="in", key="k", value="v", timestamp="at")
        table.to(wm.CatalogTable(self.table, adopt=adopt))

        def call(rows: DataFrame, batch: int) -> None:
            if callable(behind):
                behind(batch)

        table.to(wm.ForeachBatch(call), name="behind")
        place = self.folder / checkpoint
        topology = builder.build()
        query = topology.start(
            self.spark, checkpoint=place, available_now=True, local_cache=self.folder / "cache", shards=2, tasks=2
        )
        query.awaitTermination()

    def rows(self) -> dict[tuple[int, str | None], str]:
        """The table: its texts."""
        found = self.spark.table(self.table).collect()
        assert all(row["size"] == len(row["text"]) and row["tags"] == {row["text"]: 1} for row in found), found
        return {(row["id"], row["part"]): row["text"] for row in found}

    def commits(self) -> int:
        """How many the table has had."""
        if self.format == "iceberg":
            return self.spark.table(f"{self.table}.snapshots").count()
        return self.spark.sql(f"DESCRIBE HISTORY {self.table}").filter("operation = 'MERGE'").count()


def fails(number: int) -> object:
    """A function of batches that fails in one."""

    def behind(batch: int) -> None:
        if batch == number:
            raise RuntimeError("failed behind the merge")

    return behind


def refused(trial: Trial) -> None:
    """What a table could not be is said at the start."""
    for columns, what in (
        ("id bigint, part string, text string, size string, tags map<string, int>", "size is string"),
        ("id bigint, part string, text string, size int", "tags (map<string,int>) is missing"),
    ):
        trial.make(columns, place=what.partition(" ")[0])
        raises(ConfigError, what, trial.run)
        trial.spark.sql(f"DROP TABLE {trial.table}")
    raises(ConfigError, "CREATE TABLE", trial.run)


def raises(kind: type[Exception], what: str, run: object, **options: object) -> None:
    """That it does."""
    assert callable(run)
    try:
        run(**options)
    except kind as error:
        said = str(error)
    else:
        said = "nothing"
    assert what in said, f"{what}: {said}"


def keep(trial: Trial) -> None:
    """Batches, a failure behind the merge, and a restart."""
    trial.put((1, "a", "x", 1), (2, None, "y", 2), (1, "a", "xx", 3), (3, "c", "gone", 4), (3, "c", None, 5))
    trial.put((2, None, None, 6), (4, "d", "z", 7), (1, "b", "other", 8))
    raises(Exception, "failed behind the merge", trial.run, behind=fails(1))
    wanted = {(1, "a"): "xx", (4, "d"): "z", (1, "b"): "other"}
    assert trial.rows() == wanted, trial.rows()
    # what is changed by hand stays, since the batch that is run again is not merged again
    trial.spark.sql(f"DELETE FROM {trial.table} WHERE id = 4")
    before = trial.commits()
    trial.run()
    assert trial.commits() == before, "a batch was merged again"
    assert trial.rows() == {key: text for key, text in wanted.items() if key != (4, "d")}
    trial.put((2, None, "again", 9), (5, "e", "", 10))
    trial.run()
    assert trial.rows() == {(1, "a"): "xx", (1, "b"): "other", (2, None): "again", (5, "e"): ""}, trial.rows()


def kill(trial: Trial) -> None:
    """SIGKILL at both sides of the merge: nothing lost, nothing merged twice."""
    for number, moment in enumerate(("before", "behind")):
        trial.put((10 + number, "k", moment, 20 + number), (1, "a", None if number else "back", 30 + number))
        before = trial.commits()
        command = [sys.executable, __file__, str(trial.folder), moment]
        done = subprocess.run(command, start_new_session=True, check=False)
        assert done.returncode == -signal.SIGKILL, done
        assert trial.commits() - before == number, moment
        trial.run()
        assert trial.commits() == before + 1, moment
    wanted: dict[tuple[int, str | None], str] = {(1, "b"): "other", (2, None): "again", (5, "e"): ""}
    assert trial.rows() == wanted | {(10, "k"): "before", (11, "k"): "behind"}, trial.rows()


def die(trial: Trial, moment: str) -> None:
    """Be killed before or behind the merge, with all processes of the session."""

    def killed(*given: object) -> None:
        os.killpg(0, signal.SIGKILL)

    if moment == "before":
        databases.MergedTable._merge = killed  # type: ignore[assignment,method-assign]
    trial.run(behind=killed)


def own(trial: Trial) -> None:
    """One writer, and no other history than the checkpoint's."""
    raises(ConfigError, "has rows of others than this query", trial.run, checkpoint="other")
    properties = trial.spark.sql(f"SHOW TBLPROPERTIES {trial.table}").collect()
    (writer,) = (row["value"] for row in properties if row["key"] == databases.WRITER)
    schema = trial.spark.createDataFrame([], SCHEMA).schema
    types = schema["k"].dataType, schema["v"].dataType
    kept = databases.MergedTable(trial.spark, wm.CatalogTable(trial.table), *types, writer)
    kept.begin(4)
    raises(CorruptData, "batch 4 is there, the last one planned is 3", kept.begin, planned=3)

    def taken(batch: int) -> None:
        trial.spark.sql(f"ALTER TABLE {trial.table} SET TBLPROPERTIES ('{databases.WRITER}' = 'other-1')")

    raises(SinkError, "Another query has taken the table over", trial.run, checkpoint="new", adopt=True, behind=taken)


def main() -> None:
    """Try it all; with a folder and a moment: die there."""
    spark = SparkSession.getActiveSession()
    assert spark is None
    format = FORMATS[".".join(pyspark.__version__.split(".")[:2])]
    if len(sys.argv) > 1:
        trial = Trial(format, Path(sys.argv[1]))
        trial.make()
        die(trial, sys.argv[2])
        return
    with tempfile.TemporaryDirectory() as name:
        trial = Trial(format, Path(name))
        refused(trial)
        trial.make()
        keep(trial)
        kill(trial)
        own(trial)
        trial.spark.stop()
    print(f"as it should be: tables of {format}, PySpark {pyspark.__version__}")


if __name__ == "__main__":
    main()
