"""A Schema Registry for tests: a small server that answers the documented REST calls, and fails as one may.

Its rules of compatibility are those that a test gives it: a subject refuses new schemas, or takes them. Its numbers
are its own; a schema has one number, whatever its subjects.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

Answer = tuple[int, Any]
_FIRST_ID = 11
"""No number that a test finds by chance."""


@dataclass
class SchemaRegistryServer:
    """Schemas in memory.

    Parameters
    ----------
    login : "user:password", which every call must have; None: any may call.
    refuses : by subject, the answer to who registers a schema that it does not have.
    failing : the answer to all calls; None: the real one.
    delay : seconds before each answer.

    Attributes
    ----------
    schemas : by number, as they were registered.
    subjects : by name, the numbers of its versions, in order.
    calls : method and path of each call.
    """

    login: str | None = None
    refuses: dict[str, Answer] = field(default_factory=dict)
    failing: Answer | None = None
    delay: float = 0.0
    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)
    subjects: dict[str, list[int]] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    url: str = ""

    def add(self, subject: str, schema: Any, kind: str = "AVRO", references: Any = ()) -> int:
        """Register a schema whatever its subject says; its number."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        body = {"schema": text, "schemaType": kind} | ({"references": list(references)} if references else {})
        return int(self._registered(subject, body)["id"])

    @contextmanager
    def running(self) -> Iterator[SchemaRegistryServer]:
        """The server on a free port of loopback, at `url`."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()

    def answer(self, method: str, path: str, body: Any, login: str | None) -> Answer:
        """What the registry answers to a call."""
        self.calls.append(f"{method} {path}")
        time.sleep(self.delay)
        if self.failing is not None:
            return self.failing
        if self.login is not None and login != self.login:
            return 401, {"error_code": 401, "message": "Unauthorized"}
        match (method, *(unquote(part) for part in path.strip("/").split("/"))):
            case ("GET", "subjects"):
                return 200, sorted(self.subjects)
            case ("GET", "schemas", "ids", number):
                return self._by_id(int(number))
            case ("GET", "subjects", subject, "versions"):
                found = self.subjects.get(subject)
                return (200, list(range(1, len(found) + 1))) if found else _no_subject(subject)
            case ("GET", "subjects", subject, "versions", version):
                return self._version(subject, version)
            case ("POST", "subjects", subject, "versions"):
                return self._register(subject, body)
            case ("POST", "subjects", subject):
                return self._look_up(subject, body)
            case ("POST", "compatibility", "subjects", subject, "versions", _):
                return 200, {"is_compatible": subject not in self.refuses}
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _by_id(self, number: int) -> Answer:
        found = self.schemas.get(number)
        return (200, found) if found else (404, {"error_code": 40403, "message": f"Schema {number} not found"})

    def _version(self, subject: str, version: str) -> Answer:
        found = self.subjects.get(subject)
        if not found:
            return _no_subject(subject)
        number = len(found) if version == "latest" else int(version)
        if not 1 <= number <= len(found):
            return 404, {"error_code": 40402, "message": f"Version {version} not found."}
        return 200, self._described(subject, found[number - 1])

    def _described(self, subject: str, number: int) -> dict[str, Any]:
        version = self.subjects[subject].index(number) + 1
        return {"subject": subject, "version": version, "id": number, **self.schemas[number]}

    def _register(self, subject: str, body: dict[str, Any]) -> Answer:
        number = self._number(body)
        if subject in self.refuses and number not in self.subjects.get(subject, ()):
            return self.refuses[subject]
        if not isinstance(body.get("schema"), str) or not body["schema"].strip():
            return 422, {"error_code": 42201, "message": "Empty schema"}
        return 200, self._registered(subject, body)

    def _registered(self, subject: str, body: dict[str, Any]) -> dict[str, Any]:
        number = self._number(body)
        if number is None:
            number = _FIRST_ID + len(self.schemas)
            self.schemas[number] = body
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return {"id": number}

    def _look_up(self, subject: str, body: dict[str, Any]) -> Answer:
        if subject not in self.subjects:
            return _no_subject(subject)
        number = self._number(body)
        if number not in self.subjects[subject]:
            return 404, {"error_code": 40403, "message": "Schema not found"}
        return 200, self._described(subject, number)

    def _number(self, body: dict[str, Any]) -> int | None:
        wanted = _same(body)
        return next((number for number, known in self.schemas.items() if _same(known) == wanted), None)


def _same(body: dict[str, Any]) -> tuple[str, str]:
    return body["schema"], body.get("schemaType") or "AVRO"


def _no_subject(subject: str) -> Answer:
    return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}


def _handler(registry: SchemaRegistryServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer("GET")

        def do_POST(self) -> None:
            self._answer("POST")

        def _answer(self, method: str) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            given = self.headers.get("Authorization", "")
            login = base64.b64decode(given.removeprefix("Basic ")).decode() if given.startswith("Basic ") else None
            body = json.loads(content) if content else None
            status, answer = registry.answer(method, urlsplit(self.path).path, body, login)
            text = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: tests look at `calls`."""

    return Handler
