"""The databases that Debezium reads: what a connector needs to read each, and sessions in which scripts run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import psycopg

from dev.mariadb import USER, MariaDb
from dev.postgres import PASSWORD, Postgres, programs

_DONE = "statement-done"


class Session:
    """A session of a database's own client, statement by statement.

    Parameters
    ----------
    command : of the client, which reads statements from its input.
    mark : the command that makes it say that it is done.
    """

    def __init__(self, command: list[str], mark: str, environment: Mapping[str, str]) -> None:
        self._client = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **environment},
        )
        assert self._client.stdin is not None
        assert self._client.stdout is not None
        self._input, self._output = self._client.stdin, self._client.stdout
        self._mark, self._lines = mark, list[str]()

    def add(self, line: str) -> None:
        """Add a line to the next statement."""
        self._lines.append(line)

    def run(self) -> None:
        """Run what has been added, and wait for its end.

        Raises
        ------
        RuntimeError : the database has refused one.
        """
        self._input.write("".join(f"{line}\n" for line in [*self._lines, self._mark]))
        self._lines = []
        self._input.flush()
        said = list[str]()
        for line in self._output:
            if line.strip() == _DONE:
                return
            said.append(line)
        raise RuntimeError("".join(said))

    def close(self) -> None:
        """End it."""
        self._input.close()
        self._client.wait()
        self._output.close()


@dataclass(frozen=True)
class Source:
    """A database that Debezium can read.

    Parameters
    ----------
    properties : of the connector.
    """

    properties: Mapping[str, str]

    def session(self) -> Session:
        """A new session."""
        raise NotImplementedError

    def is_followed(self) -> bool:
        """Whether Debezium is behind its snapshot, and reads the log."""
        raise NotImplementedError


@dataclass(frozen=True)
class PostgresSource(Source):
    """A Postgres.

    Parameters
    ----------
    url : how to reach it.
    """

    url: str

    def session(self) -> Session:
        """As each source."""
        client = [str(programs() / "psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-o", "/dev/null", self.url]
        return Session(client, f"\\echo {_DONE}", {"PGOPTIONS": "-c client_min_messages=warning -c timezone=UTC"})

    def is_followed(self) -> bool:
        """As each source."""
        with psycopg.connect(self.url) as connection:
            row = connection.execute("select count(*) from pg_replication_slots where active").fetchone()
        return row == (1,)


@dataclass(frozen=True)
class MariaDbSource(Source):
    """A MariaDB.

    Parameters
    ----------
    port : on loopback.
    """

    port: int

    def _client(self, *options: str) -> list[str]:
        where = [
            "--no-defaults",
            "-h127.0.0.1",
            f"--port={self.port}",
            f"--user={USER}",
            "--default-character-set=utf8mb4",
        ]
        return [shutil.which("mariadb") or "mariadb", *where, *options]

    def session(self) -> Session:
        """As each source."""
        return Session(self._client("-n", "-N", "shop"), f"select '{_DONE}';", {})

    def is_followed(self) -> bool:
        """As each source."""
        done = subprocess.run(self._client("-N", "-e", "show processlist"), capture_output=True, text=True, check=True)
        return "Binlog Dump" in done.stdout


@contextmanager
def postgres() -> Iterator[PostgresSource]:
    """A new Postgres."""
    with Postgres(captured=True) as server:
        properties = {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "database.hostname": "127.0.0.1",
            "database.port": str(server.port),
            "database.user": "postgres",
            "database.password": PASSWORD,
            "database.dbname": "postgres",
            "plugin.name": "pgoutput",
        }
        yield PostgresSource(properties, server.url)


@contextmanager
def mariadb() -> Iterator[MariaDbSource]:
    """A new MariaDB with a database `shop`."""
    with MariaDb() as server:
        properties = {
            "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
            "database.hostname": "127.0.0.1",
            "database.port": str(server.port),
            "database.user": USER,
            "database.server.id": "8",
            "database.include.list": "shop",
        }
        source = MariaDbSource(properties, server.port)
        subprocess.run(source._client("-e", "create database shop"), check=True)
        yield source


SOURCES = {"postgres": postgres, "mariadb": mariadb}


@contextmanager
def schema_store(schemas: dict[int, Any]) -> Iterator[str]:
    """The one call of Apicurio's registry with which its converter registers schemas: the URL of it.

    Parameters
    ----------
    schemas : those that it registers, by number.
    """

    class Calls(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            schema = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            number = next((known for known, each in schemas.items() if each == schema), len(schemas) + 1)
            schemas[number] = schema
            artifact = self.headers["X-Registry-ArtifactId"] or urlsplit(self.path).path
            answer = {"id": artifact, "version": "1", "type": "AVRO", "globalId": number, "contentId": number}
            body = json.dumps({**answer, "groupId": "default", "state": "ENABLED"}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Calls)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/apis/registry/v2"
    finally:
        server.shutdown()
        server.server_close()
