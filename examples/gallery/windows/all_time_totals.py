"""Count the readers of all time in one window that never ends, beginning with a day.

Kafka's UnlimitedWindows.
"""

import watersmeet as wm


def topology() -> wm.Topology:
    """Records before the beginning belong to no window: they are dropped, and counted."""
    builder = wm.StreamsBuilder("all-time-totals")
    reads = builder.stream("reads", key="string", value="string")
    since = wm.UnlimitedWindows.of().start_on(1_000)
    reads.group_by_key().windowed_by(since).count(name="since-1000").to_stream(key="key").to("totals")
    return builder.build()


INPUTS = [("reads", "dune", "ann", 10), ("reads", "dune", "bob", 1_000), ("reads", "dune", "ann", 5_000_000)]
EXPECTED = {"totals": [("dune", 1, 1_000), ("dune", 2, 5_000_000)]}
DROPPED = {("since-1000", "no_window"): 1}
