"""Passwords and keys of the Kafka connection are nowhere to be seen: texts, logs, plans, files, pickled functions."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from dev.broker import KafkaBroker
from tests.kafka import secret_run
from tests.kafka.topics import new_topic
from watersmeet._worker import process
from watersmeet.errors import ConfigError

SURFACES = ("stdout", "python.log", "jvm.log", "events", "pickled", "checkpoint", "failed", "cache", "local")
FAILURES = (
    "a batch",
    "an unknown setting",
    "a value that is refused",
    "a value that a client refuses",
    "an unknown option",
    "a connection as text",
    "a login that cannot be read",
)


@pytest.fixture(scope="module")
def left_behind(broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run, with all that it wrote."""
    folder = tmp_path_factory.mktemp("secrets")
    source, sink = new_topic(broker, "in"), new_topic(broker)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    for number in range(20):
        # a string, and in Avro one whose schema has the first number of a registry
        producer.produce(source, b"\0\0\0\0\x0b\x02v", b"k%d" % number, timestamp=1 + number)
    producer.flush()
    program = [sys.executable, "-m", "tests.kafka.secret_run"]
    given = [str(folder), broker.bootstrap_servers, source, sink]
    with (folder / "stderr").open("wb") as errors:
        subprocess.run([*program, *given], check=True, stdout=errors, stderr=errors)
    return folder


def contents(path: Path) -> Iterator[tuple[str, bytes]]:
    """Name and bytes of each file below a path, those within zips too."""
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if not file.is_file():
            continue
        yield str(file), file.read_bytes()
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as packed:
                yield from ((f"{file}:{name}", packed.read(name)) for name in packed.namelist())


def test_no_secret_is_in_anything_that_a_run_shows_or_keeps(left_behind: Path) -> None:
    found = [
        (place, name.removeprefix(str(left_behind)))
        for name, content in contents(left_behind)
        for place, canary in secret_run.CANARIES.items()
        if canary.encode() in content
    ]
    assert found == []


def test_every_surface_was_there_to_be_looked_at(left_behind: Path) -> None:
    assert [name for name in (*SURFACES, "stderr") if not any(contents(left_behind / name))] == []
    shown = (left_behind / "stdout").read_text()
    assert [what for what in FAILURES if f"failed: {what}" not in shown] == []
    assert "== Physical Plan ==" in shown
    everything = {name: b"".join(content for _, content in contents(left_behind / name)) for name in SURFACES}
    assert b"KafkaWrite" in everything["pickled"]
    assert f'"{process.SECRETS_PROPERTY}":'.encode() in everything["events"]
    assert f'"{process.REGISTRIES}":'.encode() in everything["events"]
    assert b"read by a registry's schema: 20 records" in everything["stdout"]
    assert b"sasl.jaas.config" in everything["jvm.log"]
    assert b"INFO" in everything["jvm.log"]


def test_frames_of_a_sink_that_are_run_by_themselves_are_told_so() -> None:
    with pytest.raises(ConfigError, match="no settings for Kafka"):
        process.received(b"half")
