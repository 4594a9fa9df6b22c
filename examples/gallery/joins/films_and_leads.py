"""Join the table of films with the table of their leading actors, by the title that both have as key.

Confluent's tutorial "How to join a table and a table"; TableToTableJoinIntegrationTest.
"""

from pyspark.sql import functions as F

import watersmeet as wm


def topology() -> wm.Topology:
    """Inner, left and outer; a change of either side changes the row, and a deletion deletes it."""
    builder = wm.StreamsBuilder("films-and-leads")
    films = builder.table("films", key="string", value="int")
    leads = builder.table("leads", key="string", value="string")

    def both(year, lead):  # type: ignore[no-untyped-def]
        return F.concat_ws(", ", year.cast("string"), lead)

    films.join(leads, both, store="inner").to("films-with-leads")
    films.left_join(leads, both).to("all-films")
    films.outer_join(leads, both).to("all-titles")
    return builder.build()


INPUTS = [
    ("films", "Alien", 1979, 0),
    ("leads", "Alien", "Weaver", 1),
    ("leads", "Dune", "MacLachlan", 2),
    ("leads", "Dune", "Chalamet", 3),
    ("films", "Dune", 2021, 4),
    ("leads", "Alien", None, 5),
]
EXPECTED = {
    "films-with-leads": [
        ("Alien", "1979, Weaver", 1),
        ("Dune", "2021, Chalamet", 4),
        ("Alien", None, 5),
    ],
    "all-films": [
        ("Alien", "1979", 0),
        ("Alien", "1979, Weaver", 1),
        ("Dune", "2021, Chalamet", 4),
        ("Alien", "1979", 5),
    ],
    "all-titles": [
        ("Alien", "1979", 0),
        ("Alien", "1979, Weaver", 1),
        ("Dune", "MacLachlan", 2),
        ("Dune", "Chalamet", 3),
        ("Dune", "2021, Chalamet", 4),
        ("Alien", "1979", 5),
    ],
}
STORES = {"inner": [("Dune", "2021, Chalamet")]}
