"""Count the trades of each customer in each share over sessions of twenty seconds.

The StockPerformance and KTable chapters of "Kafka Streams in Action".
"""

from pyspark.sql import functions as F

import watersmeet as wm

SECOND = 1_000


def topology() -> wm.Topology:
    """A composite key is a struct; each session is told once, when it is over."""
    builder = wm.StreamsBuilder("stock-volume")
    trades = builder.stream("trades", key="string", value=wm.json("customer string, symbol string, shares int"))
    sessions = wm.SessionWindows.of_inactivity_gap_with_no_grace("20 seconds")
    summary = (
        trades.group_by(lambda trade: F.struct(trade["customer"], trade["symbol"]))
        .windowed_by(sessions)
        .emit_strategy(wm.EmitStrategy.on_window_close())
        .agg(trades=wm.count(), shares=wm.sum(lambda trade: trade["shares"]))
    )
    summary.to_stream(key="key").to("volumes", key=wm.json(), value=wm.json())
    return builder.build()


INPUTS = [
    ("trades", None, {"customer": "ann", "symbol": "XYZ", "shares": 100}, 0),
    ("trades", None, {"customer": "ann", "symbol": "XYZ", "shares": 50}, 15 * SECOND),
    ("trades", None, {"customer": "bob", "symbol": "ABC", "shares": 5}, 30 * SECOND),
    ("trades", None, {"customer": "ann", "symbol": "XYZ", "shares": 1}, 60 * SECOND),
]
EXPECTED = {
    "volumes": [
        ({"customer": "ann", "symbol": "XYZ"}, {"trades": 2, "shares": 150}, 15 * SECOND),
        ({"customer": "bob", "symbol": "ABC"}, {"trades": 1, "shares": 5}, 30 * SECOND),
    ]
}
