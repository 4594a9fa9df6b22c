"""Kafka topics as rows: one Spark source for all of them, decoded, with a reason where that fails.

Law 2 (one task reads a partition, in order of offset), law 6 (undecodable bytes neither vanish nor pass for a
tombstone), law 9 (a rate limit by default).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from types import MappingProxyType

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ByteType, StructField, StructType

from watersmeet._engine.rows import MOST_PARTITIONS, TOPIC
from watersmeet._plan.nodes import SourceNode, patterns_of
from watersmeet._plan.reasons import NEGATIVE_TIMESTAMP, UNDECODABLE
from watersmeet._spark import formats as of_columns
from watersmeet._spark.columns import without_origins
from watersmeet._spark.machine import HEAP, bytes_of
from watersmeet._spark.session import kafka_package
from watersmeet._worker import kafka_client
from watersmeet._worker.ended_rows import RAW_HEADERS
from watersmeet._worker.formats import formats
from watersmeet._worker.formats.arrow_types import arrow_schema
from watersmeet._worker.formats.decode import RAW, Decode, Deserializer, Deserializers, refused
from watersmeet.errors import ChangedTopology, ConfigError, WatersmeetError
from watersmeet.io.formats import Format
from watersmeet.io.kafka import Kafka, matches
from watersmeet.io.policies import DeadLetter, Policy
from watersmeet.io.topics import Topic

Numbered = Sequence[tuple[int, SourceNode]]
"""Topic sources with their numbers in the plan."""
Letters = Mapping[tuple[str, str], int]
"""By the name of a source, and a topic, the number of the source that has its dead letters for that topic."""
MOST_OF_POLL = 5_000
"""Records of a poll where their sizes allow it."""
_PARTS = tuple(RAW)
_LOGINS = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_VALUE = r"""(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[\w.$-]+)"""
_LOGIN = re.compile(
    rf"(?:\s*[\w.$]+\s+(?i:required|requisite|sufficient|optional)(?:\s+{_VALUE}\s*=\s*{_VALUE})*\s*;\s*)+", re.ASCII
)


# -- reading -----------------------------------------------------------------------------------------------


def read_topics(
    spark: SparkSession,
    topics: Numbered,
    kafka: Kafka,
    headers: bool,
    *,
    full: bool = False,
    partitions: Mapping[str, int] | None = None,
    letters: Letters | None = None,
    starts: Mapping[str, Mapping[int, int]] | None = None,
    dropped: int | None = None,
) -> TopicRows:
    """The stream of all these topics' records, as rows of a scan.

    Parameters
    ----------
    full : whether they are read from their beginning, and to their end in the first batch.
    partitions : how many each topic has; records of others fail the query. None: any pass.
    letters : where the dead letters of these sources are.
    starts : where partitions begin, by topic, if that is said of one; then of all.
    dropped : number of the source that has records which end later, as they came; None: there is none.
    """
    names = [source.origin.name for _, source in topics if source.origin.pattern is None]
    patterns = patterns_of(source for _, source in topics)
    poll, with_headers = records_of_poll(spark, kafka, names), headers or bool(letters) or dropped is not None
    options = reader_options(kafka, names, with_headers, patterns, poll)
    if full:
        for name in ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"):
            options.pop(name, None)
        options |= {"startingOffsets": "earliest"} | ({} if patterns else {"subscribe": ",".join(sorted({*names}))})
    elif starts:
        # Debezium writes the ends of transactions into one partition
        options["startingOffsets"] = json.dumps({**{log: {0: -2} for log in kafka.transactions}, **starts})
    try:
        records = spark.readStream.format("kafka").options(**options).load()
        if kafka.transactions and not full:
            records = records.where(~F.col("topic").isin(*kafka.transactions))
    except AnalysisException as error:
        if "kafka" not in str(error).lower() or "find" not in str(error).lower():
            raise
        raise ConfigError(
            "This Spark session has no Kafka connector.",
            given=f"topics {', '.join(sorted({*names, *patterns}))}",
            hint=f"wm.session(kafka=True), or spark.jars.packages = {kafka_package()} for a new session.",
        ) from None
    return topic_rows(records, topics, headers, partitions, letters or {}, dropped)


def reader_options(
    kafka: Kafka, topics: Sequence[str], headers: bool, patterns: Sequence[str] = (), poll: int = MOST_OF_POLL
) -> dict[str, str]:
    """The options of Spark's Kafka source; `poll`: records of a poll, where the connection does not say it."""
    names = sorted(set(topics))
    alternatives = "|".join(
        [*(name.replace(".", "[.]") for name in names), *(f"(?:{pattern})" for pattern in patterns)]
    )
    return {
        **({"subscribePattern": f"^(?:{alternatives})$"} if patterns else {"subscribe": ",".join(names)}),
        "startingOffsets": kafka.starting_offsets,
        "maxOffsetsPerTrigger": str(kafka.max_records_per_batch),
        "includeHeaders": str(headers).lower(),
        # offsets that are gone are lost records: never pass over them silently
        "failOnDataLoss": "true",
        # what a transaction has taken back was never written, and what it has not committed yet may still be
        "kafka.isolation.level": "read_committed",
        # the broker's own default keeps the fetch of a small batch waiting for half a second
        "kafka.fetch.max.wait.ms": "5",
        # between two polls the client asks the broker for nothing, over and over: ten times the default's 500 records
        "kafka.max.poll.records": str(poll),
        # the system's own choice grows with the way to the broker, 64 kB do not
        "kafka.receive.buffer.bytes": "-1",
        **{f"kafka.{name}": value for name, value in java_settings(kafka).items()},
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
        **kafka.source,
    }


