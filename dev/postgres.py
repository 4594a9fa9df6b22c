"""A real Postgres for tests and the fault bench: Debian's, with a folder and a socket of its own, and a port if asked.

Owns the server's whole life: its folder, `initdb`, the start, the end. Where the programs are missing they are
installed, if this is a Debian whose packages root may install. The superuser's password is asked for, so that what
tests show of secrets is so.

with Postgres() as server:
        wm.DatabaseTable(server.url, table="orders", ...)
"""

from __future__ import annotations

import atexit
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from dev.broker import free_ports
from dev.debian import ProgramMissing, install
from dev.program import Program

PASSWORD = "canary-of-postgres"
_INSTALLED = "/usr/lib/postgresql"
_USER = "postgres"
"""Whom the server runs as where we are root, which it refuses to be."""


@cache
def programs() -> Path:
    """The folder of `initdb` and `postgres`, installed if need be.

    Raises
    ------
    ProgramMissing : they are not here.
    """
    found = _programs()
    if found is not None:
        return found
    install("postgresql")
    found = _programs()
    if found is None:
        raise ProgramMissing(f"postgresql was installed, but {_INSTALLED} has no initdb.")
    return found


def _programs() -> Path | None:
    folders = sorted(Path(_INSTALLED).glob("*/bin"), key=lambda folder: float(folder.parent.name), reverse=True)
    on_path = shutil.which("initdb")
    folders += [] if on_path is None else [Path(on_path).resolve().parent]
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


class Postgres(Program):
    """One server, from `start` (or `with`) to `stop`.

    Parameters
    ----------
    captured : whether Debezium is to read it: it then has a port on loopback, and logical decoding.

    Attributes
    ----------
    port : 0 without one.
    """

    def __init__(self, *, captured: bool = False) -> None:
        self._captured = captured
        self.port = 0
        self._folder: Path | None = None
        self._server: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """How to reach it, the password with it."""
        address = f"127.0.0.1:{self.port}/postgres" if self.port else f"/postgres?host={self._folder}"
        return f"postgresql://{_USER}:{PASSWORD}@{address}"

    def start(self) -> None:
        """Make a cluster of databases and serve it."""
        where = programs()
        atexit.register(self.stop)
        # a socket's whole name has at most 107 bytes
        self._folder = Path(tempfile.mkdtemp(prefix="watersmeet-postgres-", dir="/tmp"))
        secret = self._folder / "password"
        secret.write_text(PASSWORD)
        if os.geteuid() == 0:
            owner = pwd.getpwnam(_USER)
            for path in (self._folder, secret):
                os.chown(path, owner.pw_uid, owner.pw_gid)
        data = str(self._folder / "data")
        made = ["-D", data, "-U", _USER, "--auth=scram-sha-256", f"--pwfile={secret}", "-E", "UTF8", "--locale=C"]
        done = subprocess.run(_as_user([str(where / "initdb"), *made, "--no-sync"]), cwd="/", capture_output=True)
        if done.returncode:
            raise RuntimeError(done.stderr.decode(errors="replace"))
        settings = ["-c", f"unix_socket_directories={self._folder}", "-c", "fsync=off"]
        if self._captured:
            [self.port] = free_ports(1)
            settings += ["-c", "listen_addresses=127.0.0.1", "-c", f"port={self.port}", "-c", "wal_level=logical"]
        else:
            settings += ["-c", "listen_addresses="]
        with (self._folder / "log").open("wb") as log:
            command = _as_user([str(where / "postgres"), "-D", data, *settings])
            self._server = subprocess.Popen(command, cwd="/", stdout=log, stderr=log, start_new_session=True)
        ready = [str(where / "pg_isready"), "-q", "-h", str(self._folder), "-p", str(self.port or 5432)]
        while subprocess.run(ready).returncode:
            if self._server.poll() is not None:
                raise RuntimeError((self._folder / "log").read_text())

    def stop(self) -> None:
        """End it, and remove all that it has."""
        server, self._server = self._server, None
        if server is not None:
            os.killpg(server.pid, signal.SIGQUIT)
            server.wait()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        atexit.unregister(self.stop)


def _as_user(command: Sequence[str]) -> list[str]:
    return (
        ["setpriv", f"--reuid={_USER}", f"--regid={_USER}", "--init-groups", *command]
        if not os.geteuid()
        else [*command]
    )
