"""What a program that reads and writes Kafka shows on its console when all is well."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

from confluent_kafka import Producer

from dev.broker import KafkaBroker
from dev.reader import committed

ROOT = Path(__file__).resolve().parents[2]
MOST_LINES = 20


def test_a_healthy_start_with_kafka_is_quiet(broker: KafkaBroker, tmp_path: Path) -> None:
    topics = [f"console-{name}" for name in ("orders", "payments", "out")]
    broker.create_topics(topics, partitions=2)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    for key in range(10):
        producer.produce(topics[0], json.dumps({"amount": key}), struct.pack(">q", key))
        producer.produce(topics[1], json.dumps({"paid": 1.0}), struct.pack(">q", key))
    assert producer.flush(600) == 0
    program = str(ROOT / "tests" / "kafka" / "console_run.py")
    done = subprocess.run(
        [sys.executable, program, str(tmp_path / "cp"), broker.bootstrap_servers, *topics],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT / "src", ROOT)))},
    )
    said = done.stderr.splitlines()
    assert done.returncode == 0, "\n".join(said[-20:])
    assert len(committed(broker.bootstrap_servers, topics[2:], 2)) >= 10
    assert [line for line in said if "\tat " in line or "Exception" in line] == []
    assert len(said) <= MOST_LINES, "\n".join(said)
