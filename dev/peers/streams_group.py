"""Programs of Kafka Streams that run as streams groups (KIP-1071), and a broker's plugin for them (KIP-1331)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dev.fetch_jars import fetch
from dev.jars import classpath, jars
from dev.jvm import SHORT_LIVED, find_java

_SOURCE = Path(__file__).with_name("StreamsGroup.java")
DESCRIPTIONS = {"group.streams.topology.description.plugin.class": "StreamsGroup$Descriptions"}
"""The setting of a broker that keeps descriptions; `compiled` has the class."""
TOPICS = (
    *("orders", "customers", "cities", "payments", "refunds", "countries"),
    *("with-customers", "with-countries", "counted", "paid", "placed", "same"),
)
"""What the programs read and write."""


def compiled(folder: Path) -> Path:
    """The folder, with the classes of program and description."""
    fetch(["streams"])
    api = [str(jar) for jar in jars("broker") if jar.name.startswith("kafka-group-coordinator-api")]
    path = os.pathsep.join([classpath("streams"), *api])
    subprocess.run(
        [str(Path(find_java()).with_name("javac")), "-cp", path, "-d", str(folder), str(_SOURCE)], check=True
    )
    return folder


@contextmanager
def running(servers: str, group: str, program: str, classes: Path, state: Path) -> Iterator[None]:
    """A program, "joins" or "others", from when it runs until the `with` ends."""
    options = [SHORT_LIVED, "-Xmx256m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    path = os.pathsep.join([classpath("streams"), str(classes)])
    command = [find_java(), *options, "-cp", path, "StreamsGroup", servers, group, str(state), program]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        try:
            states = [line.strip() for line in iter(process.stdout.readline, "RUNNING\n")]
            assert process.poll() is None, states
            yield
        finally:
            process.kill()
