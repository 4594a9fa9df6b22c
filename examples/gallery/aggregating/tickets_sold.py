"""Count the tickets, and add up the proceeds, of each film.

Confluent's tutorials "How to count a stream of events" and "How to sum a stream of events".
"""

from decimal import Decimal

import watersmeet as wm


def topology() -> wm.Topology:
    """Sales in; for each film its tickets and proceeds after each sale out."""
    builder = wm.StreamsBuilder("tickets-sold")
    sales = builder.stream("ticket-sales", key="string", value=wm.json("title string, proceeds decimal(9, 2)"))
    sales.group_by(lambda sale: sale["title"]).agg(
        tickets=wm.count(), proceeds=wm.sum(lambda sale: sale["proceeds"])
    ).to("tickets-sold", value=wm.json())
    return builder.build()


INPUTS = [
    ("ticket-sales", None, {"title": "Aliens", "proceeds": Decimal("10.50")}, 0),
    ("ticket-sales", None, {"title": "Die Hard", "proceeds": Decimal("12.00")}, 1),
    ("ticket-sales", None, {"title": "Aliens", "proceeds": Decimal("18.10")}, 2),
]
EXPECTED = {
    "tickets-sold": [
        ("Aliens", {"tickets": 1, "proceeds": Decimal("10.50")}, 0),
        ("Die Hard", {"tickets": 1, "proceeds": Decimal("12.00")}, 1),
        ("Aliens", {"tickets": 2, "proceeds": Decimal("28.60")}, 2),
    ]
}
