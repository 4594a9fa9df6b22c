"""Count the ratings of each film in windows of ten minutes that follow one another.

Confluent's tutorial "How to create tumbling windows".
"""

import watersmeet as wm

MINUTE = 60_000


def topology() -> wm.Topology:
    """The key of a result is the film and the start of its window, as text that Kafka Streams prints, too."""
    builder = wm.StreamsBuilder("tumbling-ratings")
    ratings = builder.stream("ratings", key="string", value="double")
    counts = ratings.group_by_key().windowed_by(wm.TimeWindows.of_size_with_no_grace("10 minutes")).count()
    counts.to_stream(key=wm.window_text).to("ratings-by-window")
    return builder.build()


INPUTS = [
    ("ratings", "Super Mario", 3.5, 0),
    ("ratings", "Super Mario", 2.0, 9 * MINUTE),
    ("ratings", "Super Mario", 4.5, 10 * MINUTE),
    ("ratings", "Walk the Line", 3.6, 11 * MINUTE),
]
EXPECTED = {
    "ratings-by-window": [
        ("[Super Mario@0/600000]", 1, 0),
        ("[Super Mario@0/600000]", 2, 9 * MINUTE),
        ("[Super Mario@600000/1200000]", 1, 10 * MINUTE),
        ("[Walk the Line@600000/1200000]", 1, 11 * MINUTE),
    ]
}
