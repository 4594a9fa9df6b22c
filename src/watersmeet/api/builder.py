"""The builder: the inputs of a topology, streams, tables and global tables of topics and of DataFrames.

Overloads say which options go with which source; that they do is checked again when the node is made
(`_plan.construction`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, TypedDict, Unpack, overload

from watersmeet._plan.construction import Construction, Inputs, check_fed_back
from watersmeet._plan.explain import by_node, check_named
from watersmeet._plan.logical import with_dead_letters
from watersmeet._plan.nodes import Node
from watersmeet.api.handle import parameters_of
from watersmeet.api.processing import completed
from watersmeet.api.streams import KStream, Since
from watersmeet.api.tables import GlobalKTable, KTable
from watersmeet.api.topology import Topology
from watersmeet.errors import Generation, TopologyError, WrongCall
from watersmeet.functions import Function, FunctionBackend
from watersmeet.hints import answering, check_called, public
from watersmeet.io.formats import Format, FormatName
from watersmeet.io.inputs import Changes, Rows
from watersmeet.io.kafka import StartingOffsets, TopicPattern, are_topics, check_topics
from watersmeet.io.policies import (
    USUAL_BEHIND_INPUTS,
    OnDrop,
    OnError,
    OnInvalidTimestamp,
    OnUndecodable,
    OperatorPolicies,
    Policies,
    named_policies,
    topology_policies,
)
from watersmeet.io.topics import Backfill, Snapshot, Topic
from watersmeet.windows import Duration

__all__ = ["StreamsBuilder"]


if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    Columns = str | Column | Sequence[str]
    """A column by its name, several by theirs, or a Column."""


class TopicFormats(TypedDict):
    """The formats of a topic's records."""

    key: Format | FormatName
    value: Format | FormatName


class GlobalInputOptions(TopicFormats, total=False):
    """How a topic is read that is read to its end at each start."""

    on_undecodable: OnUndecodable | None
    on_error: OnError | None
    headers: bool
    timestamp: Function | None
    on_invalid_timestamp: OnInvalidTimestamp | None
    name: str | None


class InputOptions(GlobalInputOptions, total=False):
    """How a topic is read."""

    starting_offsets: StartingOffsets | None


class FrameColumns(TypedDict):
    """The columns that a row of a DataFrame must have."""

    name: str
    key: Columns
    timestamp: str | Column | Function


class FrameOptions(FrameColumns, total=False):
    """How a DataFrame is read."""

    value: Columns | None
    order: str | Sequence[str] | None
    partitioned: bool


class TableOptions(TypedDict, total=False):
    """How a table is stored."""

    store: str | None
    history: Duration | None
    bootstrap: Snapshot | Backfill | None
    ttl: Duration | None
    since: Since


class TopicTableOptions(InputOptions, TableOptions, total=False):
    """How a topic is read and stored."""


class FrameTableOptions(FrameOptions, TableOptions, total=False):
    """How a DataFrame is read and stored."""


