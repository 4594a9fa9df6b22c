"""Make records of orders in XML, with a plain Python function.

A question that many ask of Kafka Streams: topics with XML, of which there is no serde.
"""

import xml.etree.ElementTree as ElementTree

import watersmeet as wm

ORDER = "struct<id: int, customer: string, skus: array<string>>"


def order_of(text: str) -> dict[str, object]:
    """The order's attributes and items."""
    root = ElementTree.fromstring(text)
    return {
        "id": int(root.attrib["id"]),
        "customer": root.findtext("customer"),
        "skus": [item.attrib["sku"] for item in root.iter("item")],
    }


def topology() -> wm.Topology:
    """A text that is no XML raises, and so becomes a dead letter."""
    builder = wm.StreamsBuilder("orders-in-xml", on_error=wm.DeadLetter("orders-bad"))
    texts = builder.stream("orders-xml", key="string", value="string")
    texts.map_values(wm.python(order_of, ORDER)).to("orders", value=wm.json())
    return builder.build()


INPUTS = [
    ("orders-xml", "a", '<order id="7"><customer>ann</customer><item sku="t"/><item sku="l"/></order>', 0),
    ("orders-xml", "b", "<order id=", 1),
]
EXPECTED = {"orders": [("a", {"id": 7, "customer": "ann", "skus": ["t", "l"]}, 0)]}
DROPPED = {("orders-xml", "dead_letter"): 1}
