"""StreamsBuilder: where a topology is begun, with its inputs, and where it ends, built.

Builder and handles add nodes to one `Construction`; `build` turns its list into an immutable plan, rewrites
that into levels, and hands both to a Topology.
"""

from __future__ import annotations

from typing import Any

from millpond._plan.construction import Construction
from millpond._plan.nodes import Node, Shape, Source
from millpond.errors import TopologyError
from millpond.functions import FunctionBackend
from millpond.generation import Generation
from millpond.global_ktable import GlobalKTable
from millpond.kstream import KStream
from millpond.ktable import KTable
from millpond.origins import default_name, origin_of
from millpond.topology import Topology


class StreamsBuilder:
    """Writes down a topology.

    Parameters
    ----------
    application_id : names the application; part of every group and transactional id it uses.
    generation : semantics that joins follow: "current", or "spurious" (0.10.2 to 3.0), "old" (0.10.1),
        "old-0.10.0" to reproduce what earlier releases of Kafka Streams did.

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
        _functions: FunctionBackend | None = None,
    ) -> None:
        if not application_id or not isinstance(application_id, str):
            raise TopologyError("A topology needs an application id.", given=repr(application_id))
        self.application_id = application_id
        self.generation = Generation.of(generation)
        self._construction = Construction(application_id, self.generation, _functions or _spark_functions())
        self._inputs: set[str] = set()

    def stream(self, source: Any, *, name: str | None = None, **options: Any) -> KStream:
        """A KStream of a Kafka topic or a DataFrame.

        Parameters
        ----------
        source : a topic's name, a `Topic`, a `Rows`, or a DataFrame.
        name : the input's name, to the test driver and in describe(); needed for a DataFrame.
        options : of a topic: key=, value= (formats), on_undecodable=, headers=; of a DataFrame: key=,
            value=, timestamp=, order= (columns). See `Topic` and `Rows`.
        """
        return KStream(self._construction, self._source(source, "stream", name, None, options))

    def table(self, source: Any, *, name: str | None = None, store: str | None = None, **options: Any) -> KTable:
        """A KTable of a Kafka topic or a DataFrame: the latest value of each key; null deletes.

        Parameters
        ----------
        source, name, options : as for `stream`.
        store : queryable name of the table.
        """
        return KTable(self._construction, self._source(source, "table", name, store, options))

    def global_table(
        self, source: Any, *, name: str | None = None, store: str | None = None, **options: Any
    ) -> GlobalKTable:
        """A GlobalKTable of a Kafka topic or a DataFrame: a table that every shard has a copy of.

        At every start it is read to its end before the first record of a stream; later updates come before
        everything else of their batch. It can be looked up by any key and does nothing of its own accord.

        Parameters
        ----------
        source, name, options : as for `stream`.
        store : queryable name of the table.
        """
        return GlobalKTable(self._construction, self._source(source, "global", name, store, options))

    def build(self) -> Topology:
        """The topology as written so far, checked and rewritten into levels."""
        plan = self._construction.plan()
        if not plan.sources:
            raise TopologyError("The topology reads nothing.", hint="Begin with builder.stream or builder.table.")
        return Topology(plan, self._construction.functions)

    def _source(self, source: Any, kind: Any, name: str | None, store: str | None, options: dict[str, Any]) -> Node:
        origin = origin_of(source, options)
        name = name or default_name(origin)
        if name is None:
            raise TopologyError(
                "A DataFrame has no name of its own.",
                hint="Give it one: builder.stream(frame, name=..., ...).",
            )
        if name in self._inputs:
            raise TopologyError(
                "Two inputs have one name.",
                given=repr(name),
                hint="Read it once and use the handle twice, or give one of them name=...",
            )
        key, value = self._construction.functions.source_types(origin, name)
        node = Source(name, (), Shape(kind, key, value), input=name, origin=origin, store=store)
        self._construction.add(node)
        self._inputs.add(name)
        return node


def _spark_functions() -> FunctionBackend:
    from millpond._spark.functions import ColumnFunctions

    return ColumnFunctions()