def records_of_poll(spark: SparkSession, kafka: Kafka, topics: Sequence[str]) -> int:
    """How many records a poll may give, so that half of the heap holds those of all tasks at once.

    Each counts as large as a whole batch may be in Kafka: a poll gives so many records, however large they are when
    they are decompressed.
    """
    conf, context = spark.sparkContext.getConf(), spark.sparkContext
    local = str(context.master).startswith("local")
    heap = bytes_of(conf.get(HEAP if local else "spark.executor.memory") or "1g") or 1 << 30
    cores = context.defaultParallelism if local else int(conf.get("spark.executor.cores") or 1)
    most = heap // (2 * cores * kafka_client.largest_batch(kafka, sorted({*topics})))
    return max(1, min(most, MOST_OF_POLL))


def java_settings(kafka: Kafka) -> dict[str, str]:
    """The settings of Kafka's Java client: the common ones that librdkafka names otherwise, translated."""
    common = dict(kafka.options)
    security = {}
    user, password = common.pop("sasl.username", None), common.pop("sasl.password", None)
    mechanism = common.pop("sasl.mechanisms", None) or common.get("sasl.mechanism")
    if mechanism:
        common["sasl.mechanism"] = mechanism
    if user is not None and password is not None and mechanism in _LOGINS:
        security["sasl.jaas.config"] = (
            f"{_LOGINS[mechanism]} required username={_quoted(user)} password={_quoted(password)};"
        )
    authority = common.pop("ssl.ca.location", None)
    if authority is not None:
        security |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": authority}
    settings = {**common, **security, **kafka.consumer}
    if "sasl.jaas.config" in settings:
        _check_login(settings["sasl.jaas.config"])
    return settings


def _check_login(text: str) -> None:
    """Raise unless Kafka can read a login.

    Kafka's own complaint quotes the word that it does not expect, which may be a part of the password.
    """
    if not _LOGIN.fullmatch(text):
        raise ConfigError(
            "The login of the Kafka source cannot be read.",
            given="sasl.jaas.config",
            hint='Its form is: class required username="..." password="..."; quote every value that is not a plain '
            "word, and end with a semicolon. Or give Kafka(..., sasl_mechanism=, sasl_username=, sasl_password=).",
        )


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


# -- rows --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TopicRows:
    """Topics as rows of a scan."""

    bare: DataFrame  # with keys and values as they came
    deserializers: Deserializers  # decodes these
    schema: StructType  # of the rows with keys and values decoded, as functions of Spark's need them
    made: Callable[[], DataFrame]  # makes such rows
    plain: bool  # whether these have keys and values as they came, too

    @cached_property
    def frame(self) -> DataFrame:
        """The rows decoded: not made before somebody needs them, since that takes Spark longer than all else here."""
        return self.made()

    def through(self, change: Callable[[DataFrame], DataFrame]) -> TopicRows:
        """Rows that `change` makes of these, with the same columns."""
        return replace(self, bare=change(self.bare), made=lambda: change(self.frame))


