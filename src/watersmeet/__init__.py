"""watersmeet: the table-and-stream model of Kafka Streams on Spark, for people who write PySpark.

Layers; imports go down only::

    session, sql, testing, cli                        the interface for the user
    api                                             the builder, streams, tables, groups and their joins, the topology
    _spark                                          the driver: frames, sources, sinks, checkpoints, queries
    _worker                                         Spark's Python workers: packing, formats, writers
    _engine                                         operators and their state, on numpy and pyarrow
    _plan                                           the meaning of a topology
    functions, aggregates, processors, io           declarations of functions, inputs and outputs
    windows, hints, errors                          windows, hints for names that are not there, errors

Example::

    import watersmeet as wm
    from pyspark.sql import functions as F

    spark = wm.session("orders")
    builder = wm.StreamsBuilder("orders")
    orders = builder.table("orders", key="long", value=wm.json("customer string, amount double"))
    payments = builder.table("payments", key="long", value=wm.json("paid double"))
    joined = orders.join(
        payments,
        lambda order, payment: F.struct(order["customer"], (order["amount"] - payment["paid"]).alias("open")),
    )
    joined.to("open-orders")
    topology = builder.build()
    print(topology.describe())
    query = topology.start(spark, checkpoint="/data/orders", kafka=wm.Kafka("localhost:9092"))
"""

from typing import TYPE_CHECKING, Any

import watersmeet.versions  # noqa: F401  # isort: skip  (asks for PySpark's version before anything needs it)

from watersmeet._plan.evolve import Change
from watersmeet._spark.functions import window_text
from watersmeet._spark.outputs.latest import latest
from watersmeet._spark.serving.client import ServedRow, ServedTable, TableChanged, TableClient, batch_of, connect
from watersmeet._spark.serving.server import TableServer
from watersmeet._spark.stores.read import Store, read_state, stores
from watersmeet.aggregates.collections import collect_list, collect_set, count_distinct, last_k, mode, percentile, top_k
from watersmeet.aggregates.extremes import bool_and, bool_or, first, last, max, max_by, min, min_by
from watersmeet.aggregates.sums import avg, count, stddev, sum
from watersmeet.aggregates.user_defined import Aggregate, python
from watersmeet.api.builder import StreamsBuilder
from watersmeet.api.grouped import (
    CogroupedKStream,
    KGroupedStream,
    KGroupedTable,
    SessionWindowedKStream,
    TimeWindowedKStream,
)
from watersmeet.api.streams import KStream
from watersmeet.api.tables import GlobalKTable, KTable, WTable
from watersmeet.api.topology import Topology, flow, plan_change, preview
from watersmeet.errors import (
    ChangedTopology,
    ConfigError,
    CorruptData,
    EncodingError,
    FunctionError,
    Generation,
    MissingName,
    SinkError,
    SourceError,
    SqlError,
    StateError,
    TopologyError,
    WatersmeetError,
    WrongCall,
)
from watersmeet.hints import missing_name
from watersmeet.io.databases import CatalogTable, DatabaseTable, History
from watersmeet.io.debezium import debezium, debezium_key
from watersmeet.io.formats import (
    Format,
    SchemaRegistry,
    avro,
    decimal,
    json,
    json_schema,
    protobuf,
    session_windowed,
    time_windowed,
)
from watersmeet.io.inputs import Changes, Rows
from watersmeet.io.kafka import Kafka, TopicPattern
from watersmeet.io.outputs import BatchInfo, ForeachBatch, Output, Writer
from watersmeet.io.policies import DeadLetter
from watersmeet.io.topics import Backfill, Snapshot, Topic, TopicSink
from watersmeet.processors import ListStore, MapStore, Processor, ValueStore
from watersmeet.session import session
from watersmeet.sql import sql
from watersmeet.windows import (
    BufferConfig,
    CalendarWindows,
    EmitStrategy,
    JoinWindows,
    SessionWindows,
    SlidingWindows,
    Suppressed,
    TimeWindows,
    UnlimitedWindows,
    previous,
)

__all__ = [
    "Aggregate",
    "Backfill",
    "BatchInfo",
    "BufferConfig",
    "CalendarWindows",
    "CatalogTable",
    "Change",
    "ChangedTopology",
    "Changes",
    "CogroupedKStream",
    "ConfigError",
    "CorruptData",
    "DatabaseTable",
    "DeadLetter",
    "EmitStrategy",
    "EncodingError",
    "ForeachBatch",
    "Format",
    "FunctionError",
    "Generation",
    "GlobalKTable",
    "History",
    "JoinWindows",
    "KGroupedStream",
    "KGroupedTable",
    "KStream",
    "KTable",
    "Kafka",
    "ListStore",
    "MapStore",
    "MissingName",
    "Output",
    "Processor",
    "Rows",
    "SchemaRegistry",
    "ServedRow",
    "ServedTable",
    "SessionWindowedKStream",
    "SessionWindows",
    "SinkError",
    "SlidingWindows",
    "Snapshot",
    "SourceError",
    "SqlError",
    "StateError",
    "Store",
    "StreamsBuilder",
    "Suppressed",
    "TableChanged",
    "TableClient",
    "TableServer",
    "TimeWindowedKStream",
    "TimeWindows",
    "Topic",
    "TopicPattern",
    "TopicSink",
    "Topology",
    "TopologyError",
    "UnlimitedWindows",
    "ValueStore",
    "WTable",
    "WatersmeetError",
    "Writer",
    "WrongCall",
    "avg",
    "avro",
    "batch_of",
    "bool_and",
    "bool_or",
    "collect_list",
    "collect_set",
    "connect",
    "count",
    "count_distinct",
    "debezium",
    "debezium_key",
    "decimal",
    "first",
    "flow",
    "json",
    "json_schema",
    "last",
    "last_k",
    "latest",
    "max",
    "max_by",
    "min",
    "min_by",
    "mode",
    "percentile",
    "plan_change",
    "preview",
    "previous",
    "protobuf",
    "python",
    "read_state",
    "session",
    "session_windowed",
    "sql",
    "stddev",
    "stores",
    "sum",
    "time_windowed",
    "top_k",
    "window_text",
]
__version__ = "0.1.0"

if not TYPE_CHECKING:  # for a type checker a name that is not there is a mistake

    def __getattr__(name: str) -> Any:
        raise missing_name("watersmeet", __all__, name)
