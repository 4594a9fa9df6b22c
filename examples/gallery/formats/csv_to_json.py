"""Read lines of comma-separated values, and write them as JSON with types.

Confluent's tutorial "How to convert a stream's serialization format".
"""

from pyspark.sql import functions as F

import watersmeet as wm


def topology() -> wm.Topology:
    """Lines of another number of fields are left out."""
    builder = wm.StreamsBuilder("csv-to-json")
    lines = builder.stream("films-csv", key="string", value="string")
    fields = lines.map_values(lambda line: F.split(line, r"\s*,\s*")).filter(lambda parts: F.size(parts) == 3)
    films = fields.map(
        lambda key, parts: (
            parts[0].cast("long"),
            F.struct(parts[1].alias("title"), parts[2].cast("int").alias("year")),
        )
    )
    films.to("films", value=wm.json())
    return builder.build()


INPUTS = [("films-csv", None, "1, Lethal Weapon, 1992", 0), ("films-csv", None, "# comment", 1)]
EXPECTED = {"films": [(1, {"title": "Lethal Weapon", "year": 1992}, 0)]}
