"""The cause of a query's failure, as one of watersmeet's errors if it is one, or if Spark met a broken checkpoint.

Spark reports a failure as a text with everything in it: an error of watersmeet that was raised in a worker or by a
column, or Spark's own complaint about a file.
"""

from __future__ import annotations

import logging
import re
import subprocess
import traceback
from collections.abc import Collection
from contextlib import suppress
from urllib.parse import unquote

from pyspark import SparkContext
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming import StreamingQuery

from watersmeet import errors
from watersmeet._engine.expressions.tree import EvaluationError
from watersmeet._plan.logical import Plan
from watersmeet._spark.checkpoint.folders import RESTORE
from watersmeet._worker import kafka_client
from watersmeet._worker.formats.decode import REFUSED
from watersmeet.errors import ConfigError, CorruptData, FunctionError, SinkError, SourceError, WatersmeetError, passing
from watersmeet.io.kafka import Kafka, setting_in_error

# What Spark and Kafka's Java client say of a source, as errors of watersmeet; no value of a setting gets into one.

_SETTING = re.compile(
    r"common\.config\.ConfigException: (?:Invalid value (?P<value>.*?) for configuration (?P<one>[\w.]+)"
    r"(?P<cause>:[^\n]*)?"
    r"|Missing required configuration \"(?P<two>[\w.]+)\"|[^\n]*?\b(?P<three>(?:sasl|ssl|security|[a-z]+)\.[\w.]+\w))?",
    re.DOTALL,
)
_CLASS_UNKNOWN = "A setting in consumer= names a class that Kafka's Java client does not find."
_NO_CLASS = re.compile(r"KafkaException: \S+ ClassNotFoundException exception occurred")
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
_FAR = re.compile(
    r"Record at topic (\S+) partition (\d+) offset (\d+) has timestamp value (-?\d+) that overflows"
    r"|ArithmeticException: long overflow(?:\n\s+at [^\n]*)*?kafka010\.KafkaRecordToRowConverter"
)
_TOPIC_GONE = "A topic that this query reads is gone from Kafka."
_OF_TOPICS = (_TOPIC_GONE, kafka_client.NO_TOPIC, kafka_client.SILENT)
_LOST = {
    "reads": "Where it was deleted by mistake, restore it with its records; a topic that is made anew needs a new "
    "checkpoint.",
    "writes": "Create it, with the partitions it is to have, and start the query again: it continues where it stopped.",
}
_UNKNOWN = re.compile(r"errors\.UnknownTopicOrPartitionException|KAFKA_DATA_LOSS\.PARTITIONS_DELETED")


