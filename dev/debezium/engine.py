"""Real Debezium: its embedded engine in a process of its own, over a real Postgres or MariaDB.

Owns the process: its jars (fetched when they are not here), its file of properties, start and end. What it writes goes
into a file, or into Kafka. Its position in the database's log is in its folder, so another engine on that folder goes
on where one ended that was killed.
"""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dev.debezium.captures import Event
from dev.fetch_jars import fetch
from dev.jars import classpath
from dev.jvm import SHORT_LIVED, find_java
from dev.program import Program

JSON = {"converter": "org.apache.kafka.connect.json.JsonConverter", "converter.schemas.enable": "false"}
"""Events without their schema."""
PREFIX = "shop"
"""With which the names of all topics begin."""
_PROGRAM = Path(__file__).with_name("Engine.java")
_ALL = {
    "name": "capture",
    "topic.prefix": PREFIX,
    "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
    "offset.flush.interval.ms": "0",
    "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
    # of its own threads none stands idle for long
    "poll.interval.ms": "50",
}


@dataclass
class Debezium(Program):
    """One engine, from `start` (or `with`) to `stop`.

    Parameters
    ----------
    folder : what it keeps lies here, and the file that it writes.
    properties : of the connector and the converter, over those that all engines have.
    kafka : bootstrap servers; None: it writes a file.
    """

    folder: Path
    properties: Mapping[str, str]
    kafka: str | None = None
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def pid(self) -> int:
        """Of the process that runs."""
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> Path:
        """All that the process says."""
        return self.folder / "debezium.log"

    def start(self) -> None:
        """Start it, where another one on this folder ended."""
        fetch(["debezium"])
        where = {
            "offset.storage.file.filename": str(self.folder / "offsets"),
            "schema.history.internal.file.filename": str(self.folder / "history"),
            **({"into.kafka": self.kafka} if self.kafka else {"into.file": str(self.folder / "events.tsv")}),
        }
        file = self.folder / "engine.properties"
        all_of_it = {**_ALL, **JSON, **where, **self.properties}
        file.write_text("".join(f"{name}={_escaped(value)}\n" for name, value in all_of_it.items()))
        options = [SHORT_LIVED, "-Xmx384m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        command = [find_java(), *options, "-cp", classpath("debezium"), str(_PROGRAM), str(file)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def stop(self) -> None:
        """Kill it: what it has not noted as written it writes once more."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def events(self) -> Iterator[Event]:
        """What it has written into its file.

        Raises
        ------
        RuntimeError : it has ended; the text is the end of its log.
        """
        if self._process is not None and self._process.poll() is not None:
            raise RuntimeError(self.log.read_text(errors="replace")[-3000:])
        path = self.folder / "events.tsv"
        for line in path.read_text().splitlines() if path.exists() else ():
            parts = line.split("\t")
            if len(parts) == 3:
                topic, key, value = parts
                yield topic, _bytes(key), _bytes(value)


def _bytes(text: str) -> bytes | None:
    return None if text == "-" else base64.b64decode(text)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")