@answering
class InputReading:
    """A builder's methods that read inputs."""

    _construction: Construction
    _inputs: Inputs

    @overload
    def stream(self, source: str, *, bootstrap: Backfill | None = None, **options: Unpack[InputOptions]) -> KStream: ...

    @overload
    def stream(
        self, source: list[str] | tuple[str, ...] | TopicPattern, **options: Unpack[InputOptions]
    ) -> KStream: ...

    @overload
    def stream(self, source: Topic, *, name: str | None = None, bootstrap: Backfill | None = None) -> KStream: ...

    @overload
    def stream(
        self, source: DataFrame, *, bootstrap: Backfill | None = None, **options: Unpack[FrameOptions]
    ) -> KStream: ...

    @overload
    def stream(self, source: Rows, *, name: str, bootstrap: Backfill | None = None) -> KStream: ...

    @overload
    def stream(self, source: Changes, *, name: str | None = None) -> KStream: ...

    def stream(self, source: Any, **options: Any) -> KStream:
        """A KStream of a Kafka topic or a DataFrame.

        Parameters
        ----------
        source : a topic's name, several names (all with the same options; functions that see the record tell them
            apart by `record["topic"]`), a `TopicPattern` of names, a `Topic`, a DataFrame (streaming or static), `Rows`
            of one, or the `Changes` of a table of Delta or Iceberg. All rows of a streaming one's batch come through
            one task, which puts them in order, above 256 MiB through a file: limit its batches where it is read
            (`maxFilesPerTrigger`, `maxBytesPerTrigger` of files, ...).
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
        partitioned : of a DataFrame, whether this order counts for the rows of each key alone; see `Rows`.
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
        if are_topics(source):
            return self._of_topics(check_topics(source, options.pop("bootstrap", None)), options)
        return KStream(self._construction, self._added(source, "stream", options))

    def _added(self, source: Any, kind: Any, options: dict[str, Any]) -> Node:
        """The node of an input; changes of a table are looked up in Spark's catalogs."""
        if isinstance(source, Changes):
            from watersmeet._spark.sources.changes import opened

            name = {"name": source.table} if isinstance(source.table, str) else {}
            source, snapshot = opened(source, kind)
            options = {**name, **({"bootstrap": snapshot} if snapshot is not None else {}), **options}
        return self._inputs.add(source, kind, **options)

    def _of_topics(self, topics: Sequence[str], options: dict[str, Any]) -> KStream:
        """The records of several topics, each an input of its own name."""
        name = options.get("name") if len(topics) == 1 else options.pop("name", None)
        nodes = [self._inputs.add(topic, "stream", **options) for topic in topics]
        first, *remaining = (KStream(self._construction, node) for node in nodes)
        for number, stream in enumerate(remaining, start=1):
            first = first.merge(stream, name=name if number == len(remaining) else None)
        return first

    @overload
    def table(self, source: str, **options: Unpack[TopicTableOptions]) -> KTable: ...

    @overload
    def table(self, source: Topic, *, name: str | None = None, **options: Unpack[TableOptions]) -> KTable: ...

    @overload
    def table(self, source: DataFrame, **options: Unpack[FrameTableOptions]) -> KTable: ...

    @overload
    def table(self, source: Rows, *, name: str, **options: Unpack[TableOptions]) -> KTable: ...

    @overload
    def table(self, source: Changes, *, name: str | None = None, **options: Unpack[TableOptions]) -> KTable: ...

    @parameters_of(stream)
    def table(self, source: Any, *, ttl: Duration | None = None, since: Since = "update", **options: Any) -> KTable:
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
        form = getattr(source, "value", options.get("value"))
        completes = isinstance(form, Format) and form.takes_stored
        if (completes or ttl is not None or since != "update") and not isinstance(source, TopicPattern):
            store, history = options.pop("store", None), options.pop("history", None)
            node = self._added(source, "table" if completes else "stream", options)
            stream = KStream(self._construction, completed(self._construction, node) if completes else node)
            return stream.to_table(store=store, history=history, ttl=ttl, since=since)
        return KTable(self._construction, self._added(source, "table", options))

    @overload
    def global_table(
        self, source: str, *, store: str | None = None, **options: Unpack[GlobalInputOptions]
    ) -> GlobalKTable: ...

    @overload
    def global_table(self, source: Topic, *, name: str | None = None, store: str | None = None) -> GlobalKTable: ...

    @overload
    def global_table(
        self, source: DataFrame, *, store: str | None = None, **options: Unpack[FrameOptions]
    ) -> GlobalKTable: ...

    @overload
    def global_table(self, source: Rows, *, name: str, store: str | None = None) -> GlobalKTable: ...

    @overload
    def global_table(self, source: Changes, *, name: str | None = None, store: str | None = None) -> GlobalKTable: ...

    @parameters_of(stream)
    def global_table(self, source: Any, **options: Any) -> GlobalKTable:
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
        return GlobalKTable(self._construction, self._added(source, "global", options))


# StreamsBuilder: where a topology is begun, with its policies, and where it ends, built.
#
# Builder and handles add nodes to one `Construction`; `build` turns its list into an immutable plan, rewrites
# that into levels, and hands both to a Topology.


