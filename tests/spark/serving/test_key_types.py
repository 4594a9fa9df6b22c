"""Keys of every type come through JSON and Arrow Flight as they are; pyarrow alone reads, and so does DuckDB."""

from __future__ import annotations

import base64
import datetime as dt
import json
import urllib.parse
import urllib.request
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.flight as fl
import pytest
from pyspark.sql import SparkSession

import watersmeet as wm
from tests.spark.serving.kit import Inputs, RunningQuery

UTC = dt.UTC
KEYS: dict[str, tuple[str, list[Any], list[Any]]] = {
    "struct": (
        "struct<a:long,b:string>",
        [{"a": 1, "b": "x"}, {"a": 1, "b": None}, {"a": 2, "b": 'a"/?&'}],
        [{"a": 1, "b": "x"}, {"a": 1, "b": None}, {"a": 2, "b": 'a"/?&'}],
    ),
    "decimal": (
        "decimal(20,4)",
        [Decimal("-1.0000"), Decimal("1234567890123456.7891"), Decimal("0.0000")],
        ["-1.0000", "1234567890123456.7891", "0.0000"],
    ),
    "binary": (
        "binary",
        [b"", b"\x00\xff", b"../x"],
        [base64.b64encode(key).decode() for key in (b"", b"\x00\xff", b"../x")],
    ),
    "timestamp": (
        "timestamp",
        [dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC), dt.datetime(2026, 1, 2, 3, 4, 5, 678_901, UTC)],
        ["1969-12-31T23:59:59.999999Z", "2026-01-02T03:04:05.678901Z"],
    ),
    "date": ("date", [dt.date(2026, 1, 2), dt.date(1969, 1, 1)], ["2026-01-02", "1969-01-01"]),
    "text": ("string", ["", "a/b", "../../etc/passwd", "42", "ä€😀"], ["", "a/b", "../../etc/passwd", "42", "ä€😀"]),
    "long": ("long", [-(2**63), 0, 2**63 - 1], [-(2**63), 0, 2**63 - 1]),
    "boolean": ("boolean", [True, False], [True, False]),
    "double": ("double", [-1.5, 0.0, 1e300], [-1.5, 0.0, 1e300]),
}


@pytest.fixture(scope="module")
def running(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningQuery]:
    folder = tmp_path_factory.mktemp("keys")
    made = RunningQuery(spark, folder, Inputs(spark, folder / "in"))
    builder = wm.StreamsBuilder("keys")
    options: Any = {"key": "k", "value": ["n", "k2"], "timestamp": "ts"}
    nothing = wm.ForeachBatch(lambda frame, batch: frame.count())
    for name, (kind, _, _) in KEYS.items():
        frame = made.inputs.read(name, f"k {kind}, n long, k2 {kind}, ts long")
        builder.table(frame, name=name, store=name, **options).to(nothing, name=f"{name}-out")
    query = made.start(builder.build())
    query.serve("127.0.0.1:0", tables=list(KEYS))
    try:
        for name, (_, keys, _) in KEYS.items():
            made.inputs.put(name, *({"k": key, "n": n, "k2": key, "ts": n} for n, key in enumerate(keys)))
        made.caught_up()
        yield made
    finally:
        query.stop()


def get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=60) as given:
        return json.loads(given.read(), parse_float=Decimal)


def as_json(key: Any) -> str:
    return key if isinstance(key, str) else json.dumps(key)


@pytest.mark.parametrize("name", KEYS)
def test_a_key_is_found_over_http_by_its_json_and_given_as_its_json(running: RunningQuery, name: str) -> None:
    _, _, texts = KEYS[name]
    served = running.query._served
    assert served is not None
    for number, text in enumerate(texts):
        asked = urllib.parse.quote(as_json(text), safe="")
        found = get(f"{served.url}/tables/{name}?key={asked}")
        (row,) = found["rows"]
        assert row["value"]["n"] == number
        said = row["key"] if name != "decimal" else f"{row['key']:.4f}"
        assert (float(said) if name == "double" else said) == text
        assert row["key"] == row["value"]["k2"]
        if as_json(text):
            # an empty key has no place in a path
            assert get(f"{served.url}/tables/{name}/{asked}")["rows"] == found["rows"]


@pytest.mark.parametrize("name", KEYS)
def test_a_key_is_found_over_flight_and_by_the_python_client_as_the_value_that_it_is(
    running: RunningQuery, name: str
) -> None:
    _, keys, texts = KEYS[name]
    served = running.query._served
    assert served is not None
    assert served.url is not None
    assert served.flight_url is not None
    client = fl.connect(served.flight_url)
    with wm.connect(served.url) as tables:
        far = tables.table(name)
        for number, (key, text) in enumerate(zip(keys, texts, strict=True)):
            assert running.query.table(name).get(key).value["n"] == number
            assert far.get(key) == running.query.table(name).get(key)
            if name == "decimal":
                continue  # a ticket has its digits as a number, which the client above writes
            ticket = json.dumps({"table": name, "key": text}).encode()
            found = client.do_get(fl.Ticket(ticket)).read_all()
            assert found["key"].to_pylist() == [key]
        order = sorted(keys, key=lambda k: k if not isinstance(k, dict) else (k["a"], k["b"] is not None, k["b"] or ""))
        assert far.range()["key"].to_pylist() == order
        assert far.range(order[1])["key"].to_pylist() == order[1:]


def test_pages_of_a_range_put_together_are_the_range(running: RunningQuery) -> None:
    served = running.query._served
    assert served is not None
    for name, (_, keys, _) in KEYS.items():
        found, after = [], None
        while True:
            more = "" if after is None else f"&after={urllib.parse.quote(after)}"
            url = f"{served.url}/tables/{name}?limit=1{more}"
            with urllib.request.urlopen(url, timeout=60) as given:
                text = given.read().decode()
            page = json.loads(text, parse_float=str)
            found += [row["value"]["n"] for row in page["rows"]]
            if page["next"] is None:
                break
            # as it stands in the answer, digits and all
            after = text[text.index('"next":') + len('"next":') : -1]
        assert sorted(found) == list(range(len(keys))), name


def test_duckdb_reads_what_flight_gives(running: RunningQuery) -> None:
    served = running.query._served
    assert served is not None
    client = fl.connect(served.flight_url)
    (info,) = [i for i in client.list_flights() if b"struct" in i.descriptor.command]
    orders = client.do_get(info.endpoints[0].ticket).read_all()
    assert isinstance(orders, pa.Table)
    found = duckdb.sql("SELECT key.a, sum(value.n) FROM orders GROUP BY ALL ORDER BY ALL").fetchall()
    assert found == [(1, 1), (2, 2)]
