"""Outputs of streams and tables: the methods that write them out, and the node that they attach.

Handle layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

from watersmeet._plan.nodes import Node, RepartitionNode, Shape, SinkNode, ToStreamNode
from watersmeet.api import handle
from watersmeet.api.handle import Handle, Side, branches_by_topic, parameters_of, with_partitions
from watersmeet.errors import TopologyError
from watersmeet.functions import Function
from watersmeet.hints import answering
from watersmeet.io.databases import CatalogTable, DatabaseTable
from watersmeet.io.formats import Format, FormatName
from watersmeet.io.origins import sink_of
from watersmeet.io.outputs import ForeachBatch, Output, Writer
from watersmeet.io.topics import Delivery, OnInvalidPartition, TopicSink

if TYPE_CHECKING:
    from watersmeet.api.streams import KStream


class FormatOptions(TypedDict, total=False):
    """How a topic is written."""

    key: Format | FormatName | None
    value: Format | FormatName | None
    delivery: Delivery
    name: str | None


class TopicOptions(FormatOptions, total=False):
    """How a topic is written, and where each record goes."""

    partitioner: Function | None
    on_invalid_partition: OnInvalidPartition | None
    feedback: bool | None


@answering
class StreamOutputs(Handle):
    """The outputs of a stream: part of `KStream`."""

    @overload
    def to(self, target: str, **options: Unpack[TopicOptions]) -> None: ...

    @overload
    def to(self, target: TopicSink, *, name: str | None = None) -> None: ...

    @overload
    def to(self, target: Function, *, topics: Sequence[str], **options: Unpack[TopicOptions]) -> None: ...

    @overload
    def to(self, target: Writer | ForeachBatch | Output, *, name: str) -> None: ...

    def to(self, target: Any, *, topics: Sequence[str] | None = None, name: str | None = None, **options: Any) -> None:
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
        if topics is None:
            written(self._side, target, options, name)
            return
        for topic, branch in branches_by_topic(self._side, target, topics, name).items():
            written(branch, topic, options, None)

    @overload
    def through(self, target: str, **options: Unpack[FormatOptions]) -> KStream: ...

    @overload
    def through(self, target: TopicSink, *, name: str | None = None) -> KStream: ...

    @overload
    def through(self, target: Writer | ForeachBatch | Output, *, name: str) -> KStream: ...

    @parameters_of(to)
    def through(self, target: Any, *, name: str | None = None, **options: Any) -> KStream:
        """Write the stream out as `to` does, and go on with it, partitioned by its key.

        Parameters as for `KStream.to`.

        Examples
        --------
        >>> results(payments.through("all-payments").filter(lambda amount: amount > 10))
        [(1, 30.0)]
        """
        written(self._side, target, options, name)
        return self.repartition(name=None if name is None else f"{name}-repartition")

    def repartition(self, *, name: str | None = None) -> KStream:
        """The records at the shard of their key; null keys end here unless a join below takes them.

        Examples
        --------
        >>> results(payments.repartition())
        [(1, 30.0), (7, 8.0)]
        """
        node = RepartitionNode(self._construction.name(name, RepartitionNode.stem), (self.name,), self._node.shape)
        return handle.stream(self._construction, self._attach(node))


@answering
class TableOutputs(Handle):
    """The outputs of a table: part of `KTable`."""

    @overload
    def to(self, target: str, **options: Unpack[TopicOptions]) -> None: ...

    @overload
    def to(self, target: TopicSink | DatabaseTable | CatalogTable, *, name: str | None = None) -> None: ...

    @overload
    def to(self, target: Writer | ForeachBatch | Output, *, name: str) -> None: ...

    @parameters_of(StreamOutputs.to)
    def to(self, target: Any, *, name: str | None = None, **options: Any) -> None:
        """Write the changes of the table out; tombstones are records with a null value. A `DatabaseTable` and a
        `CatalogTable` are kept as the table is: one row for each key; a `History` with every version of a row.

        Parameters
        ----------
        target : a topic's name, a `TopicSink`, a `DatabaseTable`, a `CatalogTable`, a `History`, a `Writer`, a
            `ForeachBatch` or an `Output` of your own.
        name : the output's name, to the test driver and in describe(); default the topic's or the table's, needed
            for the others.

        Other parameters as for `KStream.to`.

        Examples
        --------
        >>> customers.to("customers-as-json", value="json")
        >>> customers.to(wm.DatabaseTable("sqlite:////data/shop.db", table="customers", key="name_key", create=True))
        """
        written(self._side, target, options, name)


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
    sink = sink_of(target, {option: value for option, value in options.items() if value is not None})
    sink.check_types(side.functions, *side.types)
    output = name or sink.default_name
    if output is None:
        raise TopologyError(
            f"The output {sink!r:.120} has no name of its own: name={name!r}.", hint="Give it one: to(..., name=...)."
        )
    node_name = construction.name(name, f"to-{output}") if name is None else name
    node = SinkNode(node_name, (side.name,), side.node.shape, output=output, target=sink)
    return construction.add(with_partitions(side, node) if sink.is_placed else node)


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
