"""watersmeet: the table-and-stream model of Kafka Streams on Spark, for people who write PySpark.

Layers; imports go down only::

    builder, topology, session, testing, cli        the interface for the user
    handles                                         KStream, KTable, WTable, groups and their joins
    _spark                                          the driver: frames, sources, sinks, checkpoints, queries
    _worker                                         Spark's Python workers: packing, formats, writers
    _engine                                         operators and their state, on numpy and pyarrow
    _plan                                           the meaning of a topology
    functions, aggregates, processors, io           declarations of functions, inputs and outputs
    windows, generation, names, errors              windows, versions of the semantics, names, errors

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

from watersmeet._plan.change.change import Change
from watersmeet._spark.functions.window_text import window_text
from watersmeet._spark.query.latest import latest
from watersmeet._spark.serving.client import ServedRow, ServedTable, TableChanged, batch_of
from watersmeet._spark.serving.remote import TableClient, connect
from watersmeet._spark.serving.serving import TableServer
from watersmeet._spark.stores.read import Store, read_state, stores
from watersmeet.aggregates import (
    Aggregate,
    avg,
    bool_and,
    bool_or,
    collect_list,
    collect_set,
    count,
    count_distinct,
    first,
    last,
    last_k,
    max,
    max_by,
    min,
    min_by,
    mode,
    percentile,
    python,
    stddev,
    sum,
    top_k,
)
from watersmeet.builder import StreamsBuilder
from watersmeet.errors import (
    ChangedTopology,
    ConfigError,
    CorruptData,
    EncodingError,
    FunctionError,
    MissingName,
    SinkError,
    SourceError,
    StateError,
    TopologyError,
    WatersmeetError,
    WrongCall,
)
from watersmeet.generation import Generation
from watersmeet.handles.global_ktable import GlobalKTable
from watersmeet.handles.grouped.cogrouped import CogroupedKStream
from watersmeet.handles.grouped.streams import KGroupedStream
from watersmeet.handles.grouped.tables import KGroupedTable
from watersmeet.handles.grouped.windowed import SessionWindowedKStream, TimeWindowedKStream
from watersmeet.handles.kstream import KStream
from watersmeet.handles.ktable import KTable
from watersmeet.handles.wtable import WTable
from watersmeet.io.bootstrap import Backfill, Snapshot
from watersmeet.io.databases import CatalogTable, DatabaseTable
from watersmeet.io.dataframes import ForeachBatch, Rows, Writer
from watersmeet.io.debezium import debezium, debezium_key
from watersmeet.io.formats import Format, decimal, json
from watersmeet.io.kafka import Kafka
from watersmeet.io.outputs import BatchInfo, Output
from watersmeet.io.policies import DeadLetter
from watersmeet.io.registry import SchemaRegistry
from watersmeet.io.schema_formats import avro, json_schema, protobuf
from watersmeet.io.topic_names import TopicPattern
from watersmeet.io.topics import Topic, TopicSink
from watersmeet.io.windowed_formats import session_windowed, time_windowed
from watersmeet.names import missing
from watersmeet.processors import ListStore, MapStore, Processor, ValueStore
from watersmeet.session import session
from watersmeet.topology import Topology, plan_change
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
    "previous",
    "protobuf",
    "python",
    "read_state",
    "session",
    "session_windowed",
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
        raise missing("watersmeet", __all__, name)
