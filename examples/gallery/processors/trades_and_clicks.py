"""Collect clicks and trades of each customer, and send both lists together every fifteen seconds.

The CoGroupingProcessor of "Kafka Streams in Action".
"""

from typing import Any

import watersmeet as wm

SECOND = 1_000
EVENT = "struct<click: string, trade: string>"


class Together:
    """Two lists of a customer, and a timer as soon as one of them has something."""

    def init(self, context: Any) -> None:
        self.clicks, self.trades = context.get_store("clicks"), context.get_store("trades")

    def process(self, record: Any, context: Any) -> None:
        if not self.clicks.get() and not self.trades.get():
            context.set_timer((record.timestamp // (15 * SECOND) + 1) * 15 * SECOND)
        if record.value["click"] is not None:
            self.clicks.append(record.value["click"])
        else:
            self.trades.append(record.value["trade"])

    def on_timer(self, key: Any, timestamp: int, context: Any) -> None:
        context.forward(value={"clicks": self.clicks.get(), "trades": self.trades.get()})
        self.clicks.delete()
        self.trades.delete()


def topology() -> wm.Topology:
    """Both streams are brought to one type, and merged."""
    builder = wm.StreamsBuilder("trades-and-clicks")
    clicks = builder.stream("clicks", key="string", value="string")
    trades = builder.stream("trades", key="string", value="string")
    both = clicks.map_values(wm.python(lambda page: (page, None), EVENT)).merge(
        trades.map_values(wm.python(lambda trade: (None, trade), EVENT))
    )
    stores = [wm.ListStore("clicks", "string"), wm.ListStore("trades", "string")]
    both.process_values(Together, value="clicks array<string>, trades array<string>", stores=stores).to(
        "together", value=wm.json()
    )
    return builder.build()


INPUTS = [
    ("clicks", "ann", "/xyz", 1 * SECOND),
    ("trades", "ann", "buy XYZ", 2 * SECOND),
    ("clicks", "ann", "/abc", 3 * SECOND),
    ("clicks", "bob", "/xyz", 14 * SECOND),
    ("trades", "ann", "sell XYZ", 16 * SECOND),
    ("clicks", "cid", "/", 40 * SECOND),
]
EXPECTED = {
    "together": [
        ("ann", {"clicks": ["/xyz", "/abc"], "trades": ["buy XYZ"]}, 15 * SECOND),
        ("bob", {"clicks": ["/xyz"], "trades": []}, 15 * SECOND),
        ("ann", {"clicks": [], "trades": ["sell XYZ"]}, 30 * SECOND),
    ]
}
