"""Join readings with the sensor that they come from, and this table with a global table of units.

Kafka's KIP-99 (joins of global tables).
"""

from pyspark.sql import functions as F

import watersmeet as wm


def topology() -> wm.Topology:
    """Two global tables are joined once, as a view; streams then ask the view."""
    builder = wm.StreamsBuilder("sensors-with-units")
    sensors = builder.global_table("sensors", key="string", value=wm.json("unit string, room string"))
    units = builder.global_table("units", key="string", value=wm.json("symbol string"))
    described = sensors.left_join(
        units,
        lambda sensor, unit: F.struct(sensor["room"], F.coalesce(unit["symbol"], F.lit("?")).alias("symbol")),
        key=lambda sensor: sensor["unit"],
    )
    readings = builder.stream("readings", key="long", value=wm.json("sensor string, value int"))
    readings.join(
        described,
        lambda reading, sensor: F.format_string(
            "%s: %s %s", sensor["room"], reading["value"].cast("string"), sensor["symbol"]
        ),
        key=lambda reading: reading["sensor"],
    ).to("texts")
    return builder.build()


INPUTS = [
    ("sensors", "s1", {"unit": "celsius", "room": "kitchen"}, 0),
    ("readings", 1, {"sensor": "s1", "value": 21}, 1),
    ("units", "celsius", {"symbol": "C"}, 2),
    ("readings", 2, {"sensor": "s1", "value": 22}, 3),
]
EXPECTED = {"texts": [(1, "kitchen: 21 ?", 1), (2, "kitchen: 22 C", 3)]}
