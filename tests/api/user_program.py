"""A small program as a user writes it; `test_types` has mypy check it, strictly. It is never run."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

import watersmeet as wm
from watersmeet.session import session

spark = session("orders", master="local[2]", kafka=True, config={"spark.ui.enabled": "false"})
builder = wm.StreamsBuilder("orders", generation="current")

orders = builder.table("orders", key="long", value=wm.json("customer string, amount double"), store="orders-by-id")
clicks: wm.KStream = builder.stream("clicks", key="long", value="string", on_undecodable="skip", headers=True)
views = builder.stream(wm.Topic("views", key="long", value="string"), name="views")
countries: wm.GlobalKTable = builder.global_table("countries", key="string", value="string", store="countries")


def from_frames(frame: DataFrame) -> wm.KTable:
    """Inputs that are DataFrames."""
    stream = builder.stream(frame, name="s", key="id", timestamp=F.col("at"), order=["day", "row"])
    table = builder.table(frame, name="t", key=["a", "b"], value="v", timestamp="at", store="frames")
    builder.global_table(wm.Rows(frame, key="id", timestamp="at"), name="g")
    return stream.select_key(lambda value: value["id"]).to_table().left_join(table, lambda one, two: one)


large: wm.KTable = orders.filter(lambda order: order["amount"] > 100)
large.to("large-orders", key="long", value=wm.json(), delivery="at_least_once")
joined: wm.KStream = clicks.join(large, lambda click, order: F.concat(click, order["customer"]))
joined.through("joined", key="long", value="string").to(wm.TopicSink("again"))
windows = wm.JoinWindows.of_time_difference_with_no_grace(timedelta(minutes=5))
clicks.join(views, lambda one, other: F.concat(one, other), windows).to(wm.Writer("parquet", Path("out")), name="files")

looked_up: wm.KStream = clicks.left_join(countries, lambda click, country: country, key=lambda click: click)
held: wm.KStream = clicks.join(large, lambda click, order: click, grace="1 minute")
referring: wm.KTable = orders.join(countries, lambda order, _: order, foreign_key=lambda order: order["customer"])
hourly: wm.WTable = clicks.group_by_key().windowed_by(wm.TimeWindows.of_size_with_no_grace("1 hour")).count()
with_rows: wm.WTable = hourly.left_join(orders, lambda n, order: n, keep="2 days")
before: wm.WTable = hourly.join(hourly, lambda one, other: one - other, shift=wm.previous(1))
shifted = hourly.left_join(hourly, lambda one, other: one, shift=lambda window: window, keep="1 day")
named: wm.KTable = orders.left_join(hourly, lambda order, n: n, window_of=lambda order: order, keep="2 days")
hourly.to(wm.DatabaseTable("sqlite:////data/hours.db", table="hours"))
counts: wm.KTable = clicks.group_by_key().count(store="clicks-by-id")
by_customer = orders.group_by(lambda key, order: (order["customer"], order["amount"]), name="by-customer")
by_customer.agg(total=wm.sum(lambda amount: amount), n=wm.count()).to("totals")
by_customer.agg(middle=wm.percentile(lambda amount: amount, p=0.5), usual=wm.mode(lambda amount: amount))
by_customer.agg(top=wm.top_k(k=3, by=lambda amount: amount), any=wm.bool_or(lambda amount: amount > 100))


class Power(wm.Aggregate):
    """An aggregate of the user's own, with a parameter."""

    state = result = "double"

    def __init__(self, argument: Callable[[Column], Column], power: float) -> None:
        super().__init__(argument)
        self.power = power

    def init(self) -> float:
        """Of no records."""
        return 0.0

    def add(self, state: float, value: float) -> float:
        """With one more."""
        return float(state + value**self.power)

    def subtract(self, state: float, value: float) -> float:
        """With one less."""
        return float(state - value**self.power)


by_customer.agg(n=wm.count(), squares=Power(lambda amount: amount, power=2.0)).to("squares")
by_customer.reduce(lambda one, other: one + other, lambda one, other: one - other)
texts: wm.KGroupedStream = clicks.group_by(lambda click: F.lower(click))
clicks.map_values(wm.python(str.upper, "string")).filter(wm.python(lambda click: click != "A"))
texts.aggregate(lambda: "", wm.python(lambda click, text: text + click), name="texts")
texts.cogroup(wm.python(lambda click, n: n + 1, "long")).cogroup(texts, lambda _, n: n).aggregate(lambda: 0)

topology = builder.build()
query = topology.start(
    spark,
    checkpoint=Path("/data/orders"),
    kafka=wm.Kafka("localhost:9092", max_records_per_batch=1_000),
    shards=4,
    tasks=2,
    trigger="1 second",
    available_now=False,
    local_cache=Path("/data/cache"),
    allow_partition_change=False,
    idle_after=timedelta(minutes=1),
    record_cache=True,
    name="orders",
)
query.awaitTermination()
for (operator, reason), count in query.drops.items():
    print(operator, reason, count)
