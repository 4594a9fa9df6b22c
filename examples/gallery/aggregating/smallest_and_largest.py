"""Keep the smallest and the largest box office of each year.

Confluent's tutorial "How to find the min/max in a stream of events".
"""

import watersmeet as wm


def topology() -> wm.Topology:
    """Films in, the two extremes of their year out."""
    builder = wm.StreamsBuilder("smallest-and-largest")
    films = builder.stream("films", key="string", value=wm.json("title string, year int, sales long"))
    by_year = films.group_by(lambda film: film["year"])
    by_year.agg(
        least=wm.min(lambda film: film["sales"]),
        most=wm.max(lambda film: film["sales"]),
        best=wm.max_by(lambda film: film["title"], by=lambda film: film["sales"]),
    ).to("sales-by-year", value=wm.json())
    return builder.build()


INPUTS = [
    ("films", None, {"title": "Endgame", "year": 2019, "sales": 856}, 0),
    ("films", None, {"title": "Captain", "year": 2019, "sales": 426}, 1),
    ("films", None, {"title": "Toy Story 4", "year": 2019, "sales": 434}, 2),
    ("films", None, {"title": "Joker", "year": 2018, "sales": 335}, 3),
]
EXPECTED = {
    "sales-by-year": [
        (2019, {"least": 856, "most": 856, "best": "Endgame"}, 0),
        (2019, {"least": 426, "most": 856, "best": "Endgame"}, 1),
        (2019, {"least": 426, "most": 856, "best": "Endgame"}, 2),
        (2018, {"least": 335, "most": 335, "best": "Joker"}, 3),
    ]
}
