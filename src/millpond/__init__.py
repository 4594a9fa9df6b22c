"""millpond: the table-and-stream model of Kafka Streams on Spark, for people who write PySpark.

Layers, imports go down only::

builder, topology, testing, cli     what the user says, and how it is tried
    kstream, ktable (handle)            the handles
    _spark                              where it runs
    _engine                             what it does: numpy and pyarrow alone
    _plan                               what it means
    functions, origins, options, generation, errors     vocabulary

Example::

import millpond as mp
    from pyspark.sql import functions as F

spark = mp.session("orders")
    builder = mp.StreamsBuilder("orders")
    orders = builder.table("orders", key="long", value=mp.json("customer string, amount double"))
    payments = builder.table("payments", key="long", value=mp.json("paid double"))
    joined = orders.join(
        payments,
        lambda order, payment: F.struct(order["customer"], (order["amount"] - payment["paid"]).alias("open")),
    )
    joined.to("open-orders")
    topology = builder.build()
    print(topology.describe())
    query = topology.start(spark, checkpoint="/data/orders", kafka=mp.Kafka("localhost:9092"))
"""

from typing import TYPE_CHECKING, Any

import millpond.versions  # noqa: F401  # isort: skip  (asks for PySpark's version before anything needs it)

from millpond._plan.change.change import Change
from millpond._spark.query.latest import latest
from millpond._spark.stores.read import Store, read_state, stores
from millpond.aggregates import (
    avg,
    collect_list,
    collect_set,
    count,
    count_distinct,
    first,
    last,
    max,
    min,
    python,
    stddev,
    sum,
    top_k,
)
from millpond.builder import StreamsBuilder
from millpond.errors import (
    ChangedTopology,
    ConfigError,
    CorruptData,
    EncodingError,
    FunctionError,
    MillpondError,
    MissingName,
    SinkError,
    SourceError,
    StateError,
    TopologyError,
    WrongCall,
)
from millpond.generation import Generation
from millpond.global_ktable import GlobalKTable
from millpond.grouped.cogrouped import CogroupedKStream
from millpond.grouped.streams import KGroupedStream
from millpond.grouped.tables import KGroupedTable
from millpond.grouped.windowed import SessionWindowedKStream, TimeWindowedKStream
from millpond.io.bootstrap import Backfill, Snapshot
from millpond.io.databases import CatalogTable, DatabaseTable
from millpond.io.dataframes import ForeachBatch, Rows, Writer
from millpond.io.debezium import debezium, debezium_key
from millpond.io.formats import Format, decimal, json
from millpond.io.kafka import Kafka
from millpond.io.registry import SchemaRegistry
from millpond.io.schema_formats import avro, json_schema, protobuf
from millpond.io.topics import DeadLetter, Topic, TopicSink
from millpond.io.windowed_formats import session_windowed, time_windowed
from millpond.kstream import KStream
from millpond.ktable import KTable
from millpond.names import missing
from millpond.session import session
from millpond.topology import Topology, plan_change
from millpond.windows import (
    BufferConfig,
    EmitStrategy,
    JoinWindows,
    SessionWindows,
    SlidingWindows,
    Suppressed,
    TimeWindows,
    UnlimitedWindows,
    previous,
)
from millpond.wtable import WTable

__all__ = [
    "Backfill",
    "BufferConfig",
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
    "MillpondError",
    "MissingName",
    "Rows",
    "SchemaRegistry",
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
    "TimeWindowedKStream",
    "TimeWindows",
    "Topic",
    "TopicSink",
    "Topology",
    "TopologyError",
    "UnlimitedWindows",
    "WTable",
    "Writer",
    "WrongCall",
    "avg",
    "avro",
    "collect_list",
    "collect_set",
    "count",
    "count_distinct",
    "debezium",
    "debezium_key",
    "decimal",
    "first",
    "json",
    "json_schema",
    "last",
    "latest",
    "max",
    "min",
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
]
__version__ = "0.1.0"

if not TYPE_CHECKING:  # for a type checker a name that is not there is a mistake

    def __getattr__(name: str) -> Any:
        raise missing("millpond", __all__, name)
