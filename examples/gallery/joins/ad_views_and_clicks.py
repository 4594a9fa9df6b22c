"""Join each view of an advertisement with the clicks that follow within nine minutes.

Confluent's tutorial "How to join a stream and a stream"; StreamToStreamJoinIntegrationTest.
"""

from pyspark.sql import functions as F

import watersmeet as wm

MINUTE = 60_000


def topology() -> wm.Topology:
    """Three joins of the same streams: inner, left and outer."""
    builder = wm.StreamsBuilder("ad-views-and-clicks")
    views = builder.stream("ad-views", key="string", value="string")
    clicks = builder.stream("ad-clicks", key="string", value="string")
    within = wm.JoinWindows.of_time_difference_with_no_grace("9 minutes").before("0 ms")

    def both(view, click):  # type: ignore[no-untyped-def]
        return F.concat_ws("/", F.coalesce(view, F.lit("not seen")), F.coalesce(click, F.lit("not clicked")))

    views.join(clicks, both, within).to("clicked")
    views.left_join(clicks, both, within).to("seen")
    views.outer_join(clicks, both, within).to("all")
    return builder.build()


INPUTS = [
    ("ad-views", "tent", "v1", 0),
    ("ad-clicks", "tent", "c1", 1 * MINUTE),
    ("ad-clicks", "lamp", "c2", 2 * MINUTE),
    ("ad-views", "lamp", "v2", 3 * MINUTE),
    ("ad-clicks", "tent", "c3", 8 * MINUTE),
    ("ad-views", "end", "v3", 30 * MINUTE),
]
EXPECTED = {
    "clicked": [("tent", "v1/c1", 1 * MINUTE), ("tent", "v1/c3", 8 * MINUTE)],
    "seen": [
        ("tent", "v1/c1", 1 * MINUTE),
        ("tent", "v1/c3", 8 * MINUTE),
        ("lamp", "v2/not clicked", 3 * MINUTE),
    ],
    "all": [
        ("tent", "v1/c1", 1 * MINUTE),
        ("lamp", "not seen/c2", 2 * MINUTE),
        ("tent", "v1/c3", 8 * MINUTE),
        ("lamp", "v2/not clicked", 3 * MINUTE),
    ],
}
