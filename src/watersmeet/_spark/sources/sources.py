"""Sources as frames: topics and DataFrames become rows with root, ts, partition, offset, key and value.

All Kafka topics are read through one Spark source, so that Spark's rate limit lets them advance together;
each DataFrame is a frame of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from watersmeet._plan.nodes import SourceNode, patterns_of
from watersmeet._spark.analysis.analysed_plan import streams_in
from watersmeet._spark.checkpoint.files import Folder
from watersmeet._spark.checkpoint.offsets import CLOCK, GLOBAL_TOPICS, TOPICS, Begin
from watersmeet._spark.session.warned import warn
from watersmeet._spark.sources import static
from watersmeet._spark.sources.beginnings import beginnings
from watersmeet._spark.sources.bootstrap import Begins, begin_of
from watersmeet._spark.sources.kinds import describe_origin
from watersmeet._spark.sources.partitions import matching_topics, partition_counts
from watersmeet._spark.sources.rows import row_types, rows_of
from watersmeet._spark.sources.scans import Scan
from watersmeet._spark.sources.starting_offsets import starting_offsets
from watersmeet._spark.sources.topics import read_topics
from watersmeet._worker.formats.dead_letters import HEADERS
from watersmeet.errors import ConfigError
from watersmeet.io.inputs import Origin
from watersmeet.io.kafka import Kafka
from watersmeet.io.topic_names import matches


def scan(
    spark: SparkSession,
    sources: Sequence[SourceNode],
    kafka: Kafka | None = None,
    checkpoint: Folder | None = None,
    *,
    begun: Collection[str] = (),
    partitions: Mapping[str, int] | None = None,
    begins: Begins | None = None,
    dropped: str | None = None,
) -> list[Scan]:
    """The frames that the sources are read from: one for what each begins with, one for all topics, one per DataFrame.

    Parameters
    ----------
    sources : all of the plan, in its order.
    kafka : the connection, where there are topics.
    checkpoint : folder that static DataFrames are copied into.
    begun : names of the sources that have begun.
    partitions : how many each topic has; records of others fail the query. None: any pass.
    begins : what sources begin with; what lives waits, where there is history yet to be processed.
    dropped : the source that has records which end later, as they came; None: there is none.

    Raises
    ------
    ConfigError : there is no connection, no connector, or no folder.
    """
    numbered = list(enumerate(sources))
    headers = any(source.origin.keeps_headers for source in sources)
    begins = begins or Begins(checkpoint or Folder(spark, ""), {})
    named = {source.name: (number, source) for number, source in numbered}
    scans = [_begin(*named[name], headers, begins, begun) for name in begins.names]
    topics = [(number, source) for number, source in numbered if source.origin.topic is not None]
    # A global table is read whole before anything else: apart from the rest, from its beginning, without a limit.
    copied = [(n, s) for n, s in topics if s.shape.kind == "global"]
    others = [(n, s) for n, s in topics if s.shape.kind != "global"]
    letters = {(s.dead_letters_of, s.origin.goes_to): (n, s) for n, s in numbered if s.dead_letters_of is not None}
    keeps = next((number for number, s in numbered if s.name == dropped), None)
    for some, whole in ((others, False), (copied, True)):
        if some:
            connection = connected(sources, kafka)
            begun_live = whole or bool(begins.waiting) or (bool(begun) and begins.topics_begun)
            given = (some, connection, partitions or {}, begins.recorded)
            starts = {} if begun_live else starting_offsets(*given, partial(matching_topics, spark))
            mine = {place: letter for place, letter in letters.items() if place[0] in {s.name for _, s in some}}
            numbers = {place: number for place, (number, _) in mine.items()}
            told = (spark, some, connection, headers)
            read = read_topics(*told, whole=whole, partitions=partitions, letters=numbers, starts=starts, dropped=keeps)
            names = tuple(source.name for _, source in (*some, *mine.values()))
            found = Scan(read, names)
            scans.append(found if whole else _in_turn(found, begins))
    for number, source in numbered:
        if source.origin.frame is not None:
            found = _scan_rows(number, source, headers, checkpoint, source.name in begun)
            scans.append(_in_turn(found, begins) if source.origin.frame.isStreaming else found)
    return scans


def _begin(number: int, source: SourceNode, headers: bool, begins: Begins, begun: Collection[str]) -> Scan:
    frame, order = begins.stream(source, number, begun=source.name in begun)
    scan = _in_one_task(frame, source, order, headers)
    return replace(scan, begins=True, snapshot=begins.recorded[source.name]["snapshot"])


def _in_turn(scan: Scan, begins: Begins) -> Scan:
    """The scan of something that lives; one without rows, where that has to wait."""
    if not begins.waiting:
        return scan
    nothing = begins.nothing_yet
    return replace(scan, made=nothing(scan.frame) if scan.topics is None else scan.topics.through(nothing))


def inputs_of(sources: Sequence[SourceNode], begins: Iterable[str], *, clock: bool) -> list[str]:
    """A name for each source of Spark's, in the order in which `scan` and the query's plan have them.

    Parameters
    ----------
    begins : names of the sources that begin with something.
    clock : whether the wall clock is a source.
    """
    found = [begin_of(name) for name in sorted(begins)]
    found += [name for name in (TOPICS, GLOBAL_TOPICS) if name in topics_of(sources)]
    for source in (each for each in sources if each.origin.frame is not None):
        found += [f"rows {source.name}"] * _streams_in(source.origin.frame)
    return [*found, *([CLOCK] if clock else [])]


def topics_of(sources: Sequence[SourceNode]) -> dict[str, frozenset[str]]:
    """The topics that each of Spark's Kafka sources reads."""
    found: dict[str, frozenset[str]] = {}
    for source in (each for each in sources if each.origin.topic is not None):
        name = GLOBAL_TOPICS if source.shape.kind == "global" else TOPICS
        found[name] = found.get(name, frozenset()) | {source.origin.topic}
    return found


