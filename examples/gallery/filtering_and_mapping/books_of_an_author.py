"""Keep the books of one author.

Confluent's tutorial "How to filter messages in a Kafka topic".
"""

import watersmeet as wm

AUTHOR = "Le Guin"


def topology() -> wm.Topology:
    """Books in, books of the author out."""
    builder = wm.StreamsBuilder("books-of-an-author")
    books = builder.stream("books", key="string", value=wm.json("author string, title string"))
    books.filter(lambda book: book["author"] == AUTHOR).to("books-of-an-author")
    return builder.build()


INPUTS = [
    ("books", "b1", {"author": "Le Guin", "title": "The Dispossessed"}, 0),
    ("books", "b2", {"author": "Lem", "title": "Solaris"}, 1),
    ("books", "b3", {"author": None, "title": "Beowulf"}, 2),
    ("books", "b4", {"author": "Le Guin", "title": "The Telling"}, 3),
]
EXPECTED = {
    "books-of-an-author": [
        ("b1", {"author": "Le Guin", "title": "The Dispossessed"}, 0),
        ("b4", {"author": "Le Guin", "title": "The Telling"}, 3),
    ]
}
