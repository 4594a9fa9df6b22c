"""NEXMark's queries give what SQL gives over the same events, in the end and after each part of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import watersmeet as wm
from bench.nexmark import generator
from bench.nexmark.queries import EVENT, NEAR, QUERIES
from bench.nexmark.reference import Reference
from bench.workloads import nexmark
from watersmeet._engine.keys import murmur2
from watersmeet.testing.driver import TopologyTestDriver

SHAPE = generator.Shape(events=6_000, generators=1, rate=150)
"""Forty seconds of event time: several windows of each query."""
PARTS = 3


def _at(stamp: datetime) -> int:
    return round((stamp - datetime(1970, 1, 1)).total_seconds() * 1_000)


# How the records of a query are the rows of its SQL: (key, value) of each.
ROWS: dict[str, Callable[[Any, Any], tuple[Any, Any]]] = {
    "q4": lambda key, value: (key, value.average),
    "q5": lambda key, value: (key, (value.num, tuple(value.auctions))),
    "q7": lambda key, value: (key.start, (value.price, value.bidder)),
    "q8": lambda key, value: ((key.key, key.start), value),
    "q9": lambda key, value: (key, (value.bidder, value.price, value.extra)),
    "q11": lambda key, value: ((key.key, key.start, key.end), value),
    "q18": lambda key, value: (tuple(key), (value.price, value.channel, value.extra)),
    "q19": lambda key, value: (key, tuple(value.prices)),
}


def _row(query: str, key: Any, value: Any) -> tuple[Any, Any]:
    if query in ROWS:
        return ROWS[query](key, value)
    return (tuple(key) if isinstance(key, tuple) else key), tuple(value)


def _value(text: str) -> dict[str, Any]:
    event: dict[str, Any] = json.loads(text)
    for part in ("person", "auction", "bid"):
        for field in ("dateTime", "expires"):
            if event[part] and field in event[part]:
                event[part][field] = datetime.fromisoformat(event[part][field])
    return event


@pytest.fixture(scope="module")
def reference() -> list[Reference]:
    """What SQL says after each part of the events."""
    made, all_events = [], generator.events(SHAPE, 0, 0, SHAPE.each)
    for part in range(1, PARTS + 1):
        count = SHAPE.each * part // PARTS
        reference = Reference()
        reference.add(np.arange(count), all_events.ts[:count], all_events.values[:count])
        made.append(reference)
    return made


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_gives_after_each_part_of_the_events_what_sql_gives(spark, reference, query):
    builder = wm.StreamsBuilder("nexmark")
    events = builder.stream("events", key="bytes", value=wm.json(EVENT))
    # with so few events a second an auction is open for half of them
    found = QUERIES[query](events, "1 minute") if query in NEAR else QUERIES[query](events)
    stream = found.to_stream(key=_windowed) if isinstance(found, wm.WTable) else found
    stream.to("found")
    driver = TopologyTestDriver(builder.build())
    made = generator.events(SHAPE, 0, 0, SHAPE.each)
    ts, rows = made.ts.tolist(), dict[Any, Any]()
    for part in range(PARTS):
        begin, end = (SHAPE.each * each // PARTS for each in (part, part + 1))
        for number in range(begin, end):
            driver.pipe("events", key=None, value=_value(made.values[number].as_py()), ts=ts[number])
        for record in driver.read("found"):
            _take(rows, query, record)
        assert rows == _expected(reference[part].rows(query), query)


def _windowed(key: Any, window: Any) -> Any:
    from pyspark.sql import functions as F

    return F.struct(key.alias("key"), window["start"].alias("start"), window["end"].alias("end"))


def _take(rows: dict[Any, Any], query: str, record: Any) -> None:
    if query == "q20":
        bid, auction = record.value.bid, record.value.auction
        place = (auction.id, bid.bidder, bid.price, bid.extra)
        assert place not in rows
        rows[place] = auction.seller
    elif record.value is None:
        key = record.key
        rows.pop(key.start if query == "q7" else tuple(key) if isinstance(key, tuple) else key, None)
    else:
        key, value = _row(query, record.key, record.value)
        rows[key] = value


def _expected(rows: dict[Any, Any], query: str) -> dict[Any, Any]:
    if query == "q7":
        return {key: value[:2] for key, value in rows.items()}
    return rows


def test_each_generator_fills_a_partition_in_order_of_time(tmp_path):
    data = nexmark.events_data(tmp_path, 4_000)
    rows = pa.concat_tables(pq.read_table(file) for file in sorted((data.folder / "events").glob("*.parquet")))
    assert data.records == rows.num_rows == 4_000
    partitions = murmur2(pa.array([key.to_bytes(8, "big") for key in nexmark.KEYS])) % 4
    assert sorted(partitions) == [0, 1, 2, 3]
    for number, key in enumerate(nexmark.KEYS):
        own = rows.filter(pa.compute.equal(rows["key"], key))
        events = generator.events(generator.Shape(4_000, rate=4_000 // nexmark.SECONDS), number, 0, 1_000)
        assert own["ts"].to_pylist() == events.ts.tolist()
        assert own["value"].combine_chunks() == events.values
