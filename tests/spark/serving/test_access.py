"""Who may read, and what a reader may take: addresses, tokens, hosts, paths, bodies, ranges, connections. No Spark."""

from __future__ import annotations

import asyncio
import base64
import json
import resource
import socket
import ssl
import subprocess
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl
import pytest
from click.testing import CliRunner
from pyspark.sql.types import BinaryType

import watersmeet as wm
from tests.spark.serving.kit import until
from tests.spark.serving.standing import ROWS, ask, served, standing, status_of
from watersmeet._spark.serving.answers import answer
from watersmeet._spark.serving.listening import http, limits
from watersmeet._spark.serving.listening.access import Access
from watersmeet._spark.serving.listening.lookups import KeyLookups
from watersmeet._spark.serving.listening.servers import Servers
from watersmeet._spark.serving.page.status import QueryStatus
from watersmeet._spark.serving.reads import TableQuestion
from watersmeet._spark.serving.replica import Replica
from watersmeet._spark.serving.stores import key_of_text, keys_of
from watersmeet.cli.commands import main
from watersmeet.errors import ConfigError

TOKEN = "a token of enough length"


@pytest.fixture(scope="module")
def replica() -> Replica:
    """A table of many rows, as of batch 7."""
    return standing()


def test_another_machine_is_served_only_with_a_token_or_certificates(tmp_path: Path) -> None:
    for address in ("0.0.0.0:8815", "[::]:8815", "192.168.1.7:8815", "example.com:8815"):
        with pytest.raises(ConfigError, match="Any machine that reaches"):
            Access.of(address, None, None, None)
        assert Access.of(address, None, TOKEN, None).flight_port == 8816
    for address in ("127.0.0.1:0", "localhost:8815", "[::1]:8815", "127.8.9.10:1"):
        assert Access.of(address, None, None, None).token is None
    with pytest.raises(ConfigError, match="16 characters or more"):
        Access.of("127.0.0.1:0", None, "short", None)
    with pytest.raises(ConfigError, match="no host and port"):
        Access.of("8815", None, None, None)
    with pytest.raises(ConfigError, match="must name two files"):
        Access.of("0.0.0.0:0", None, None, (tmp_path / "no.crt", tmp_path / "no.key"))
    assert TOKEN not in repr(Access.of("0.0.0.0:0", None, TOKEN, None))


def test_one_row_is_explained_at_a_time_and_another_question_meanwhile_is_refused(replica: Replica) -> None:
    begun, told = threading.Event(), threading.Event()

    def why(table: str, key: Any) -> Any:
        begun.set()
        assert told.wait(600)
        return SimpleNamespace(as_json=lambda: json.dumps({"table": table, "key": key}))

    with served(replica, why=why) as servers, ThreadPoolExecutor(1) as asking:
        first = asking.submit(ask, f"{servers.url}/why/t/1")
        try:
            assert begun.wait(600)
            status, said = ask(f"{servers.url}/why/t/2")
        finally:
            told.set()
        assert status == 503
        assert "Ask again when it has its answer" in said["error"]
        assert first.result() == (200, {"table": "t", "key": 1})
        assert ask(f"{servers.url}/why/t/2") == (200, {"table": "t", "key": 2})


def test_who_waits_for_another_reader_of_the_dead_letters_is_refused_in_time(
    replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "SECONDS", 0.01)
    begun, told = threading.Event(), threading.Event()

    def last() -> list[dict[str, Any]]:
        begun.set()
        assert told.wait(600)
        return []

    monkeypatch.setattr(QueryStatus, "last_dead_letters", lambda self: last())
    with served(replica) as servers, ThreadPoolExecutor(1) as asking:
        first = asking.submit(ask, f"{servers.url}/dead-letters")
        try:
            assert begun.wait(600)
            status, said = ask(f"{servers.url}/dead-letters")
        finally:
            told.set()
        assert (status, "Look again later" in said["error"]) == (503, True)
        assert first.result() == (200, {"letters": []})


