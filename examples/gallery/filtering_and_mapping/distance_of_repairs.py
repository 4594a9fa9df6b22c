"""Compute for each customer the distance to the repair centre, in kilometres, from two positions.

Confluent's tutorial "How to calculate the distance between two points" (GEO_DISTANCE).
"""

from pyspark.sql import Column
from pyspark.sql import functions as F

import watersmeet as wm

PLACE = "struct<lat: double, lon: double>"


def kilometres(one: Column, other: Column) -> Column:
    """The length of the great circle between two places, by the haversine formula."""
    half_lat = F.radians(other["lat"] - one["lat"]) / 2
    half_lon = F.radians(other["lon"] - one["lon"]) / 2
    lats = F.cos(F.radians(one["lat"])) * F.cos(F.radians(other["lat"]))
    return 2 * 6371.0 * F.asin(F.sqrt(F.pow(F.sin(half_lat), 2) + lats * F.pow(F.sin(half_lon), 2)))


def topology() -> wm.Topology:
    """Whole kilometres, rounded."""
    builder = wm.StreamsBuilder("distance-of-repairs")
    repairs = builder.stream("repairs", key="string", value=wm.json(f"customer {PLACE}, centre {PLACE}"))
    repairs.map_values(lambda repair: F.round(kilometres(repair["customer"], repair["centre"])).cast("long")).to(
        "distances"
    )
    return builder.build()


INPUTS = [
    ("repairs", "oslo", {"customer": {"lat": 59.91, "lon": 10.75}, "centre": {"lat": 55.68, "lon": 12.57}}, 0),
    ("repairs", "here", {"customer": {"lat": 1.0, "lon": 1.0}, "centre": {"lat": 1.0, "lon": 1.0}}, 1),
]
EXPECTED = {"distances": [("oslo", 483, 0), ("here", 0, 1)]}