@answering
class StreamsBuilder(InputReading):
    """Writes down a topology.

    Parameters
    ----------
    application_id : names the application; part of every group and transactional id it uses.
    generation : semantics that joins follow: "current", or "spurious" (0.10.2 to 3.0), "old" (0.10.1),
        "old-0.10.0" to reproduce what earlier releases of Kafka Streams did.
    on_undecodable : the policy for records of topics with bytes that their formats cannot decode, if an input has none
        of its own: "fail" stops the query and says where they are, "skip" leaves them out and counts them,
        `wm.DeadLetter("topic")` counts them and writes them to that topic.
    on_error : the same of records for which a function raises, or that an output cannot write; "fail" stops the query.
    on_drop : what becomes of records that are late, expired or lack the key or value that an operator needs: "skip"
        counts them, as Kafka Streams does, `wm.DeadLetter("topic")` counts them and writes them to that topic.
    processor_wrapper : a function of an operator's name and its processor, which gives the processor to take in its
        place: a class, or a function that makes an object (Kafka Streams' `processor.wrapper.class`, KIP-1112). It is
        called for each `process`, `process_values` and `transform_values`.

    Examples
    --------
    >>> builder = StreamsBuilder("orders")
    >>> orders = builder.table("orders", key="string", value="string")
    """

    def __init__(
        self,
        application_id: str,
        *,
        generation: str | Generation = Generation.CURRENT,
        on_undecodable: OnUndecodable = "fail",
        on_error: OnError = "fail",
        on_drop: OnDrop = "skip",
        processor_wrapper: Callable[[str, Callable[[], Any]], Callable[[], Any]] | None = None,
        _functions: FunctionBackend | None = None,
    ) -> None:
        if not application_id or not isinstance(application_id, str):
            raise TopologyError(
                f"A topology needs an application id, a text: {application_id!r:.80}.",
                hint="For example wm.StreamsBuilder('orders').",
            )
        self.application_id = application_id
        self.generation = Generation.of(generation)
        self._construction = Construction(application_id, self.generation, _functions or _spark_functions())
        if processor_wrapper is not None:
            check_called(
                processor_wrapper, "processor_wrapper", ("name", "processor"), "def timed(name, processor): ..."
            )
        self._construction.processor_wrapper = processor_wrapper
        policies = topology_policies(on_undecodable, on_error, on_drop)
        self._inputs = Inputs(self._construction, policies)
        self._operator_policies = OperatorPolicies(policies.only(USUAL_BEHIND_INPUTS))

    def __repr__(self) -> str:
        return f"StreamsBuilder({self.application_id!r}, inputs={sorted(self._inputs.names)})"

    def policies(self, name: str, *, on_error: OnError | None = None, on_drop: OnDrop | None = None) -> None:
        """Say of one operator or output what becomes of records that end there, in place of what the builder says.

        Parameters
        ----------
        name : the operator's or the output's, as `name=` gave it, or `describe` and `query.drops` have it.
        on_error : of an operator, what becomes of its results for which a function behind it raises; of an output that
            is a topic, of rows that its formats do not write.
        on_drop : what becomes of records that the operator drops.

        Raises
        ------
        TopologyError : unknown policy, or the name has policies already. `build` raises for an unknown operator or
            output.

        Examples
        --------
        >>> builder = StreamsBuilder("visits", on_error="skip")
        >>> visits = builder.stream("visits", key="string", value="string")
        >>> visits.group_by_key().count(name="counts").to_stream().to("counted")
        >>> builder.policies("counts", on_error="fail", on_drop="skip")
        """
        self._construction.check_open(f"policies({name!r}, ...)")
        self._construction.set_policies(name, named_policies(name, Policies(on_error=on_error, on_drop=on_drop)))

    def sql(self, text: str, **handles: Any) -> Any:
        """Run statements of SQL upon this builder (docs/sql.md).

        Parameters
        ----------
        text : statements, with semicolons between them. They can name tables and views of earlier calls.
        handles : streams and tables of this builder that the text may name, by name.

        Returns
        -------
        KTable, KStream, ... : the handle of the last SELECT, with structs of its columns as values; of an EXPLAIN what
            it says; None: there is none.

        Raises
        ------
        SqlError : a statement cannot be a topology.
        ConfigError : sqlglot is missing.

        Examples
        --------
        >>> builder = StreamsBuilder("orders")
        >>> orders = builder.table("orders", key="long", value=wm.json("customer string, n int"))
        >>> builder.sql("SELECT customer, SUM(n) AS n FROM orders GROUP BY customer", orders=orders).value_type
        StructType([StructField('customer', StringType(), True), StructField('n', LongType(), True)])
        """
        return _SQL[0](self, text, handles)

    def build(self) -> Topology:
        """The topology as written so far, checked and rewritten into levels.

        Raises
        ------
        TopologyError : it reads nothing, or has policies for an operator or output that it has not. That it writes
            nothing is said at a start: a test driver, or a look at its stores, needs no output.
        ConfigError : `on_error` tolerates errors of a function that Spark evaluates, which still fails the query.
        """
        plan = self._construction.plan()
        plan = replace(
            plan, within=replace(self._operator_policies, named=by_node(plan, self._construction.named_policies))
        )
        if not plan.sources:
            raise TopologyError("The topology reads nothing.", hint="Begin with builder.stream or builder.table.")
        check_named(plan)
        check_fed_back(plan.nodes)
        functions = self._construction.functions
        topology = Topology(with_dead_letters(plan, functions), functions)
        functions.check_on_error(topology.physical)
        return topology


def _refuse_without_call(*_: Any, **options: Any) -> NoReturn:
    hint = "builder.build().start(spark, checkpoint=...): build() makes the topology."
    raise WrongCall("builder.build is a method: the parentheses of builder.build() are left out.", hint=hint)


for _name in public(Topology):
    setattr(StreamsBuilder.build, _name, _refuse_without_call)


_SQL: list[Callable[[StreamsBuilder, str, dict[str, Any]], Any]] = []


def read_sql_by(front: Callable[[StreamsBuilder, str, dict[str, Any]], Any]) -> None:
    """Registers what reads the statements of `StreamsBuilder.sql`: it stands above the handles."""
    _SQL[:] = [front]


@contextmanager
def names_after(builder: StreamsBuilder, prefix: str) -> Iterator[None]:
    """Within the context, generated names begin with this prefix: in SQL, with the name that a statement declares."""
    prefixes = builder._construction.prefixes
    prefixes.append(prefix)
    try:
        yield
    finally:
        prefixes.pop()


def _spark_functions() -> FunctionBackend:
    from watersmeet._spark.functions import ColumnFunctions

    return ColumnFunctions()
