"""Merge two streams of one type into one.

Confluent's tutorial "How to merge many streams into one stream".
"""

import watersmeet as wm

SONG = wm.json("artist string, title string")


def topology() -> wm.Topology:
    """Rock and classical songs in, all songs out."""
    builder = wm.StreamsBuilder("all-songs")
    rock = builder.stream("rock-songs", key="string", value=SONG)
    classical = builder.stream("classical-songs", key="string", value=SONG)
    rock.merge(classical).to("all-songs")
    return builder.build()


INPUTS = [
    ("rock-songs", "r1", {"artist": "Metallica", "title": "Fade to Black"}, 0),
    ("classical-songs", "c1", {"artist": "Bach", "title": "Air"}, 1),
    ("rock-songs", "r2", {"artist": "Van Halen", "title": "Jump"}, 2),
]
EXPECTED = {
    "all-songs": [
        ("r1", {"artist": "Metallica", "title": "Fade to Black"}, 0),
        ("c1", {"artist": "Bach", "title": "Air"}, 1),
        ("r2", {"artist": "Van Halen", "title": "Jump"}, 2),
    ]
}
