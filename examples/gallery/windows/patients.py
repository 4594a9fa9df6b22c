"""Count heart beats by minute, and alert if a patient with a fast pulse has a fever, too.

The patient monitoring of "Mastering Kafka Streams and ksqlDB" (final results of windows, and a join).
"""

from datetime import UTC, datetime

from pyspark.sql import functions as F

import watersmeet as wm

SECOND = 1_000


def topology() -> wm.Topology:
    """Beats become a pulse for each minute; fast ones meet high temperatures within a minute."""
    builder = wm.StreamsBuilder("patients")
    beats = builder.stream(
        "pulse-events", key="string", value=wm.json("at timestamp"), timestamp=lambda beat: beat["at"]
    )
    temperatures = builder.stream(
        "body-temp-events", key="string", value=wm.json("at timestamp, celsius double"), timestamp=lambda row: row["at"]
    )
    pulse = (
        beats.group_by_key()
        .windowed_by(wm.TimeWindows.of_size_and_grace("1 minute", "5 seconds"))
        .count(store="pulse-counts")
        .suppress(wm.Suppressed.until_window_closes(wm.BufferConfig.unbounded().shut_down_when_full()))
    )
    fast = pulse.to_stream(key="key").filter(lambda n: n >= 3)
    fever = temperatures.filter(lambda row: row["celsius"] > 38.0)
    windows = wm.JoinWindows.of_time_difference_and_grace("1 minute", "10 seconds")
    fast.join(fever, lambda n, row: F.struct(n.alias("pulse"), row["celsius"]), windows).to("alerts", value=wm.json())
    return builder.build()


def _at(seconds: int, **more: object) -> dict[str, object]:
    return {"at": datetime(2026, 3, 1, 9, seconds // 60, seconds % 60, tzinfo=UTC), **more}


START = 1_772_355_600_000
INPUTS = [
    ("pulse-events", "p1", _at(0), 0),
    ("pulse-events", "p1", _at(20), 0),
    ("pulse-events", "p2", _at(30), 0),
    ("pulse-events", "p1", _at(40), 0),
    ("body-temp-events", "p1", _at(50, celsius=39.1), 0),
    ("body-temp-events", "p2", _at(55, celsius=39.9), 0),
    ("pulse-events", "p1", _at(66), 0),
]
EXPECTED = {"alerts": [("p1", {"pulse": 3, "celsius": 39.1}, START + 50 * SECOND)]}
