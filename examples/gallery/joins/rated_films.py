"""Add to each rating the title of the film, from a table.

Confluent's tutorial "How to join a stream and a lookup table"; StreamToTableJoinIntegrationTest.
"""

from pyspark.sql import functions as F

import watersmeet as wm


def topology() -> wm.Topology:
    """A rating finds the film as the table has it at that moment; one of an unknown film is left out."""
    builder = wm.StreamsBuilder("rated-films")
    films = builder.table("films", key="long", value=wm.json("title string, year int"), store="films")
    ratings = builder.stream("ratings", key="string", value=wm.json("film long, rating double"))
    by_film = ratings.select_key(lambda rating: rating["film"])
    by_film.join(films, lambda rating, film: F.struct(film["title"], film["year"], rating["rating"])).to(
        "rated-films", value=wm.json()
    )
    return builder.build()


INPUTS = [
    ("ratings", "r0", {"film": 294, "rating": 1.0}, 0),
    ("films", 294, {"title": "Die Hard", "year": 1988}, 1),
    ("ratings", "r1", {"film": 294, "rating": 8.2}, 2),
    ("films", 294, {"title": "Die Hard!", "year": 1988}, 3),
    ("ratings", "r2", {"film": 294, "rating": 8.5}, 4),
]
EXPECTED = {
    "rated-films": [
        (294, {"title": "Die Hard", "year": 1988, "rating": 8.2}, 2),
        (294, {"title": "Die Hard!", "year": 1988, "rating": 8.5}, 4),
    ]
}
STORES = {"films": [(294, {"title": "Die Hard!", "year": 1988})]}
