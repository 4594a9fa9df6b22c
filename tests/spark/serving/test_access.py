"""Who may read, and what a reader may take: addresses, tokens, hosts, paths, bodies, ranges, connections. No Spark."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import json
import random
import resource
import socket
import ssl
import subprocess
import sys
import threading
import time
import tracemalloc
import urllib.request
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.flight as fl
import pytest
from click.testing import CliRunner
from pyspark.sql.types import BinaryType, StructField, StructType, TimestampType

import watersmeet as wm
from tests.spark.serving.kit import until
from tests.spark.serving.standing import ROWS, ask, served, standing, status_of, topology
from watersmeet._engine import row_sizes
from watersmeet._engine.keys import hash_keys
from watersmeet._engine.state.manifest import TableLayout
from watersmeet._plan.declaration import TableSchema
from watersmeet._spark.serving import flight, http, questions
from watersmeet._spark.serving.access import Access
from watersmeet._spark.serving.client import FlightSource, ReplicaSource, TableSource
from watersmeet._spark.serving.follower import EndedBatch, Follower
from watersmeet._spark.serving.http import KeyLookups
from watersmeet._spark.serving.page import Explainer, QueryStatus
from watersmeet._spark.serving.questions import TableQuestion, answer
from watersmeet._spark.serving.replica import (
    MOMENTS,
    BatchChanges,
    Busy,
    NotServed,
    Replica,
    TableView,
    TooEarly,
    Unknown,
    key_of_text,
    keys_of,
)
from watersmeet._spark.serving.server import Listeners
from watersmeet._spark.stores.table_columns import StoreColumns
from watersmeet._worker.task_reports import ServedChange
from watersmeet.cli.commands import main
from watersmeet.errors import ConfigError, WatersmeetError
from watersmeet.provenance import Why

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
    with pytest.raises(ConfigError, match=r"names a file that is not there"):
        Access.of("0.0.0.0:0", None, None, (tmp_path / "no.crt", tmp_path / "no.key"))
    assert TOKEN not in repr(Access.of("0.0.0.0:0", None, TOKEN, None))


def test_files_of_tls_that_do_not_belong_together_are_refused_before_a_port_is_taken(tmp_path: Path) -> None:
    for name, lock in (("own", ["-nodes"]), ("other", ["-nodes"]), ("locked", ["-passout", "pass:secret"])):
        files = ["-keyout", str(tmp_path / f"{name}.key"), "-out", str(tmp_path / f"{name}.crt")]
        made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-days", "1", "-subj", "/CN=localhost"]
        subprocess.run([*made, *lock, *files], check=True, capture_output=True)
    (tmp_path / "empty").write_text("")
    pairs = {
        ("own.crt", "other.key"): "KEY_VALUES_MISMATCH",
        ("own.key", "own.crt"): "",
        ("empty", "own.key"): "",
        ("own.crt", "empty"): "",
        ("locked.crt", "locked.key"): "the key has a password",
    }
    for pair, reason in pairs.items():
        with pytest.raises(ConfigError, match=f"no certificate and key that belong together: .*{reason}") as error:
            Access.of("127.0.0.1:0", None, None, tuple(tmp_path / name for name in pair))
        assert "port" not in str(error.value.hint)
    assert Access.of("127.0.0.1:0", None, None, (tmp_path / "own.crt", tmp_path / "own.key")).tls is not None


def test_one_row_or_record_is_explained_at_a_time_and_another_question_meanwhile_is_refused(replica: Replica) -> None:
    begun, told = threading.Event(), threading.Event()

    def why(table: str, key: Any) -> Any:
        begun.set()
        assert told.wait(600)
        return SimpleNamespace(as_json=lambda: json.dumps({"table": table, "key": key}))

    def trace(record: str) -> Any:
        return SimpleNamespace(as_dict=lambda: {"record": record}, to_test=lambda named: f"import {named}")

    with served(replica, explainer=Explainer(why, trace)) as listeners, ThreadPoolExecutor(1) as asking:
        first = asking.submit(ask, f"{listeners.url}/why/t/1")
        try:
            assert begun.wait(600)
            refusals = [ask(f"{listeners.url}/{path}") for path in ("why/t/2", "trace/orders-0@3")]
        finally:
            told.set()
        for status, said in refusals:
            assert status == 503
            assert "Ask again when it has its answer" in said["error"]
        assert first.result() == (200, {"table": "t", "key": 1})
        assert ask(f"{listeners.url}/why/t/2") == (200, {"table": "t", "key": 2})
        assert ask(f"{listeners.url}/trace/orders-0@3") == (200, {"record": "orders-0@3"})
        saved = ask(f"{listeners.url}/trace/{quote('orders, batch 1, row 0')}?test=a:b")
        assert saved == (200, {"record": "orders, batch 1, row 0", "test": "import a:b"})


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
    with served(replica) as listeners, ThreadPoolExecutor(1) as asking:
        first = asking.submit(ask, f"{listeners.url}/dead-letters")
        try:
            assert begun.wait(600)
            status, said = ask(f"{listeners.url}/dead-letters")
        finally:
            told.set()
        assert (status, "Look again later" in said["error"]) == (503, True)
        assert first.result() == (200, {"letters": []})


def test_nothing_is_read_without_the_token(replica: Replica) -> None:
    with served(replica, TOKEN) as listeners:
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
                "/trace/orders-0@3",
                "/nothing",
            ):
                assert ask(listeners.url + path, token)[0] == 401, (token, path)
            client = fl.connect(listeners.flight_url)
            headers = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
            options = fl.FlightCallOptions(headers=headers)
            with pytest.raises(fl.FlightUnauthenticatedError):
                client.do_get(fl.Ticket(b'{"table":"t","key":1}'), options).read_all()
            with pytest.raises(fl.FlightUnauthenticatedError):
                list(client.list_flights(options=options))
        with pytest.raises(ConfigError, match="token is missing or wrong"):
            wm.connect(listeners.url, token="wrong wrong wrong")
        assert "WATERSMEET_TOKEN" in CliRunner().invoke(main, ["top", listeners.url, "--once"]).output
        assert ask(f"{listeners.url}/tables/t/1", TOKEN)[1]["rows"][0]["key"] == 1
        with wm.connect(listeners.url, token=TOKEN) as tables:
            assert tables.table("t").get(1) == wm.ServedRow(7, "x" * 200, tables.table("t").get(1).timestamp)


def test_health_is_told_without_a_token_and_reasons_with_it_alone(replica: Replica) -> None:
    with served(replica, TOKEN) as listeners:
        assert ask(f"{listeners.url}/healthz") == (200, {"status": "ok"})
        assert ask(f"{listeners.url}/readyz") == (200, {"ready": True, "batch": 7})
    with served(replica, TOKEN, failure=ConfigError("A secret of the query.")) as listeners:
        assert ask(f"{listeners.url}/readyz") == (503, {"ready": False, "batch": 7})
        code, said = ask(f"{listeners.url}/readyz", TOKEN)
        assert (code, said["error"]) == (503, "A secret of the query.")
        assert ask(f"{listeners.url}/tables/t/1", TOKEN)[0] == 200


def test_a_page_of_another_site_cannot_ask_where_no_token_is_needed(replica: Replica) -> None:
    with served(replica) as listeners:
        port = listeners.url.rpartition(":")[2]
        for host in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", ""):
            assert ask(f"{listeners.url}/tables", Host=host)[0] in (400, 403), host
        for host in (f"localhost:{port}", "127.0.0.1", f"[::1]:{port}"):
            assert ask(f"{listeners.url}/tables", Host=host)[0] == 200, host


def test_a_path_names_a_table_and_a_key_and_nothing_else(replica: Replica) -> None:
    with served(replica) as listeners:
        for path in ("../../etc/passwd", "..%2f..%2fetc%2fpasswd", "t/../t", "%00", "t%00", "T", "t;", "t%2f..%2f"):
            code, said = ask(f"{listeners.url}/tables/{path}")
            assert code in (400, 404), (path, code, said)
        for query in ("?limit=0", "?limit=x", "?nothing=1", "?at_least=1e3", "?after=}", "?timeout=-1", "?as_of=nan"):
            assert ask(f"{listeners.url}/tables/t{query}")[0] == 400, query
        for ticket in (b"", b"{", b"[]", b'{"table":1}', b'{"table":"t","x":1}', b"\xff", b"[" * 100_000):
            with pytest.raises(fl.FlightServerError):
                fl.connect(listeners.flight_url).do_get(fl.Ticket(ticket)).read_all()
        with pytest.raises(fl.FlightServerError, match="No table"):
            fl.connect(listeners.flight_url).do_get(fl.Ticket(b'{"table":"../t"}')).read_all()


def test_bytes_in_an_address_are_base64_also_where_they_look_like_a_number() -> None:
    for text in ("1234", "true", "null", "aw=="):
        (found,) = keys_of(BinaryType(), [key_of_text(BinaryType(), text)]).to_pylist()
        assert found == base64.b64decode(text)


def test_a_huge_range_comes_in_pages_and_a_huge_body_is_refused(replica: Replica) -> None:
    with served(replica) as listeners:
        found: list[int] = []
        after: str | None = ""
        pages = 0
        while after is not None:
            code, said = ask(f"{listeners.url}/tables/t?limit=1000000000{after}")
            assert code == 200
            assert len(said["rows"]) <= 10_000
            found += [row["key"] for row in said["rows"]]
            pages += 1
            after = None if said["next"] is None else f"&after={json.dumps(said['next'], separators=(',', ':'))}"
        assert found == list(range(ROWS))
        assert pages == 3
        reads = [{"table": "t"}] * 101
        assert ask(f"{listeners.url}/read", body=json.dumps({"reads": reads}).encode())[0] == 400
        assert ask(f"{listeners.url}/read", body=b"x" * (2 << 20))[0] == 413
        many = {"table": "t", "keys": list(range(20_000))}
        assert ask(f"{listeners.url}/read", body=json.dumps({"reads": [many]}).encode())[0] == 400


def test_idle_connections_and_heads_that_trickle_in_are_ended_and_others_served(
    replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "HEAD_SECONDS", 0.5)
    monkeypatch.setattr(http, "CONNECTIONS", 200)
    with served(replica) as listeners:
        host, port = listeners.url.removeprefix("http://").split(":")
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
            assert ask(f"{listeners.url}/tables/t/5")[1]["batch"] == 7
        finally:
            for each in idle:
                each.close()


def test_an_answer_does_not_wait_for_the_receipt_of_its_beginning(replica: Replica) -> None:
    with served(replica) as listeners:
        host, port = listeners.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))):
            until(lambda: bool(listeners._server.server_state.connections))
            (connection,) = listeners._server.server_state.connections
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
        with served(replica) as listeners:
            host, port = listeners.url.removeprefix("http://").split(":")
            idle = []
            try:
                for _ in range(10_000):
                    idle.append(socket.create_connection((host, int(port))))
                until(lambda: len(listeners._server.server_state.connections) <= http.CONNECTIONS)
                until(lambda: _answers(listeners.url))
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
    monkeypatch.setattr(http, "PIECE_SECONDS", 0.5)
    with served(replica) as listeners:
        host, port = listeners.url.removeprefix("http://").split(":")
        with closing(socket.socket()) as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.connect((host, int(port)))
            for _ in range(20):
                slow.sendall(b"GET /tables/t?limit=10000 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            until(lambda: not listeners._server.server_state.connections)
            assert ask(f"{listeners.url}/healthz")[0] == 200


def test_a_body_that_does_not_arrive_is_refused_in_time(replica: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "PIECE_SECONDS", 0.5)
    with served(replica) as listeners:
        host, port = listeners.url.removeprefix("http://").split(":")
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
    with served(replica, TOKEN, files) as listeners:
        assert listeners.url.startswith("https://")
        with wm.connect(listeners.url, token=TOKEN, tls_roots=files[0]) as tables:
            assert tables.table("t").get(3).batch == 7
        with pytest.raises(ConfigError, match="No tables are served at"):
            wm.connect(listeners.url, token=TOKEN)
        with urllib.request.urlopen(
            f"{listeners.url}/healthz", context=ssl.create_default_context(cafile=str(files[0])), timeout=60
        ) as given:
            assert given.status == 200


def test_a_port_that_is_taken_is_named(replica: Replica) -> None:
    with served(replica) as listeners:
        port = listeners.url.rpartition(":")[2]
        access = Access.of(f"127.0.0.1:{port}", 0, None, None)
        with pytest.raises(ConfigError, match="Nothing can be served at"):
            Listeners(replica, access, status_of(None))


def _is_closed(connection: socket.socket) -> bool:
    connection.settimeout(0.01)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def _opened(port: int, *requests: bytes) -> list[socket.socket]:
    found = []
    for request in requests:
        found.append(socket.create_connection(("127.0.0.1", port)))
        found[-1].sendall(request)
    return found


def _request(port: int, target: str, body: bytes | None = None) -> bytes:
    head = f"{'GET' if body is None else 'POST'} {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
    return f"{head}Content-Length: {len(body or b'')}\r\n\r\n".encode() + (body or b"")


def test_readers_that_wait_hold_no_thread_and_their_leave_frees_their_places() -> None:
    replica = standing(count=10)
    with served(replica) as listeners:
        port = int(listeners.url.rsplit(":", 1)[1])
        together = json.dumps({"reads": [{"table": "t"}], "at_least": 10**9, "timeout": 10**6}).encode()
        waiting = [_request(port, "/tables/t?at_least=1000000000&timeout=60"), _request(port, "/read", together)]
        readers = _opened(port, *waiting * 60)
        until(lambda: len(replica._watchers) == 120)
        for path in ("healthz", "readyz", "tables/t/3", "tables"):
            assert ask(f"{listeners.url}/{path}")[0] == 200
        for each in readers:
            each.close()
        until(lambda: not replica._watchers)


def test_nobody_waits_longer_than_the_longest_wait(monkeypatch: pytest.MonkeyPatch, replica: Replica) -> None:
    monkeypatch.setattr(http, "LONGEST_WAIT", 0.0)
    with served(replica) as listeners:
        body = json.dumps({"reads": [{"table": "t"}], "at_least": 10**9, "timeout": 10**6}).encode()
        assert ask(f"{listeners.url}/read", body=body)[0] == 504
        assert ask(f"{listeners.url}/tables/t?at_least=1000000000&timeout=1000000")[0] == 504


def test_as_many_readers_follow_changes_as_are_documented_and_each_gives_its_place_back(replica: Replica) -> None:
    with served(replica) as listeners:
        port = int(listeners.url.rsplit(":", 1)[1])
        for _ in range(2):
            readers = _opened(port, *[_request(port, "/changes?table=t")] * 100)
            statuses = [each.recv(12) for each in readers]
            assert statuses.count(b"HTTP/1.1 200") == http.SUBSCRIBERS
            assert statuses.count(b"HTTP/1.1 503") == 100 - http.SUBSCRIBERS
            for each in readers:
                each.close()
            until(lambda: not replica._watchers)


def test_readers_that_wait_end_with_the_server_and_leave_no_trace_in_the_log(
    replica: Replica, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with served(replica) as listeners:
        port = int(listeners.url.rsplit(":", 1)[1])
        waiting = _request(port, "/tables/t?at_least=1000000000&timeout=60")
        stream, reader = _opened(port, _request(port, "/changes?table=t"), waiting)
        until(lambda: len(replica._watchers) == 2)
    with stream.makefile("rb") as changes, reader.makefile("rb") as answer:
        # the whole stream, to its last piece
        assert changes.read().endswith(b"\r\n0\r\n\r\n")
        assert answer.readline().startswith(b"HTTP/1.1 504")
    assert caplog.text + "".join(capfd.readouterr()) == ""


def test_a_reader_over_flight_that_leaves_before_its_stream_begins_gives_its_place_back(replica: Replica) -> None:
    with served(replica) as listeners:
        ticket = fl.Ticket(b'{"table": "t", "changes": {}}')
        context = SimpleNamespace(is_cancelled=lambda: False)
        for _ in range(200):
            listeners._flight.do_get(context, ticket)
        assert listeners._flight._subscribers._value == 64


def test_a_body_that_trickles_in_is_refused_at_its_end_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "PIECE_SECONDS", 0.05)

    async def trickle() -> Any:
        await asyncio.sleep(0)
        return {"type": "http.request", "body": b"", "more_body": True}

    async def reads(scope: Any, receive: Any, send: Any) -> None:
        while True:
            await receive()

    async def send(message: Any) -> None:
        raise AssertionError(message)

    async def asked() -> None:
        await http.bounded(reads)({"type": "http"}, trickle, send)

    with pytest.raises(http.BodyTooSlow):
        asyncio.run(asked())


def test_a_table_with_a_slash_in_its_name_is_read_by_its_written_address() -> None:
    with served(standing("shop/tab", 10)) as listeners:
        assert ask(f"{listeners.url}/tables/shop%2Ftab/3")[1]["rows"][0]["key"] == 3
        assert len(ask(f"{listeners.url}/tables/shop%2Ftab")[1]["rows"]) == 10
        assert ask(f"{listeners.url}/tables/shop/tab")[0] == 404
        assert ask(f"{listeners.url}/tables%2Fshop")[0] == 404


def test_a_question_for_windows_without_an_end_is_one_over_flight_too() -> None:
    refused = pytest.raises(ConfigError, match="which has no windows")
    with served(standing("t", 10)) as listeners, wm.connect(listeners.url) as tables, refused:
        tables.table("t").windows(3)


def test_a_mistake_in_an_address_is_answered_with_what_was_meant() -> None:
    with served(standing("t", 10)) as listeners:
        for place, status, said in (
            ("/table/t", 404, "Did you mean /tables/t?"),
            ("/tables/t/3?window.from=5", 400, "Did you mean window_from?"),
            ("/tables/t?window_from=5", 400, "its rows are asked by key alone"),
            ("/read", 405, "post it"),
            ("/changes?since=100000", 400, "since=100000 is a batch that is yet to come"),
        ):
            answer = ask(f"{listeners.url}{place}")
            assert (answer[0], said in str(answer[1])) == (status, True), answer


ODD: list[Any] = [
    None, True, 0, -1, 2**62, 10**30, 10**400, 1e308, 0.5, "", "x", "\ud800", "9999-12-31T23:59:59-23:59",
    [], [1], [[]], {}, {"a": 1}, {"from": 10**30}, {"since": 10**30}, json.loads("[" * 90 + "]" * 90),
    [1, "x"], "a" * 5_000,
]  # fmt: skip
NAMES = ["table", "key", "keys", "from", "to", "after", "window", "as_of", "versions", "limit", "at_least", "batch"]


def _odd_tickets(count: int) -> list[bytes]:
    """Questions in which anything may stand anywhere."""
    chance = random.Random(3)
    tickets = [b"", b"[" * 100_000, b"\xff\xfe{", b'{"table":"t","key":' + b"[" * 5_000 + b"]" * 5_000 + b"}"]
    tickets += [b'{"keys":1,"key":2}', b'{"table":"t","key":1e999999999}', b'{"table":"t","timeout":NaN}']
    for _ in range(count):
        said = {"table": "t"} | {chance.choice(NAMES): chance.choice(ODD) for _ in range(chance.randrange(1, 4))}
        if chance.random() < 0.2:
            said["changes"] = chance.choice(ODD)
        tickets.append(json.dumps({**said, "timeout": chance.choice([0, 0, 0, *ODD]) and 0}).encode())
    return tickets


def _odd_targets(count: int) -> list[str]:
    chance = random.Random(4)
    targets = ["/tables/t/" + "[" * 5_000, "/tables%2Ft", "/tables/%FF/%00", "/why/t/1", "/changes?since=x"]
    for _ in range(count):
        texts = [quote(json.dumps(chance.choice(ODD))[:6_000]) for _ in range(3)]
        name = chance.choice([*NAMES, "window_from", "window_to", "since"])
        path = chance.choice([f"/tables/t/{texts[0]}", "/tables/t", f"/tables/{texts[0]}", f"/why/t/{texts[0]}"])
        pictured = chance.choice(["", "&picture=true"]) if path.startswith("/why") else f"&{name}={texts[1]}"
        targets.append(f"{path}?timeout=0&{chance.choice(NAMES)}={texts[2]}{pictured}")
    return targets


def _unjournaled(replica: Replica) -> Callable[[str, Any], Why]:
    """Explains rows of which the journal knows no record."""
    plan = topology().plan
    return lambda table, key: Why(
        table, key, 7, (), (), 1, 0, (), replica.stores[table].shown.schema, plan, plan.nodes[0].name
    )


def _tells_no_place(text: str) -> bool:
    """Whether an answer has neither a traceback nor a path of this machine."""
    told = ("Traceback", "site-packages", ".pyx", '.py"', sys.prefix, str(Path(wm.__file__).parent), str(Path.home()))
    return not any(each in text for each in told)


def test_no_request_over_http_however_odd_fails_the_server() -> None:
    replica = standing(count=100)
    with served(replica, explainer=Explainer(_unjournaled(replica), lambda record: None)) as listeners:
        for target in _odd_targets(400):
            status, said = ask(listeners.url + target)
            assert status in (200, 400, 404, 410, 504), target
            assert _tells_no_place(json.dumps(said)), target
        for ticket in _odd_tickets(400):
            body = b'{"timeout": 0, "reads": [' + ticket + b"]}"
            assert ask(f"{listeners.url}/read", body=body)[0] in (200, 400, 404, 410, 504), ticket
        assert ask(f"{listeners.url}/tables/t/3")[0] == 200


def _refusal(call: Callable[[], Any]) -> str:
    """The text of the refusal of a call over Flight; empty: it is answered."""
    try:
        call()
    except (pa.ArrowException, NotImplementedError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def test_no_ticket_over_flight_however_odd_fails_the_server() -> None:
    with served(standing(count=100)) as listeners, closing(fl.FlightClient(listeners.flight_url)) as client:
        for ticket in _odd_tickets(400):
            for call in (
                lambda ticket=ticket: client.do_get(fl.Ticket(ticket)).cancel(),
                lambda ticket=ticket: client.get_flight_info(fl.FlightDescriptor.for_command(ticket)),
            ):
                said = _refusal(call)
                assert _tells_no_place(said), (ticket, said)
                assert "The question failed" not in said, (ticket, said)
            told = client.get_schema(fl.FlightDescriptor.for_command(ticket)).schema.metadata
            assert _tells_no_place(str(told)), (ticket, told)
        assert len(client.do_get(fl.Ticket(b'{"table":"t","key":3}')).read_all()) == 1
        with pytest.raises(fl.FlightServerError, match="No table 'no' is served"):
            client.get_flight_info(fl.FlightDescriptor.for_path("no"))
        said = client.get_schema(fl.FlightDescriptor.for_path("no")).schema
        assert (said.names, b"No table 'no'" in said.metadata[flight.ERROR]) == ([], True)


def test_calls_over_flight_that_nothing_answers_are_refused_without_a_traceback(replica: Replica) -> None:
    with served(replica) as listeners, closing(fl.FlightClient(listeners.flight_url)) as client:
        place, schema = fl.FlightDescriptor.for_path("t"), pa.schema([("key", pa.int64())])
        for call in (
            lambda: list(client.do_action(fl.Action("drop", b"t"))),
            lambda: list(client.list_actions()),
            lambda: client.do_put(place, schema)[0].close(),
            lambda: client.do_exchange(place)[1].read_all(),
        ):
            said = _refusal(call)
            assert "Tables are only read" in said
            assert _tells_no_place(said), said


def _refusal_of(source: TableSource, question: TableQuestion) -> WatersmeetError:
    with pytest.raises(WatersmeetError) as refusal:
        source.read(question)
    return refusal.value


def test_refusals_over_flight_are_the_errors_that_they_are_in_the_process(replica: Replica) -> None:
    with served(replica) as listeners, closing(FlightSource(listeners.flight_url, None, None)) as source:
        for question, kind in (
            (TableQuestion("no"), Unknown),
            (TableQuestion("t", keys=("x",)), ConfigError),
            (TableQuestion("t", at_least=8, timeout=0.0), TooEarly),
            (TableQuestion("t", batch=3), NotServed),
        ):
            here, there = (_refusal_of(each, question) for each in (ReplicaSource(replica), source))
            assert type(there) is type(here) is kind
            assert str(there) == str(here)


def test_so_many_questions_wait_over_flight_and_one_more_is_refused(
    replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flight, "WAITERS", 2)
    with served(replica) as listeners, closing(FlightSource(listeners.flight_url, None, None)) as source:
        places = listeners._flight._waiters
        with ThreadPoolExecutor(2) as asking:
            waiting = [asking.submit(source.read, TableQuestion("t", at_least=9, timeout=50.0)) for _ in range(2)]
            until(lambda: places._value == 0)
            with pytest.raises(Busy, match="2 questions that wait for a batch are the most"):
                source.read(TableQuestion("t", at_least=9, timeout=50.0))
            assert wm.batch_of(source.read(TableQuestion("t", keys=(3,)))) == 7
            listeners._flight._closed.set()
            assert [type(each.exception()) for each in waiting] == [TooEarly, TooEarly]
        assert places._value == 2


def test_nobody_waits_over_flight_longer_than_the_longest_wait(
    monkeypatch: pytest.MonkeyPatch, replica: Replica
) -> None:
    monkeypatch.setattr(questions, "LONGEST_WAIT", 0.0)
    with served(replica) as listeners, closing(FlightSource(listeners.flight_url, None, None)) as source:
        late = _refusal_of(source, TableQuestion("t", at_least=10**9, timeout=10.0**6))
        assert type(late) is TooEarly


def test_a_failure_of_our_own_in_an_answer_leaves_its_trace_in_the_log(
    replica: Replica, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*given: Any) -> Any:
        raise TypeError("not of ours")

    monkeypatch.setattr(TableView, "ordered", fails)
    with served(replica) as listeners, closing(FlightSource(listeners.flight_url, None, None)) as source:
        assert ask(f"{listeners.url}/tables/t")[0] == 400
        with pytest.raises(ConfigError):
            source.read(TableQuestion("t", limit=1))
    traces = [each.exc_info for each in caplog.records if each.name == "watersmeet.serving"]
    assert [kind and kind[0] for kind in traces] == [TypeError, TypeError]


def test_a_lookup_that_fails_in_any_way_is_answered(monkeypatch: pytest.MonkeyPatch, replica: Replica) -> None:
    def fails(*given: Any) -> Any:
        raise MemoryError("no room")

    monkeypatch.setattr("watersmeet._spark.serving.http.answers_of_keys", fails)
    found = asyncio.run(KeyLookups(replica).answer(TableQuestion("t", keys=(3,))))
    assert json.loads(found)["rows"][0]["key"] == 3


def test_a_time_beyond_those_of_spark_is_shown_as_null() -> None:
    times = StructType([StructField("start", TimestampType()), StructField("end", TimestampType())])
    shown = StoreColumns("n", StructType([StructField("window", times)]), {}, length=10_000)
    last = (2**63 - 1) // 1_000
    starts = pa.table({"start": pa.array([0, last - 5, -(2**63), 2**63 - 1], pa.int64())})
    (batch,) = shown.rows(starts)
    found = batch.column("window")
    assert [part.is_valid().to_pylist() for part in found.flatten()] == [
        [True, True, False, False],
        [True, *[False] * 3],
    ]


def test_the_log_of_changes_takes_no_more_memory_than_it_counts() -> None:
    replica = Replica(list(standing(count=1).stores.values()), 8 << 20)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for batch in range(20_000):
            replica._publish(batch, BatchChanges(batch, {"t": [bytes(400)]} if batch % 2 else {}))
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert len(replica._log) < 2_000
    assert taken < replica._log_bytes + 100_000
    assert replica._log_bytes <= replica.max_bytes // 8


def test_the_log_of_changes_changes_under_the_lock_of_its_readers() -> None:
    replica = Replica(list(standing(count=1).stores.values()), 1 << 30)
    lock: Any = replica._changed

    class Guarded(deque[BatchChanges]):
        def append(self, each: BatchChanges) -> None:
            assert lock._is_owned()
            super().append(each)

    replica._log = Guarded()
    for batch in range(3):
        replica.apply(batch, [])
    assert [each.batch for each in replica.changes(0, 0.0)] == [1, 2]


def _rewritten(replica: Replica, batch: int, count: int) -> list[ServedChange]:
    """All rows of the table anew, of one shard."""
    (store,) = replica.stores.values()
    keys = pa.array(range(count), pa.int64())
    table = TableSchema(store.name, (("key", pa.int64()), ("value", pa.string()), ("ts", "number")))
    layout = TableLayout.of(table)
    values = pa.array([f"{batch:>200}"] * count)
    columns = [pa.array(hash_keys(keys)), keys, values, keys, pa.array([False] * count)]
    rows = pa.table(columns, names=layout.schema.names)
    rows = rows.cast(layout.schema).replace_schema_metadata(layout.stored.metadata).sort_by("hash")
    return [ServedChange(store.name, 0, (row_sizes.encode(rows),), None)]


def test_rows_that_the_last_batches_keep_are_within_the_bound_of_the_replica() -> None:
    stores = [dataclasses.replace(each, labels=(0,)) for each in standing(count=1).stores.values()]
    before, most = pa.total_allocated_bytes(), 24 << 20
    replica = Replica(stores, most)
    replica.load(0, {})
    for batch in range(1, 12):
        replica.apply(batch, _rewritten(replica, batch, 20_000))
        assert len(answer(replica, TableQuestion("t")).rows) == 20_000
        taken = pa.total_allocated_bytes() - before
        assert taken <= replica.bytes + (1 << 20)
        assert replica.bytes <= most
    assert 1 < len(replica._moments) < MOMENTS


def test_what_waits_to_be_applied_is_within_the_bound_of_the_replica() -> None:
    replica = standing(count=10_000)
    change = ServedChange("t", 0, (bytes(100_000),), None)
    reports: Any = None
    place: Any = SimpleNamespace(local_path=lambda: Path())
    for room, waits in ((1 << 20, True), (50_000, False)):
        replica.waiting = 0
        replica.max_bytes = replica.bytes + room
        follower = Follower(reports, place, replica, lambda: True)
        follower._wait(EndedBatch(8, [change]))
        assert (follower._batches.get().changes is not None) is waits


def test_what_waits_is_counted_under_a_lock_by_both_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    class Counted(Replica):
        def __setattr__(self, name: str, value: Any) -> None:
            if name == "waiting" and sizes:
                assert follower._counting.locked()
            if name == "waiting":
                sizes.append(value)
            super().__setattr__(name, value)

    replica = Counted(list(standing(count=1).stores.values()), 1 << 30)
    reports: Any = None
    place: Any = SimpleNamespace(local_path=lambda: Path())
    follower = Follower(reports, place, replica, lambda: True)
    monkeypatch.setattr("watersmeet._spark.serving.follower.last_planned_batch", lambda folder: -1)
    monkeypatch.setattr(follower, "_load", lambda: None)
    monkeypatch.setattr(follower, "_advance", lambda ended: follower._closed.set())
    follower._wait(EndedBatch(8, []))
    follower._run()
    assert replica.refused is None
    assert sizes == [0, 500, 0]
