"""Count the purchases of each genre: purchases refer to albums by a foreign key.

Confluent's tutorial "How to join tables by foreign key" (album purchases and trends).
"""

from pyspark.sql import functions as F

import watersmeet as wm


def topology() -> wm.Topology:
    """If an album changes its genre, its purchases move with it, and so do the counts."""
    builder = wm.StreamsBuilder("purchases-and-albums")
    albums = builder.table("albums", key="long", value=wm.json("title string, genre string"))
    purchases = builder.table("purchases", key="string", value=wm.json("album long, song string"))
    of_genre = purchases.join(
        albums,
        lambda purchase, album: F.struct(album["genre"], purchase["song"]),
        foreign_key=lambda purchase: purchase["album"],
    )
    of_genre.group_by(lambda key, row: (row["genre"], row)).count(store="by-genre").to("purchases-by-genre")
    return builder.build()


INPUTS = [
    ("albums", 5, {"title": "Physical Graffiti", "genre": "Rock"}, 0),
    ("purchases", "p1", {"album": 5, "song": "Kashmir"}, 1),
    ("purchases", "p2", {"album": 5, "song": "Houses"}, 2),
    ("purchases", "p3", {"album": 6, "song": "Air"}, 3),
    ("albums", 6, {"title": "Suites", "genre": "Classical"}, 4),
    ("albums", 5, {"title": "Physical Graffiti", "genre": "Classics"}, 5),
]
EXPECTED = {
    "purchases-by-genre": [
        ("Rock", 1, 1),
        ("Rock", 2, 2),
        ("Classical", 1, 4),
        ("Rock", 1, 5),
        ("Classics", 1, 5),
        ("Rock", 0, 5),
        ("Classics", 2, 5),
    ]
}
STORES = {"by-genre": [("Classical", 1), ("Classics", 2), ("Rock", 0)]}