@without_origins()
def topic_rows(
    records: DataFrame,
    topics: Numbered,
    headers: bool,
    partitions: Mapping[str, int] | None = None,
    letters: Letters = MappingProxyType({}),
    dropped: int | None = None,
) -> TopicRows:
    """Rows of a scan from records as Spark's Kafka source gives them; see `read_topics`."""
    parts = [_TopicPart(number, source.origin, part, source.name) for number, source in topics for part in _PARTS]
    frame = records.withColumn("root", _root(topics))
    decoding = tuple(_decoding(part, _dead_letter_source(letters, part, part.topic.on_undecodable)) for part in parts)
    letter_sources = {
        p.number: [_dead_letter_source(letters, p, e) for e in (p.topic.on_error, p.topic.on_invalid_timestamp)]
        for p in parts
    }
    receivers = {
        n: tuple(dict.fromkeys(to for to in (*candidates, dropped) if to is not None))
        for n, candidates in letter_sources.items()
    }
    deserializers = Deserializers(decoding, kept={number: to for number, to in receivers.items() if to})
    columns = [F.col("root"), F.unix_millis("timestamp").alias("ts"), _partition(topics, partitions), F.col("offset")]
    columns += [F.col("headers")] if headers else []
    columns += [F.col(TOPIC)] if patterns_of(source for _, source in topics) else []
    raw = [F.col(part).alias(name) for part, name in RAW.items()]
    if letters or dropped is not None:
        having = {part.number for part in parts if part.topic.policies.dead_letters or dropped is not None}
        raw.append(F.when(F.col("root").isin(*having), F.col("headers")).alias(RAW_HEADERS))
    bare, plain = frame.select(*columns, *raw), all(formats.is_primitive(p.form) for p in parts)
    schema = _schema(bare, deserializers, parts, plain=plain)
    decode = partial(_by_spark, frame, deserializers, parts, [*columns, *raw])
    if not plain:
        decode = partial(bare.mapInArrow, Decode(deserializers, arrow_schema(schema)), schema)
    return TopicRows(bare, deserializers, schema, decode, plain)


def _schema(bare: DataFrame, deserializers: Deserializers, parts: Sequence[_TopicPart], *, plain: bool) -> StructType:
    """Columns of the rows with keys and values decoded."""
    fields = [field for field in bare.schema.fields if plain or field.name not in deserializers.needed]
    decoded_fields = [StructField(p.name, formats.type_of(p.form)) for p in parts]
    decoded_fields += [StructField(name, kind) for name, kind in deserializers.dead_letter_columns]
    return StructType([*fields, StructField("reason", ByteType()), *decoded_fields])


@without_origins()
def _by_spark(
    frame: DataFrame, deserializers: Deserializers, parts: Sequence[_TopicPart], columns: Sequence[Column]
) -> DataFrame:
    """The rows with keys and values decoded by Spark."""
    # What is needed more than once has a column of its own, so that it is computed once.
    frame = frame.withColumns({p.fault: of_columns.reason_of(p.form, p.raw) for p in parts})
    decoded = [_reason(parts).alias("reason"), *[p.value.alias(p.name) for p in parts]]
    decoded += [F.lit(None).cast(kind).alias(name) for name, kind in deserializers.dead_letter_columns]
    return frame.select(*columns, *decoded)


def _dead_letter_source(letters: Letters, part: _TopicPart, policy: Policy | None) -> int | None:
    return letters[part.source, policy.topic] if isinstance(policy, DeadLetter) else None


def _decoding(part: _TopicPart, letters: int | None) -> Deserializer:
    form, topic = part.form, part.topic
    arguments = (part.number, part.part, part.name, form.kind, topic.name, topic.policies.fails, formats.serde_of(form))
    return Deserializer(*arguments, letters, part.source)


@dataclass(frozen=True)
class _TopicPart:
    """The keys, or the values, of one source."""

    number: int
    topic: Topic
    part: str
    source: str

    @property
    def form(self) -> Format:
        form: Format = getattr(self.topic, self.part)
        return form

    @property
    def name(self) -> str:
        return f"s{self.number}_{self.part}"

    @property
    def fault(self) -> str:
        return f"{self.name}_fault"

    @property
    def raw(self) -> Column:
        return F.when(F.col("root") == self.number, F.col(self.part))

    @property
    def value(self) -> Column:
        return of_columns.value_of(self.form, self.raw, F.col(self.fault))

    @property
    def complaint(self) -> Column:
        topic, columns = (self.topic.name, []) if self.topic.pattern is None else ("%s", [TOPIC])
        error = refused(self.part, topic, self.form.kind, "%d", "%d", "%s")
        return F.format_string(_error_text(error), *columns, "partition", "offset", self.fault)


def _root(topics: Numbered) -> Column:
    """The number of a record's source; a topic that is read twice gives each record twice."""
    numbers: dict[str, list[int]] = {}
    for number, source in topics:
        numbers.setdefault(source.origin.name, []).append(number)
    once = all(len(roots) == 1 for roots in numbers.values())
    patterns = {*patterns_of(source for _, source in topics)}
    cases = [
        (_is_of(name, patterns), F.lit(roots[0]) if once else F.array(*map(F.lit, roots)))
        for name, roots in numbers.items()
    ]
    root = reduce(lambda chain, case: chain.when(*case), cases[1:], F.when(*cases[0]))
    return root if once else F.explode(root)


