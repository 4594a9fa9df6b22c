"""What Spark and Kafka's Java client say of a source, as errors of watersmeet; no value of a setting gets into one."""

from __future__ import annotations

import re

from watersmeet.errors import ConfigError, SourceError, WatersmeetError

_SETTING = re.compile(
    r"common\.config\.ConfigException: (?:Invalid value .*? for configuration (?P<one>[\w.]+)"
    r"|Missing required configuration \"(?P<two>[\w.]+)\"|[^\n]*?\b(?P<three>(?:sasl|ssl|security|[a-z]+)\.[\w.]+\w))?",
    re.DOTALL,
)
_GONE = re.compile(
    r"Some data may have been lost because they are not available in Kafka any more"
    r"|\[(?:KAFKA_DATA_LOSS|LOST_TOPIC_PARTITIONS|MISMATCHED_TOPIC_PARTITIONS"
    r"|(?:UN)?RESOLVED_START_OFFSET_GREATER|END_OFFSET_HAS_GREATER)\w*(?:\.\w+)?\]"
)
_REASON = re.compile(
    r"Partition \S+ offset was changed from \d+ to \d+|Partitions [^\n]* have been deleted|Could not read records in "
    r"offset [^\n]*|Starting offset for [^\n]*|Cannot find initial offsets [^\n]*|Added partition [^\n]*"
)
_DELETED = re.compile(r"Partitions (?:\w*Set)?\(?(?P<parts>[\w.,\- ]+)\)? have been deleted")
"""Of topics that a pattern has matched: Spark does not look for a topic with a name of its own."""
_ASSIGNED = re.compile(r"\bKAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED\b")
_SILENT = re.compile(r"kafka\.common\.errors\.TimeoutException: (?P<said>[^\n]*)")
_WAIT = (
    "Check that the brokers are up, and start the query again: it continues where it stopped. "
    'To wait longer: wm.Kafka(..., source={"fetchOffset.numRetries": ...}, '
    'consumer={"default.api.timeout.ms": ...}).'
)
_UNKNOWN = re.compile(r"errors\.UnknownTopicOrPartitionException|KAFKA_DATA_LOSS\.PARTITIONS_DELETED")


def kafka_failure(text: str) -> WatersmeetError | None:
    """The error that a text of Spark's means, if it speaks of a Kafka source."""
    setting = _SETTING.search(text)
    if setting:
        return ConfigError(
            "Kafka's Java client refuses a setting.",
            given=setting["one"] or setting["two"] or setting["three"] or "one of consumer=",
            hint="Kafka's documentation of consumer settings has its valid values: wm.Kafka(..., consumer={...}).",
        )
    deleted = _DELETED.search(text)
    if deleted:
        return _deleted(deleted["parts"])
    if _ASSIGNED.search(text):
        return _passing(
            SourceError("Topics or partitions were created or deleted during the start.", hint="Start it again.")
        )
    if _GONE.search(text):
        reason = _REASON.search(text)
        return SourceError(
            "Kafka no longer has the records to read next: the topic was made anew, or they were too old.",
            given=reason[0] if reason else _GONE.search(text)[0],  # type: ignore[index]
            hint="A topic that was made anew needs a new checkpoint: the old one's state belongs to the old topic. "
            "Where Kafka has deleted old records, this checkpoint has lost them too; raise the topic's "
            "retention.ms, and begin a new one.",
        )
    if _UNKNOWN.search(text):
        return SourceError(
            "A topic that this query reads is gone from Kafka.",
            hint="Where it was deleted by mistake, restore it with its records; a topic that is made anew needs a "
            "new checkpoint.",
        )
    silent = _SILENT.search(text)
    if silent:
        return _passing(SourceError("Kafka does not answer.", given=silent["said"], hint=_WAIT))
    return None


def _passing(error: SourceError) -> SourceError:
    error.passing = True
    return error


def _deleted(partitions: str) -> SourceError:
    return SourceError(
        "Topics that this query reads are gone, or partitions of them.",
        given=f"partitions {partitions}",
        hint="Records of them that were not read are lost. To go on without them, start once with "
        'wm.Kafka(..., source={"failOnDataLoss": "false"}). Then start without it again: while it is set, lost records '
        "do not stop the query.",
    )
