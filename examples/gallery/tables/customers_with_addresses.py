"""Keep for each customer the list of all addresses, as one document.

KIP-213's example (a one-to-many relation of two tables), as documents for a search index.
"""

from pyspark.sql import functions as F

import watersmeet as wm


def topology() -> wm.Topology:
    """The many are grouped by the one, and then joined with it."""
    builder = wm.StreamsBuilder("customers-with-addresses")
    customers = builder.table("customers", key="long", value=wm.json("name string"))
    addresses = builder.table("addresses", key="long", value=wm.json("customer long, city string"))
    lists = addresses.group_by(lambda number, row: (row["customer"], row["city"])).agg(
        cities=wm.collect_set(lambda city: city)
    )
    customers.left_join(
        lists,
        lambda customer, row: F.struct(
            customer["name"], F.coalesce(row["cities"], F.array().cast("array<string>")).alias("cities")
        ),
    ).to("customers-with-addresses", value=wm.json())
    return builder.build()


INPUTS = [
    ("customers", 1, {"name": "ann"}, 0),
    ("addresses", 10, {"customer": 1, "city": "Oslo"}, 1),
    ("addresses", 11, {"customer": 1, "city": "Bonn"}, 2),
    ("addresses", 10, None, 3),
    ("customers", 1, {"name": "Ann"}, 4),
]
EXPECTED = {
    "customers-with-addresses": [
        (1, {"name": "ann", "cities": []}, 0),
        (1, {"name": "ann", "cities": ["Oslo"]}, 1),
        (1, {"name": "ann", "cities": ["Oslo", "Bonn"]}, 2),
        (1, {"name": "ann", "cities": ["Bonn"]}, 3),
        (1, {"name": "Ann", "cities": ["Bonn"]}, 4),
    ]
}
