"""Keep the five most played songs of each genre and of all, where only plays of at least 30 seconds count.

Confluent's KafkaMusicExample (charts of songs, asked by interactive queries).
"""

from pyspark.sql import functions as F

import watersmeet as wm

SONGS = [
    (1, {"artist": "Fresh Fruit", "name": "Chemical", "genre": "punk"}),
    (2, {"artist": "The Sails", "name": "Harbour", "genre": "folk"}),
    (3, {"artist": "The Sails", "name": "Anchor", "genre": "folk"}),
]


def topology() -> wm.Topology:
    """Plays meet songs, become counts, and the counts charts."""
    builder = wm.StreamsBuilder("charts-of-songs")
    plays = builder.stream("plays", key="string", value=wm.json("song long, seconds int"))
    songs = builder.table("songs", key="long", value=wm.json("artist string, name string, genre string"))
    long_enough = plays.filter(lambda play: play["seconds"] >= 30)
    by_song = long_enough.select_key(lambda play: play["song"])
    counts = by_song.join(songs, lambda play, song: song).group_by(lambda song: song).count(store="song-counts")
    played = counts.map_values(lambda song, n: F.struct(song["name"].alias("name"), n.alias("plays")))
    best = wm.top_k(k=5, by=lambda row: row["plays"], value=lambda row: row["name"])
    genres = played.group_by(lambda song, row: (song["genre"], row)).agg(store="genre-charts", songs=best)
    overall = played.group_by(lambda song, row: (F.lit("all"), row)).agg(store="top-five", songs=best)
    genres.map_values(lambda row: row["songs"]).to("charts", value=wm.json())
    overall.map_values(lambda row: row["songs"]).to("charts-of-all", value=wm.json())
    return builder.build()


INPUTS = [
    *(("songs", number, song, 0) for number, song in SONGS),
    ("plays", "p", {"song": 1, "seconds": 29}, 1),
    ("plays", "p", {"song": 2, "seconds": 180}, 2),
    ("plays", "p", {"song": 1, "seconds": 31}, 3),
    ("plays", "q", {"song": 1, "seconds": 90}, 4),
    ("plays", "q", {"song": 3, "seconds": 90}, 5),
]
EXPECTED = {
    "charts": [
        ("folk", ["Harbour"], 2),
        ("punk", ["Chemical"], 3),
        ("punk", ["Chemical"], 4),
        ("folk", ["Harbour", "Anchor"], 5),
    ],
    "charts-of-all": [
        ("all", ["Harbour"], 2),
        ("all", ["Harbour", "Chemical"], 3),
        ("all", ["Chemical", "Harbour"], 4),
        ("all", ["Chemical", "Harbour", "Anchor"], 5),
    ],
}
