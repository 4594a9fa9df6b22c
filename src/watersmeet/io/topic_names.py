"""What may be the name of a Kafka topic."""

from __future__ import annotations

import re
from typing import Any

from watersmeet.errors import TopologyError

_PATH = re.compile(r"/|\\\\|\.(?:parquet|json|csv|avro|orc)$")
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def check_topic(name: Any, *, writes: bool = False) -> None:
    """Raise where it cannot be the name of a topic; `writes`: of an output.

    Raises
    ------
    TopologyError : it cannot.
    """
    if not isinstance(name, str) or not _TOPIC_NAME.fullmatch(name) or name in (".", ".."):
        raise TopologyError(f"This cannot be the name of a Kafka topic: {name!r:.120}.", hint=_topic_hint(name, writes))


def _topic_hint(name: Any, writes: bool) -> str:
    """What stands for what is no topic's name: a path, or several names."""
    if isinstance(name, str) and _PATH.search(name):
        if writes:
            return f"Files are written by wm.Writer('parquet', path={name!r}): stream.to(..., name='files')."
        return (
            f"Files are read as a DataFrame: spark.readStream.schema(...).parquet({name!r}), then "
            "builder.stream(frame, name=..., key=..., timestamp=...)."
        )
    plain = "Letters, digits, '.', '_' and '-', at most 249 of them."
    if isinstance(name, str) and re.search(r"[,*|;?]", name) and not writes:
        return f"{plain} Read each topic by its name, then merge: one.merge(other)."
    return plain
