"""Keep a table of customers that follows a database, by Debezium's events, and look customers up by their city.

Confluent's tutorials on change data capture and tables.
"""

import watersmeet as wm


def topology() -> wm.Topology:
    """An event of Debezium has the row before and after; the table has the row after."""
    builder = wm.StreamsBuilder("changes-of-a-database")
    row = "id long, name string, city string"
    customers = builder.table(
        "shop.customers", key=wm.debezium_key("id long"), value=wm.debezium(row, time="record"), store="customers"
    )
    customers.group_by(lambda key, customer: (customer["city"], customer["name"])).agg(
        names=wm.collect_set(lambda name: name)
    ).to("customers-by-city", value=wm.json())
    return builder.build()


INPUTS = [
    (
        "shop.customers",
        b'{"id": 1}',
        b'{"before": null, "after": {"id": 1, "name": "ann", "city": "Oslo"}, "op": "c"}',
        0,
    ),
    (
        "shop.customers",
        b'{"id": 1}',
        b'{"before": null, "after": {"id": 1, "name": "ann", "city": "Bonn"}, "op": "u"}',
        1,
    ),
]
EXPECTED = {
    "customers-by-city": [
        ("Oslo", {"names": ["ann"]}, 0),
        ("Oslo", {"names": []}, 1),
        ("Bonn", {"names": ["ann"]}, 1),
    ]
}
