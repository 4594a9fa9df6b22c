"""Sources as frames: topics and DataFrames become rows with root, ts, partition, offset, key and value.

One Spark source reads all topics of a broker, so that its rate limit lets them advance together; a second one those of
global tables. Each DataFrame is a frame of its own.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from watersmeet._plan.nodes import SourceNode, patterns_of
from watersmeet._spark.checkpoint.folders import Folder, local_folder
from watersmeet._spark.checkpoint.record import CLOCK, GLOBAL_TOPICS, TOPICS, Begin
from watersmeet._spark.columns import streams_in
from watersmeet._spark.session import warn
from watersmeet._spark.sources import bootstrap
from watersmeet._spark.sources.bootstrap import Begins, Recorded, begin_of
from watersmeet._spark.sources.rows import Scan, row_types, rows_of
from watersmeet._spark.sources.topics import Numbered, counts_by_client, matching_topics, read_topics
from watersmeet._worker import kafka_client
from watersmeet._worker.ended_rows import HEADERS
from watersmeet._worker.formats import formats
from watersmeet._worker.formats.json import nullable
from watersmeet._worker.kafka_client import client, client_settings, explained, patiently, seconds
from watersmeet.errors import ConfigError, SinkError, installing
from watersmeet.io.formats import Format
from watersmeet.io.inputs import Origin, Rows
from watersmeet.io.kafka import Kafka, matches
from watersmeet.io.topics import Backfill, Bootstrap, PatternTopics, Snapshot, Topic

# From where topics are read at the first start, where an input that lies elsewhere says from where its topic goes on.
#
# Spark's source takes places for all partitions of all its topics or for none, so those of the others are said as well.

_ENDS = {"latest": -1, "earliest": -2}
"""How Spark's source names the ends of a partition among offsets."""


def starting_offsets(
    topics: Sequence[tuple[int, SourceNode]],
    kafka: Kafka,
    partitions: Mapping[str, int],
    begins: Recorded,
    matching: Callable[[Collection[str], Kafka], Mapping[str, int]],
) -> dict[str, dict[int, int]]:
    """The offset at which each partition begins, by topic; none where no input says any.

    Parameters
    ----------
    topics : sources with their numbers in the plan.
    partitions : how many each topic has.
    begins : what inputs begin with.
    matching : asks for the topics that some pattern matches now, and their numbers of partitions.
    """
    for _, source in topics:
        if source.bootstrap is None and source.name in begins:
            raise ConfigError(
                f"The bootstrap= of {source.name!r} was removed before its topic was read.",
                hint="Leave the bootstrap in the program until the topic itself has been read.",
            )
    starts: dict[str, Any] = {s.origin.name: s.origin for _, s in topics if s.origin.begins_at is not None}
    starts |= {source.origin.name: source.bootstrap for _, source in topics if source.bootstrap is not None}
    if not starts:
        return {}
    names = [source.origin.name for _, source in topics]
    for topic in starts:
        if names.count(topic) > 1:
            raise ConfigError(
                f"Several inputs read {topic!r}, which has its own starting_offsets= or bootstrap=.",
                given=f"{names.count(topic)} inputs",
                hint="Read it once and use the handle twice: table.to_stream(), stream.to_table().",
            )
    patterns = {*patterns_of(source for _, source in topics)}
    assignments = {topic: (topic, partitions[topic]) for topic in names if topic not in patterns}
    for topic, count in matching(patterns, kafka).items() if patterns else ():
        assignments[topic] = (next(pattern for pattern in sorted(patterns) if matches(pattern, topic)), count)
    return {
        topic: _partition_starts(topic, starts.get(by), kafka, count)
        for topic, (by, count) in sorted(assignments.items())
    }


def _partition_starts(topic: str, start: Bootstrap | Topic | None, kafka: Kafka, count: int) -> dict[int, int]:
    offsets = kafka.starting_offsets if start is None else start.starting_offsets
    if isinstance(offsets, str):
        return dict.fromkeys(range(count), _ENDS[offsets])
    if offsets is None and isinstance(moment := getattr(start, "starting_timestamp", None), int):
        return _at(topic, moment, kafka, count)
    assert offsets is not None, topic
    if sorted(offsets) != list(range(count)):
        raise ConfigError(
            f"starting_offsets= must name the {count} partitions of the topic {topic!r}.",
            given=f"partitions {', '.join(map(str, sorted(offsets)))}",
            hint=f"starting_offsets={{{', '.join(f'{n}: ...' for n in range(count))}}}",
        )
    return {number: offsets[number] for number in range(count)}


