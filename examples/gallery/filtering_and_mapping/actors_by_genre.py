"""Split a stream into one stream for each kind of record, and one for the rest.

Confluent's tutorial "How to split a stream of events into substreams".
"""

import watersmeet as wm


def topology() -> wm.Topology:
    """Each appearance goes to the first branch that takes it."""
    builder = wm.StreamsBuilder("actors-by-genre")
    acting = builder.stream("acting", key="string", value=wm.json("title string, genre string"))
    branches = acting.split(
        {"drama": lambda role: role["genre"] == "drama", "fantasy": lambda role: role["genre"] == "fantasy"},
        default="other",
    )
    for name, branch in branches.items():
        branch.map_values(lambda role: role["title"]).to(f"acting-{name}")
    return builder.build()


INPUTS = [
    ("acting", "Bryan", {"title": "Breaking Bad", "genre": "drama"}, 0),
    ("acting", "Lena", {"title": "Game of Thrones", "genre": "fantasy"}, 1),
    ("acting", "Steve", {"title": "The Office", "genre": "comedy"}, 2),
    ("acting", "Emilia", {"title": "Game of Thrones", "genre": "fantasy"}, 3),
]
EXPECTED = {
    "acting-drama": [("Bryan", "Breaking Bad", 0)],
    "acting-fantasy": [("Lena", "Game of Thrones", 1), ("Emilia", "Game of Thrones", 3)],
    "acting-other": [("Steve", "The Office", 2)],
}
