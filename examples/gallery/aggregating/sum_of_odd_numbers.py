"""Add up all odd numbers of a topic in one total.

Confluent's SumLambdaExample.
"""

from pyspark.sql import functions as F

import watersmeet as wm


def topology() -> wm.Topology:
    """One key for all records gives one total; one core adds it up."""
    builder = wm.StreamsBuilder("sum-of-odd-numbers")
    numbers = builder.stream("numbers", key="string", value="long")
    odd = numbers.filter(lambda number: number % 2 == 1)
    odd.group_by(lambda number: F.lit("total")).reduce(lambda total, number: total + number).to("sum-of-odd-numbers")
    return builder.build()


INPUTS = [("numbers", None, number, number) for number in range(1, 8)]
EXPECTED = {"sum-of-odd-numbers": [("total", 1, 1), ("total", 4, 3), ("total", 9, 5), ("total", 16, 7)]}
