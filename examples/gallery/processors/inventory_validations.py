"""Reserve stock for each order, or fail it: available is the stock less what earlier orders have reserved.

The InventoryService of Confluent's microservices example.
"""

from typing import Any

import watersmeet as wm

EVENT = "struct<kind: string, order: string, quantity: int>"


class Reserve:
    """The stock of a product and what is reserved of it, in one place."""

    def init(self, context: Any) -> None:
        self.stock = context.get_store("stock")
        self.reserved = context.get_store("reserved")

    def process(self, record: Any, context: Any) -> None:
        event = record.value
        if event["kind"] == "delivery":
            self.stock.put((self.stock.get() or 0) + event["quantity"])
            return
        free = (self.stock.get() or 0) - (self.reserved.get() or 0)
        if event["quantity"] <= free:
            self.reserved.put((self.reserved.get() or 0) + event["quantity"])
        context.forward(key=event["order"], value="PASS" if event["quantity"] <= free else "FAIL")


def topology() -> wm.Topology:
    """Deliveries and orders of a product are merged, so that one processor has both."""
    builder = wm.StreamsBuilder("inventory-validations")
    deliveries = builder.stream("deliveries", key="string", value="int")
    orders = builder.stream("orders", key="string", value=wm.json("product string, quantity int"))
    arrived = deliveries.map_values(wm.python(lambda n: ("delivery", None, n), EVENT))
    wanted = orders.map(
        wm.python(
            lambda number, order: (order["product"], ("order", number, order["quantity"])),
            f"struct<key: string, value: {EVENT}>",
        )
    )
    stores = [wm.ValueStore("stock", "int"), wm.ValueStore("reserved", "int")]
    arrived.merge(wanted).process(Reserve, key="string", value="string", stores=stores).to("order-validations")
    return builder.build()


INPUTS = [
    ("deliveries", "tent", 3, 0),
    ("orders", "o1", {"product": "tent", "quantity": 2}, 1),
    ("orders", "o2", {"product": "tent", "quantity": 2}, 2),
    ("orders", "o3", {"product": "lamp", "quantity": 1}, 3),
    ("deliveries", "tent", 1, 4),
    ("orders", "o4", {"product": "tent", "quantity": 2}, 5),
]
EXPECTED = {
    "order-validations": [("o1", "PASS", 1), ("o2", "FAIL", 2), ("o3", "FAIL", 3), ("o4", "PASS", 5)],
}
STORES = {"stock": [("tent", 4)], "reserved": [("tent", 4)]}
