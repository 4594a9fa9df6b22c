"""Source rows, as packing takes them in: those of topics as bytes, which are decoded where somebody needs that."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from watersmeet._spark.sources.topics import TopicRows


@dataclass(frozen=True)
class Scan:
    """A frame of source rows.

    Parameters
    ----------
    made : rows with the columns root (number of the source in the plan), ts (ms), partition, offset, reason (0 fine, 1
        negative timestamp, 2 undecodable), headers where a topic keeps them, and per source n s{n}_key and s{n}_value,
        null in the rows of others, and of topics with plain formats alone raw_key, raw_value; raw_headers where a
        topic has dead letters; their source has s{n}_headers, too.
    roots : names of the sources in it.
    order : columns by which all rows of a batch are sorted and numbered, in one task; none: they have their places.
    begins : whether the rows are what a source begins with, which no policy of its topic's is for.
    snapshot : whether they are a table's snapshot.
    """

    made: DataFrame | TopicRows
    roots: tuple[str, ...]
    order: tuple[str, ...] = ()
    begins: bool = False
    snapshot: bool = False

    @property
    def topics(self) -> TopicRows | None:
        """The rows, where keys and values come as bytes, which the workers decode."""
        return self.made if isinstance(self.made, TopicRows) else None

    @property
    def frame(self) -> DataFrame:
        """The rows as functions of Spark's need them."""
        return self.made.frame if isinstance(self.made, TopicRows) else self.made

    @property
    def bare(self) -> DataFrame:
        """The rows with what comes as bytes as it came."""
        return self.made.bare if isinstance(self.made, TopicRows) else self.made