def _at(topic: str, moment: int, kafka: Kafka, count: int) -> dict[int, int]:
    """The offset of the first record that is not older, in each partition."""
    if find_spec("confluent_kafka") is None:
        raise ConfigError(
            f"starting_timestamp={moment} needs Kafka's Python client, which is not installed.",
            hint=f"{installing('kafka')}; or give starting_offsets=.",
        )
    kafka_client.check_topics(kafka, [topic])
    # the ends first: what is written between the two questions lies behind them
    ends, offsets = (_list_offsets(kafka, {topic: count}, position)[topic] for position in ("latest", moment))
    return {number: ends[number] if offset < 0 else offset for number, offset in offsets.items()}


def _list_offsets(kafka: Kafka, counts: Mapping[str, int], position: str | int) -> dict[str, dict[int, int]]:
    """By topic and partition the "earliest" offset, the one behind the "latest", or that of a time in ms.

    Parameters
    ----------
    counts : partitions of each topic.
    """
    module = client()
    spec = importlib.import_module("confluent_kafka.admin").OffsetSpec
    where = spec.for_timestamp(position) if isinstance(position, int) else getattr(spec, position)()
    positions = {module.TopicPartition(name, n): where for name, count in counts.items() for n in range(count)}
    admin, wait = kafka_client.admin(kafka), seconds(client_settings(kafka))

    def list_offsets() -> dict[str, dict[int, int]]:
        offsets: dict[str, dict[int, int]] = {name: {} for name in counts}
        for partition, future in admin.list_offsets(positions, request_timeout=wait).items():
            offsets[partition.topic][partition.partition] = int(future.result().offset)
        return offsets

    try:
        return patiently(list_offsets, wait)
    except module.KafkaException as error:
        raise explained(error.args[0], f"the topics {', '.join(sorted(counts))}") from None


# What Spark's side answers for each kind of input: the types of its records, and its line in a checkpoint.
#
# One table leads from an input's class to it. That a topic's records come through the one Kafka source, and a
# DataFrame's through one of their own, the input says itself (`Origin.topic`, `Origin.frame`).


class OriginReading(Protocol):
    """The answers for one kind."""

    def types(self, origin: Any) -> tuple[DataType, DataType]:
        """Types of keys and values."""

    def described(self, origin: Any) -> str:
        """One line, without secrets, the same at every start."""


class _Topics:
    """See `OriginReading`: a topic has the types of its formats."""

    def types(self, origin: Topic) -> tuple[DataType, DataType]:
        key, value = (formats.type_of(Format.of(form)) for form in (origin.key, origin.value) if form is not None)
        return key, value

    def described(self, origin: Topic) -> str:
        parts = [f"{part} {formats.describe_format(getattr(origin, part))}" for part in ("key", "value")]
        # what becomes of undecodable records changes nothing of what is kept, so it may change
        return f"{origin.shown} {origin.name} ({', '.join([*parts, *(['headers'] if origin.headers else [])])})"


class _Frames:
    """See `OriginReading`: a DataFrame has the types of the columns that key and value name."""

    def types(self, origin: Rows) -> tuple[DataType, DataType]:
        key, value = map(nullable, row_types(origin))
        return key, value

    def described(self, origin: Rows) -> str:
        kind = "streaming" if origin.frame.isStreaming else "static"
        parts = [f"{p} {_column_text(getattr(origin, p))}" for p in ("key", "value", "timestamp", "order")]
        return f"{kind} {origin.shown} ({', '.join(parts)})"


class _Begins:
    """See `OriginReading`: what an input begins with is no input itself, and has no line."""

    def types(self, origin: Snapshot | Backfill) -> tuple[DataType, DataType]:
        key, value = map(nullable, bootstrap.types_of(origin))
        return key, value

    def described(self, origin: Snapshot | Backfill) -> str:
        return ""


READINGS: Mapping[type, OriginReading] = {
    **dict.fromkeys((Topic, PatternTopics), _Topics()),
    **{Rows: _Frames(), Snapshot: _Begins(), Backfill: _Begins()},
}
"""By the class of an input, or of what it begins with."""


def reading_of(origin: Any) -> OriginReading:
    return next(READINGS[cls] for cls in type(origin).__mro__ if cls in READINGS)


def describe_origin(origin: Origin) -> str:
    """An origin in describe() and in the checkpoint: one line, without secrets, the same at every start."""
    return reading_of(origin).described(origin)


def _column_text(selector: Any) -> str:
    if selector is None:
        return "by default"
    if isinstance(selector, str):
        return selector
    # the text of an expression is another in another version of Spark
    return "+".join(selector) if isinstance(selector, list | tuple) else "of an expression"


# Where topics begin that are added to others which go on.
#
# Spark takes a topic that it finds beside others for one that has just been made, with records from 0 on; so where it
# begins has to be written for it.


