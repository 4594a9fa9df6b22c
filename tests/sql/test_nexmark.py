"""Queries of NEXMark in SQL, as nexmark/nexmark publishes them, give what DuckDB gives over the same events."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import UTC, datetime

import numpy as np
import pytest

import watersmeet as wm
from bench.nexmark import generator
from bench.nexmark.reference import Reference
from watersmeet.testing import TopologyTestDriver

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]
SHAPE = generator.Shape(events=3_000, generators=1, rate=150)
PARTS = 2
TABLES = """
    CREATE TABLE person (id BIGINT PRIMARY KEY, name STRING, city STRING, state STRING, dateTime TIMESTAMP_NTZ);
    CREATE TABLE auction (id BIGINT PRIMARY KEY, itemName STRING, description STRING, initialBid BIGINT,
        reserve BIGINT, dateTime TIMESTAMP_NTZ, expires TIMESTAMP_NTZ, seller BIGINT, category BIGINT, extra STRING);
    CREATE TABLE bid (number BIGINT PRIMARY KEY, auction BIGINT, bidder BIGINT, price BIGINT, channel STRING,
        url STRING, dateTime TIMESTAMP_NTZ, extra STRING);
    CREATE STREAM persons (id BIGINT, name STRING);
    CREATE STREAM auctions (id BIGINT, seller BIGINT);
    CREATE STREAM bids (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, dateTime TIMESTAMP_NTZ);
