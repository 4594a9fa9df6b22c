"""What NEXMark's queries have to give: SQL over all events so far, by DuckDB, which shares nothing with watersmeet.

Rows are (key, value) of the tables that `queries` keeps, as plain Python values. Where the SQL of nexmark/nexmark
leaves a tie open, the order of arrival decides, as it does for a table that is kept record by record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb
import pyarrow as pa

_KINDS = {
    "person": "id BIGINT, name VARCHAR, city VARCHAR, state VARCHAR, dateTime TIMESTAMP",
    "auction": "id BIGINT, seller BIGINT, category BIGINT, dateTime TIMESTAMP, expires TIMESTAMP",
    "bid": "auction BIGINT, bidder BIGINT, price BIGINT, channel VARCHAR, dateTime TIMESTAMP, extra VARCHAR",
}
_VALID = """SELECT b.*, a.category FROM auction a JOIN bid b ON a.id = b.auction
    WHERE b.dateTime BETWEEN a.dateTime AND a.expires"""
_TIERS = {"cheap": "price < 10000", "middle": "price >= 10000 AND price < 1000000", "dear": "price >= 1000000"}
_COUNTS = ", ".join(
    f"COUNT(*) FILTER ({tier}), COUNT(DISTINCT bidder) FILTER ({tier}), COUNT(DISTINCT auction) FILTER ({tier})"
    for tier in ("true", *_TIERS.values())
)
SQL = {
    "q3": """SELECT a.id, (p.name, p.city, p.state, a.id) FROM auction a JOIN person p ON a.seller = p.id
        WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')""",
    "q4": f"""SELECT category, AVG(best) FROM (
        SELECT auction, category, MAX(price) best FROM ({_VALID}) GROUP BY ALL) GROUP BY category""",
    "q5": """WITH counts AS (
            SELECT auction, start, COUNT(*) num FROM (
                SELECT auction, ms, unnest(generate_series(ms // 2000 * 2000 - 8000, ms // 2000 * 2000, 2000)) start
                FROM (SELECT auction, epoch_ms(dateTime) ms FROM bid))
            WHERE start + 10000 <= (SELECT MAX(epoch_ms(dateTime)) FROM bid) GROUP BY ALL)
        SELECT start, (MAX(num), list(auction ORDER BY auction)) FROM counts JOIN (
            SELECT start, MAX(num) most FROM counts GROUP BY start) USING (start) WHERE num >= most GROUP BY start""",
    "q7": """SELECT epoch_ms(dateTime) // 10000 * 10000 start, arg_min((price, bidder, number), (-price, number))
        FROM bid GROUP BY start""",
    "q8": """SELECT (id, p.start), name FROM (
            SELECT DISTINCT id, name, epoch_ms(dateTime) // 10000 * 10000 start FROM person) p
        JOIN (SELECT DISTINCT seller, epoch_ms(dateTime) // 10000 * 10000 start FROM auction) a
        ON p.id = a.seller AND p.start = a.start""",
    "q9": f"""SELECT auction, arg_min((bidder, price, extra), (-price, dateTime, number)) FROM ({_VALID})
        GROUP BY auction""",
    "q11": """WITH breaks AS (
            SELECT bidder, epoch_ms(dateTime) ms, number,
                ms - lag(ms) OVER (PARTITION BY bidder ORDER BY ms, number) > 10000 new FROM bid),
        sessions AS (
            SELECT bidder, ms, SUM(CASE WHEN new THEN 1 ELSE 0 END) OVER (PARTITION BY bidder ORDER BY ms, number) turn
            FROM breaks)
        SELECT (bidder, MIN(ms), MAX(ms)), COUNT(*) FROM sessions GROUP BY bidder, turn""",
    "q16": f"""SELECT (channel, dateTime::DATE) k, (MAX(strftime(dateTime, '%H:%M')), {_COUNTS}) FROM bid GROUP BY k""",
    "q17": f"""SELECT (auction, dateTime::DATE) k, (COUNT(*),
        {", ".join(f"COUNT(*) FILTER ({t})" for t in _TIERS.values())},
        MIN(price), MAX(price), AVG(price), SUM(price)::BIGINT) FROM bid GROUP BY k""",
    "q18": """SELECT (bidder, auction) k, arg_max((price, channel, extra), (dateTime, number)) FROM bid GROUP BY k""",
    "q19": """SELECT auction, list(price ORDER BY price DESC)[:10] FROM bid GROUP BY auction""",
    "q20": """SELECT (a.id, b.bidder, b.price, b.extra), a.seller FROM bid b JOIN auction a ON b.auction = a.id
        WHERE a.category = 10""",
}
"""Of each query, its keys and values."""


class Reference:
    """All events so far, in a database in memory."""

    def __init__(self) -> None:
        self._database = duckdb.connect()
        self._database.execute("CREATE TABLE event (number BIGINT, dateTime TIMESTAMP, content JSON)")
        for name, columns in _KINDS.items():
            named = [column.rpartition(" ") for column in columns.split(", ")]
            picked = ", ".join(f"(content->>'$.{name}.{field}')::{kind} {field}" for field, _, kind in named)
            self._database.execute(
                f"CREATE VIEW {name} AS SELECT number, {picked} FROM event WHERE (content->>'$.{name}') IS NOT NULL"
            )

    def add(self, numbers: Sequence[int], ts: Sequence[int], values: pa.Array) -> None:
        """Take in events, with their places in the order of arrival, their times and their JSON texts."""
        given = pa.table({"number": numbers, "ts": ts, "content": values})  # noqa: F841  DuckDB finds it by its name
        self._database.execute("INSERT INTO event SELECT number, make_timestamp_ms(ts), content FROM given")

    def rows(self, query: str) -> dict[Any, Any]:
        """What the query has to give, by key."""
        return {_plain(key): _plain(value) for key, value in self._database.execute(SQL[query]).fetchall()}


def _plain(value: Any) -> Any:
    """The value with structs as tuples of their fields."""
    if isinstance(value, dict):
        return tuple(map(_plain, value.values()))
    return tuple(map(_plain, value)) if isinstance(value, list | tuple) else value
