"""A program for `test_two_drivers`: a query that counts the records of a topic by key, until it fails or is killed.

Called with a folder, the servers, two topics, the version of the topology and a file. Each batch is a line of the file,
and so is how the query ended.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import watersmeet as wm
from dev.jars import spark_jars
from tests.kafka.faults.driver_run import elsewhere
from tests.spark.checkpoints.killing import SETTINGS, short_session

BATCH, ENDED = "batch", "ended"


def topology(records: str, counts: str, version: int) -> wm.Topology:
    """The count of each key; a later version has as many more tables."""
    builder = wm.StreamsBuilder("takeovers")
    stream = builder.stream(records, key="string", value="string", name="records")
    stream.group_by_key().count(store="counted").to_stream().to(counts, value="long", name="out")
    for number in range(version):
        stream.to_table(store=f"latest{number}")
    return builder.build()


def main(folder: Path, servers: str, records: str, counts: str, version: int, told: Path) -> None:
    """Run, and tell of each batch."""
    spark = short_session(jars=spark_jars(), folder=folder)
    on_s3 = (folder / SETTINGS).exists()
    checkpoint = f"s3a://bucket/{folder.name}/cp" if on_s3 else elsewhere(spark, folder)
    made = topology(records, counts, version)
    kafka = wm.Kafka(servers, max_records_per_batch=30)
    with told.open("a", buffering=1) as lines:
        try:
            cache = str(folder / told.stem)
            query = made.start(spark, checkpoint=checkpoint, kafka=kafka, evolve=True, tasks=1, local_cache=cache)
            batches = -1
            while query.isActive:
                if (now := query.metrics().batches) != batches:
                    batches = now
                    print(BATCH, batches, file=lines)
                time.sleep(0.05)
            query.awaitTermination()
        except Exception as error:
            print(ENDED, type(error).__name__, str(error).partition("\n")[0], file=lines)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:5], int(sys.argv[5]), Path(sys.argv[6]))
