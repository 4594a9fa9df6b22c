"""Cut the last part of IP addresses off with a processor between two steps of the DSL.

Confluent's MixAndMatchLambdaIntegrationTest (DSL and Processor API in one program).
"""

from typing import Any

from pyspark.sql import functions as F

import watersmeet as wm


class Anonymise:
    """Keeps three of four parts."""

    def process(self, record: Any, context: Any) -> None:
        context.forward(value=record.value.rpartition(".")[0] + ".XXX")


def topology() -> wm.Topology:
    """Lines of a log, as values; addresses, filtered and anonymous."""
    builder = wm.StreamsBuilder("anonymous-addresses")
    addresses = builder.stream("addresses", key="string", value="string").map_values(
        lambda text: F.split_part(text, F.lit(","), F.lit(1))
    )
    valid = addresses.process_values(Anonymise, value="string").filter(lambda text: text.rlike(r"^\d+\.\d+\.\d+\.XXX$"))
    valid.to("anonymous")
    return builder.build()


INPUTS = [
    ("addresses", "k", "1.2.3.4,GET", 0),
    ("addresses", "k", "nonsense", 1),
    ("addresses", "k", "10.0.0.255", 2),
]
EXPECTED = {"anonymous": [("k", "1.2.3.XXX", 0), ("k", "10.0.0.XXX", 2)]}
