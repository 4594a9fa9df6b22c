"""NEXMark's queries as a user of watersmeet would write them, each from one topic of events.

The SQL that says what each has to give is in `reference`. A query's function takes the builder and the topic and gives
the handle that is written. Records have the events' times as their timestamps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import watersmeet as wm

PERSON = (
    "id bigint, name string, emailAddress string, creditCard string, city string, state string, "
    "dateTime timestamp_ntz, extra string"
)
AUCTION = (
    "id bigint, itemName string, description string, initialBid bigint, reserve bigint, dateTime timestamp_ntz, "
    "expires timestamp_ntz, seller bigint, category bigint, extra string"
)
BID = "auction bigint, bidder bigint, price bigint, channel string, url string, dateTime timestamp_ntz, extra string"
EVENT = f"event_type int, person struct<{PERSON}>, auction struct<{AUCTION}>, bid struct<{BID}>"
OPEN_AT_MOST = "1 second"
"""How far from its auction's begin a bid may be, in q4, q9 and q20: at 100,000 events a second it is nearer."""
CHEAP, DEAR = 10_000, 1_000_000
"""Prices at which the tiers of q16 and q17 begin."""


def persons(events: Any) -> Any:
    """New persons."""
    return events.filter(lambda event: event["event_type"] == 0).map_values(lambda event: event["person"])


def auctions(events: Any) -> Any:
    """New auctions."""
    return events.filter(lambda event: event["event_type"] == 1).map_values(lambda event: event["auction"])


def bids(events: Any) -> Any:
    """Bids."""
    return events.filter(lambda event: event["event_type"] == 2).map_values(lambda event: event["bid"])


def q3(events: Any) -> Any:
    """Who sells in category 10, and lives in Oregon, Idaho or California."""
    from pyspark.sql import functions as F

    people = persons(events).filter(lambda person: person["state"].isin("OR", "ID", "CA")).select_key(_id).to_table()
    items = auctions(events).filter(lambda auction: auction["category"] == 10).select_key(_id).to_table()
    return items.join(
        people,
        lambda item, person: F.struct(person["name"], person["city"], person["state"], item["id"]),
        foreign_key=lambda item: item["seller"],
    )


def q4(events: Any, near: str = OPEN_AT_MOST) -> Any:
    """Of each category the average of the auctions' highest bids."""
    from pyspark.sql import functions as F

    higher = lambda best, bid: F.when(bid["price"] > best["price"], bid).otherwise(best)  # noqa: E731
    best = valid_bids(events, near).group_by_key().reduce(higher)
    by_category = best.group_by(lambda bid: (bid["category"], bid["price"]))
    return by_category.agg(average=wm.avg(lambda price: price))


def q5(events: Any, grace: str = "0 ms") -> Any:
    """Of each ten seconds, every two seconds, the auctions with the most bids, once the window is over."""
    from pyspark.sql import functions as F

    def more(most: Any, other: Any) -> Any:
        both = F.struct(most["num"], F.concat(most["auctions"], other["auctions"]).alias("auctions"))
        tied = F.when(other["num"] == most["num"], both).otherwise(most)
        return F.when(other["num"] > most["num"], other).otherwise(tied)

    windows = wm.TimeWindows.of_size_and_grace("10 seconds", grace).advance_by("2 seconds")
    counts = (
        bids(events)
        .group_by(lambda bid: bid["auction"])
        .windowed_by(windows)
        .emit_strategy(wm.EmitStrategy.on_window_close())
        .count()
        .to_stream(key=lambda auction, window: F.struct(window["start"].alias("start"), auction.alias("auction")))
    )
    hot = counts.map(
        lambda key, num: (key["start"], F.struct(num.alias("num"), F.array(key["auction"]).alias("auctions")))
    )
    most = hot.group_by_key().reduce(more)
    return most.map_values(lambda hot: F.struct(hot["num"], F.array_sort(hot["auctions"]).alias("auctions")))


def q7(events: Any) -> Any:
    """Of each ten seconds the highest bid, of several the earliest."""
    from pyspark.sql import functions as F

    windows = wm.TimeWindows.of_size_with_no_grace("10 seconds")
    all_bids = bids(events).group_by(lambda bid: F.lit("all"))
    higher = lambda best, bid: F.when(bid["price"] > best["price"], bid).otherwise(best)  # noqa: E731
    return all_bids.windowed_by(windows).reduce(higher)


def q8(events: Any, grace: str = "0 ms") -> Any:
    """Who has come and begun to sell in the same ten seconds."""
    windows = wm.TimeWindows.of_size_and_grace("10 seconds", grace)
    new = persons(events).group_by(_id).windowed_by(windows).agg(called=wm.first(lambda person: person["name"]))
    selling = auctions(events).group_by(lambda auction: auction["seller"]).windowed_by(windows).count()
    return new.join(selling, lambda person, count: person["called"])


