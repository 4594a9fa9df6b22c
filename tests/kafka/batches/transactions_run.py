"""A driver that sums accounts until it is killed: servers, folder, topic of transactions, topics of tables."""

from __future__ import annotations

import sys
from pathlib import Path

import watersmeet as wm
from dev.jars import spark_jars
from tests.kafka.batches.test_transactions_of_a_database import topology


def main() -> None:
    """Run."""
    servers, folder, log, *tables = sys.argv[1:]
    spark = wm.session("bank", master="local[2]", jars=spark_jars(), config={"spark.sql.shuffle.partitions": "2"})
    query = topology(tables, Path(folder) / "stored.db").start(
        spark,
        checkpoint=f"{folder}/cp",
        local_cache=f"{folder}/cache",
        shards=2,
        tasks=2,
        kafka=wm.Kafka(servers, max_records_per_batch=60, transactions=log),
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
