"""Columns of the times that users' functions give to records of topics, and what becomes of those without one."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from watersmeet._plan.dead_letters import dead_letter_sources
from watersmeet._plan.logical import Plan
from watersmeet._plan.nodes import SourceNode
from watersmeet._spark.formats.records import record_column
from watersmeet._worker.formats.deserializers import INVALID_TIMESTAMP, NEGATIVE_TIMESTAMP
from watersmeet._worker.packing.extracted import Extractor, time_column
from watersmeet.functions import record_of
from watersmeet.io.policies import DeadLetter
from watersmeet.windows.durations import LONGEST_MS


def timed(plan: Plan, names: Collection[str]) -> Iterator[tuple[int, SourceNode]]:
    """The sources among these with a function for their records' times, with their numbers."""
    numbered = enumerate(plan.sources)
    return ((number, source) for number, source in numbered if source.name in names and source.timestamp is not None)


def with_times(frame: DataFrame, plan: Plan, names: Collection[str]) -> DataFrame:
    """The frame with a column of times for each source with a function for its records' times.

    A record that ends since it has no time has a reason before the stage's functions are evaluated, as one that cannot
    be decoded: so no flow of the stage goes on with it. `Extractor` applies its policy in the workers.
    """
    for number, source in timed(plan, names):
        assert source.timestamp is not None, "it is timed"
        operands = [F.col(f"s{number}_key"), F.col(f"s{number}_value")]
        if record_of(source.timestamp) is not None:
            operands.append(record_column(frame.columns, F.col("ts"), source.origin))
        given = source.timestamp(*operands)
        passes = (F.col("root") == number) & (F.col("reason") == 0)
        frame = frame.withColumn(time_column(number), F.when(passes, given))
        there = F.col(time_column(number)).between(0, LONGEST_MS)
        if source.origin.policies.on_invalid_timestamp == "own":
            there = F.coalesce(there, F.lit(False)) | (F.col("ts") >= 0)
        ends = passes & ~F.coalesce(there, F.lit(False))
        reason = F.when(ends, F.lit(INVALID_TIMESTAMP)).otherwise(F.col("reason")).cast("tinyint")
        frame = frame.withColumn("reason", reason)
    return frame


def opened(frame: DataFrame, plan: Plan, names: Collection[str]) -> DataFrame:
    """The frame without the own times of records with times made by a function."""
    numbers = [number for number, _ in timed(plan, names)]
    if not numbers:
        return frame
    own = F.col("root").isin(numbers) & (F.col("reason") == NEGATIVE_TIMESTAMP)
    return frame.withColumn("reason", F.when(own, F.lit(0)).otherwise(F.col("reason")).cast("tinyint"))


def extractors_of(plan: Plan, names: Collection[str], *, begins: bool = False) -> tuple[Extractor, ...]:
    """The policies for the times that the extractors of these sources make.

    Parameters
    ----------
    begins : whether the records are a source's history, of which there are no dead letters.
    """
    found, letters = [], dead_letter_sources(plan)
    for number, source in timed(plan, names):
        policy = source.origin.policies.on_invalid_timestamp or "fail"
        topic = source.origin.topic or source.name
        if isinstance(policy, DeadLetter):
            told = ("fail", None) if begins else ("letter", letters[source.name, policy.topic])
        else:
            told = (policy, None)
        found.append(Extractor(number, source.name, topic, *told))
    return tuple(found)
