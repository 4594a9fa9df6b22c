"""Names that are made up say what comes in, so what keeps state is found again whatever else a topology has."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from proof.arrow import arrow_builder
from tests.engine.stream_kit import PLUS
from watersmeet.windows import JoinWindows

WINDOWS = JoinWindows(10, 10, 0)


def is_there(value: pa.Array) -> pa.Array:
    return value.is_valid()


def stores(builder: Any) -> list[str]:
    return [store for operator in builder.build().physical.operators for store in operator.stores]


def joins(*, more: bool) -> list[str]:
    """The stores of two joins; with `more` other operators of the same kinds come before them."""
    builder = arrow_builder("names")
    orders, payments = (builder.stream(name, key="string", value="string") for name in ("orders", "payments"))
    users = builder.table("users", key="string", value="string")
    if more:
        others = payments.filter(is_there).map_values(lambda value: value).left_join(orders, PLUS, WINDOWS)
        others.join(users, PLUS).to("others")
        payments.to_table().join(users, PLUS).to_stream().to("tables")
    paid = orders.filter(is_there).left_join(payments, PLUS, WINDOWS)
    paid.map_values(lambda value: value).join(users, PLUS).to("out")
    return [store for store in stores(builder) if "orders-payments" in store]


def test_stores_keep_their_names_whatever_comes_before_them() -> None:
    assert joins(more=True) == joins(more=False)
    assert joins(more=False) == [
        "stream_stream-orders-payments.left",
        "stream_stream-orders-payments.right",
        "stream_table-orders-payments-users.right",
    ]


def test_a_name_is_numbered_only_where_it_is_taken() -> None:
    builder = arrow_builder("names")
    orders = builder.stream("orders", key="string", value="string")
    orders.filter(is_there).group_by_key().count().to_stream().to("one")
    orders.group_by_key().count().to_stream().to("two")
    orders.group_by_key().reduce(PLUS).to_stream().to("three")
    orders.group_by_key().count(name="mine").to_stream().group_by_key().count().to_stream().to("four")
    names = [store.removesuffix(".aggregate") for store in stores(builder)]
    assert names == ["count-orders", "count-orders-2", "reduce-orders", "mine", "count-mine"]


def test_branches_of_one_name_in_two_splits_are_numbered() -> None:
    builder = arrow_builder("names")
    for topic in ("orders", "refunds", "payments"):
        branches = builder.stream(topic, key="string", value="string").split({"large": is_there}, default="small")
        branches["large"].to(f"large-{topic}")
        branches["small"].to(f"small-{topic}")
    other = builder.stream("others", key="string", value="string").split({"other": is_there})
    other["other"].to("other")
    described = builder.build().describe()
    for name in ("split-1-large", "split-1-small", "split-2-large", "split-3-small", "split-1-other"):
        assert f" {name} <- " in described


def test_branches_and_merged_streams_are_told_apart() -> None:
    builder = arrow_builder("names")
    orders, refunds = (builder.stream(name, key="string", value="string") for name in ("orders", "refunds"))
    branches = orders.split({"large": is_there}, default="small")
    branches["large"].to_table().to_stream().merge(refunds).to_table().filter(is_there, store="s").to("one")
    branches["small"].to_table().filter(is_there, store="t").to("two")
    described = builder.build().describe()
    for name in ("to_table-orders-large", "to_table-orders-large-refunds", "filter-orders-large-refunds"):
        assert f" {name} <- " in described
    assert " filter-orders-small <- to_table-orders-small" in described
