"""A small program as a user writes it; `test_types` has mypy check it, strictly. It is never run."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import millpond as mp
from millpond.session import session

spark = session("orders", master="local[2]", kafka=True, config={"spark.ui.enabled": "false"})
builder = mp.StreamsBuilder("orders", generation="current")

orders = builder.table("orders", key="long", value=mp.json("customer string, amount double"), store="orders-by-id")
clicks: mp.KStream = builder.stream("clicks", key="long", value="string", on_undecodable="skip", headers=True)
views = builder.stream(mp.Topic("views", key="long", value="string"), name="views")
countries: mp.GlobalKTable = builder.global_table("countries", key="string", value="string", store="countries")


def from_frames(frame: DataFrame) -> mp.KTable:
    """Inputs that are DataFrames."""
    stream = builder.stream(frame, name="s", key="id", timestamp=F.col("at"), order=["day", "row"])
    table = builder.table(frame, name="t", key=["a", "b"], value="v", timestamp="at", store="frames")
    builder.global_table(mp.Rows(frame, key="id", timestamp="at"), name="g")
    return stream.select_key(lambda value: value["id"]).to_table().left_join(table, lambda one, two: one)


large: mp.KTable = orders.filter(lambda order: order["amount"] > 100)
large.to("large-orders", key="long", value=mp.json(), delivery="at_least_once")
joined: mp.KStream = clicks.join(large, lambda click, order: F.concat(click, order["customer"]))
joined.through("joined", key="long", value="string").to(mp.TopicSink("again"))
windows = mp.JoinWindows.of_time_difference_with_no_grace(timedelta(minutes=5))
clicks.join(views, lambda one, other: F.concat(one, other), windows).to(mp.Writer("parquet", Path("out")), name="files")

counts: mp.KTable = clicks.group_by_key().count(store="clicks-by-id")
by_customer = orders.group_by(lambda key, order: (order["customer"], order["amount"]), name="by-customer")
by_customer.agg(total=mp.sum(lambda amount: amount), n=mp.count()).to("totals")
by_customer.reduce(lambda one, other: one + other, lambda one, other: one - other)
texts: mp.KGroupedStream = clicks.group_by(lambda click: F.lower(click))
texts.aggregate(lambda: "", mp.python(lambda click, text: text + click), name="texts")
texts.cogroup(mp.python(lambda click, n: n + 1, "long")).cogroup(texts, lambda _, n: n).aggregate(lambda: 0)

topology = builder.build()
query = topology.start(
    spark,
    checkpoint=Path("/data/orders"),
    kafka=mp.Kafka("localhost:9092", max_records_per_batch=1_000),
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
