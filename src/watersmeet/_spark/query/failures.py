"""The cause of a query's failure, as one of watersmeet's errors if it is one, or if Spark met a broken checkpoint.

Spark reports a failure as a text with everything in it: an error of watersmeet that was raised in a worker or by a
column, or Spark's own complaint about a file.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from urllib.parse import unquote

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming import StreamingQuery

from watersmeet import errors
from watersmeet._spark.checkpoint.files import RESTORE
from watersmeet._spark.query.kafka_failures import kafka_failure
from watersmeet._worker.formats.deserializers import REFUSED
from watersmeet.errors import ConfigError, CorruptData, FunctionError, SourceError, WatersmeetError

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
_BROKEN = (
    r"Incomplete log file[^\n]*",
    r"batch \d+ doesn't exist",
    r"\S+ doesn't exist \(latestId[^\n]*",
)
_BROKEN_FILE = (
    r"Checksum error: (\S+)[^\n]*",
    r"File (\S+/_stateSchema/\S+) does not exist",
    r"Failed to read log file (\S+)[^\n]*",
)
"""These name a file: of the checkpoint, or of somebody else's."""
# why a function of the user's raised, and whose it is, as `Program` and `placed` say it
_RAISED = (
    re.compile(r"EvaluationError: (?P<why>\[\w+\] [^\n]*? In a function behind [^\n]+?\.)(?=['\")\s]|\Z)"),
    re.compile(r"^(?:[\w.]+\.EvaluationError: )?(?P<why>[^\n]+\n\s*In a function of [^\n]+\.)\s*$", re.MULTILINE),
)
_ENDS = (
    'Correct the function, or leave such records out: on_error="skip", or wm.DeadLetter("topic") to write them there; '
    "where that is possible (docs/bad_records.md) the same checkpoint continues."
)
_TWICE = ("CONCURRENT_STREAM_LOG_UPDATE", "CONCURRENT_QUERY", "Race while writing batch")
_UNWRITABLE = re.compile(
    r"Mkdirs failed to create[^\n]*|mkdir of [^\n]* failed|Permission denied[^\n]*|Read-only file system[^\n]*"
    r"|No FileSystem for scheme[^\n]*|Not a directory[^\n]*|Parent path is not a directory[^\n]*"
    r"|(?:ParentNotDirectory|AccessControl|UnsupportedFileSystem)Exception[^\n]*|not a directory[^\n]*"
)
_LINES = 3
"""As many lines of Spark's are shown."""


def ended(query: StreamingQuery, checkpoint: str) -> None:
    """Wait until a query has ended; raise why, where it has failed."""
    try:
        query.awaitTermination()
    except StreamingQueryException as failure:
        found = named(failure, checkpoint)
        # what Spark says of a setting may quote it
        raise found from (None if found is failure or isinstance(found, ConfigError) else failure)


def is_of_record(failure: Exception, sources: Collection[str]) -> bool:
    """Whether a query failed at a record before the first exchange: it cannot be decoded, or a function raises.

    Parameters
    ----------
    failure : as `ended` raises it.
    sources : names of the inputs.
    """
    if isinstance(failure, SourceError):
        return failure.message.endswith(REFUSED)
    # the second is what `placed` says
    signs = (
        r"(?:EvaluationError|Given): .* In a function behind (.+?)(?:, at partition \d+|\.['\")\s])",
        r"\n\s*In a function of (.+)\.\s*(?:\n|\Z)",
    )
    found = next((found for sign in signs if (found := re.search(sign, str(failure))) is not None), None)
    return found is not None and {*found[1].split(", ")} <= {*sources}


def raised(why: str) -> FunctionError:
    """The error of a function that has raised for a record.

    Parameters
    ----------
    why : what it raised, and where.
    """
    return FunctionError("A function raises for a record.", given=why, hint=_ENDS)


def named(failure: Exception, checkpoint: str) -> Exception:
    """The failure as an error of watersmeet, where it is one or comes from the checkpoint; else as it is.

    Parameters
    ----------
    failure : what Spark raised.
    checkpoint : the query's.
    """
    text = _PLAN.sub("", str(failure))
    own = _own(text)
    if own is not None:
        return own
    of_function = next((match for sign in _RAISED if (match := sign.search(text)) is not None), None)
    if of_function is not None:
        return raised(of_function["why"])
    if any(sign in text for sign in _TWICE):
        return ConfigError(
            "Another query runs on this checkpoint: it has written a batch that this one was about to write.",
            given=checkpoint,
            hint="Run one query per checkpoint. The output of the other one is valid; stop it before you start "
            "this one again.",
        )
    of_kafka = kafka_failure(text)
    if of_kafka is not None:
        return of_kafka
    found = _broken(text, checkpoint)
    if found:
        said = dict.fromkeys(line.strip() for line in found)
        return CorruptData(
            "A file of the checkpoint is missing, or was altered or cut off.",
            given="\n".join([checkpoint, *said][: 1 + _LINES]),
            hint=RESTORE,
        )
    return failure


def of_start(failure: Exception, checkpoint: str) -> Exception:
    """The same of what went wrong before the query ran: also where its checkpoint cannot be written.

    Parameters
    ----------
    failure : what was raised.
    checkpoint : the query's.
    """
    if isinstance(failure, WatersmeetError):
        return failure
    text = str(failure)
    unwritable = _UNWRITABLE.search(text)
    if unwritable and _is_of(text, checkpoint):
        return ConfigError(
            "The checkpoint cannot be written.",
            given=f"{checkpoint}: {unwritable[0]}",
            hint="Give a folder that this user may write, on a file system that Spark knows, or one that is yet to be "
            "made: topology.start(spark, checkpoint=...).",
        )
    return named(failure, checkpoint)


def _is_of(text: str, checkpoint: str) -> bool:
    """Whether a text names a place in the checkpoint, or above it, or the kind of file system that it lies on."""
    scheme, colon, _ = checkpoint.partition("://")
    folder, named_in = _folder(checkpoint), re.findall(r"/[^\s:'\"]+", unquote(text))
    above = any(f"{folder}/".startswith(f"{each.rstrip('/')}/") for each in named_in)
    return above or folder in unquote(text) or bool(colon and f'"{scheme}"' in text)


def _broken(text: str, checkpoint: str) -> list[str]:
    """Messages about files of the checkpoint."""
    found = [line for sign in _CONDITIONS for line in re.findall(sign, text)]
    found += [each[1] for sign in _BROKEN for each in re.finditer(f"{_SAID}({sign})", text)]
    files = [each for sign in _BROKEN_FILE for each in re.finditer(f"{_SAID}({sign})", text)]
    return found + [each[1] for each in files if _lies_in(each[2], checkpoint)]


def _lies_in(file: str, checkpoint: str) -> bool:
    """Whether a file, as Hadoop spells it, is one of the checkpoint's."""
    return f"{_folder(checkpoint)}/" in unquote(file)


def _folder(checkpoint: str) -> str:
    """Its path, without the name of a file system."""
    return re.sub(r"^[a-zA-Z][\w+.-]*:(?://[^/]*)?", "", unquote(checkpoint)).rstrip("/").removeprefix("./")


def _own(text: str) -> WatersmeetError | None:
    """An error that was raised in a worker or by a sink; the first that says more than that rows broke off."""
    found = [each for each in _OWN.finditer(text) if hasattr(errors, each["kind"])]
    if not found:
        return None
    first = next((each for each in found if each["kind"] != "SinkError"), found[0])
    kind: type[WatersmeetError] = getattr(errors, first["kind"])
    return kind(first["message"], given=first["given"], hint=first["hint"])