"""
"""Those that an event joins are tables, those in windows streams; each of what the query reads."""
VALID = "A.id = B.auction AND B.dateTime BETWEEN A.dateTime AND A.expires"
TUMBLE = "INTERVAL 10 SECONDS) GROUP BY"
DAY = "DATE_FORMAT(dateTime, 'yyyy-MM-dd')"
TIERS = ("price < 10000", "price >= 10000 AND price < 1000000", "price >= 1000000")


def tiers(aggregate, name):
    """An aggregate over all rows, then over those of each tier."""
    found = [f"{aggregate} AS total_{name}"]
    found += [f"{aggregate} FILTER (WHERE {tier}) AS rank{n}_{name}" for n, tier in enumerate(TIERS, start=1)]
    return ", ".join(found)


SQL = {
    "q3": """SELECT P.name, P.city, P.state, A.id FROM auction AS A INNER JOIN person AS P ON A.seller = P.id
        WHERE A.category = 10 AND (P.state = 'OR' OR P.state = 'ID' OR P.state = 'CA')""",
    "q4": f"""SELECT Q.category, AVG(Q.final) AS average FROM (SELECT MAX(B.price) AS final, A.category
        FROM auction A, bid B WHERE {VALID} GROUP BY A.id, A.category) Q GROUP BY Q.category""",
    "q5": """SELECT AuctionBids.auction, AuctionBids.num, UNIX_MILLIS(AuctionBids.starttime) AS starttime
        FROM (SELECT auction, COUNT(*) AS num, window_start AS starttime, window_end AS endtime
            FROM HOP(bids, INTERVAL 2 SECONDS, INTERVAL 10 SECONDS) GROUP BY auction, window_start, window_end)
            AS AuctionBids
        JOIN (SELECT MAX(CountBids.num) AS maxn, CountBids.starttime, CountBids.endtime
            FROM (SELECT COUNT(*) AS num, window_start AS starttime, window_end AS endtime
                FROM HOP(bids, INTERVAL 2 SECONDS, INTERVAL 10 SECONDS) GROUP BY auction, window_start, window_end)
                AS CountBids
            GROUP BY CountBids.starttime, CountBids.endtime) AS MaxBids
        ON AuctionBids.starttime = MaxBids.starttime AND AuctionBids.endtime = MaxBids.endtime
            AND AuctionBids.num >= MaxBids.maxn EMIT FINAL""",
    "q7": f"""SELECT B.auction, B.price, B.bidder, UNIX_MILLIS(B.dateTime) AS dateTime, B.extra FROM bid B
        JOIN (SELECT MAX(price) AS maxprice, window_end AS dateTime
            FROM TUMBLE(bids, {TUMBLE} window_start, window_end) B1 ON B.price = B1.maxprice
        WHERE B.dateTime BETWEEN B1.dateTime - INTERVAL 10 SECOND AND B1.dateTime""",
    "q8": f"""SELECT P.id, P.name, UNIX_MILLIS(P.starttime) AS starttime
        FROM (SELECT id, name, window_start AS starttime, window_end AS endtime
            FROM TUMBLE(persons, {TUMBLE} id, name, window_start, window_end) P
        JOIN (SELECT seller, window_start AS starttime, window_end AS endtime
            FROM TUMBLE(auctions, {TUMBLE} seller, window_start, window_end) A
        ON P.id = A.seller AND P.starttime = A.starttime AND P.endtime = A.endtime""",
    "q9": f"""SELECT id, bidder, price, extra FROM (SELECT A.id, B.bidder, B.price, B.extra,
            ROW_NUMBER() OVER (PARTITION BY A.id ORDER BY B.price DESC, B.dateTime ASC) AS rownum
            FROM auction A, bid B WHERE {VALID}) WHERE rownum <= 1""",
    "q11": """SELECT bidder, COUNT(*) AS bid_count, UNIX_MILLIS(window_start) AS starttime,
            UNIX_MILLIS(window_end) AS endtime
        FROM SESSION(bids, INTERVAL 10 SECONDS) GROUP BY bidder, window_start, window_end""",
    "q16": f"""SELECT channel, {DAY} AS day, MAX(DATE_FORMAT(dateTime, 'HH:mm')) AS minute, {tiers("COUNT(*)", "bids")},
        {tiers("COUNT(DISTINCT bidder)", "bidders")}, {tiers("COUNT(DISTINCT auction)", "auctions")}
        FROM bid GROUP BY channel, {DAY}""",
    "q17": f"""SELECT auction, {DAY} AS day, {tiers("COUNT(*)", "bids")}, MIN(price) AS min_price,
        MAX(price) AS max_price, AVG(price) AS avg_price, SUM(price) AS sum_price FROM bid GROUP BY auction, {DAY}""",
    "q18": """SELECT auction, bidder, price, channel, url, dateTime, extra FROM (SELECT *,
            ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY dateTime DESC) AS rank_number FROM bid)
        WHERE rank_number <= 1""",
    "q19": """SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS rank_number
            FROM bid) WHERE rank_number <= 10""",
    "q20": """SELECT auction, bidder, price, channel, url, B.dateTime, B.extra, itemName, description, initialBid,
            reserve, A.dateTime AS opened, expires, seller, category, A.extra AS more
        FROM bid AS B INNER JOIN auction AS A ON B.auction = A.id WHERE A.category = 10""",
}
PARTS_OF_KEYS = {"q4": 1, "q9": 1, "q17": 2}
"""How many of the selected columns are the key in the reference's rows."""


def rows_of(query, values):
    """What stands in a view, as the reference has it."""
    by_start = defaultdict(list)
    if query == "q5":
        for auction, num, start in values:
            by_start[start].append((num, auction))
        return {start: (most[0][0], tuple(sorted(a for _, a in most))) for start, most in by_start.items()}
    if query == "q8":
        return {(person, start): name for person, name, start in values}
    if query == "q11":
        return {(bidder, start, end): count for bidder, count, start, end in values}
    if query == "q3":
        return {value[-1]: value for value in values}
    if query == "q7":
        return {ms // 10_000 * 10_000: (price, bidder) for _, price, bidder, ms, _ in values}
    if query == "q16":
        return {value[:2]: (value[2], *(value[n + tier] for tier in range(4) for n in (3, 7, 11))) for value in values}
    if query == "q18":
        return {(bidder, auction): (price, channel, extra) for auction, bidder, price, channel, _, _, extra in values}
    if query == "q19":
        prices = defaultdict(list)
        for _, auction, _, price, *_ in values:
            prices[auction].append(price)
        return {auction: tuple(sorted(each, reverse=True)) for auction, each in prices.items()}
    if query == "q20":
        return {(value[0], value[1], value[2], value[6]): value[13] for value in values}
    count = PARTS_OF_KEYS[query]
    split = ((value[:count], value[count:]) for value in values)
    return {key if count > 1 else key[0]: value if len(value) > 1 else value[0] for key, value in split}


def as_selected(query, expected):
    """The reference's rows with what the query selects: of q7 no number, days as texts."""
    if query == "q7":
        return {start: value[:2] for start, value in expected.items()}
    if query in ("q16", "q17"):
        return {(name, str(day)): value for (name, day), value in expected.items()}
    return expected


def pipe(driver, inputs, number, ts, event, zone):
    kind = ("person", "auction", "bid")[event["event_type"]]
    row = event[kind]
    for field in {"dateTime", "expires"} & row.keys():
        row[field] = datetime.fromisoformat(row[field]).replace(tzinfo=zone)
    if kind in inputs:
        names = inputs[kind]
        key = number if kind == "bid" else row["id"]
        driver.pipe(kind, key=key, value={name: row[name] for name in names if name in row}, ts=ts)
    if f"{kind}s" in inputs:
        driver.pipe(f"{kind}s", key=None, value={name: row[name] for name in inputs[f"{kind}s"]}, ts=ts)


@pytest.mark.parametrize("query", SQL)
def test_a_query_of_nexmark_in_sql_gives_what_duckdb_gives_after_each_part_of_the_events(query):
    builder = wm.StreamsBuilder("nexmark")
    # q7 compares times of bids with those of windows, which are TIMESTAMP
    tables, zone = (TABLES.replace("TIMESTAMP_NTZ", "TIMESTAMP"), UTC) if query == "q7" else (TABLES, None)
    handle = builder.sql(tables + SQL[query])
    (handle.to_stream() if isinstance(handle, wm.WTable) else handle).to("out", key="json", value="json")
    topology = builder.build()
    inputs = {source.input: source.shape.value.names for source in topology.plan.sources}
    driver, state = TopologyTestDriver(topology), {}
    events = generator.events(SHAPE, 0, 0, SHAPE.each)
    for part in range(1, PARTS + 1):
        start, end = (SHAPE.each * each // PARTS for each in (part - 1, part))
        for number in range(start, end):
            pipe(driver, inputs, number, int(events.ts[number]), json.loads(events.values[number].as_py()), zone)
        for record in driver.read("out"):
            state.pop(repr(record.key), None)
            if record.value is not None:
                state[repr(record.key)] = tuple(record.value)
        reference = Reference()
        reference.add(np.arange(end), events.ts[:end], events.values[:end])
        expected = as_selected(query, reference.rows(query))
        assert rows_of(query, state.values()) == expected
