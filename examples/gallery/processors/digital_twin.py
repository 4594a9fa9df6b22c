"""Keep the desired and the reported state of each wind turbine, switch it off in a storm, and forget silent ones.

The digital twin service of "Mastering Kafka Streams and ksqlDB" (processors, and a punctuation that cleans up).
"""

from typing import Any

import watersmeet as wm

MINUTE = 60_000


class HighWinds:
    """Reported states, and behind those in a storm the state that is desired."""

    def process(self, record: Any, context: Any) -> None:
        state = record.value
        context.forward(value={**state, "type": "REPORTED"})
        if state["wind_kmh"] > 65 and state["power"] == "ON":
            context.forward(value={**state, "type": "DESIRED", "power": "OFF"})


class Twin:
    """Both states of a turbine, until it has been silent for a week."""

    def init(self, context: Any) -> None:
        self.twins = context.get_store("twins")
        self.due = context.get_store("due")

    def process(self, record: Any, context: Any) -> None:
        twin = self.twins.get() or {"desired": None, "reported": None}
        twin["desired" if record.value["type"] == "DESIRED" else "reported"] = record.value["power"]
        self.twins.put(twin)
        if self.due.get() is not None:
            context.delete_timer(self.due.get())
        self.due.put(record.timestamp + 10_080 * MINUTE)
        context.set_timer(self.due.get())
        context.forward(value=twin)

    def on_timer(self, key: Any, timestamp: int, context: Any) -> None:
        self.twins.delete()
        self.due.delete()
        context.forward(value=None)


def topology() -> wm.Topology:
    """Reports of turbines and wishes of people in, twins out."""
    builder = wm.StreamsBuilder("digital-twin")
    state = "struct<wind_kmh: double, power: string, type: string>"
    reported = builder.stream("reported", key="string", value=wm.json("wind_kmh double, power string"))
    desired = builder.stream("desired", key="string", value=wm.json("wind_kmh double, power string, type string"))
    all_states = reported.process_values(HighWinds, value=state).merge(desired)
    twins = all_states.process_values(
        Twin,
        value="struct<desired: string, reported: string>",
        stores=[wm.ValueStore("twins", "struct<desired: string, reported: string>"), wm.ValueStore("due", "long")],
    )
    twins.to("digital-twins", value=wm.json())
    return builder.build()


INPUTS = [
    ("reported", "t1", {"wind_kmh": 40.0, "power": "ON"}, 0),
    ("reported", "t1", {"wind_kmh": 68.0, "power": "ON"}, 1 * MINUTE),
    ("desired", "t1", {"wind_kmh": None, "power": "ON", "type": "DESIRED"}, 2 * MINUTE),
    ("reported", "t2", {"wind_kmh": 10.0, "power": "ON"}, 20_000 * MINUTE),
]
EXPECTED = {
    "digital-twins": [
        ("t1", {"desired": None, "reported": "ON"}, 0),
        ("t1", {"desired": None, "reported": "ON"}, 1 * MINUTE),
        ("t1", {"desired": "OFF", "reported": "ON"}, 1 * MINUTE),
        ("t1", {"desired": "ON", "reported": "ON"}, 2 * MINUTE),
        ("t1", None, 10_082 * MINUTE),
        ("t2", {"desired": None, "reported": "ON"}, 20_000 * MINUTE),
    ]
}
