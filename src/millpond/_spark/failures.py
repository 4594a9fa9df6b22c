"""What made a query fail, as one of millpond's errors where it is one, and where Spark met a broken checkpoint.

Spark reports a failure as a text with everything in it: an error of millpond that was raised in a worker or by a
column, or Spark's own complaint about a file. Called by `query`.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

from millpond import errors
from millpond._spark.files import RESTORE
from millpond.errors import ConfigError, CorruptData, MillpondError

# what is given may have several lines, but no empty one; behind an error that a column raises Spark puts its SQLSTATE
_OWN = re.compile(
    r"millpond\.errors\.(?P<kind>\w+): (?P<message>[^\n]+)"
    r"(?:\nGiven: (?P<given>[^\n]*(?:\n(?!Hint: |\s|\Z)[^\n]+)*?)(?=\nHint: |\n\s|\Z))?"
    r"(?:\nHint: (?P<hint>[^\n]+?)(?= SQLSTATE: |\n|\Z))?"
)
# Spark adds the query's plan, where errors stand that a column may raise; once more where it shows its own stack
_PLAN = re.compile(r"\n=== Streaming Query ===\n.*?(?=\n\tat |\nCaused by: |\nJVM stacktrace:|\Z)", re.DOTALL)
# what Spark or Hadoop says begins its message: a text further in is a user's own, or stands in one
_SAID = r"(?:terminated with exception: |(?:^|\n|Caused by: )(?:java|org)\.[\w.$]+: )"
_BROKEN = (
    r"\[CANNOT_LOAD_STATE_STORE[^\n]*",
    r"\[STATE_STORE_(?:\w*SCHEMA\w*|CHECKPOINT\w*)[^\n]*",
    r"\[STREAMING_(?:CHECKPOINT|STATEFUL)\w*\][^\n]*",
    r"\[STDS_[^\n]*",
    r"Incomplete log file[^\n]*",
    r"batch \d+ doesn't exist",
    r"\S+ doesn't exist \(latestId[^\n]*",
    r"[^\n]*\n at \[Source: REDACTED \(`StreamReadFeature[^\n]*",
)
_BROKEN_FILE = (
    r"Checksum error: (\S+)[^\n]*",
    r"File (\S+/_stateSchema/\S+) does not exist",
    r"Failed to read log file (\S+)[^\n]*",
)
"""These name a file: of the checkpoint, or of somebody else's."""
_TWICE = ("CONCURRENT_STREAM_LOG_UPDATE", "CONCURRENT_QUERY", "Race while writing batch")
_LINES = 3
"""As many lines of Spark's are shown."""


def named(failure: Exception, checkpoint: str) -> Exception:
    """The failure as an error of millpond, where it is one or comes from the checkpoint; else as it is.

    Parameters
    ----------
    failure : what Spark raised.
    checkpoint : the query's.
    """
    text = _PLAN.sub("", str(failure))
    own = _own(text)
    if own is not None:
        return own
    if any(sign in text for sign in _TWICE):
        return ConfigError(
            "Another query runs on this checkpoint: it has written a batch that this one was about to write.",
            given=checkpoint,
            hint="Run one query per checkpoint. What the other one has written is right; stop it before you start "
            "this one again.",
        )
    found = [each[1] for sign in _BROKEN for each in re.finditer(f"{_SAID}({sign})", text)]
    found += [
        each[1]
        for sign in _BROKEN_FILE
        for each in re.finditer(f"{_SAID}({sign})", text)
        if _lies_in(each[2], checkpoint)
    ]
    if found:
        said = dict.fromkeys(line.strip() for line in found)
        return CorruptData(
            "A file of the checkpoint is missing, or was altered or cut off.",
            given="\n".join([checkpoint, *said][: 1 + _LINES]),
            hint=RESTORE,
        )
    return failure


def _lies_in(file: str, checkpoint: str) -> bool:
    """Whether a file, as Hadoop spells it, is one of the checkpoint's."""
    folder = re.sub(r"^[a-zA-Z][\w+.-]*:(?://[^/]*)?", "", unquote(checkpoint)).rstrip("/").removeprefix("./")
    return f"{folder}/" in unquote(file)


def _own(text: str) -> MillpondError | None:
    """An error that was raised in a worker or by a sink; the first that says more than that rows broke off."""
    found = [each for each in _OWN.finditer(text) if hasattr(errors, each["kind"])]
    if not found:
        return None
    first = next((each for each in found if each["kind"] != "SinkError"), found[0])
    kind: type[MillpondError] = getattr(errors, first["kind"])
    return kind(first["message"], given=first["given"], hint=first["hint"])