def kafka_failure(text: str) -> WatersmeetError | None:
    """The error that a text of Spark's means, if it speaks of a Kafka source."""
    if _NO_CLASS.search(text):
        return ConfigError(_CLASS_UNKNOWN, hint="Leave it out, or give Spark the jar that has the class: spark.jars.")
    setting = _SETTING.search(text)
    if setting:
        return _refused_setting(setting)
    far = _FAR.search(text)
    if far:
        return SourceError(
            "A record has a timestamp beyond the year 294247: Spark's source cannot read it, and no policy drops it.",
            given="topic {}, partition {}, offset {}: {} ms".format(*far.groups()) if far[1] else None,
            hint="Does its producer write microseconds? To go on without it, have Kafka delete the partition's records "
            "up to it (kafka-delete-records.sh), then start with wm.Kafka(..., source={'failOnDataLoss': 'false'}): "
            "earlier records that were not read go with it. The topic's message.timestamp.after.max.ms has Kafka "
            "refuse such records.",
        )
    deleted = _DELETED.search(text)
    if deleted:
        return _deleted(deleted["parts"])
    if _ASSIGNED.search(text):
        return passing(
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
        return SourceError(_TOPIC_GONE, hint=_LOST["reads"])
    silent = _SILENT.search(text)
    if silent:
        return passing(SourceError(kafka_client.SILENT, given=silent["said"], hint=_WAIT))
    return None


def _refused_setting(setting: re.Match[str]) -> ConfigError:
    name = setting["one"] or setting["two"] or setting["three"] or "of consumer="
    value = f"={setting_in_error(setting['value'])}" if setting["value"] else ""
    cause = setting["cause"] if value and value != "=..." and setting["cause"] else ""
    return ConfigError(
        f"Kafka's Java client refuses the setting {name}{value}{cause.rstrip('.')}.",
        hint="Kafka's documentation of consumer settings has its valid values: wm.Kafka(..., consumer={...}).",
    )


_HISTORY_GONE = re.compile(
    r"\[(?:DELTA_(?:LOG_)?FILE_NOT_FOUND\w*|DELTA_STREAMING_TRAILING_COMMIT_MISSING|DELTA_TRUNCATED_TRANSACTION_LOG"
    r"|DELTA_VERSIONS_NOT_CONTIGUOUS|DELTA_MISSING_CHANGE_DATA|DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE"
    r"|FAILED_READ_FILE\.FILE_NOT_EXIST)\][^\n]*"
)
_COLUMNS_CHANGED = re.compile(
    r"\[(?:DELTA_SCHEMA_CHANGED\w*|DELTA_STREAMING_SCHEMA_MISMATCH_ON_RESTART|DELTA_STREAMING_METADATA_EVOLUTION)\][^\n]*"
)
_COLUMNS_MOVED = re.compile(
    r"\[DELTA_(?:STREAMING_INCOMPATIBLE_SCHEMA_CHANGE|CHANGE_DATA_FEED_INCOMPATIBLE|BLOCK_COLUMN_MAPPING)\w*\][^\n]*"
)


def table_failure(text: str) -> WatersmeetError | None:
    """The error that a text of Spark's means, if it speaks of files that come next, or of a table's columns."""
    history, columns, types = (sign.search(text) for sign in (_HISTORY_GONE, _COLUMNS_CHANGED, _COLUMNS_MOVED))
    if history:
        return SourceError(
            "Files that the query was to read next are gone: the table was vacuumed, or they were deleted.",
            given=history[0][:300],
            hint="The changes since are unknown: begin a new checkpoint, which begins with the table as it is. Keep "
            "history for longer than the query may rest: delta.logRetentionDuration, "
            "delta.deletedFileRetentionDuration.",
        )
    if columns:
        return SourceError(
            "The columns of a table of Delta have changed while the query read it.",
            given=columns[0][:300],
            hint="Build the topology again and start it; where the value has all columns, with evolve=True "
            "(docs/change.md).",
        )
    if types:
        return SourceError(
            "A column of a table of Delta was dropped or renamed, or has another type: its changes cannot be read on.",
            given=types[0][:300],
            hint="Start with a new checkpoint: it reads the table as it is now.",
        )
    return None


def with_topics(error: Exception, kafka: Kafka | None, plan: Plan) -> Exception:
    """The error with the topics that Kafka no longer has, where one that is gone may have caused it."""
    if kafka is None or not isinstance(error, SourceError | SinkError) or error.message not in _OF_TOPICS:
        return error
    read = {
        source.origin.name
        for source in plan.sources
        if source.origin.topic is not None and source.origin.pattern is None
    }
    written = {sink.target.topic for sink in plan.sinks if sink.target.topic is not None}
    missing = sorted(kafka_client.missing_topics(kafka, read | written))
    if not missing:
        return error
    access = "reads" if read & {*missing} else "writes"
    return SourceError(
        f"The topic {missing[0]!r}, which this query {access}, is gone from Kafka.",
        given=", ".join(missing),
        hint=_LOST[access],
    )


def _deleted(partitions: str) -> SourceError:
    return SourceError(
        "Topics that this query reads are gone, or partitions of them.",
        given=f"partitions {partitions}",
        hint="Records of them that were not read are lost. To go on without them, start once with "
        'wm.Kafka(..., source={"failOnDataLoss": "false"}). Then start without it again: while it is set, lost records '
        "do not stop the query.",
    )


LOG = logging.getLogger("watersmeet.query")
# what is given may have several lines, but no empty one; behind an error that a column raises Spark puts its SQLSTATE
_OWN = re.compile(
    r"watersmeet\.errors\.(?P<kind>\w+): (?P<message>[^\n]+)"
    r"(?:\nGiven: (?P<given>[^\n]*(?:\n(?!Hint: |\s|\Z)[^\n]+)*?)(?=\nHint: |\n\s|\Z))?"
    r"(?:\nHint: (?P<hint>[^\n]+?)(?= SQLSTATE: |\n|\Z))?"
)
# Spark adds the query's plan, where errors stand that a column may raise; once more where it shows its own stack
_PLAN = re.compile(r"\n=== Streaming Query ===\n.*?(?=\n\tat |\nCaused by: |\nJVM stacktrace:|\Z)", re.DOTALL)
_CONDITIONS = (
    r"\[CANNOT_LOAD_STATE_STORE[^\n]*",
    r"\[STATE_STORE_(?:\w*SCHEMA\w*|CHECKPOINT\w*)[^\n]*",
    r"\[STREAMING_(?:CHECKPOINT|STATEFUL)\w*\][^\n]*",
    r"\[STDS_[^\n]*",
    r"[^\n]*\n at \[Source: REDACTED \(`StreamReadFeature[^\n]*",
)
# what Spark or Hadoop says begins its message: a text further in is a user's own, or stands in one
_SAID = r"(?:terminated with exception: |(?:^|[\s(])(?:java|org|com)\.[\w.$]+: )"
_BROKEN = (r"Incomplete log file[^\n]*", r"batch \d+ doesn't exist", r"\S+ doesn't exist \(latestId[^\n]*")
_BROKEN_FILE = (
    r"Checksum error: (\S+)[^\n]*",
    r"File (\S+/_stateSchema/\S+) does not exist",
    r"Failed to read log file (\S+)[^\n]*",
)
"""These name a file: of the checkpoint, or of somebody else's."""
# why a function of the user's raised, and whose it is, as `Program` and `run_operator` say it
_RAISED = (
    re.compile(r"EvaluationError: (?P<why>\[\w+\] [^\n]*? In a function behind [^\n]+?\.)(?=['\")\s]|\Z)"),
    re.compile(r"\[USER_RAISED_EXCEPTION\] (?P<why>[^\n]+? raises \w+: [^\n]+?)(?= SQLSTATE|$)", re.MULTILINE),
    re.compile(r"^(?:[\w.]+\.EvaluationError: )?(?P<why>[^\n]+\n\s*In a function of [^\n]+\.)\s*$", re.MULTILINE),
)
_FRAME = re.compile(
    r'^\s*File "(?!<(?!command-|ipython-input)|[^"]*'
    r'(?:/site-packages|/dist-packages|/src/watersmeet|/lib/python3[\d.]*)/)(?P<file>[^"]+)", '
    r"line (?P<line>\d+)",
    re.MULTILINE,
)
"""A line of a traceback of Python's, of a file that is the user's own."""
_ENDS = (
    'Correct the function, or leave such records out: on_error="skip", or wm.DeadLetter("topic") to write them there; '
    "where that is possible (docs/bad_records.md) the same checkpoint continues."
)
_LARGER = (
    "Give it more memory (spark.driver.memory, spark.executor.memory), or let it hold fewer records at once: "
    'wm.Kafka(..., consumer={"max.poll.records": "2"}) where records are large, which Kafka may store a thousand times '
    "as small, and max_records_per_batch=. The next start continues with this batch."
)
_OUT_OF_MEMORY = 52
"""Spark's exit code for it."""
_JVM_SECONDS = 10.0
"""For so long a JVM that answers no more may take to end."""
_LIMITS = (
    (re.compile(r"[^\n]*java\.lang\.OutOfMemoryError[^\n]*"), "The memory of a JVM of Spark was full.", _LARGER),
    (
        re.compile(r"[^\n]*(?:No space left on device|Disk quota exceeded)[^\n]*"),
        "No space is left on a disk that the query writes to.",
        "Make room on the disks of the checkpoint, of temporary files (spark.local.dir, local_cache=) and of the "
        "outputs, and start the query again: it continues with this batch.",
    ),
    (
        re.compile(r"No module named '(?:pyarrow|numpy|watersmeet)[^\n]*|[^\n]*PyArrow [^\n]*must be installed[^\n]*"),
        "Spark's Python workers lack a package that watersmeet needs.",
        "The workers' Python is that of PYSPARK_PYTHON: install watersmeet there as on the driver, or send an "
        "environment with the job (docs/deploy.md).",
    ),
    (
        re.compile(r"[^\n]*Too many open files[^\n]*"),
        "The process may not open more files.",
        "Raise the limit before the start (`ulimit -n 4096`; of systemd LimitNOFILE=), and start the query again.",
    ),
)
"""Limits of the system: its words, the message, the hint."""
_TWICE = ("CONCURRENT_STREAM_LOG_UPDATE", "CONCURRENT_QUERY", "Race while writing batch")
_UNWRITABLE = re.compile(
    r"Mkdirs failed to create[^\n]*|mkdir of [^\n]* failed|Permission denied[^\n]*|Read-only file system[^\n]*"
    r"|No FileSystem for scheme[^\n]*|Not a directory[^\n]*|Parent path is not a directory[^\n]*"
    r"|(?:ParentNotDirectory|AccessControl|UnsupportedFileSystem|UnknownHost)Exception[^\n]*|not a directory[^\n]*"
    r"|Class \S+FileSystem not found|Not implemented by the \w+ FileSystem[^\n]*"
)
_LINES = 3
"""As many lines of Spark's are shown."""


def await_end(query: StreamingQuery, checkpoint: str) -> None:
    """Wait until a query has ended; raise why, where it has failed."""
    try:
        query.awaitTermination()
    except StreamingQueryException as failure:
        raise printed(failure, translate(failure, checkpoint)) from None


def printed(failure: StreamingQueryException, cause: Exception) -> Exception:
    """The failure as a user is to see it, in a few lines; Spark's own text goes to the log.

    Parameters
    ----------
    cause : its cause, as `translate` gives it.
    """
    # what Spark says of a setting may quote it
    if not isinstance(cause, ConfigError):
        LOG.info("The query has ended: %s", failure)
    if cause is failure and hasattr(failure, "_desc"):
        failure._desc = _short(str(failure))
        return failure.with_traceback(None)
    return cause


def _short(text: str) -> str:
    """The begin of Spark's text, without plan and stacks, and the end of a traceback of Python's."""
    text = re.split(r"\n=== Streaming Query ===|\n\nJVM stacktrace:|\n\tat ", text)[0]
    first, traced, traceback = text.partition("Traceback (most recent call last):")
    raised = [line for line in traceback.splitlines() if line and not line.startswith((" ", "\t"))] if traced else []
    return "\n".join([*first.strip().splitlines()[:_LINES], *raised[:1], *_own_line(traceback)])


def is_of_record(failure: Exception, sources: Collection[str]) -> bool:
    """Whether a query failed at a record before the first exchange: it cannot be decoded, or a function raises.

    Parameters
    ----------
    failure : as `await_end` raises it.
    sources : names of the inputs.
    """
    if isinstance(failure, SourceError):
        return failure.message.endswith(REFUSED)
    # the second is what `run_operator` says
    signs = (
        r"(?:EvaluationError|Given): .* In a function behind (.+?)(?:, at partition \d+|\.['\")\s])",
        r"\n\s*In a function of (.+)\.\s*(?:\n|\Z)",
    )
    match = next((match for sign in signs if (match := re.search(sign, str(failure))) is not None), None)
    return match is not None and {*match[1].split(", ")} <= {*sources}


def raised(reason: str) -> FunctionError:
    """The error of a function that has raised for a record.

    Parameters
    ----------
    reason : what it raised, and where.
    """
    return FunctionError("A function raises for a record.", given=reason, hint=_ENDS)


def of_run(failure: Exception) -> Exception:
    """The error of a run in a test driver, as a query would end with it, with the user's lines as its trace."""
    cause: BaseException = failure
    while cause.__cause__ is not None:
        cause = cause.__cause__
    text = "".join(traceback.format_exception(failure))
    lines, error = _own_line(text), failure
    if isinstance(failure, EvaluationError):
        error = raised("\n".join([str(failure), *lines]))
    elif not isinstance(failure, WatersmeetError):
        error = translate(failure, "", text)
        if error is failure and lines:
            error = raised("\n".join([*[line for line in text.splitlines() if line[:1].strip()][-1:], *lines]))
    return error if error is failure else error.with_traceback(cause.__traceback__)


def translate(failure: Exception, checkpoint: str, text: str | None = None) -> Exception:
    """The failure as an error of watersmeet, where it is one or comes from the checkpoint; else as it is.

    Parameters
    ----------
    failure : what Spark raised.
    checkpoint : the query's.
    text : all that is said of the failure; None: what it says itself.
    """
    text = _PLAN.sub("", str(failure) if text is None else text)
    for sign, message, hint in _LIMITS:
        refused = sign.search(text)
        if refused is not None:
            return ConfigError(message, given=f"{checkpoint}: {refused[0].strip():.200}", hint=hint)
    error = _watersmeet_error(text)
    if error is not None:
        return error
    of_function = next((match for sign in _RAISED if (match := sign.search(text)) is not None), None)
    if of_function is not None:
        return raised("\n".join([of_function["why"], *_own_line(text)]))
    if any(sign in text for sign in _TWICE):
        return ConfigError(
            "Another query runs on this checkpoint: it has written a batch that this one was about to write.",
            given=checkpoint,
            hint="Run one query per checkpoint. The output of the other one is valid; stop it before you start "
            "this one again.",
        )
    of_source = kafka_failure(text) or table_failure(text)
    if of_source is not None:
        return of_source
    of_batch = _of_batch_function(text)
    if of_batch is not None:
        return of_batch
    messages = _broken(text, checkpoint)
    if messages:
        lines = dict.fromkeys(line.strip() for line in messages)
        return CorruptData(
            "A file of the checkpoint is missing, or was altered or cut off.",
            given="\n".join([checkpoint, *lines][: 1 + _LINES]),
            hint=RESTORE,
        )
    return failure


def _of_batch_function(text: str) -> SinkError | None:
    """The error of a function of batches that the JVM let down, with the user's line."""
    lines, cause = _own_line(text), re.search(r"^(?:Caused by)?: ((?:java|org)\.[\w.$]+: [^\n]+)", text, re.MULTILINE)
    if "FOREACH_BATCH_USER_FUNCTION_ERROR" not in text or not lines or cause is None:
        return None
    return SinkError(
        f"The function of wm.ForeachBatch failed: {cause[1]}",
        given=lines[0],
        hint="Remove the cause, then start again with the same checkpoint: the batch runs again, with the same rows.",
    )


def of_start(failure: Exception, checkpoint: str) -> Exception:
    """The same of what went wrong before the query ran: also where its checkpoint cannot be written.

    Parameters
    ----------
    failure : what was raised.
    checkpoint : the query's.
    """
    failure = of_jvm(failure, checkpoint)
    if isinstance(failure, WatersmeetError):
        return failure
    text = str(failure)
    unwritable = _UNWRITABLE.search(text)
    if isinstance(failure, FileNotFoundError) and failure.filename == checkpoint:
        unwritable = re.search(r"No such file or directory", text)
    if unwritable and _is_of(text, checkpoint):
        return ConfigError(
            "The checkpoint cannot be written.",
            given=f"{checkpoint}: {unwritable[0]}",
            hint="Give a folder that this user may write, on a file system that Spark knows, or one that is yet to be "
            "made: topology.start(spark, checkpoint=...).",
        )
    return translate(failure, checkpoint)


def of_jvm(failure: Exception, checkpoint: str) -> Exception:
    """The error of a JVM that has ended, where this process has begun it and is refused a connection; else the failure.

    Parameters
    ----------
    failure : py4j's, or the system's.
    checkpoint : the query's.
    """
    process = getattr(SparkContext._gateway, "proc", None)
    if process is None or not (isinstance(failure, ConnectionError) or type(failure).__name__ == "Py4JNetworkError"):
        return failure
    with suppress(subprocess.TimeoutExpired):
        code = process.wait(_JVM_SECONDS)
        told = "its memory was full" if code == _OUT_OF_MEMORY else f"exit code {code}"
        return ConfigError(f"The JVM of Spark has ended: {told}.", given=checkpoint, hint=_LARGER)
    return failure


def _own_line(text: str) -> list[str]:
    """The last line of a traceback of Python's that is in no library, if there is one."""
    return [f"line {frame['line']} of {frame['file']}" for frame in _FRAME.finditer(text)][-1:]


def _is_of(text: str, checkpoint: str) -> bool:
    """Whether a text names a place in the checkpoint, or above it, or the kind of file system that it lies on."""
    scheme, colon, _ = checkpoint.partition(":")
    host = checkpoint.partition("://")[2].partition("/")[0].rpartition("@")[2].partition(":")[0]
    folder, named_in = _folder(checkpoint), re.findall(r"/[^\s:'\"]+", unquote(text))
    above = any(f"{folder}/".startswith(f"{path.rstrip('/')}/") for path in named_in)
    system = bool(colon) and any(name in text for name in (f'"{scheme}"', f".{scheme}."))
    return above or folder in unquote(text) or system or bool(host and f"UnknownHostException: {host}" in text)


def _broken(text: str, checkpoint: str) -> list[str]:
    """Messages about files of the checkpoint."""
    messages = [line for sign in _CONDITIONS for line in re.findall(sign, text)]
    messages += [match[1] for sign in _BROKEN for match in re.finditer(f"{_SAID}({sign})", text)]
    files = [match for sign in _BROKEN_FILE for match in re.finditer(f"{_SAID}({sign})", text)]
    return messages + [match[1] for match in files if _lies_in(match[2], checkpoint)]


def _lies_in(file: str, checkpoint: str) -> bool:
    """Whether a file, as Hadoop spells it, is one of the checkpoint's."""
    return f"{_folder(checkpoint)}/" in unquote(file)


def _folder(checkpoint: str) -> str:
    """Its path, without the name of a file system."""
    return re.sub(r"^[a-zA-Z][\w+.-]*:(?://[^/]*)?", "", unquote(checkpoint)).rstrip("/").removeprefix("./")


def _watersmeet_error(text: str) -> WatersmeetError | None:
    """An error that was raised in a worker or by a sink; the first that says more than that rows broke off."""
    matches = [match for match in _OWN.finditer(text) if hasattr(errors, match["kind"])]
    if not matches:
        return None
    first = next((match for match in matches if match["kind"] != "SinkError"), matches[0])
    kind: type[WatersmeetError] = getattr(errors, first["kind"])
    return kind(first["message"], given=first["given"], hint=first["hint"])
