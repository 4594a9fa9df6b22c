"""DataFrames as inputs; Spark's writers and functions of batches as outputs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from watersmeet.errors import TopologyError
from watersmeet.io.inputs import Origin
from watersmeet.io.kafka import setting_text
from watersmeet.io.outputs import KeyTexts, Names, SinkTarget
from watersmeet.names import answering


def check_complete(frame: Any, given: Mapping[str, Any]) -> None:
    """Raise, naming all of them, where options are missing that a DataFrame needs as an input.

    Parameters
    ----------
    given : the options, by name; None: not given. An order is not missed alone: Parquet files have one.

    Raises
    ------
    TopologyError : so it is.
    """
    # `is None`, never truth: a Column has none
    missing = [f"{name}=" for name in ("name", "key", "timestamp") if name in given and given[name] is None]
    if not missing:
        return
    no_order = given.get("order") is None
    listed = " and ".join([", ".join(missing[:-1]), missing[-1]] if missing[1:] else missing)
    order = ", and order= unless its files are Parquet" if no_order else ""
    examples = {"name=": "name='orders'", "key=": "key='id'", "timestamp=": "timestamp='at'"}
    example = [*map(examples.__getitem__, missing), *(["order='at'"] if no_order else [])]
    raise TopologyError(
        f"A DataFrame as an input needs {listed}{order}.",
        hint=f"For example {', '.join(example)}. The columns are {', '.join(frame.columns)}.",
    )


@answering
@dataclass(frozen=True, eq=False)
class Rows(Origin):
    """A DataFrame as an input, streaming or static.

    Parameters
    ----------
    frame : the DataFrame. A static one is copied once into the checkpoint's folder and read from there.
    key : a column name, several names (the key is then a struct of them), or a Column.
    value : likewise; None: a struct of all columns that are neither key, timestamp nor order. A null value
        is a tombstone.
    timestamp : a column name or a Column: a timestamp, or milliseconds since 1970 as a long.
    order : names of the columns that order the rows of a batch; may be left out for Parquet files: their rows have an
        order of their own (time and name of the file, number of the row).
    """

    frame: Any = field(repr=False)
    key: Any = None
    value: Any = None
    timestamp: Any = None
    order: Any = None

    shown = "DataFrame"

    def __post_init__(self) -> None:
        if not hasattr(self.frame, "schema") or not hasattr(self.frame, "isStreaming"):
            raise TopologyError(
                f"wm.Rows takes a DataFrame, and not {type(self.frame).__name__}.",
                given=type(self.frame).__name__,
                hint='wm.Rows(frame, key="id", timestamp="changed_at")',
            )
        check_complete(self.frame, {"key": self.key, "timestamp": self.timestamp, "order": self.order})
        if self.order is not None:
            self._set_order([self.order] if isinstance(self.order, str) else self.order)

    def _set_order(self, given: Any) -> None:
        names = tuple(given) if isinstance(given, list | tuple) else ()
        if not names or not all(isinstance(name, str) for name in names):
            hint = 'order=["day", "row"]'
            raise TopologyError(
                f"order must be a column name, or several: order={given!r:.80}.", given=repr(given), hint=hint
            )
        object.__setattr__(self, "order", names)


@answering
@dataclass(frozen=True, init=False)
class Writer(SinkTarget):
    """Any of Spark's writers as an output: files, console, memory, a table format.

    Parameters
    ----------
    format : what `DataFrame.writeStream.format` takes.
    path : where it writes, if it writes files.
    options : the writer's own. Columns are key, value, timestamp, sequence (for `watersmeet.latest`), headers if any.
    """

    format: str
    path: str | None
    options: Mapping[str, str]

    shown = "files"

    def __init__(self, format: str, path: str | os.PathLike[str] | None = None, **options: Any) -> None:
        _check_writer(format)
        object.__setattr__(self, "format", format)
        object.__setattr__(self, "path", None if path is None else str(path))
        object.__setattr__(self, "options", {name: setting_text(value) for name, value in options.items()})

    def __hash__(self) -> int:
        return hash((self.format, self.path, tuple(sorted(self.options.items()))))

    def __repr__(self) -> str:
        return f"Writer({self.format!r}, path={self.path!r}, options={sorted(self.options)})"

    @property
    def claim(self) -> tuple[str, str] | None:
        return None if self.path is None else ("path", self.path)

    def check_beside(self, other: Any, names: Names, keys: KeyTexts) -> None:
        raise TopologyError(
            f"Two outputs write to {self.path}: of each batch only the rows of one would stay.",
            given=f"{self.path}: {names[0]!r} and {names[1]!r}",
            hint="Merge them first: one.merge(other).to(...); or give each a path of its own.",
        )

    def recorded(self, *, alone: bool) -> Mapping[str, Any]:
        return {} if self.path is None else {"path": self.path, "listed": alone}


@answering
@dataclass(frozen=True)
class ForeachBatch(SinkTarget):
    """A function of the user as an output: it is called with each batch's rows and the batch's number.

    Parameters
    ----------
    function : takes a DataFrame with columns key, value, timestamp, sequence (and headers), and the batch's number.
        After a failure it may be called again with the same number and the same rows.
    """

    function: Callable[[Any, int], None]

    shown = "function"

    def __post_init__(self) -> None:
        given: Any = self.function
        if not callable(given):
            hint = "def write(frame, batch_id): ..."
            raise TopologyError(f"ForeachBatch takes a function, and not {given!r:.80}.", given=repr(given), hint=hint)


def _check_writer(format: Any) -> None:
    if not isinstance(format, str) or not format:
        hint = 'wm.Writer("parquet", path="...")'
        raise TopologyError(f"wm.Writer needs a format: format={format!r:.80}.", given=repr(format), hint=hint)
    if format == "kafka":
        raise TopologyError(
            "Writer('kafka') may write records twice, and sets no timestamps.",
            given="Writer('kafka')",
            hint='Write to the topic: stream.to("topic"), or wm.TopicSink("topic", ...).',
        )
