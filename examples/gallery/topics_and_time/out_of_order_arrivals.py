"""Measure how late each event comes: the time of the newest event so far, less the event's own.

Confluent's tutorial "How to view and measure lagging events".
"""

from typing import Any

import watersmeet as wm


class Lag:
    """Stream time is the largest time so far."""

    def process(self, record: Any, context: Any) -> None:
        context.forward(value=context.stream_time - record.timestamp)


def topology() -> wm.Topology:
    """The lag of each event, and the largest of each device."""
    builder = wm.StreamsBuilder("out-of-order-arrivals")
    events = builder.stream("events", key="string", value="string")
    lags = events.process_values(Lag, value="long")
    lags.to("lags")
    lags.group_by_key().agg(most=wm.max(lambda ms: ms), store="largest-lags")
    return builder.build()


INPUTS = [
    ("events", "d1", "", 1_000),
    ("events", "d2", "", 4_000),
    ("events", "d1", "", 3_500),
    ("events", "d2", "", 1_000),
]
EXPECTED = {"lags": [("d1", 0, 1_000), ("d2", 0, 4_000), ("d1", 500, 3_500), ("d2", 3_000, 1_000)]}
STORES = {"largest-lags": [("d1", {"most": 500}), ("d2", {"most": 3_000})]}
