"""Keep the largest value of each key, of all time and of the last five minutes, in two stores that can be asked.

Confluent's ValidateStateWithInteractiveQueriesLambdaIntegrationTest.
"""

import watersmeet as wm

MINUTE = 60_000


def topology() -> wm.Topology:
    """One grouped stream, two aggregates."""
    builder = wm.StreamsBuilder("largest-ever-and-by-window")
    grouped = builder.stream("clicks", key="string", value="long").group_by_key()
    grouped.agg(largest=wm.max(lambda n: n), store="max-store").to_stream().map_values(lambda row: row["largest"]).to(
        "largest"
    )
    windows = wm.TimeWindows.of_size_with_no_grace("5 minutes")
    of_window = grouped.windowed_by(windows).agg(largest=wm.max(lambda n: n), store="max-window-store")
    of_window.to_stream(key="key").map_values(lambda row: row["largest"]).to("largest-of-window")
    return builder.build()


INPUTS = [
    ("clicks", "ann", 5, 0),
    ("clicks", "ann", 9, 1 * MINUTE),
    ("clicks", "bob", 2, 2 * MINUTE),
    ("clicks", "ann", 7, 6 * MINUTE),
]
EXPECTED = {
    "largest": [("ann", 5, 0), ("ann", 9, MINUTE), ("bob", 2, 2 * MINUTE), ("ann", 9, 6 * MINUTE)],
    "largest-of-window": [("ann", 5, 0), ("ann", 9, MINUTE), ("bob", 2, 2 * MINUTE), ("ann", 7, 6 * MINUTE)],
}
STORES = {"max-store": [("ann", {"largest": 9}), ("bob", {"largest": 2})]}
