"""The programs in examples/, run as they are: what they give is what their readers are told."""

from __future__ import annotations

from dev.registry import SchemaRegistryServer
from examples import (
    clicks_after_impressions,
    hourly_delays,
    open_orders_in_a_database,
    orders_and_payments,
    orders_by_customer,
    orders_in_avro,
    testing_a_topology,
    views_of_two_weeks,
)


def rows(frame):
    return [(row["key"], row["value"] and tuple(row["value"])) for row in frame.collect()]


def test_orders_and_payments_say_what_is_open_after_each_change(spark, tmp_path):
    assert rows(orders_and_payments.run(spark, tmp_path)) == [
        (1, ("ann", 100.0)),
        (2, ("bob", 80.0)),
        (1, ("ann", 70.0)),
        (2, ("bob", 0.0)),
        (1, ("ann", 90.0)),
        (3, ("cid", 50.0)),
        (1, ("ann", 0.0)),
        (2, None),
    ]


def test_orders_by_customer_follow_the_customer_and_lose_the_row_with_it(spark, tmp_path):
    assert rows(orders_by_customer.run(spark, tmp_path)) == [
        (1, (100.0, "Ann Arbor")),
        (2, (80.0, "Bobcaygeon")),
        (3, (50.0, "Ann Arbor")),
        (1, (100.0, "Anchorage")),
        (3, (50.0, "Anchorage")),
        (3, (50.0, "Bobcaygeon")),
        (2, None),
        (3, None),
    ]


def test_orders_of_two_schemas_are_summed_as_one(spark):
    with SchemaRegistryServer().running() as server:
        found = [(r.ts, r.key, str(r.value["spent"]), r.value["orders"]) for r in orders_in_avro.run(server.url)]
    assert found == [
        (0, "ann", "100.00", 1),
        (1_000, "bob", "80.00", 1),
        (2_000, "bob", "100.00", 2),
        (3_000, "ann", "145.00", 2),
    ]


def test_an_impression_without_a_click_in_time_is_told_once_its_window_has_passed(spark, tmp_path):
    assert rows(clicks_after_impressions.run(spark, tmp_path)) == [
        ("user-2", ("tent", False)),
        ("user-1", ("boots", True)),
    ]


def test_hourly_delays_are_told_once_each_hour_has_passed_and_count_what_came_in_time(spark, tmp_path):
    delays = hourly_delays.run(spark, tmp_path).collect()
    assert [(r["key"]["key"], r["key"]["start"] // 3_600_000 % 24, tuple(r["value"])) for r in delays] == [
        ("ATL", 8, (3, 15.0, 30.0)),
        ("ORD", 8, (1, 12.0, 12.0)),
        ("ATL", 9, (1, 7.0, 7.0)),
        ("ORD", 9, (1, 4.0, 4.0)),
    ]


def test_open_orders_are_rows_of_a_database_until_they_are_deleted(spark, tmp_path):
    assert open_orders_in_a_database.run(spark, tmp_path) == [(1, "ann", 10.0), (3, "ann", 50.0)]


def test_the_example_of_a_test_passes(spark):
    testing_a_topology.check(spark)
    testing_a_topology.check()


def test_views_of_two_weeks_stand_beside_those_of_the_same_day_a_week_before(spark, tmp_path):
    views = views_of_two_weeks.run(spark, tmp_path).collect()
    assert [(r["page"], r["day"].day, r["views"], r["week_before"]) for r in views] == [
        ("home", 2, 2, None),
        ("shop", 2, 1, None),
        ("home", 3, 1, None),
        ("home", 9, 3, 2),
        ("shop", 9, 3, 1),
        ("home", 10, 1, 1),
        ("shop", 10, 1, None),
    ]
