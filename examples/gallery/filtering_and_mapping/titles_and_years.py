"""Make structured records of text: take "Die Hard (1988)" apart into a title and a year.

Confluent's tutorial "How to transform a stream of events".
"""

from pyspark.sql import functions as F

import watersmeet as wm

TITLE_AND_YEAR = r"^(.*) \((\d{4})\)$"


def topology() -> wm.Topology:
    """Text in, structs out."""
    builder = wm.StreamsBuilder("titles-and-years")
    raw = builder.stream("raw-movies", key="long", value=wm.json("name string, genre string"))
    movies = raw.map_values(
        lambda movie: F.struct(
            F.regexp_extract(movie["name"], TITLE_AND_YEAR, 1).alias("title"),
            F.regexp_extract(movie["name"], TITLE_AND_YEAR, 2).cast("int").alias("year"),
            F.lower(movie["genre"]).alias("genre"),
        )
    )
    movies.to("movies")
    return builder.build()


INPUTS = [
    ("raw-movies", 1, {"name": "Tree of Life (2011)", "genre": "Drama"}, 0),
    ("raw-movies", 2, {"name": "Metropolis (1927)", "genre": "SF"}, 1),
]
EXPECTED = {
    "movies": [
        (1, {"title": "Tree of Life", "year": 2011, "genre": "drama"}, 0),
        (2, {"title": "Metropolis", "year": 1927, "genre": "sf"}, 1),
    ]
}