def test_nothing_is_read_without_the_token(replica: Replica) -> None:
    with served(replica, TOKEN) as servers:
        for token in (None, "", "wrong", TOKEN[:-1], f"{TOKEN}x", TOKEN.upper()):
            for path in (
                "/tables",
                "/tables/t",
                "/tables/t/1",
                "/changes",
                "/metrics",
                "/read",
                "/status",
                "/topology.svg",
                "/topology.txt",
                "/dead-letters",
                "/why/t/1",
                "/nothing",
            ):
                assert ask(servers.url + path, token)[0] == 401, (token, path)
            client = fl.connect(servers.flight_url)
            headers = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
            options = fl.FlightCallOptions(headers=headers)
            with pytest.raises(fl.FlightUnauthenticatedError):
                client.do_get(fl.Ticket(b'{"table":"t","key":1}'), options).read_all()
            with pytest.raises(fl.FlightUnauthenticatedError):
                list(client.list_flights(options=options))
        with pytest.raises(ConfigError, match="token is missing or wrong"):
            wm.connect(servers.url, token="wrong wrong wrong")
        assert "WATERSMEET_TOKEN" in CliRunner().invoke(main, ["top", servers.url, "--once"]).output
        assert ask(f"{servers.url}/tables/t/1", TOKEN)[1]["rows"][0]["key"] == 1
        with wm.connect(servers.url, token=TOKEN) as tables:
            assert tables.table("t").get(1) == wm.ServedRow(7, "x" * 200, tables.table("t").get(1).timestamp)


def test_health_is_told_without_a_token_and_reasons_with_it_alone(replica: Replica) -> None:
    with served(replica, TOKEN) as servers:
        assert ask(f"{servers.url}/healthz") == (200, {"status": "ok"})
        assert ask(f"{servers.url}/readyz") == (200, {"ready": True, "batch": 7})
    with served(replica, TOKEN, failure=ConfigError("A secret of the query.")) as servers:
        assert ask(f"{servers.url}/readyz") == (503, {"ready": False, "batch": 7})
        code, said = ask(f"{servers.url}/readyz", TOKEN)
        assert (code, said["error"]) == (503, "A secret of the query.")
        assert ask(f"{servers.url}/tables/t/1", TOKEN)[0] == 200


def test_a_page_of_another_site_cannot_ask_where_no_token_is_needed(replica: Replica) -> None:
    with served(replica) as servers:
        port = servers.url.rpartition(":")[2]
        for host in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", ""):
            assert ask(f"{servers.url}/tables", Host=host)[0] in (400, 403), host
        for host in (f"localhost:{port}", "127.0.0.1", f"[::1]:{port}"):
            assert ask(f"{servers.url}/tables", Host=host)[0] == 200, host


def test_a_path_names_a_table_and_a_key_and_nothing_else(replica: Replica) -> None:
    with served(replica) as servers:
        for path in ("../../etc/passwd", "..%2f..%2fetc%2fpasswd", "t/../t", "%00", "t%00", "T", "t;", "t%2f..%2f"):
            code, said = ask(f"{servers.url}/tables/{path}")
            assert code in (400, 404), (path, code, said)
        for query in ("?limit=0", "?limit=x", "?nothing=1", "?at_least=1e3", "?after=}", "?timeout=-1", "?as_of=nan"):
            assert ask(f"{servers.url}/tables/t{query}")[0] == 400, query
        for ticket in (b"", b"{", b"[]", b'{"table":1}', b'{"table":"t","x":1}', b"\xff", b"[" * 100_000):
            with pytest.raises(pa.ArrowInvalid):
                fl.connect(servers.flight_url).do_get(fl.Ticket(ticket)).read_all()
        with pytest.raises(KeyError):
            fl.connect(servers.flight_url).do_get(fl.Ticket(b'{"table":"../t"}')).read_all()


def test_bytes_in_an_address_are_base64_also_where_they_look_like_a_number() -> None:
    for text in ("1234", "true", "null", "aw=="):
        (found,) = keys_of(BinaryType(), [key_of_text(BinaryType(), text)]).to_pylist()
        assert found == base64.b64decode(text)


def test_a_huge_range_comes_in_pages_and_a_huge_body_is_refused(replica: Replica) -> None:
    with served(replica) as servers:
        found: list[int] = []
        after: str | None = ""
        pages = 0
        while after is not None:
            code, said = ask(f"{servers.url}/tables/t?limit=1000000000{after}")
            assert code == 200
            assert len(said["rows"]) <= 10_000
            found += [row["key"] for row in said["rows"]]
            pages += 1
            after = None if said["next"] is None else f"&after={json.dumps(said['next'], separators=(',', ':'))}"
        assert found == list(range(ROWS))
        assert pages == 3
        reads = [{"table": "t"}] * 101
        assert ask(f"{servers.url}/read", body=json.dumps({"reads": reads}).encode())[0] == 400
        assert ask(f"{servers.url}/read", body=b"x" * (2 << 20))[0] == 413
        many = {"table": "t", "keys": list(range(20_000))}
        assert ask(f"{servers.url}/read", body=json.dumps({"reads": [many]}).encode())[0] == 400


