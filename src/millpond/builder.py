"""StreamsBuilder: where a topology is begun, with its inputs, and where it ends, built.

Builder and handles add nodes to one `Construction`; `build` turns its list into an immutable plan, rewrites
that into levels, and hands both to a Topology.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, overload

from millpond._plan.construction import Construction
from millpond._plan.dead_letters import with_dead_letters
from millpond._plan.inputs import Inputs
from millpond._plan.policies import check_named
from millpond.errors import TopologyError
from millpond.functions import FunctionBackend
from millpond.generation import Generation
from millpond.global_ktable import GlobalKTable
from millpond.io.bootstrap import Backfill, Snapshot
from millpond.io.dataframes import Rows
from millpond.io.formats import Format, FormatName
from millpond.io.topics import OnDrop, OnError, OnUndecodable, Policies, Topic, Within, check_policy
from millpond.kstream import KStream
from millpond.ktable import KTable
from millpond.names import missing, public
from millpond.topology import Topology
from millpond.windows import Duration

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    Columns = str | Column | Sequence[str]
    """A column by its name, several by theirs, or a Column."""


class StreamsBuilder:
    """Writes down a topology.

    Parameters
    ----------
    application_id : names the application; part of every group and transactional id it uses.
    generation : semantics that joins follow: "current", or "spurious" (0.10.2 to 3.0), "old" (0.10.1),
        "old-0.10.0" to reproduce what earlier releases of Kafka Streams did.
    on_undecodable : what becomes of records of topics whose bytes are not of their formats, where an input does not
        say it itself: "fail" stops the query and says where they are, "skip" leaves them out and counts them,
        `mp.DeadLetter("topic")` counts them and writes them to that topic.
    on_error : the same of records for which a function raises, or that an output cannot write; "fail" stops the query.
    on_drop : what becomes of records that are late, expired or lack the key or value that an operator needs: "skip"
        counts them, as Kafka Streams does, `mp.DeadLetter("topic")` counts them and writes them to that topic.

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
        _functions: FunctionBackend | None = None,
    ) -> None:
        if not application_id or not isinstance(application_id, str):
            raise TopologyError(
                "A topology needs an application id.", given=repr(application_id), hint='StreamsBuilder("orders")'
            )
        self.application_id = application_id
        self.generation = Generation.of(generation)
        self._construction = Construction(application_id, self.generation, _functions or _spark_functions())
        for name, given in {"on_undecodable": on_undecodable, "on_error": on_error, "on_drop": on_drop}.items():
            check_policy(name, given)
        self._inputs = Inputs(self._construction, on_undecodable, on_error)
        self._within, self._named = Within(on_error, on_drop), dict[str, Policies]()

    def __repr__(self) -> str:
        return f"StreamsBuilder({self.application_id!r}, inputs={sorted(self._inputs.names)})"

    if not TYPE_CHECKING:  # for a type checker a name that is not there is a mistake

        def __getattr__(self, name: str) -> Any:
            raise missing("StreamsBuilder", public(StreamsBuilder), name)

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
        name: str | None = None,
        bootstrap: Backfill | None = None,
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
        timestamp: str | Column,
        value: Columns | None = None,
        order: str | Sequence[str] | None = None,
        bootstrap: Backfill | None = None,
    ) -> KStream: ...

    @overload
    def stream(self, source: Rows, *, name: str, bootstrap: Backfill | None = None) -> KStream: ...

    def stream(
        self,
        source: str | Topic | Rows | DataFrame,
        *,
        name: str | None = None,
        key: Columns | Format | None = None,
        value: Columns | Format | None = None,
        on_undecodable: OnUndecodable | None = None,
        on_error: OnError | None = None,
        headers: bool | None = None,
        timestamp: str | Column | None = None,
        order: str | Sequence[str] | None = None,
        bootstrap: Backfill | None = None,
    ) -> KStream:
        """A KStream of a Kafka topic or a DataFrame.

        Parameters
        ----------
        source : a topic's name, a `Topic`, a DataFrame (streaming or static), or `Rows` of one.
            All rows of a streaming one's batch come through one task, which puts them in order, above 256 MiB through
            a file: limit its batches where it is read (`maxFilesPerTrigger`, `maxBytesPerTrigger` of files, ...).
        name : the input's name, to the test driver and in describe(); default the topic's, needed for a DataFrame.
        key, value : of a topic the formats, such as "long" or mp.json("customer string"); of a DataFrame a column's
            name, several names (a struct of them) or a Column. Without `value`, the value is a struct of all columns
            that are neither key, timestamp nor order. A null value is a tombstone.
        on_undecodable : of a topic, what becomes of bytes that are not of its formats: "fail" stops the query and
            says where they are, "skip" leaves the record out and counts it, `mp.DeadLetter("topic")` counts it and
            writes it there. Default: the builder's.
        on_error : of a topic, the same of records for which a function raises before the first operator with state.
        headers : of a topic, whether records keep their headers; default False.
        timestamp : of a DataFrame, a column's name or a Column: a timestamp, or milliseconds since 1970 as a long.
        order : of a DataFrame, names of the columns that order the rows of a batch; may be left out for Parquet
            files, whose rows have an order of their own.
        bootstrap : the input's history, a `Backfill`, and from where its topic goes on.

        Raises
        ------
        TopologyError : no such source, format, column or schema, the name is taken, or the history has rows of other
            types.
        """
        options: dict[str, Any] = {"on_undecodable": on_undecodable, "on_error": on_error, "headers": headers}
        options |= {"key": key, "value": value, "timestamp": timestamp, "order": order}
        node = self._inputs.add(source, "stream", name, None, options, bootstrap=bootstrap)
        return KStream(self._construction, node)

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
        name: str | None = None,
        store: str | None = None,
        history: Duration | None = None,
        bootstrap: Snapshot | Backfill | None = None,
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
    ) -> KTable: ...

    @overload
    def table(
        self,
        source: DataFrame,
        *,
        name: str,
        key: Columns,
        timestamp: str | Column,
        value: Columns | None = None,
        order: str | Sequence[str] | None = None,
        store: str | None = None,
        history: Duration | None = None,
        bootstrap: Snapshot | Backfill | None = None,
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
    ) -> KTable: ...

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
        timestamp: str | Column | None = None,
        order: str | Sequence[str] | None = None,
        store: str | None = None,
        history: Duration | None = None,
        bootstrap: Snapshot | Backfill | None = None,
    ) -> KTable:
        """A KTable of a Kafka topic or a DataFrame: the latest value of each key; null deletes.

        Parameters
        ----------
        source : a topic's name, a `Topic`, a DataFrame (streaming or static), or `Rows` of one.
            All rows of a streaming one's batch come through one task, which puts them in order, above 256 MiB through
            a file: limit its batches where it is read (`maxFilesPerTrigger`, `maxBytesPerTrigger` of files, ...).
        name : the input's name, to the test driver and in describe(); default the topic's, needed for a DataFrame.
        key, value : of a topic the formats, such as "long" or mp.json("customer string"); of a DataFrame a column's
            name, several names (a struct of them) or a Column. Without `value`, the value is a struct of all columns
            that are neither key, timestamp nor order. A null value is a tombstone.
        on_undecodable : of a topic, what becomes of bytes that are not of its formats: "fail" stops the query and
            says where they are, "skip" leaves the record out and counts it, `mp.DeadLetter("topic")` counts it and
            writes it there. Default: the builder's.
        on_error : of a topic, the same of records for which a function raises before the first operator with state.
        headers : of a topic, whether records keep their headers; default False.
        timestamp : of a DataFrame, a column's name or a Column: a timestamp, or milliseconds since 1970 as a long.
        order : of a DataFrame, names of the columns that order the rows of a batch; may be left out for Parquet
            files, whose rows have an order of their own.
        store : queryable name of the table.
        history : for how long the table remembers its past, such as "1 day": a versioned table (KIP-889), in which a
            stream that is joined with it finds the value of its own time. Changes that are older are dropped, counted.
        bootstrap : what the table begins with, and from where its topic goes on: a `Snapshot`, or its history, a
            `Backfill`.

        Raises
        ------
        TopologyError : no such source, format, column or schema, the name is taken, the history is no duration, or
            what it begins with has rows of other types.
        """
        options: dict[str, Any] = {"on_undecodable": on_undecodable, "on_error": on_error, "headers": headers}
        options |= {"key": key, "value": value, "timestamp": timestamp, "order": order}
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
        timestamp: str | Column,
        value: Columns | None = None,
        order: str | Sequence[str] | None = None,
        store: str | None = None,
    ) -> GlobalKTable: ...

    @overload
    def global_table(self, source: Rows, *, name: str, store: str | None = None) -> GlobalKTable: ...

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
        timestamp: str | Column | None = None,
        order: str | Sequence[str] | None = None,
        store: str | None = None,
    ) -> GlobalKTable:
        """A GlobalKTable of a Kafka topic or a DataFrame: a table that every shard has a copy of.

        At every start it is read to its end before the first record of a stream; later updates come before
        everything else of their batch. It can be looked up by any key and does nothing of its own accord.

        Parameters
        ----------
        source : a topic's name, a `Topic`, a DataFrame (streaming or static), or `Rows` of one.
        name : the input's name, to the test driver and in describe(); default the topic's, needed for a DataFrame.
        key, value : of a topic the formats, such as "long" or mp.json("customer string"); of a DataFrame a column's
            name, several names (a struct of them) or a Column. Without `value`, the value is a struct of all columns
            that are neither key, timestamp nor order. A null value is a tombstone.
        on_undecodable : of a topic, what becomes of bytes that are not of its formats: "fail" stops the query and
            says where they are, "skip" leaves the record out and counts it, `mp.DeadLetter("topic")` counts it and
            writes it there. Default: the builder's.
        on_error : of a topic, the same of records for which a function raises before the first operator with state.
        headers : of a topic, whether records keep their headers; default False.
        timestamp : of a DataFrame, a column's name or a Column: a timestamp, or milliseconds since 1970 as a long.
        order : of a DataFrame, names of the columns that order the rows of a batch; may be left out for Parquet
            files, whose rows have an order of their own.
        store : queryable name of the table.

        Raises
        ------
        TopologyError : no such source, format, column or schema, or the name is taken.
        """
        options: dict[str, Any] = {"on_undecodable": on_undecodable, "on_error": on_error, "headers": headers}
        options |= {"key": key, "value": value, "timestamp": timestamp, "order": order}
        return GlobalKTable(self._construction, self._inputs.add(source, "global", name, store, options))

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
        TopologyError : there is no such policy, or the name has been given policies before. That there is no such
            operator or output is said by `build`.

        Examples
        --------
        >>> builder = StreamsBuilder("visits", on_error="skip")
        >>> visits = builder.stream("visits", key="string", value="string")
        >>> visits.group_by_key().count(name="counts").to_stream().to("counted")
        >>> builder.policies("counts", on_error="fail", on_drop="skip")
        """
        self._construction.check_open(f"policies({name!r}, ...)")
        made = Policies(name, on_error, on_drop)
        if name in self._named:
            raise TopologyError(
                "One operator is given policies twice.",
                given=repr(name),
                hint=f"Say both at once: policies({name!r}, on_error=..., on_drop=...)",
            )
        self._named[name] = made

    def build(self) -> Topology:
        """The topology as written so far, checked and rewritten into levels.

        Raises
        ------
        TopologyError : it reads nothing, or has policies for an operator or output that it has not.
        """
        within = replace(self._within, named=tuple(self._named.values()))
        plan = replace(self._construction.plan(), within=within)
        if not plan.sources:
            raise TopologyError("The topology reads nothing.", hint="Begin with builder.stream or builder.table.")
        check_named(plan)
        functions = self._construction.functions
        return Topology(with_dead_letters(plan, functions), functions)


def _spark_functions() -> FunctionBackend:
    from millpond._spark.functions.functions import ColumnFunctions

    return ColumnFunctions()
