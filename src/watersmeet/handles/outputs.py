"""Outputs of streams and tables: the methods that write them out, and the node that they attach.

Handle layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

from watersmeet._plan.nodes import Node, RepartitionNode, Shape, SinkNode, ToStreamNode
from watersmeet.errors import TopologyError
from watersmeet.functions import Function
from watersmeet.handles import factory as made
from watersmeet.handles.beside_values import placed
from watersmeet.handles.chosen_topics import chosen
from watersmeet.handles.handle import Handle
from watersmeet.handles.shared_parameters import parameters_of
from watersmeet.handles.side import Side
from watersmeet.io.databases import CatalogTable, DatabaseTable
from watersmeet.io.dataframes import ForeachBatch, Writer
from watersmeet.io.formats import Format, FormatName
from watersmeet.io.origins import sink_of
from watersmeet.io.outputs import Output
from watersmeet.io.topics import Delivery, OnInvalidPartition, TopicSink
from watersmeet.names import answering

if TYPE_CHECKING:
    from watersmeet.handles.kstream import KStream


@answering
class StreamOutputs(Handle):
    """The outputs of a stream: part of `KStream`."""

    @overload
    def to(
        self,
        target: str,
        *,
        key: Format | FormatName | None = None,
        value: Format | FormatName | None = None,
        delivery: Delivery = "exactly_once",
        partitioner: Function | None = None,
        on_invalid_partition: OnInvalidPartition | None = None,
        feedback: bool | None = None,
        name: str | None = None,
    ) -> None: ...

    @overload
    def to(self, target: TopicSink, *, name: str | None = None) -> None: ...

    @overload
    def to(
        self,
        target: Function,
        *,
        topics: Sequence[str],
        key: Format | FormatName | None = None,
        value: Format | FormatName | None = None,
        delivery: Delivery = "exactly_once",
        partitioner: Function | None = None,
        on_invalid_partition: OnInvalidPartition | None = None,
        feedback: bool | None = None,
        name: str | None = None,
    ) -> None: ...

    @overload
    def to(self, target: Writer | ForeachBatch | Output, *, name: str) -> None: ...

    def to(
        self,
        target: str | TopicSink | Writer | ForeachBatch | Output | Function,
        *,
        topics: Sequence[str] | None = None,
        key: Format | FormatName | None = None,
        value: Format | FormatName | None = None,
        delivery: Delivery | None = None,
        partitioner: Function | None = None,
        on_invalid_partition: OnInvalidPartition | None = None,
        feedback: bool | None = None,
        name: str | None = None,
    ) -> None:
        """Write the stream out.

        Parameters
        ----------
        target : a topic's name, a `TopicSink`, a `Writer`, a `ForeachBatch` or an `Output` of your own; or, with
            `topics`, a Column function of (value) or (key, value), and of the `record` behind them, that gives the name
            of each record's topic.
        topics : the topics that such a function may name; each is an output of its name. For a record for which it
            names another one, or none, it raises: what becomes of it `on_error` says.
        key, value : of a topic, the formats; left out, they follow from the types: strings, ints, longs and bytes
            as Kafka's serializers write them, keys of one-to-many joins as KIP-213 has them, anything else as JSON.
        delivery : of a topic, "exactly_once" (a reader with `read_committed` sees each record once; default) or
            "at_least_once".
        partitioner, on_invalid_partition : of a topic, which partition each record goes to, as `wm.TopicSink` has them;
            left out, the key decides.
        feedback : of a topic, whether the topology reads it, too: what is written comes back in a later batch.
        name : the output's name, to the test driver and in describe(); default the topic's, needed for the others.

        Raises
        ------
        TopologyError : no such target or format, or the name is taken.

        Examples
        --------
        >>> orders.to("all-orders", value="json")
        >>> to = lambda order: F.concat(F.lit("orders-"), order["customer"])
        >>> orders.to(to, topics=["orders-ann", "orders-bob"])
        """
        more = {"partitioner": partitioner, "on_invalid_partition": on_invalid_partition, "feedback": feedback}
        options = {"key": key, "value": value, "delivery": delivery, **more}
        if topics is None:
            written(self._side, target, options, name)
            return
        for topic, branch in chosen(self._side, target, topics, name).items():
            written(branch, topic, options, None)

    @overload
    def through(
        self,
        target: str,
        *,
        key: Format | FormatName | None = None,
        value: Format | FormatName | None = None,
        delivery: Delivery = "exactly_once",
        name: str | None = None,
    ) -> KStream: ...

    @overload
    def through(self, target: TopicSink, *, name: str | None = None) -> KStream: ...

    @overload
    def through(self, target: Writer | ForeachBatch | Output, *, name: str) -> KStream: ...

    @parameters_of(to)
    def through(
        self,
        target: str | TopicSink | Writer | ForeachBatch | Output,
        *,
        key: Format | FormatName | None = None,
        value: Format | FormatName | None = None,
        delivery: Delivery | None = None,
        name: str | None = None,
    ) -> KStream:
        """Write the stream out as `to` does, and go on with it, partitioned by its key.

        Parameters as for `KStream.to`.

        Examples
        --------
        >>> results(payments.through("all-payments").filter(lambda amount: amount > 10))
        [(1, 30.0)]
        """
        written(self._side, target, {"key": key, "value": value, "delivery": delivery}, name)
        return self.repartition(name=None if name is None else f"{name}-repartition")

    def repartition(self, *, name: str | None = None) -> KStream:
        """The records at the shard of their key; null keys end here unless a join below takes them.

        Examples
        --------
        >>> results(payments.repartition())
        [(1, 30.0), (7, 8.0)]
        """
        node = RepartitionNode(self._construction.name(name, RepartitionNode.stem), (self.name,), self._node.shape)
        return made.stream(self._construction, self._attach(node))


@answering
class TableOutputs(Handle):
    """The outputs of a table: part of `KTable`."""

    @overload
    def to(
        self,
        target: str,
        *,
        key: Format | FormatName | None = None,
        value: Format | FormatName | None = None,
        delivery: Delivery = "exactly_once",
        partitioner: Function | None = None,
        on_invalid_partition: OnInvalidPartition | None = None,
        feedback: bool | None = None,
        name: str | None = None,
    ) -> None: ...

    @overload
    def to(self, target: TopicSink | DatabaseTable | CatalogTable, *, name: str | None = None) -> None: ...

    @overload
    def to(self, target: Writer | ForeachBatch | Output, *, name: str) -> None: ...

    @parameters_of(StreamOutputs.to)
    def to(
        self,
        target: str | TopicSink | DatabaseTable | CatalogTable | Writer | ForeachBatch | Output,
        *,
        key: Format | FormatName | None = None,
        value: Format | FormatName | None = None,
        delivery: Delivery | None = None,
        partitioner: Function | None = None,
        on_invalid_partition: OnInvalidPartition | None = None,
        feedback: bool | None = None,
        name: str | None = None,
    ) -> None:
        """Write the changes of the table out; tombstones are records with a null value. A `DatabaseTable` and a
        `CatalogTable` are kept as the table is: one row for each key.

        Parameters
        ----------
        target : a topic's name, a `TopicSink`, a `DatabaseTable`, a `CatalogTable`, a `Writer`, a `ForeachBatch` or an
            `Output` of your own.
        name : the output's name, to the test driver and in describe(); default the topic's or the table's, needed
            for the others.

        Other parameters as for `KStream.to`.

        Examples
        --------
        >>> customers.to("customers-as-json", value="json")
        >>> customers.to(wm.DatabaseTable("sqlite:////data/shop.db", table="customers", key="name_key", create=True))
        """
        more = {"partitioner": partitioner, "on_invalid_partition": on_invalid_partition, "feedback": feedback}
        written(self._side, target, {"key": key, "value": value, "delivery": delivery, **more}, name)


def written(side: Side, target: Any, options: dict[str, Any], name: str | None) -> Node:
    """The output of a stream, or of the changes of a table, attached.

    Parameters
    ----------
    options : of a topic; those that are None have not been given.
    name : the output's.

    Raises
    ------
    TopologyError : no such target or format, or the name is taken.
    """
    if side.kind == "stream":
        _refuse_table(side, target)
    else:
        side = Side(side.construction, changes_of(side, None))
    construction = side.construction
    sink = sink_of(target, {option: given for option, given in options.items() if given is not None})
    sink.check_types(side.functions, *side.types)
    output = name or sink.default_name
    if output is None:
        raise TopologyError(
            f"The output {sink!r:.120} has no name of its own: name={name!r}.", hint="Give it one: to(..., name=...)."
        )
    called = construction.name(name, f"to-{output}") if name is None else name
    node = SinkNode(called, (side.name,), side.node.shape, output=output, target=sink)
    return construction.add(placed(side, node) if sink.is_placed else node)


def changes_of(side: Side, name: str | None) -> Node:
    """The changes of a table as a stream: its node, attached."""
    shape = Shape("stream", side.key_type, side.value_type)
    return side.construction.add(ToStreamNode(side.construction.name(name, ToStreamNode.stem), (side.name,), shape))


def keeps_rows(target: Any) -> bool:
    """Whether what is given as an output keeps a row for each key."""
    return bool(getattr(target, "keeps_rows", False))


def _refuse_table(stream: Side, target: Any) -> None:
    """Raise where the records of a stream are to be kept as a table."""
    if keeps_rows(target):
        raise TopologyError(
            f"A stream cannot be written to {target!r:.120}, which holds a table: {stream.called}.",
            hint="Make a table of it first, which keeps the latest record of each key: stream.to_table().to(...); "
            "or write the stream's own table.",
        )
