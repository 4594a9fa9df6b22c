"""Inputs and outputs as a user may write them, converted to one form each.

Handle layer: `builder.stream("orders", key=...)`, a Topic, a DataFrame and a Rows all become an origin; a
topic's name, a TopicSink, a Writer, a DatabaseTable, a CatalogTable, a ForeachBatch and an Output all become a sink
target.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from watersmeet.errors import TopologyError
from watersmeet.hints import option_refused
from watersmeet.io.inputs import Origin, Rows
from watersmeet.io.kafka import TopicPattern
from watersmeet.io.outputs import Output, SinkTarget, UserOutputTarget
from watersmeet.io.topics import PatternTopics, Topic, TopicSink


def origin_of(source: Any, options: Mapping[str, Any]) -> Origin:
    """The origin that `source` and its keyword options mean.

    Raises
    ------
    TopologyError : neither a topic nor a DataFrame, or options that do not belong to it.
    """
    if isinstance(source, Topic | Rows):
        _refuse_more(source, options)
        return source
    if isinstance(source, str):
        return _make(Topic, source, options)
    if isinstance(source, TopicPattern):
        return _make(PatternTopics, source.pattern, options)
    if hasattr(source, "schema") and hasattr(source, "isStreaming"):
        return _make(Rows, source, options)
    raise TopologyError(
        f"A source is a Kafka topic or a DataFrame, and not {described(source)}.", hint=_source_hint(source)
    )


def sink_of(target: Any, options: Mapping[str, Any]) -> SinkTarget:
    """The sink that `target` and its keyword options mean.

    Raises
    ------
    TopologyError : neither a topic, a writer, a function of batches nor an output of the user's own.
    """
    if isinstance(target, SinkTarget):
        _refuse_more(target, options)
        return target
    if isinstance(target, Output):
        _refuse_more(target, options)
        return UserOutputTarget(target)
    if isinstance(target, str):
        return _make(TopicSink, target, options)
    raise TopologyError(
        "A sink is a Kafka topic, a Writer, a ForeachBatch, an Output or, of a table, a DatabaseTable, a "
        "CatalogTable or a History, and not "
        f"{described(target)}.",
        hint=_sink_hint(target),
    )


def described(value: Any) -> str:
    """A wrong argument for an input or an output, as a text of one line."""
    kind = type(value)
    if kind.__module__.startswith("pandas"):
        return f"a {kind.__name__} of pandas"
    if kind.__name__ in ("DataFrame", "RDD", "PipelinedRDD", "Topic"):
        return f"a {kind.__name__}"
    return f"{'a list: ' if kind is list else ''}{value!r:.160}"


def reading(source: Any) -> str:
    """How what was given in place of a stream or a table is read, as the arguments of `stream` or `table`."""
    if isinstance(source, str):
        return f"{source!r}, key=..., value=..."
    return "frame, name=..., key=..., timestamp=..." if hasattr(source, "isStreaming") else "..."


def _refuse_more(endpoint: Any, options: Mapping[str, Any]) -> None:
    if options:
        names, kind = ", ".join(f"{name}=" for name in sorted(options)), type(endpoint).__name__
        raise TopologyError(
            f"Give {names} to the {kind} itself.",
            hint=f"Give them to {_kind_of(type(endpoint))}(...).",
        )


def _kind_of(kind: type) -> str:
    """A class of inputs or outputs as a program names it."""
    return f"wm.{kind.__name__}" if kind.__module__.startswith("watersmeet.") else kind.__name__


def _source_hint(source: Any) -> str:
    kind = type(source)
    if kind.__module__.startswith("pandas") or (isinstance(source, list) and source and not isinstance(source[0], str)):
        return "Make a DataFrame of Spark's first: builder.stream(spark.createDataFrame(rows), name=..., key=..., ...)."
    if kind.__module__ == "re":
        return f"A pattern of names: builder.stream(wm.TopicPattern({source.pattern!r:.120}), ...)."
    if isinstance(source, list | tuple | set):
        return "Read each topic by itself, then merge: one.merge(other)."
    if kind.__name__ in ("KStream", "KTable", "WTable"):
        return "A table becomes a stream by to_stream(), a stream a table by to_table(); what is written is not read."
    if "RDD" in kind.__name__:
        return "Make a DataFrame of it: builder.stream(rdd.toDF(schema), name=..., key=..., timestamp=...)."
    return (
        "builder.stream('topic', key='string', value='string'), or builder.stream(frame, name=..., key='id', "
        "timestamp='at')."
    )


def _sink_hint(target: Any) -> str:
    kind = type(target).__name__
    if kind in ("KStream", "KTable", "WTable"):
        return "Write each to a topic, stream.to('topic'), or bring them together first: one.merge(other).to('topic')."
    if kind == "Topic":
        return f"A Topic is an input: stream.to('{target.name}'), or wm.TopicSink('{target.name}')."
    if kind == "Kafka":
        return "The connection is given at the start, kafka=wm.Kafka(...); an output is a topic: stream.to('topic')."
    if kind == "Rows" or hasattr(target, "isStreaming"):
        return (
            "A DataFrame is an input. Files are written by wm.Writer('parquet', path=...), tables by wm.CatalogTable."
        )
    if isinstance(target, type) and issubclass(target, Output | SinkTarget):
        return f"This is the class: make an output of it, stream.to({_kind_of(target)}(...), name=...)."
    if callable(target):
        name = getattr(target, "__name__", "function").replace("<lambda>", "function")
        return (
            f"A function of batches: stream.to(wm.ForeachBatch({name}), name=...); one that names each record's topic: "
            f"stream.to({name}, topics=['orders-de', 'orders-fr'])."
        )
    return "stream.to('topic'), or stream.to(wm.Writer('parquet', path=...), name=...)."


T = TypeVar("T")
_SHOWN = {
    Topic: ("An input topic", "stream"),
    PatternTopics: ("A pattern of topics", "stream"),
    Rows: ("A DataFrame", "frame"),
    TopicSink: ("An output topic", "to"),
}
"""How a kind of input or output is called in an error, and by which method it is made."""


def _make(kind: Callable[..., T], first: Any, options: Mapping[str, Any]) -> T:
    parameters = list(inspect.signature(kind).parameters)[1:]
    foreign = sorted(set(options) - set(parameters))
    if foreign:
        subject, method = _SHOWN[kind]  # type: ignore[index]
        raise option_refused(subject, foreign[0], options[foreign[0]], method, parameters)
    return kind(first, **options)