def _is_of(name: str, patterns: Collection[str]) -> Column:
    return F.col("topic").rlike(f"^(?:{name})$") if name in patterns else F.col("topic") == name


def _partition(topics: Numbered, counts: Mapping[str, int] | None) -> Column:
    """The partition; reading it fails where the topic did not have it at the start: each has a time of its own."""
    if counts is None:
        return F.col("partition")
    numbers: dict[int, list[int]] = {}
    for number, source in topics:
        count = counts[source.origin.name] if source.origin.pattern is None else MOST_PARTITIONS
        numbers.setdefault(count, []).append(number)
    (most, _), *remaining = sorted(numbers.items(), reverse=True)
    limit = F.lit(most)
    for fewer, roots in remaining:
        limit = F.when(F.col("root").isin(roots), fewer).otherwise(limit)
    error = ChangedTopology(
        "A topic has more partitions than at the start.",
        given="topic %s, partition %d; %d partitions at the start",
        hint="Nothing of this batch is written. Time is kept per partition: if you accept that late records may be "
        "judged by another partition's time, start again with allow_partition_change=True, else begin anew.",
    )
    message = F.format_string(_error_text(error), "topic", "partition", limit)
    return F.when(F.col("partition") < limit, F.col("partition")).otherwise(F.raise_error(message)).alias("partition")


def _error_text(error: WatersmeetError) -> str:
    """An error's text as a worker tells it: `failures` makes an error of it again."""
    return f"{type(error).__module__}.{type(error).__name__}: {error}"


def _reason(parts: Sequence[_TopicPart]) -> Column:
    """0, or why the record does not pass; where the policy is to fail, reading this column fails."""
    reason = F.when(F.unix_millis("timestamp") < 0, NEGATIVE_TIMESTAMP.code).otherwise(0).cast("tinyint")
    for part in parts:  # later ones stand further out and are asked first
        if part.topic.policies.fails:
            outcome = F.raise_error(part.complaint).cast("tinyint")
        else:
            outcome = F.lit(UNDECODABLE.code).cast("tinyint")
        reason = F.when(F.col(part.fault).isNotNull(), outcome).otherwise(reason)
    return reason


# The partitions of topics, by name or by pattern, as Kafka has them now.

_INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"})
"""Kafka's own topics, which its consumer leaves out of a pattern."""


def partition_counts(spark: SparkSession, topics: Sequence[str], kafka: Kafka) -> dict[str, int]:
    """Number of partitions of each topic.

    Asked of Kafka's Python client where it is installed and has the settings (milliseconds), else of Spark's
    connector through the end offsets of an empty query (seconds).
    """
    if not kafka_client.can_ask(kafka):
        return _counts_by_spark(spark, topics, kafka)
    kafka_client.check_topics(kafka, topics)
    counts = counts_by_client(kafka)
    return {name: counts[name] for name in sorted(set(topics))}


def matching_topics(spark: SparkSession, patterns: Collection[str], kafka: Kafka) -> dict[str, int]:
    """The topics that some pattern matches now, and how many partitions each has; asked as above."""
    if not patterns:
        return {}
    counts = (
        counts_by_client(kafka) if kafka_client.can_ask(kafka) else _counts_by_spark(spark, (), kafka, tuple(patterns))
    )
    topics = {name: counts[name] for name in sorted(counts) if name not in _INTERNAL}
    return {name: count for name, count in topics.items() if any(matches(pattern, name) for pattern in patterns)}


def counts_by_client(kafka: Kafka) -> dict[str, int]:
    """Number of partitions of every topic that there is."""
    wait = kafka_client.seconds(kafka_client.client_settings(kafka))
    topics = kafka_client.admin(kafka).list_topics(timeout=wait).topics
    return {name: len(topic.partitions) for name, topic in topics.items()}


def _counts_by_spark(
    spark: SparkSession, topics: Sequence[str], kafka: Kafka, patterns: Sequence[str] = ()
) -> dict[str, int]:
    options = {**reader_options(kafka, topics, headers=False, patterns=patterns), "startingOffsets": "latest"}
    stream = spark.readStream.format("kafka").options(**options).load().writeStream.format("noop")
    try:
        query = stream.trigger(availableNow=True).start()
        query.awaitTermination()
    except PySparkException as error:
        if "UnknownTopicOrPartition" not in str(error):
            raise
        raise ConfigError(
            "Kafka does not have a topic that the topology reads.",
            given=f"one of {', '.join(sorted(set(topics)))}",
            hint="Create it first, with the partitions it is to have.",
        ) from None
    progress = query.lastProgress
    # without topics there is no batch
    offsets = {} if progress is None else json.loads(progress.sources[0].endOffset)
    return {name: len(of) for name, of in sorted(offsets.items())}
