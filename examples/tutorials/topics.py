"""Write records of a file to Kafka topics, and read a topic: what the tutorials need beside watersmeet.

python topics.py localhost:9092 write orders.jsonl         # all records of the file
python topics.py localhost:9092 write orders.jsonl 6 10    # its lines 6 to 10
python topics.py localhost:9092 read open-orders

A line of the file is {"topic": ..., "key": ..., "value": ..., "ts": milliseconds or absent}.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any, cast

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition


def records(path: Path) -> list[dict[str, Any]]:
    """The records of a file of JSON lines, which may be compressed (.gz)."""
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [json.loads(line) for line in text.decode().splitlines()]


def encoded(part: Any) -> bytes | None:
    """A key or value as a topic has it: text as it is, objects as JSON."""
    return None if part is None else (part if isinstance(part, str) else json.dumps(part)).encode()


def text(part: str | bytes | None) -> str | None:
    """What bytes of a topic say."""
    return part.decode() if isinstance(part, bytes) else part


def write(servers: str, path: Path, first: int, last: int | None) -> None:
    """Write the records of these lines, both included, each to its topic."""
    quiet = {"log_level": 3}  # a broker that has just started is asked again
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True} | quiet)
    chosen = records(path)[first - 1 : last]
    for record in chosen:
        time = {"timestamp": record["ts"]} if "ts" in record else {}
        producer.produce(record["topic"], encoded(record["value"]), encoded(record["key"]), **time)
    producer.flush()
    print(f"{len(chosen)} records written")


def read(servers: str, topic: str) -> None:
    """Print the committed records of a topic, with their headers."""
    settings = {"bootstrap.servers": servers, "group.id": "topics.py", "isolation.level": "read_committed"}
    consumer = Consumer(settings | {"enable.auto.commit": False, "enable.partition.eof": True})
    partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
    left = len(partitions)
    while left:
        (record,) = consumer.consume(1)
        if record.error() is not None:
            left -= 1  # the end of a partition
            continue
        print(text(record.key()), text(record.value()))
        for name, value in cast("list[tuple[str, bytes | None]]", record.headers() or []):
            print(f"  {name}: {text(value)}")
    consumer.close()


if __name__ == "__main__":
    servers, command, name, *lines = sys.argv[1:]
    if command == "write":
        numbers = [int(line) for line in lines] or [1]
        write(servers, Path(name), numbers[0], numbers[1] if len(numbers) > 1 else None)
    else:
        read(servers, name)
