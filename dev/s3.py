"""An S3 for tests: moto's, behind a server with threads, on loopback, with conditional writes as S3 has them.

moto's own development server answers one request at a time and breaks uploads of state; so this is gunicorn's.

with S3() as s3:
        wm.session(jars=s3.jars, config=s3.settings)   # s3a://bucket/checkpoint
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.request
from types import TracebackType

from dev.jars import jars

BUCKET = "bucket"
_THREADS = 16
_WAIT_SECONDS = 120.0


class S3:
    """A server with one bucket, empty at the start.

    Attributes
    ----------
    url : where it answers.
    """

    def __enter__(self) -> S3:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        program = [sys.executable, "-m", "gunicorn", "--bind", f"127.0.0.1:{port}", "--log-level", "error"]
        # what one worker has no other one would know
        program += ["--workers", "1", "--threads", str(_THREADS), "moto.server:create_backend_app('s3')"]
        self._server = subprocess.Popen(program)
        until = time.monotonic() + _WAIT_SECONDS
        while not self._made():
            if self._server.poll() is not None or time.monotonic() > until:
                self._end()
                raise RuntimeError("moto's S3 did not start.\nHint: run `make setup`, which installs it.")
            time.sleep(0.1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        self._server.terminate()
        self._server.wait(30)

    def _made(self) -> bool:
        """Whether the bucket is made."""
        try:
            with urllib.request.urlopen(urllib.request.Request(f"{self.url}/{BUCKET}", method="PUT"), timeout=10):
                return True
        except OSError:
            return False

    @property
    def jars(self) -> list[str]:
        """Hadoop's S3A, for `wm.session`."""
        return [str(jar) for jar in jars("s3")]

    @property
    def settings(self) -> dict[str, str]:
        """How a session reaches it."""
        given = {
            "endpoint": self.url,
            "endpoint.region": "us-east-1",
            "access.key": "key",
            "secret.key": "secret",
            "path.style.access": "true",
            "connection.ssl.enabled": "false",
            "input.stream.type": "classic",
        }
        return {f"spark.hadoop.fs.s3a.{name}": value for name, value in given.items()}