FEW_RECORDS, FEW_PARTITIONS = 10_000, 100
"""In all topics together: with so many at most one task is enough for a query that begins."""


def have_few_records(kafka: Kafka, counts: Mapping[str, int]) -> bool:
    """Whether topics have at most `FEW_RECORDS` now; False where Kafka cannot be asked.

    Parameters
    ----------
    counts : partitions of each topic.
    """
    if sum(counts.values()) > FEW_PARTITIONS or not kafka_client.can_ask(kafka):
        return False
    try:
        ends, starts = (_list_offsets(kafka, counts, position) for position in ("latest", "earliest"))
    except SinkError:
        return False  # reading says what is wrong, if anything is
    return sum(end - starts[name][n] for name, parts in ends.items() for n, end in parts.items()) <= FEW_RECORDS


def beginnings(kafka: Kafka, topics: Iterable[str], starts: str) -> dict[str, dict[str, int]]:
    """The offset at which each partition of some topics begins.

    Parameters
    ----------
    starts : "earliest" or "latest".
    """
    counts = counts_by_client(kafka)
    offsets = _list_offsets(kafka, {name: counts[name] for name in sorted(topics)}, starts)
    return {name: {str(number): offset for number, offset in sorted(by.items())} for name, by in offsets.items()}


_Letters = Mapping[tuple[str, Any], tuple[int, SourceNode]]
"""Inputs of dead letters, by the input and where they go to."""


