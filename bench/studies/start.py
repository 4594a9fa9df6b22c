"""How long it takes until a topology gives its first result: from nothing, Kafka to Kafka, a thousand records.

`python bench/studies/start.py [CHECKOUT ...] [--turns 3]`: this checkout and others, by turns, each turn a process of
its own. A stream of 1,000 records is joined with a table. The clock begins with `topology.start`; what comes before it
(the session, the topology) is shown apart."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]
if not __package__:  # run by its path: this checkout's own comes behind that of the turn
    sys.path += [str(ROOT / "src"), str(ROOT)]

from confluent_kafka import Consumer, Producer, TopicPartition

RECORDS = 1_000
PARTITIONS = 4
PHASES = ("session", "topology", "start", "first result")
BEGIN, CPU = "begin", "CPU-seconds"
"""When `start` was called, seconds since the epoch; what all processes used from there to the first result."""


def turn(servers: str, out: str, folder: str) -> dict[str, float]:
    """One start, in this process: seconds of each phase; "first result" is counted from the call of `start` on."""
    times = [time.monotonic()]
    import watersmeet as wm
    from dev.jars import spark_jars

    config = {"spark.ui.enabled": "false", "spark.driver.extraJavaOptions": os.environ.get("BENCH_JAVA", "")}
    spark = wm.session("start", master="local[2]", jars=spark_jars(), config=config)
    spark.sparkContext.setLogLevel("ERROR")
    times.append(time.monotonic())
    from pyspark.sql import functions as F

    builder = wm.StreamsBuilder("start")
    table = builder.table("table", key="long", value="string")
    builder.stream("stream", key="long", value="string").join(table, F.concat).to(out)
    topology = builder.build()
    seen = threading.Thread(target=_wait_for_a_result, args=(servers, out))
    seen.start()
    times.append(time.monotonic())
    begin = time.time()
    query = topology.start(spark, checkpoint=f"{folder}/cp", local_cache=f"{folder}/cache", kafka=wm.Kafka(servers))
    times.append(time.monotonic())
    seen.join()
    times.append(time.monotonic())
    query.stop()
    spark.stop()
    took = [later - earlier for earlier, later in pairwise(times)]
    took[3] += took[2]
    return dict(zip(PHASES, took, strict=True)) | {BEGIN: begin}


def _wait_for_a_result(servers: str, out: str) -> None:
    settings = {"bootstrap.servers": servers, "group.id": "reader", "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "fetch.wait.max.ms": 5, "enable.auto.commit": False})
    consumer.assign([TopicPartition(out, number, 0) for number in range(PARTITIONS)])
    while not any(message.error() is None for message in consumer.consume(1, 0.01)):
        pass
    consumer.close()


def measured(roots: list[Path], turns: int, work: Path) -> Mapping[Path, list[dict[str, float]]]:
    """Prints each turn; what each checkout took."""
    from bench.measuring import profiles
    from bench.measuring.measure import Sampler
    from bench.measuring.turns import of_installed_packages
    from dev.broker import KafkaBroker

    found: dict[Path, list[dict[str, float]]] = defaultdict(list)
    with KafkaBroker() as broker:
        _fill(broker.bootstrap_servers, broker)
        for number in range(turns):
            for place, root in enumerate(roots[number % len(roots) :] + roots[: number % len(roots)]):
                out = f"out-{number}-{place}"
                broker.create_topics([out], partitions=PARTITIONS)
                shutil.rmtree(work, ignore_errors=True)
                work.mkdir(parents=True)
                environment = {**of_installed_packages(), "PYTHONPATH": os.pathsep.join([str(root / "src"), str(ROOT)])}
                command = [sys.executable, __file__, "--turn", broker.bootstrap_servers, out, str(work)]
                process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
                with Sampler(process.pid, 0.1, parts=True) as sampler:
                    text = process.communicate()[0]
                said: dict[str, float] = json.loads(text.splitlines()[-1])
                begin = said.pop(BEGIN)
                end = begin + said[PHASES[-1]]
                parts = profiles.parts(sampler.usage, begin, end)
                found[root].append({**said, CPU: sampler.usage.cpu_between(begin, end), **parts})
                shown = ", ".join(f"{name} {found[root][-1][name]:.2f}" for name in (*PHASES, CPU))
                print(f"{root.name}: {shown}", flush=True)
    return found


def _fill(servers: str, broker: object) -> None:
    broker.create_topics(["stream", "table"], partitions=PARTITIONS)  # type: ignore[attr-defined]
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "partitioner": "murmur2_random"})
    for topic in ("table", "stream"):
        for key in range(RECORDS):
            producer.produce(topic, f"{topic} {key}", key.to_bytes(8, "big"))
    producer.flush()


def main() -> None:
    """Measure, or be a turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("others", nargs="*", type=Path)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--turn", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.turn:
        print(json.dumps(turn(*options.turn)))
        return
    roots = [*(other.resolve() for other in options.others), ROOT]
    for root, turns in measured(roots, options.turns, ROOT / ".bench" / "work" / "start").items():
        print(f"{root}, medians:")
        for name in turns[0]:
            print(f"  {name}: {median(each.get(name, 0.0) for each in turns):.2f}")


if __name__ == "__main__":
    main()
