"""Count page views by region over five minutes: a stream joined with a table, then counted by window.

Confluent's PageViewRegionLambdaExample; Kafka's PageViewTypedDemo and PageViewUntypedDemo.
"""

from pyspark.sql import functions as F

import watersmeet as wm

MINUTE = 60_000


def topology() -> wm.Topology:
    """Views are keyed by page, so they get the user as key before they are joined."""
    builder = wm.StreamsBuilder("views-by-region")
    views = builder.stream("page-views", key="string", value=wm.json("user string, page string"))
    profiles = builder.table("user-profiles", key="string", value=wm.json("region string"))
    by_user = views.select_key(lambda key, view: view["user"])
    regions = by_user.left_join(
        profiles, lambda view, profile: F.coalesce(profile["region"], F.lit("unknown")), name="region-of-view"
    )
    windows = wm.TimeWindows.of_size_and_grace("5 minutes", "1 minute")
    counts = regions.group_by(lambda region: region).windowed_by(windows).count(store="views-by-region")
    counts.to_stream(key="start").to("views-by-region")
    return builder.build()


INPUTS = [
    ("user-profiles", "ann", {"region": "europe"}, 0),
    ("page-views", "/home", {"user": "ann", "page": "/home"}, 1 * MINUTE),
    ("page-views", "/home", {"user": "bob", "page": "/home"}, 2 * MINUTE),
    ("user-profiles", "bob", {"region": "europe"}, 3 * MINUTE),
    ("page-views", "/shop", {"user": "bob", "page": "/shop"}, 4 * MINUTE),
    ("page-views", "/shop", {"user": "ann", "page": "/shop"}, 6 * MINUTE),
]
EXPECTED = {
    "views-by-region": [
        ({"key": "europe", "start": 0}, 1, 1 * MINUTE),
        ({"key": "unknown", "start": 0}, 1, 2 * MINUTE),
        ({"key": "europe", "start": 0}, 2, 4 * MINUTE),
        ({"key": "europe", "start": 5 * MINUTE}, 1, 6 * MINUTE),
    ]
}
STORES = {"views-by-region": [(("europe", 0), 2), (("europe", 5 * MINUTE), 1), (("unknown", 0), 1)]}
