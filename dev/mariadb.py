"""A real MariaDB for captures of Debezium: Debian's, with a folder of its own and a port on loopback.

with MariaDb() as server:
        server.port
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from dev.broker import free_ports
from dev.debian import install
from dev.program import Program

USER = "root"


class MariaDb(Program):
    """One server that writes its log row by row, from `start` (or `with`) to `stop`.

    Attributes
    ----------
    port : on loopback; its user `root` has no password there.
    """

    def __init__(self) -> None:
        self.port = 0
        self._folder: Path | None = None
        self._server: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Make its tables and serve them."""
        if shutil.which("mariadbd") is None:
            install("mariadb-server")
        atexit.register(self.stop)
        self._folder, [self.port] = Path(tempfile.mkdtemp(prefix="watersmeet-mariadb-")), free_ports(1)
        shutil.chown(self._folder, "mysql") if os.geteuid() == 0 else None
        data = ["--no-defaults", f"--datadir={self._folder / 'data'}"]
        user = ["--user=mysql"] if os.geteuid() == 0 else []
        made = ["mariadb-install-db", *data, *user, "--auth-root-authentication-method=normal", "--skip-test-db"]
        done = subprocess.run(made, capture_output=True)
        if done.returncode:
            raise RuntimeError(done.stderr.decode(errors="replace"))
        where = ["--bind-address=127.0.0.1", f"--port={self.port}", f"--socket={self._folder / 'socket'}"]
        logs = ["--log-bin=log", "--binlog-format=ROW", "--binlog-row-image=FULL", "--server-id=7"]
        text = ["--character-set-server=utf8mb4", "--default-time-zone=+00:00", "--sql-mode=", "--skip-name-resolve"]
        with (self._folder / "server.log").open("wb") as log:
            command = [shutil.which("mariadbd") or "mariadbd", *data, *user, *where, *logs, *text]
            self._server = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        ready = ["mariadb-admin", "--no-defaults", "-h", "127.0.0.1", f"--port={self.port}", f"--user={USER}", "ping"]
        while subprocess.run(ready, capture_output=True).returncode:
            if self._server.poll() is not None:
                raise RuntimeError((self._folder / "server.log").read_text())

    def stop(self) -> None:
        """End it, and remove all that it has."""
        server, self._server = self._server, None
        if server is not None:
            server.kill()
            server.wait()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        atexit.unregister(self.stop)
