"""A real Schema Registry: Apicurio's in memory, in a process of its own, with the calls of Confluent's.

Its archive is fetched and unpacked when it is not here.
"""

from __future__ import annotations

import os
import subprocess
import tarfile
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dev.broker import free_ports
from dev.fetch_jars import fetch
from dev.jars import JARS
from dev.jvm import SHORT_LIVED, find_java

CONFLUENT, OWN = "apis/ccompat/v7", "apis/registry/v2"
"""Where it answers as Confluent's registry does, and where as itself."""
_SECONDS = 120.0


@contextmanager
def real_registry() -> Iterator[str]:
    """A registry on a free port of loopback, until the `with` ends: its address, behind which `CONFLUENT` stands.

    Raises
    ------
    RuntimeError : it does not start; the text is the end of its log.
    """
    program, [port] = _program(), free_ports(1)
    url = f"http://127.0.0.1:{port}"
    options = [SHORT_LIVED, "-Xmx384m", "-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={port}"]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen([find_java(), *options, "-jar", str(program)], stdout=log, stderr=log)
        try:
            _wait(process, url, log.fileno())
            yield url
        finally:
            process.kill()
            process.wait()


def _program() -> Path:
    fetch(["registry"])
    folder = JARS / "registry" / "app"
    if not folder.exists():
        [archive] = (JARS / "registry").glob("*-all.tar.gz")
        fresh = folder.with_name(f"app-{os.getpid()}")
        with tarfile.open(archive) as packed:
            packed.extractall(fresh, filter="data")
        # whole, or not there
        fresh.rename(folder)
    [runner] = folder.glob("*-runner.jar")
    return runner


def _wait(process: subprocess.Popen[bytes], url: str, log: int) -> None:
    until = time.monotonic() + _SECONDS
    while process.poll() is None and time.monotonic() < until:
        try:
            with urllib.request.urlopen(f"{url}/{CONFLUENT}/subjects", timeout=5):
                return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError(f"The registry does not start:\n{os.pread(log, 1 << 20, 0)[-3000:].decode(errors='replace')}")
