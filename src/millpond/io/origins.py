"""What a user may name as an input or an output, brought to one form each.

Handle layer: `builder.stream("orders", key=...)`, a Topic, a DataFrame and a Rows all become an origin; a
topic's name, a TopicSink, a Writer, a DatabaseTable, a CatalogTable and a ForeachBatch all become a sink target.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from millpond.errors import TopologyError
from millpond.io.databases import TableTarget
from millpond.io.dataframes import ForeachBatch, Rows, Writer
from millpond.io.topics import Topic, TopicSink

Origin = Topic | Rows
SinkTarget = TopicSink | Writer | TableTarget | ForeachBatch


def origin_of(source: Any, options: Mapping[str, Any]) -> Origin:
    """The origin that `source` and its keyword options mean.

    Raises
    ------
    TopologyError : neither a topic nor a DataFrame, or options that do not belong to it.
    """
    if isinstance(source, Topic | Rows):
        if options:
            raise TopologyError(
                "The source already carries its options.", given=sorted(options), hint="Put them there."
            )
        return source
    if isinstance(source, str):
        return _make(Topic, source, options)
    if hasattr(source, "schema") and hasattr(source, "isStreaming"):
        return _make(Rows, source, options)
    raise TopologyError(
        "A source is a Kafka topic or a DataFrame.",
        given=repr(source),
        hint='builder.stream("topic", key="string", value="string") or builder.stream(frame, key="id", ...)',
    )


def sink_of(target: Any, options: Mapping[str, Any]) -> SinkTarget:
    """The sink that `target` and its keyword options mean.

    Raises
    ------
    TopologyError : neither a topic, a writer nor a function of batches.
    """
    if isinstance(target, TopicSink | Writer | TableTarget | ForeachBatch):
        if options:
            raise TopologyError("The sink already carries its options.", given=sorted(options), hint="Put them there.")
        return target
    if isinstance(target, str):
        return _make(TopicSink, target, options)
    raise TopologyError(
        "A sink is a Kafka topic, a Writer, a ForeachBatch or, of a table, a DatabaseTable or a CatalogTable.",
        given=repr(target),
        hint='stream.to("topic"), stream.to(mp.Writer("parquet", path=...))',
    )


def default_name(origin: Origin | SinkTarget) -> str | None:
    """The name of a topic or of a table; nothing else has one of its own."""
    if isinstance(origin, TableTarget):
        return origin.table
    return origin.name if isinstance(origin, Topic | TopicSink) else None


T = TypeVar("T")


def _make(kind: Callable[..., T], first: Any, options: Mapping[str, Any]) -> T:
    known = list(inspect.signature(kind).parameters)[1:]
    foreign = sorted(set(options) - set(known))
    if foreign:
        what = {Topic: "An input topic", Rows: "A DataFrame", TopicSink: "An output topic"}[kind]  # type: ignore[index]
        raise TopologyError(
            f"{what} does not take these options.",
            given=", ".join(f"{name}=" for name in foreign),
            hint=f"It takes {', '.join(f'{name}=' for name in known)}.",
        )
    return kind(first, **options)
