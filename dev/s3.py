"""An S3 for tests: moto's, behind a server with threads, on loopback, with conditional writes as S3 has them.

moto's own development server answers one request at a time and breaks uploads of state; so this is gunicorn's.

with S3() as s3:
        wm.session(jars=s3.jars, config=s3.settings)   # s3a://bucket/checkpoint
"""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from dev.broker import end_watchdog, kill_when_we_die
from dev.file_manager.build import built
from dev.jars import ROOT, jars

BUCKET = "bucket"
CARELESS = "careless"
"""The name of a bucket, if somebody makes it, that overwrites what exists, whatever condition a request has."""
_THREADS = 16
_WAIT_SECONDS = 120.0


def application(unanswered: Sequence[str]) -> Any:
    """moto's S3, for gunicorn.

    Parameters
    ----------
    unanswered : ends of paths. The first request to write each such object is carried out, and answered as failed.
    """
    from moto.moto_server.werkzeug_app import create_backend_app

    inner: Any = create_backend_app("s3")
    done: set[str] = set()

    def answered(request: dict[str, Any], start: Any) -> Any:
        path = request["PATH_INFO"]
        if path.startswith(f"/{CARELESS}/"):
            request.pop("HTTP_IF_NONE_MATCH", None)
        if request["REQUEST_METHOD"] != "PUT" or path in done or not path.endswith(tuple(unanswered)):
            return inner(request, start)
        done.add(path)
        for _ in inner(request, lambda *_: None):
            pass
        start("500 Internal Server Error", [("Content-Length", "0")])
        return [b""]

    return answered


class S3:
    """A server with one bucket, empty at the start.

    Parameters
    ----------
    unanswered : ends of the paths of objects that are written while the answer is an error.

    Attributes
    ----------
    url : where it answers.
    """

    def __init__(self, unanswered: Sequence[str] = ()) -> None:
        self._unanswered = tuple(unanswered)

    def __enter__(self) -> S3:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        program = [sys.executable, "-m", "gunicorn", "--bind", f"127.0.0.1:{port}", "--log-level", "error"]
        # what one worker has no other one would know
        program += ["--workers", "1", "--threads", str(_THREADS), f"{__name__}:application({self._unanswered!r})"]
        self._log = tempfile.NamedTemporaryFile("r", prefix="watersmeet-s3-")
        program += ["--access-logfile", self._log.name]
        self._server = subprocess.Popen(program, cwd=ROOT)
        self._watchdog = kill_when_we_die(self._server.pid, None)
        until = time.monotonic() + _WAIT_SECONDS
        while not self.make(BUCKET):
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
        end_watchdog(self._watchdog)
        self._log.close()

    def make(self, bucket: str) -> bool:
        """Make a bucket; whether the server has answered."""
        try:
            with urllib.request.urlopen(urllib.request.Request(f"{self.url}/{bucket}", method="PUT"), timeout=10):
                return True
        except OSError:
            return False

    def requests(self) -> list[str]:
        """Methods and paths of all requests until now: "PUT /bucket/name"."""
        return re.findall(r'"([A-Z]+ \S+) HTTP', Path(self._log.name).read_text())

    @property
    def jars(self) -> list[str]:
        """Hadoop's S3A, for `wm.session`. The package gets its own file manager for S3, where it has none yet."""
        built()
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
