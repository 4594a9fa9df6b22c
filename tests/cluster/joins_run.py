"""All joins in turn, in one session with two executors: FOLDER SERVERS. Its input names what to run next."""

from __future__ import annotations

import sys
from pathlib import Path

import watersmeet
from chaos.joins import JOINS, SIDES, handles
from chaos.turn import session


def main(folder: Path, servers: str) -> None:
    """For each line, the name of a join: run it over what its topics have now, and say so."""
    spark = session(folder, 2)
    for line in sys.stdin:
        name = line.strip()
        policy = watersmeet.DeadLetter(f"{name}-dead") if JOINS[name].bad else "fail"
        builder = watersmeet.StreamsBuilder("cluster", on_undecodable=policy)
        topics = {side: f"{name}-{side}" for side in SIDES}
        handles(JOINS[name], builder, topics).to(f"{name}-out", delivery="exactly_once")
        query = builder.build().start(
            spark,
            checkpoint=str(folder / name),
            kafka=watersmeet.Kafka(servers, max_records_per_batch=200),
            tasks=2,
            shards=4,
            available_now=True,
        )
        query.awaitTermination()
        executors = spark.sparkContext.getConf().get("spark.master")
        print(name, executors, flush=True)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
