"""Give customers points for each purchase, and tell the points of all their purchases so far.

The state store chapter of "Kafka Streams in Action" (PurchaseRewardTransformer).
"""

from typing import Any

import watersmeet as wm


def with_points(customer: str, dollars: float, points: int, context: Any) -> tuple[int, list[dict[str, Any]]]:
    """The short form of a processor: the next state, and what is sent."""
    now = points + int(dollars)
    return now, [{"points": int(dollars), "all": now}]


def topology() -> wm.Topology:
    """A running total that is told with every record, which a table of sums would not do with the record's own."""
    builder = wm.StreamsBuilder("purchase-rewards")
    purchases = builder.stream("purchases", key="string", value="double")
    rewards = purchases.group_by_key().process(
        lambda: 0, with_points, state="long", returns="points long, all long", store="points"
    )
    rewards.to("rewards", value=wm.json())
    return builder.build()


INPUTS = [("purchases", "ann", 10.9, 0), ("purchases", "bob", 3.0, 1), ("purchases", "ann", 5.5, 2)]
EXPECTED = {
    "rewards": [
        ("ann", {"points": 10, "all": 10}, 0),
        ("bob", {"points": 3, "all": 3}, 1),
        ("ann", {"points": 5, "all": 15}, 2),
    ]
}
STORES = {"points": [("ann", 15), ("bob", 3)]}
