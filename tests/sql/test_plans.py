"""SQL costs what the topology in Python costs: its plan is the same text, with levels, stores and functions."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F

import watersmeet as wm

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]
ORDERS = "CREATE TABLE orders (id BIGINT PRIMARY KEY, customer STRING, product STRING, n INT);"
CUSTOMERS = "CREATE TABLE customers (name STRING PRIMARY KEY, city STRING NOT NULL);"
PRODUCTS = "CREATE TABLE products (code STRING PRIMARY KEY, price DOUBLE);"
CLICKS = "CREATE STREAM clicks (user STRING PRIMARY KEY, page STRING, at TIMESTAMP) WITH (timestamp = 'at');"
BUYS = "CREATE STREAM buys (user STRING PRIMARY KEY, amount INT, t TIMESTAMP) WITH (timestamp = 't');"


def plan(builder):
    return builder.build().describe(stores=True)


def plan_of_sql(*statements):
    builder = wm.StreamsBuilder("plan")
    builder.sql(" ".join(statements))
    return plan(builder).replace("named-", "")  # names begin with what the statement declares


def orders(builder):
    return builder.table("orders", key="long", value=wm.json("customer string, product string, n int"), name="orders")


def customers(builder):
    return builder.table("customers", key="string", value=wm.json("city string"), name="customers")


def products(builder):
    return builder.table("products", key="string", value=wm.json("price double"), name="products")


def present(row, *columns):
    """Columns of a side that may have no row."""
    return [F.when(row.isNotNull(), column).alias(name) for name, column in columns]


def test_a_chain_of_joins_by_foreign_keys_has_the_plan_of_the_topology_in_python():
    query = """CREATE TABLE named WITH (topic = 'out') AS SELECT o.id, c.city, o.n * p.price AS total
        FROM orders o LEFT JOIN customers c ON o.customer = c.name JOIN products p ON p.code = o.product"""
    builder = wm.StreamsBuilder("plan")
    left, right, other = orders(builder), customers(builder), products(builder)
    placed = left.left_join(
        right,
        lambda order, customer: F.struct(
            order["customer"],
            order["product"],
            order["n"],
            *present(customer, ("name", order["customer"]), ("city", customer["city"])),
        ),
        foreign_key=lambda order: order["customer"],
    )
    priced = placed.join(
        other,
        lambda order, product: F.struct(
            *(order[name] for name in ("customer", "product", "n", "name", "city")),
            order["product"].alias("code"),
            product["price"],
        ),
        foreign_key=lambda order: order["product"],
    )
    priced.map_values(lambda row: F.struct(row["city"], (row["n"] * row["price"]).alias("total"))).to(
        "out", value="json"
    )
    assert plan_of_sql(ORDERS, CUSTOMERS, PRODUCTS, query) == plan(builder)


def test_groups_have_the_plan_of_the_topology_in_python():
    query = """CREATE TABLE named WITH (topic = 'out') AS
        SELECT city, COUNT(*) AS n, MIN(name) AS first FROM customers GROUP BY city"""
    builder = wm.StreamsBuilder("plan")
    by_city = customers(builder).group_by(lambda name, row: (row["city"], F.struct(name.alias("first"))))
    counted = by_city.agg(n=wm.count(), first=wm.min(lambda row: row["first"]))
    counted.map_values(lambda row: F.struct(row["n"], row["first"])).to("out", value="json")
    assert plan_of_sql(CUSTOMERS, query) == plan(builder)


def test_a_left_join_by_key_has_the_plan_of_the_topology_in_python():
    query = """CREATE TABLE named WITH (topic = 'out') AS
        SELECT name, city, price FROM customers LEFT JOIN products ON name = code"""
    builder = wm.StreamsBuilder("plan")
    joined = customers(builder).left_join(
        products(builder),
        lambda key, customer, product: F.struct(
            customer["city"], *present(product, ("code", key), ("price", product["price"]))
        ),
    )
    joined.map_values(lambda row: F.struct(row["city"], row["price"])).to("out", value="json")
    assert plan_of_sql(CUSTOMERS, PRODUCTS, query) == plan(builder)


def test_a_join_of_streams_in_a_time_has_the_plan_of_the_topology_in_python():
    query = """CREATE STREAM named WITH (topic = 'out') AS SELECT c.user, c.page, b.amount FROM clicks c
        JOIN buys b ON c.user = b.user AND b.t BETWEEN c.at AND c.at + INTERVAL 5 MINUTES"""
    builder = wm.StreamsBuilder("plan")
    clicks, buys = (
        builder.stream(
            name, key="string", value=wm.json(columns), name=name, timestamp=lambda key, value, at=at: value[at]
        )
        for name, columns, at in (
            ("clicks", "page string, at timestamp", "at"),
            ("buys", "amount int, t timestamp", "t"),
        )
    )
    windows = wm.JoinWindows.of_time_difference_with_no_grace("5 minutes").before("0 ms")
    joined = clicks.join(
        buys, lambda click, buy: F.struct(click["page"], click["at"], buy["amount"], buy["t"]), windows
    )
    joined.map_values(lambda key, row: F.struct(key.alias("user"), row["page"], row["amount"])).to("out", value="json")
    assert plan_of_sql(CLICKS, BUYS, query) == plan(builder)


def test_the_first_rows_of_groups_have_the_levels_and_stores_of_top_k_in_python():
    query = """CREATE TABLE named WITH (topic = 'out') AS
        SELECT product, id, n FROM
        (SELECT *, ROW_NUMBER() OVER (PARTITION BY product ORDER BY n DESC) AS r FROM orders) WHERE r <= 3"""
    builder = wm.StreamsBuilder("plan")
    by_product = orders(builder).group_by(lambda id, row: (row["product"], F.struct(row["n"], id.alias("id"))))
    by_product.agg(first=wm.top_k(lambda row: row["n"], k=3)).to("out", value="json")
    kept = [
        text.partition("Levels:")[2].partition("Functions:")[0] for text in (plan_of_sql(ORDERS, query), plan(builder))
    ]
    assert kept[0] == kept[1] != ""
