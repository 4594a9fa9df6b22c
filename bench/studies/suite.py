"""How long a suite of small topologies takes in the test driver: each built, given two records, and read once.

python bench/studies/suite.py [COUNT]
"""

from __future__ import annotations

import statistics
import sys
import time

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from watersmeet.testing.driver import TopologyTestDriver


def topology(number: int) -> wm.Topology:
    """A join of two tables, a joiner and a filter, as in the README."""
    builder = wm.StreamsBuilder(f"suite-{number}")
    orders = builder.table("orders", key="long", value=wm.json("customer string, amount double"))
    payments = builder.table("payments", key="long", value=wm.json("paid double"))
    rest = orders.left_join(
        payments,
        lambda order, payment: F.struct(
            order["customer"], (order["amount"] - F.coalesce(payment["paid"], F.lit(0.0))).alias("open")
        ),
    )
    rest.filter(lambda order: order["open"] > 0).to("open")
    return builder.build()


def turn(number: int, spark: SparkSession | None) -> tuple[float, float, float]:
    """Seconds to build the topology, to make the driver, and to read."""
    begin = time.perf_counter()
    built = topology(number)
    made = time.perf_counter()
    driver = TopologyTestDriver(built, spark)
    ready = time.perf_counter()
    driver.pipe("orders", 1, {"customer": "ann", "amount": 10.0}, ts=0)
    driver.pipe("payments", 1, {"paid": 10.0}, ts=1)
    assert len(driver.read("open")) == 2
    return made - begin, ready - made, time.perf_counter() - ready


def main() -> None:
    """Print sums and medians, in this process and by Spark."""
    spark = wm.session("suite", master="local[2]", config={"spark.ui.enabled": "false"})
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    for name, given, turns in (("in process", None, count), ("by Spark", spark, max(3, count // 20))):
        turn(0, given)
        columns = list(zip(*(turn(number, given) for number in range(turns)), strict=True))
        sums = [f"{what} {sum(c):.1f} s" for what, c in zip(("build", "driver", "read"), columns, strict=True)]
        print(
            f"{name}, {turns} topologies: {', '.join(sums)}; median read {statistics.median(columns[2]) * 1e3:.0f} ms"
        )
    spark.stop()


if __name__ == "__main__":
    main()
