"""Preparation of a machine, or an image, for faster starts: `python -m watersmeet.prepare`.

It runs a small topology in a JVM of its own, which leaves an archive of its classes (200 MB) in the user's cache folder
(`~/.cache/watersmeet`). `watersmeet.session` takes it from then on where Spark runs on this machine. Nothing else
depends on it: delete it at any time. With `--kafka` it fetches Spark's Kafka connector too, as the first
`session(kafka=True)` would.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from watersmeet._spark.machine import SessionConfig, check_machine, default_settings
from watersmeet._spark.session import archive_place, archives, java, kafka_jars
from watersmeet.errors import ConfigError, WatersmeetError

_RUN = "--run"


def prepare() -> Path:
    """Make the archive anew; where it lies.

    Raises
    ------
    ConfigError : Spark cannot start on this machine, or the JVM makes no archive.
    """
    check_machine(SessionConfig(default_settings()))
    place = archive_place()
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as folder:
        archive = Path(folder, "classes.jsa")
        program = [sys.executable, "-m", "watersmeet.prepare", _RUN, folder, str(archive)]
        # the JVM writes the archive when it ends, which is after the program: its output ends with both
        process = subprocess.run(program, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if process.returncode or not archive.is_file() or not _is_whole(archive):
            raise ConfigError(
                "The JVM did not write an archive of its classes.",
                given="\n".join(process.stdout.strip().splitlines()[-3:]),
                hint="Topologies start without it, too; Java 17 or later writes one.",
            )
        existing = archives(place)
        file = place.with_name(f"{place.name}-{archive.stat().st_size}.jsa")
        os.replace(archive, file)
    for entry in existing:
        if entry != file:
            entry.unlink(missing_ok=True)
    return file


def _is_whole(archive: Path) -> bool:
    """Whether a JVM can read all of it: a disk may have been full."""
    options = [f"-XX:SharedArchiveFile={archive}", "-XX:+VerifySharedSpaces", "-version"]
    return subprocess.run([java(), *options], cwd=archive.parent, capture_output=True, check=False).returncode == 0


def _run(folder: str, archive: str) -> None:
    """A topology of two tables over files: all that a query needs besides its source."""
    from pyspark.sql import functions as F

    import watersmeet as wm

    options = f"-XX:ArchiveClassesAtExit={archive}"
    spark = wm.session("prepare", master="local[2]", config={"spark.driver.extraJavaOptions": options})
    rows = [(number, f"value {number}", number) for number in range(100)]
    spark.createDataFrame(rows, "key long, value string, ts long").write.parquet(f"{folder}/rows")
    builder = wm.StreamsBuilder("prepare")
    tables = []
    for name in ("left", "right"):
        read = spark.readStream.schema("key long, value string, ts long").parquet(f"{folder}/rows")
        tables.append(builder.table(read, name=name, key="key", value="value", timestamp="ts"))
    joined = tables[0].join(tables[1], lambda left, right: F.concat(left, F.lit(" "), right))
    joined.to(wm.ForeachBatch(lambda frame, _: print(frame.count())), name="out")
    query = builder.build().start(
        spark, checkpoint=f"{folder}/checkpoint", local_cache=f"{folder}/cache", available_now=True
    )
    query.awaitTermination()
    spark.stop()


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m watersmeet.prepare", description=__doc__)
    parser.add_argument("--kafka", action="store_true", help="fetch Spark's Kafka connector, too")
    parser.add_argument(_RUN, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        _run(*options.run)
        return
    try:
        if options.kafka:
            print(*kafka_jars(default_settings()), sep="\n")
        print(prepare())
    except WatersmeetError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