def begun_topics(
    spark: SparkSession, sources: Sequence[SourceNode], kafka: Kafka | None, added: Collection[str]
) -> dict[str, Begin]:
    """The topics of each of Spark's Kafka sources, and the beginnings of topics that are added to it.

    Parameters
    ----------
    added : names of the sources that are new. Another's pattern may match topics that were created since the last
        batch: Spark finds these itself, and reads them from their beginning.
    """
    if kafka is None:
        return {}
    own = [each.origin for each in sources if each.origin.begins_at is not None]
    starts = {TOPICS: (kafka.starting_offsets, own), GLOBAL_TOPICS: ("earliest", [])}
    given, patterns = topics_of(sources), frozenset(patterns_of(sources))
    new = frozenset(patterns_of(each for each in sources if each.name in added))
    there = partial(matching_topics, spark, new, kafka)
    return {
        name: Begin(topics - patterns, partial(_beginnings, kafka, *starts[name]), topics & patterns, there)
        for name, topics in given.items()
    }


def warn_of_patterns(spark: SparkSession, sources: Sequence[SourceNode], kafka: Kafka) -> bool:
    """Whether topics are read by patterns; warn of a pattern that matches none yet."""
    patterns = patterns_of(sources)
    there = matching_topics(spark, patterns, kafka)
    for pattern in patterns:
        if not any(matches(pattern, topic) for topic in there):
            warn(
                f"wm.TopicPattern({pattern!r}) matches no topic yet.",
                "a topic that is created later is read from its beginning. The whole name has to match.",
            )
    return bool(patterns)


def _beginnings(kafka: Kafka, usual: str, own: Sequence[Origin], topics: frozenset[str]) -> dict[str, dict[str, int]]:
    """Where topics begin that are added: where they say it themselves, or all others do."""
    by_start: dict[str, list[str]] = {}
    found: dict[str, dict[str, int]] = {}
    for topic in sorted(topics):
        start = next((each.begins_at for each in own if each.reads(topic)), None) or usual
        if isinstance(start, str):
            by_start.setdefault(start, []).append(topic)
        else:
            found[topic] = {str(number): offset for number, offset in start.items()}
    for start, some in by_start.items():
        found |= beginnings(kafka, some, start)
    return found


def _streams_in(frame: Any) -> int:
    """How many of Spark's sources a DataFrame is made of; a static one is read as a stream of files."""
    if not frame.isStreaming:
        return 1
    # over Spark Connect nobody says; there a topology cannot be changed either
    return streams_in(frame) or 1


def connected(sources: Sequence[SourceNode], kafka: Kafka | None) -> Kafka:
    """The connection.

    Raises
    ------
    ConfigError : there is none.
    """
    if kafka is None:
        topics = {source.origin.topic for source in sources if source.origin.topic is not None}
        raise ConfigError(
            f"The topology reads Kafka topics, and kafka= is left out: {', '.join(sorted(topics)):.200}.",
            hint='topology.start(spark, checkpoint=..., kafka=wm.Kafka("host:9092"))',
        )
    return kafka


def _scan_rows(number: int, source: SourceNode, headers: bool, checkpoint: Folder | None, begun: bool) -> Scan:
    frame = rows_of(source.origin, number)
    order = tuple(name for name in frame.columns if name.startswith("order_"))
    if not source.origin.frame.isStreaming:
        if checkpoint is None:
            raise ConfigError(
                "A static DataFrame is copied into the checkpoint's folder, and checkpoint= is left out.",
                given=f"source {source.name!r}",
                hint="Start the topology with checkpoint=...",
            )
        folder, at_once = checkpoint.below("watersmeet/static"), source.shape.kind == "global"
        frame = static.as_stream(frame, order, folder, source.name, at_once=at_once, begun=begun)
    return _in_one_task(frame, source, order, headers)


def _in_one_task(frame: DataFrame, source: SourceNode, order: tuple[str, ...], headers: bool) -> Scan:
    if headers:
        frame = frame.withColumn("headers", F.lit(None).cast(HEADERS))
    return Scan(frame.coalesce(1), (source.name,), order=order)


__all__ = ["Scan", "describe_origin", "matching_topics", "partition_counts", "row_types", "scan"]
