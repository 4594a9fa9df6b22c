"""Report each hour how many machines were seen, in total and by hall, out of one windowed count.

The "windowed table, grouped anew" of Kafka's developer guide (KTable groupBy of a windowed key).
"""

import watersmeet as wm

HOUR = 3_600_000


def topology() -> wm.Topology:
    """A machine is counted once an hour, however often it beats."""
    builder = wm.StreamsBuilder("machines-by-hour")
    beats = builder.stream("beats", key="string", value=wm.json("hall string"))
    hours = beats.group_by_key().windowed_by(wm.TimeWindows.of_size_with_no_grace("1 hour"))
    latest = hours.agg(hall=wm.last(lambda beat: beat["hall"]))
    latest.group_by(lambda key, row: (key["start"], row)).agg(
        machines=wm.count(), halls=wm.count_distinct(lambda row: row["hall"])
    ).to("machines-by-hour", value=wm.json())
    return builder.build()


INPUTS = [
    ("beats", "m1", {"hall": "A"}, 0),
    ("beats", "m2", {"hall": "B"}, 1),
    ("beats", "m1", {"hall": "B"}, 2),
    ("beats", "m1", {"hall": "A"}, HOUR),
]
EXPECTED = {
    "machines-by-hour": [
        (0, {"machines": 1, "halls": 1}, 0),
        (0, {"machines": 2, "halls": 2}, 1),
        (0, {"machines": 2, "halls": 1}, 2),
        (HOUR, {"machines": 1, "halls": 1}, HOUR),
    ]
}