def test_idle_connections_and_heads_that_trickle_in_are_ended_and_others_served(
    replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "HEAD_SECONDS", 0.5)
    monkeypatch.setattr(limits, "CONNECTIONS", 200)
    with served(replica) as servers:
        host, port = servers.url.removeprefix("http://").split(":")
        idle = [socket.create_connection((host, int(port))) for _ in range(400)]
        try:
            trickling = socket.create_connection((host, int(port)))
            ended = threading.Event()

            def trickle() -> None:
                with trickling:
                    for byte in b"GET /tables HTTP/1.1\r\n" + b"X-Y: 1\r\n" * 10_000:
                        try:
                            trickling.sendall(bytes([byte]))
                            time.sleep(0.05)
                        except OSError:
                            break
                ended.set()

            threading.Thread(target=trickle, daemon=True).start()
            until(lambda: all(_is_closed(each) for each in idle))
            until(ended.is_set)
            assert ask(f"{servers.url}/tables/t/5")[1]["batch"] == 7
        finally:
            for each in idle:
                each.close()


def test_an_answer_does_not_wait_for_the_receipt_of_its_beginning(replica: Replica) -> None:
    with served(replica) as servers:
        host, port = servers.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))):
            until(lambda: bool(servers._server.server_state.connections))
            (connection,) = servers._server.server_state.connections
            accepted = connection.transport.get_extra_info("socket")
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_lookups_that_come_together_get_each_its_own_answer(replica: Replica) -> None:
    async def asked(reads: list[TableQuestion]) -> list[Any]:
        lookups = KeyLookups(replica)
        return await asyncio.gather(*map(lookups.answer, reads), return_exceptions=True)

    keys = [3, 9, 3, -1, 12_345]
    found = asyncio.run(asked([TableQuestion("t", keys=(key,)) for key in keys]))
    assert found == [answer(replica, TableQuestion("t", keys=(key,))).as_json() for key in keys]
    good, bad = asyncio.run(asked([TableQuestion("t", keys=(1,)), TableQuestion("t", keys=("one",))]))
    assert json.loads(good)["rows"][0]["key"] == 1
    assert isinstance(bad, ConfigError)


def test_ten_thousand_idle_connections_keep_nobody_from_reading(replica: Replica) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(25_000, before[1]), before[1]))
    try:
        with served(replica) as servers:
            host, port = servers.url.removeprefix("http://").split(":")
            idle = []
            try:
                for _ in range(10_000):
                    idle.append(socket.create_connection((host, int(port))))
                until(lambda: len(servers._server.server_state.connections) <= limits.CONNECTIONS)
                until(lambda: _answers(servers.url))
            finally:
                for each in idle:
                    each.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def _answers(url: str) -> bool:
    try:
        return bool(ask(f"{url}/tables/t/5")[0] == 200)
    except OSError:
        return False


def test_a_reader_that_takes_nothing_is_let_go(replica: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PIECE_SECONDS", 0.5)
    with served(replica) as servers:
        host, port = servers.url.removeprefix("http://").split(":")
        with closing(socket.socket()) as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.connect((host, int(port)))
            for _ in range(20):
                slow.sendall(b"GET /tables/t?limit=10000 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            until(lambda: not servers._server.server_state.connections)
            assert ask(f"{servers.url}/healthz")[0] == 200


def test_a_body_that_does_not_arrive_is_refused_in_time(replica: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PIECE_SECONDS", 0.5)
    with served(replica) as servers:
        host, port = servers.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=60) as slow:
            slow.sendall(b"POST /read HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
            assert slow.recv(1 << 16).startswith(b"HTTP/1.1 408 ")
            until(lambda: _is_closed(slow))


def test_what_is_encrypted_is_read_by_who_trusts_the_certificate(replica: Replica, tmp_path: Path) -> None:
    files = tmp_path / "crt.pem", tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=IP:127.0.0.1", "-out", str(files[0]), "-keyout", str(files[1])],
        check=True, capture_output=True,
    )  # fmt: skip
    with served(replica, TOKEN, files) as servers:
        assert servers.url.startswith("https://")
        with wm.connect(servers.url, token=TOKEN, tls_roots=files[0]) as tables:
            assert tables.table("t").get(3).batch == 7
        with pytest.raises(ConfigError, match="No tables are served at"):
            wm.connect(servers.url, token=TOKEN)
        with urllib.request.urlopen(
            f"{servers.url}/healthz", context=ssl.create_default_context(cafile=str(files[0])), timeout=60
        ) as given:
            assert given.status == 200


def test_a_port_that_is_taken_is_named(replica: Replica) -> None:
    with served(replica) as servers:
        port = servers.url.rpartition(":")[2]
        access = Access.of(f"127.0.0.1:{port}", 0, None, None)
        with pytest.raises(ConfigError, match="Nothing can be served at"):
            Servers(replica, access, status_of(None))


def _is_closed(connection: socket.socket) -> bool:
    connection.settimeout(0.01)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True
