"""What Java's own libraries make of values: Avro's, Protobuf's, a validator of JSON Schema, Apicurio's serializers.

Owns their process: one JVM is asked many questions. Its jars are fetched when they are not here.
"""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from dev.fetch_jars import fetch
from dev.jars import classpath
from dev.jvm import find_java

_PROGRAM = Path(__file__).with_name("Peers.java")


class Peers:
    """Java's libraries in a process that runs.

    Parameters
    ----------
    questions : its standard input.
    answers : its standard output.
    """

    def __init__(self, questions: IO[str], answers: IO[str]) -> None:
        self._questions, self._answers = questions, answers

    def ask(self, do: str, **about: Any) -> Mapping[str, Any]:
        """An answer: "refused" with the reason, or what was asked for."""
        given = {
            name: base64.b64encode(each).decode() if isinstance(each, bytes) else each for name, each in about.items()
        }
        self._questions.write(json.dumps({"do": do, **given}) + "\n")
        self._questions.flush()
        found: dict[str, Any] = json.loads(self._answers.readline())
        return found | ({"bytes": base64.b64decode(found["bytes"])} if "bytes" in found else {})


@contextmanager
def peers() -> Iterator[Peers]:
    """Java's libraries, until the `with` ends."""
    fetch(["registry"])
    options = ["-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    command = [find_java(), *options, "-cp", classpath("registry"), str(_PROGRAM)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, encoding="utf-8") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield Peers(process.stdin, process.stdout)
        finally:
            process.kill()
