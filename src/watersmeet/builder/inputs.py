"""Inputs of a builder: streams, tables and global tables, of topics and of DataFrames.

Overloads say which options go with which source; that they do is checked again when the node is made (`_plan.inputs`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from watersmeet._plan.construction import Construction
from watersmeet._plan.inputs import Inputs
from watersmeet.functions import Function
from watersmeet.handles.expiry import Since
from watersmeet.handles.global_ktable import GlobalKTable
from watersmeet.handles.kstream import KStream
from watersmeet.handles.ktable import KTable
from watersmeet.handles.shared_parameters import parameters_of
from watersmeet.io.bootstrap import Backfill, Snapshot
from watersmeet.io.dataframes import Rows
from watersmeet.io.formats import Format, FormatName
from watersmeet.io.policies import OnError, OnInvalidTimestamp, OnUndecodable
from watersmeet.io.topic_names import StartingOffsets, TopicPattern, are_topics, check_topics
from watersmeet.io.topics import Topic
from watersmeet.names import answering
from watersmeet.windows import Duration

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    Columns = str | Column | Sequence[str]
    """A column by its name, several by theirs, or a Column."""


@answering
class InputReading:
    """A builder's methods that read inputs."""

    _construction: Construction
    _inputs: Inputs

    @overload
    def stream(
        self,
        source: str,
        *,
        key: Format | FormatName,
        value: Format | FormatName,
        on_undecodable: OnUndecodable | None = None,
        on_error: OnError | None = None,
        headers: bool = False,
        timestamp: Function | None = None,
        on_invalid_timestamp: OnInvalidTimestamp | None = None,
        starting_offsets: StartingOffsets | None = None,
        name: str | None = None,
        bootstrap: Backfill | None = None,
    ) -> KStream: ...

    @overload
    def stream(
        self,
        source: list[str] | tuple[str, ...] | TopicPattern,
        *,
        key: Format | FormatName,
        value: Format | FormatName,
        on_undecodable: OnUndecodable | None = None,
        on_error: OnError | None = None,
        headers: bool = False,
        timestamp: Function | None = None,
        on_invalid_timestamp: OnInvalidTimestamp | None = None,
        starting_offsets: StartingOffsets | None = None,
        name: str | None = None,
    ) -> KStream: ...

    @overload
    def stream(self, source: Topic, *, name: str | None = None, bootstrap: Backfill | None = None) -> KStream: ...

    @overload
    def stream(
        self,
        source: DataFrame,
        *,
        name: str,
        key: Columns,
        timestamp: str | Column | Function,
        value: Columns | None = None,
        order: str | Sequence[str] | None = None,
        bootstrap: Backfill | None = None,
    ) -> KStream: ...

    @overload
    def stream(self, source: Rows, *, name: str, bootstrap: Backfill | None = None) -> KStream: ...

    def stream(
        self,
        source: str | list[str] | tuple[str, ...] | TopicPattern | Topic | Rows | DataFrame,
        *,
        name: str | None = None,
        key: Columns | Format | None = None,
        value: Columns | Format | None = None,
        on_undecodable: OnUndecodable | None = None,
        on_error: OnError | None = None,
        headers: bool | None = None,
        timestamp: str | Column | Function | None = None,
        on_invalid_timestamp: OnInvalidTimestamp | None = None,
        starting_offsets: StartingOffsets | None = None,
        order: str | Sequence[str] | None = None,
        bootstrap: Backfill | None = None,
    ) -> KStream:
        """A KStream of a Kafka topic or a DataFrame.

        Parameters
        ----------
        source : a topic's name, several names (all with the same options; functions that see the record tell them
            apart by `record["topic"]`), a `TopicPattern` of names, a `Topic`, a DataFrame (streaming or static), or
            `Rows` of one. All rows of a streaming one's batch come through one task, which puts them in order, above
            256 MiB through a file: limit its batches where it is read (`maxFilesPerTrigger`, `maxBytesPerTrigger` of
            files, ...).
        name : the input's name, to the test driver and in describe(); default the topic's, needed for a DataFrame.
        key, value : of a topic the formats, such as "long" or wm.json("customer string"); of a DataFrame a column's
            name, several names (a struct of them) or a Column. Without `value`, the value is a struct of all columns
            that are neither key, timestamp nor order. A null value is a tombstone.
        on_undecodable : of a topic, what becomes of bytes that are not of its formats: "fail" stops the query and
            says where they are, "skip" leaves the record out and counts it, `wm.DeadLetter("topic")` counts it and
            writes it there. Default: the builder's.
        on_error : of a topic, the same of records for which a function raises before the first operator with state.
        headers : of a topic, whether records keep their headers; default False.
        timestamp : of a DataFrame, a column's name or a Column: a timestamp, or milliseconds since 1970 as a long. Of
            either, a Column function of (value) or (key, value), or `wm.python`, that gives one: it is called before
            the record's place among those of other inputs is known. Else a topic's records have the topic's times.
        on_invalid_timestamp : of a topic with `timestamp`, what becomes of records for which it gives null, a time
            before 1970 or one too large, or raises: "fail" (the usual one) stops the query and says where, "own" takes
            the topic's own time, "skip" leaves the record out and counts it, `wm.DeadLetter("topic")` writes it there.
        starting_offsets : of a topic, from where it is read where there is no checkpoint yet: "earliest", "latest", or
            the first offset of each partition ({0: 1200, 1: 1187}). Default: as `Kafka(starting_offsets=)` says.
        order : of a DataFrame, names of the columns that order the rows of a batch; may be left out for Parquet
            files: their rows have an order of their own.
        bootstrap : the input's history, a `Backfill`, and from where its topic goes on.

        Raises
        ------
        TopologyError : no such source, format, column or schema, the name is taken, or the history has rows of other
            types.
        FunctionError : the function of timestamps gives no time.

        Examples
        --------
        >>> read = {"key": "string", "value": wm.json("page string, at timestamp")}  # doctest: +SKIP
        >>> builder.stream("visits", **read, timestamp=lambda value: value["at"])  # doctest: +SKIP
        """
        options: dict[str, Any] = {"on_undecodable": on_undecodable, "on_error": on_error, "headers": headers}
        options |= {"key": key, "value": value, "timestamp": timestamp, "order": order}
        options |= {"on_invalid_timestamp": on_invalid_timestamp, "starting_offsets": starting_offsets}
        if are_topics(source):
            return self._of_topics(check_topics(source, bootstrap), name, options)
        node = self._inputs.add(source, "stream", name, None, options, bootstrap=bootstrap)
        return KStream(self._construction, node)

    def _of_topics(self, topics: Sequence[str], name: str | None, options: Mapping[str, Any]) -> KStream:
        """The records of several topics, each an input of its own name."""
        alone = name if len(topics) == 1 else None
        nodes = [self._inputs.add(topic, "stream", alone, None, options) for topic in topics]
        first, *others = (KStream(self._construction, node) for node in nodes)
        for number, other in enumerate(others, start=1):
            first = first.merge(other, name=name if number == len(others) else None)
        return first

    @overload
    def table(
        self,
        source: str,
        *,
        key: Format | FormatName,
        value: Format | FormatName,
        on_undecodable: OnUndecodable | None = None,
        on_error: OnError | None = None,
        headers: bool = False,
        timestamp: Function | None = None,
        on_invalid_timestamp: OnInvalidTimestamp | None = None,
        starting_offsets: StartingOffsets | None = None,
        name: str | None = None,
        store: str | None = None,
        history: Duration | None = None,
        bootstrap: Snapshot | Backfill | None = None,
        ttl: Duration | None = None,
        since: Since = "update",
    ) -> KTable: ...

    @overload
    def table(
        self,
        source: Topic,
        *,
        name: str | None = None,
        store: str | None = None,
        history: Duration | None = None,
        bootstrap: Snapshot | Backfill | None = None,
        ttl: Duration | None = None,
        since: Since = "update",
    ) -> KTable: ...

    @overload
    def table(
        self,
        source: DataFrame,
        *,
        name: str,
        key: Columns,
        timestamp: str | Column | Function,
        value: Columns | None = None,
        order: str | Sequence[str] | None = None,
        store: str | None = None,
        history: Duration | None = None,
        bootstrap: Snapshot | Backfill | None = None,
        ttl: Duration | None = None,
        since: Since = "update",
    ) -> KTable: ...

    @overload
    def table(
        self,
        source: Rows,
        *,
        name: str,
        store: str | None = None,
        history: Duration | None = None,
        bootstrap: Snapshot | Backfill | None = None,
        ttl: Duration | None = None,
        since: Since = "update",
    ) -> KTable: ...

    @parameters_of(stream)
    def table(
        self,
        source: str | Topic | Rows | DataFrame,
        *,
        name: str | None = None,
        key: Columns | Format | None = None,
        value: Columns | Format | None = None,
        on_undecodable: OnUndecodable | None = None,
        on_error: OnError | None = None,
        headers: bool | None = None,
        timestamp: str | Column | Function | None = None,
        on_invalid_timestamp: OnInvalidTimestamp | None = None,
        starting_offsets: StartingOffsets | None = None,
        order: str | Sequence[str] | None = None,
        store: str | None = None,
        history: Duration | None = None,
        bootstrap: Snapshot | Backfill | None = None,
        ttl: Duration | None = None,
        since: Since = "update",
    ) -> KTable:
        """A KTable of a Kafka topic or a DataFrame: the latest value of each key; null deletes.

        Parameters
        ----------
        store : queryable name of the table.
        history : for how long the table remembers its past, such as "1 day": a versioned table (KIP-889), in which a
            stream that is joined with it finds the value of its own time. Changes that are older are dropped, counted.
        bootstrap : what the table begins with, and from where its topic goes on: a `Snapshot`, or its history, a
            `Backfill`.
        ttl : for how long a row lasts, in stream time, such as "1 day": then it is deleted, and a tombstone goes
            downstream, where time passes that moment (docs/semantics/expiry.md).
        since : from when on: "update", the stream time at which its last update comes, or "record", that record's
            timestamp. A record that is over when it comes deletes the row.

        Raises
        ------
        TopologyError : no such source, format, column or schema, the name is taken, the history is no duration, or
            what it begins with has rows of other types.

        Other parameters as for `StreamsBuilder.stream`.
        """
        options: dict[str, Any] = {"on_undecodable": on_undecodable, "on_error": on_error, "headers": headers}
        options |= {"key": key, "value": value, "timestamp": timestamp, "order": order}
        options |= {"on_invalid_timestamp": on_invalid_timestamp, "starting_offsets": starting_offsets}
        if (ttl is not None or since != "update") and not isinstance(source, TopicPattern):
            node = self._inputs.add(source, "stream", name, None, options, bootstrap=bootstrap)
            stream = KStream(self._construction, node)
            return stream.to_table(store=store, history=history, ttl=ttl, since=since)
        node = self._inputs.add(source, "table", name, store, options, history, bootstrap)
        return KTable(self._construction, node)

    @overload
    def global_table(
        self,
        source: str,
        *,
        key: Format | FormatName,
        value: Format | FormatName,
        on_undecodable: OnUndecodable | None = None,
        on_error: OnError | None = None,
        headers: bool = False,
        timestamp: Function | None = None,
        on_invalid_timestamp: OnInvalidTimestamp | None = None,
        name: str | None = None,
        store: str | None = None,
    ) -> GlobalKTable: ...

    @overload
    def global_table(self, source: Topic, *, name: str | None = None, store: str | None = None) -> GlobalKTable: ...

    @overload
    def global_table(
        self,
        source: DataFrame,
        *,
        name: str,
        key: Columns,
        timestamp: str | Column | Function,
        value: Columns | None = None,
        order: str | Sequence[str] | None = None,
        store: str | None = None,
    ) -> GlobalKTable: ...

    @overload
    def global_table(self, source: Rows, *, name: str, store: str | None = None) -> GlobalKTable: ...

    @parameters_of(stream)
    def global_table(
        self,
        source: str | Topic | Rows | DataFrame,
        *,
        name: str | None = None,
        key: Columns | Format | None = None,
        value: Columns | Format | None = None,
        on_undecodable: OnUndecodable | None = None,
        on_error: OnError | None = None,
        headers: bool | None = None,
        timestamp: str | Column | Function | None = None,
        on_invalid_timestamp: OnInvalidTimestamp | None = None,
        order: str | Sequence[str] | None = None,
        store: str | None = None,
    ) -> GlobalKTable:
        """A GlobalKTable of a Kafka topic or a DataFrame: a table that every task has a copy of.

        At every start it is read to its end before the first record of a stream; later updates come before
        everything else of their batch. It can be looked up by any key and does nothing of its own accord.

        Parameters
        ----------
        source : a topic's name, a `Topic`, a DataFrame (streaming or static), or `Rows` of one.
        store : queryable name of the table.

        Raises
        ------
        TopologyError : no such source, format, column or schema, or the name is taken.

        Other parameters as for `StreamsBuilder.stream`.
        """
        options: dict[str, Any] = {"on_undecodable": on_undecodable, "on_error": on_error, "headers": headers}
        options |= {"key": key, "value": value, "timestamp": timestamp, "order": order}
        options |= {"on_invalid_timestamp": on_invalid_timestamp}
        return GlobalKTable(self._construction, self._inputs.add(source, "global", name, store, options))