def scan(
    spark: SparkSession,
    sources: Sequence[SourceNode],
    kafka: Kafka | None = None,
    checkpoint: Folder | None = None,
    *,
    started_sources: Collection[str] = (),
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
    started_sources : names of the sources that have begun.
    partitions : how many each topic has; records of others fail the query. None: any pass.
    begins : what sources begin with; what lives waits, where there is history yet to be processed.
    dropped : the source that has records which end later, as they came; None: there is none.
    """
    numbered = list(enumerate(sources))
    headers = any(source.origin.keeps_headers for source in sources)
    begins = begins or Begins(checkpoint or local_folder(Path()), {})
    by_name = {source.name: (number, source) for number, source in numbered}
    scans = [_bootstrap_scan(*by_name[name], headers, begins, started_sources) for name in begins.names]
    topics = [(number, source) for number, source in numbered if source.origin.topic is not None]
    # A global table is read whole before anything else: apart from the rest, from its beginning, without a limit.
    copied = [(n, s) for n, s in topics if s.shape.kind == "global"]
    live = [(n, s) for n, s in topics if s.shape.kind != "global"]
    letters = {(s.dead_letters_of, s.origin.goes_to): (n, s) for n, s in numbered if s.dead_letters_of is not None}
    keeps = next((number for number, s in numbered if s.name == dropped), None)
    for group, is_global in ((live, False), (copied, True)):
        if group:
            connection = connected(sources, kafka)
            resumes = is_global or bool(begins.waiting) or (bool(started_sources) and begins.topics_begun)
            starts = {} if resumes else _starts_of(spark, group, connection, begins, partitions or {})
            group_letters = _dead_letters_of(group, letters)
            numbers = {place: number for place, (number, _) in group_letters.items()}
            read_arguments = (spark, group, connection, headers)
            read = read_topics(
                *read_arguments, full=is_global, partitions=partitions, letters=numbers, starts=starts, dropped=keeps
            )
            source_scan = Scan(read, tuple(source.name for _, source in (*group, *group_letters.values())))
            scans.append(source_scan if is_global else _in_turn(source_scan, begins))
    for number, source in numbered:
        if source.origin.frame is not None:
            source_scan = _scan_rows(number, source, headers, checkpoint, source.name in started_sources)
            scans.append(_in_turn(source_scan, begins) if source.origin.frame.isStreaming else source_scan)
    return scans


def _starts_of(
    spark: SparkSession, group: Numbered, connection: Kafka, begins: Begins, partitions: Mapping[str, int]
) -> Mapping[str, Mapping[int, int]]:
    return starting_offsets(group, connection, partitions, begins.recorded, partial(matching_topics, spark))


def _dead_letters_of(group: Numbered, letters: _Letters) -> _Letters:
    names = {source.name for _, source in group}
    return {place: letter for place, letter in letters.items() if place[0] in names}


def _bootstrap_scan(
    number: int, source: SourceNode, headers: bool, begins: Begins, started_sources: Collection[str]
) -> Scan:
    frame, order = begins.stream(source, number, is_restart=source.name in started_sources)
    scan = _numbered(frame, source, order, headers, begins=True)
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
    names = [begin_of(name) for name in sorted(begins)]
    names += [name for name in (TOPICS, GLOBAL_TOPICS) if name in topics_of(sources)]
    for source in (node for node in sources if node.origin.frame is not None):
        names += [f"rows {source.name}"] * _streams_in(source.origin.frame)
    return [*names, *([CLOCK] if clock else [])]


def topics_of(sources: Sequence[SourceNode]) -> dict[str, frozenset[str]]:
    """The topics that each of Spark's Kafka sources reads."""
    topics: dict[str, frozenset[str]] = {}
    for source in (node for node in sources if node.origin.topic is not None):
        name = GLOBAL_TOPICS if source.shape.kind == "global" else TOPICS
        topics[name] = topics.get(name, frozenset()) | {source.origin.topic}
    return topics


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
    origins = [node.origin for node in sources if node.origin.begins_at is not None]
    starts = {TOPICS: (kafka.starting_offsets, origins), GLOBAL_TOPICS: ("earliest", [])}
    by_source, patterns = topics_of(sources), frozenset(patterns_of(sources))
    new = frozenset(patterns_of(node for node in sources if node.name in added))
    match_new = partial(matching_topics, spark, new, kafka)
    return {
        name: Begin(topics - patterns, partial(_beginnings, kafka, *starts[name]), topics & patterns, match_new)
        for name, topics in by_source.items()
    }


def warn_of_patterns(spark: SparkSession, sources: Sequence[SourceNode], kafka: Kafka) -> bool:
    """Whether topics are read by patterns; warn of a pattern that matches none yet."""
    patterns = patterns_of(sources)
    topics = matching_topics(spark, patterns, kafka)
    for pattern in patterns:
        if not any(matches(pattern, topic) for topic in topics):
            warn(
                f"wm.TopicPattern({pattern!r}) matches no topic yet.",
                "a topic that is created later is read from its beginning. The whole name has to match.",
            )
    return bool(patterns)


def _beginnings(
    kafka: Kafka, usual: str, origins: Sequence[Origin], topics: frozenset[str]
) -> dict[str, dict[str, int]]:
    """Where topics begin that are added: where they say it themselves, or all others do."""
    by_start: dict[str, list[str]] = {}
    offsets: dict[str, dict[str, int]] = {}
    for topic in sorted(topics):
        start = next((origin.begins_at for origin in origins if origin.reads(topic)), None) or usual
        if isinstance(start, str):
            by_start.setdefault(start, []).append(topic)
        else:
            offsets[topic] = {str(number): offset for number, offset in start.items()}
    for start, group in by_start.items():
        offsets |= beginnings(kafka, group, start)
    return offsets


def _streams_in(frame: Any) -> int:
    """How many of Spark's sources a DataFrame is made of; a static one is read as a stream of files."""
    if not frame.isStreaming:
        return 1
    # over Spark Connect nobody says; there a topology cannot be changed either
    return streams_in(frame) or 1


def connected(sources: Sequence[SourceNode], kafka: Kafka | None) -> Kafka:
    """The connection."""
    if kafka is None:
        topics = {source.origin.topic for source in sources if source.origin.topic is not None}
        raise ConfigError(
            f"The topology reads Kafka topics, and kafka= is left out: {', '.join(sorted(topics)):.200}.",
            hint='topology.start(spark, checkpoint=..., kafka=wm.Kafka("host:9092")); watersmeet run --kafka host:9092',
        )
    return kafka


def _scan_rows(number: int, source: SourceNode, headers: bool, checkpoint: Folder | None, is_restart: bool) -> Scan:
    origin = source.origin
    if origin.writes_snapshots:
        assert checkpoint is not None
        origin = origin.streamed(source.name, checkpoint, is_restart=is_restart)
    frame = rows_of(origin, number)
    order = tuple(name for name in frame.columns if name.startswith("order_"))
    if not origin.frame.isStreaming:
        if checkpoint is None:
            raise ConfigError(
                "A static DataFrame is copied into the checkpoint's folder, and checkpoint= is left out.",
                given=f"source {source.name!r}",
                hint="Start the topology with checkpoint=...",
            )
        folder, at_once = checkpoint.below("watersmeet/static"), source.shape.kind == "global"
        frame = bootstrap.as_stream(frame, order, folder, source.name, at_once=at_once, is_restart=is_restart)
    return _numbered(frame, source, order, headers, changes=source.origin.is_feed)


def _numbered(
    frame: DataFrame,
    source: SourceNode,
    order: tuple[str, ...],
    headers: bool,
    *,
    changes: bool = False,
    begins: bool = False,
) -> Scan:
    if headers:
        frame = frame.withColumn("headers", F.lit(None).cast(HEADERS))
    if not begins and source.origin.partitioned:
        return Scan(frame, (source.name,), order=order, partitioned=True, changes=changes)
    return Scan(frame.coalesce(1), (source.name,), order=order, changes=changes)