def q9(events: Any, near: str = OPEN_AT_MOST) -> Any:
    """Of each auction its best bid: the highest, of these the earliest."""
    from pyspark.sql import functions as F

    def better(best: Any, bid: Any) -> Any:
        is_better = (bid["price"] > best["price"]) | ((bid["price"] == best["price"]) & (bid["at"] < best["at"]))
        return F.when(is_better, bid).otherwise(best)

    return valid_bids(events, near).group_by_key().reduce(better)


def q11(events: Any, grace: str = "0 ms") -> Any:
    """How many bids each bidder makes before ten quiet seconds."""
    windows = wm.SessionWindows.of_inactivity_gap_and_grace("10 seconds", grace)
    return bids(events).group_by(lambda bid: bid["bidder"]).windowed_by(windows).count()


def q16(events: Any) -> Any:
    """Of each channel and day how many bids, bidders and auctions there are, by tiers of price."""
    from pyspark.sql import functions as F

    tiers = {"total": lambda bid: F.lit(True), **_TIERS}

    def only(tier: Callable[[Any], Any], field: str) -> Callable[[Any], Any]:
        return lambda bid: F.when(tier(bid), bid[field])

    found = {"minute": wm.max(lambda bid: F.substring(bid["dateTime"].cast("string"), 12, 5))}
    for name, tier in tiers.items():
        found[f"{name}_bids"] = wm.count(only(tier, "auction"))
        found[f"{name}_bidders"] = wm.count_distinct(only(tier, "bidder"))
        found[f"{name}_auctions"] = wm.count_distinct(only(tier, "auction"))
    day = lambda bid: F.struct(bid["channel"], bid["dateTime"].cast("date").alias("day"))  # noqa: E731
    return bids(events).group_by(day).agg(**found)


def q17(events: Any) -> Any:
    """Of each auction and day how many bids there are, by tiers of price, and what they offer."""
    from pyspark.sql import functions as F

    price = lambda bid: bid["price"]  # noqa: E731
    found = {"total_bids": wm.count()}
    for name, tier in _TIERS.items():
        found[f"{name}_bids"] = wm.count(lambda bid, tier=tier: F.when(tier(bid), bid["price"]))
    found |= {"lowest": wm.min(price), "highest": wm.max(price), "average": wm.avg(price), "total": wm.sum(price)}
    day = lambda bid: F.struct(bid["auction"], bid["dateTime"].cast("date").alias("day"))  # noqa: E731
    return bids(events).group_by(day).agg(**found)


def q18(events: Any) -> Any:
    """The last bid of each bidder on each auction."""
    from pyspark.sql import functions as F

    return bids(events).select_key(lambda bid: F.struct(bid["bidder"], bid["auction"])).to_table()


def q19(events: Any) -> Any:
    """The ten highest prices of each auction, as a list."""
    return bids(events).group_by(lambda bid: bid["auction"]).agg(prices=wm.top_k(lambda bid: bid["price"], k=10))


def q20(events: Any, near: str = OPEN_AT_MOST) -> Any:
    """Bids on auctions of category 10, each with its auction."""
    from pyspark.sql import functions as F

    # a bid may come before its auction, and no auction has bids for longer
    windows = wm.JoinWindows.of_time_difference_and_grace(near, near)
    items = auctions(events).filter(lambda auction: auction["category"] == 10).select_key(_id)
    offers = bids(events).select_key(lambda bid: bid["auction"])
    return offers.join(items, lambda bid, item: F.struct(bid.alias("bid"), item.alias("auction")), windows)


def valid_bids(events: Any, near: str) -> Any:
    """Bids by auction with its category, while it is open, both ends included."""
    from pyspark.sql import functions as F

    def both(item: Any, bid: Any) -> Any:
        parts = (item["category"], item["dateTime"].alias("begins"), item["expires"], bid["bidder"], bid["price"])
        return F.struct(*parts, bid["dateTime"].alias("at"), bid["extra"])

    windows = wm.JoinWindows.of_time_difference_and_grace(near, near).before("0 ms")
    offers = bids(events).select_key(lambda bid: bid["auction"])
    joined = auctions(events).select_key(_id).join(offers, both, windows)
    return joined.filter(lambda found: found["at"].between(found["begins"], found["expires"]))


def _id(value: Any) -> Any:
    return value["id"]


_TIERS: dict[str, Callable[[Any], Any]] = {
    "cheap": lambda bid: bid["price"] < CHEAP,
    "middle": lambda bid: (bid["price"] >= CHEAP) & (bid["price"] < DEAR),
    "dear": lambda bid: bid["price"] >= DEAR,
}
QUERIES: dict[str, Callable[..., Any]] = {
    each.__name__: each for each in (q3, q4, q5, q7, q8, q9, q11, q16, q17, q18, q19, q20)
}
NEAR = frozenset({"q4", "q9", "q20"})
"""Those that take `near`."""
