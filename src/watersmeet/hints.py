"""Names that people bring along from Kafka Streams, PySpark, pandas, Faust and Quix, and what they are called here."""

from __future__ import annotations

import builtins
import inspect
import numbers
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from difflib import get_close_matches
from functools import cache, wraps
from types import NoneType, SimpleNamespace, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NoReturn,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_overloads,
    get_type_hints,
)

from watersmeet.errors import MissingName, WatersmeetError, WrongCall

_PYTHON = (
    "map_values(mapper) without state, for plain Python map_values(wm.python(function, 'type')); with state "
    "process_values(Processor, value='type', stores=[...])"
)
_PROCESSORS = {
    **dict.fromkeys(
        ("transform", "transform_values"),
        _PYTHON,
    ),
    **dict.fromkeys(
        ("flat_transform", "flat_transform_values"), "flat_map(mapper) or flat_map_values(mapper), which give arrays"
    ),
}
_TESTED = "peek(print), or records piped into watersmeet.testing.TopologyTestDriver"
_TYPE = "value_type, and key_type"
_FIELDS = "map_values(lambda value: F.struct(...))"
_ORDER = "nothing: records are processed in their order of position, and a table's store has its keys in order"
_BUILT = "builder.build().start(spark, checkpoint=...)"
_FIRST_OF_EACH = (
    "distinct(), which passes the first record of each key; distinct(lambda value: value['id'], within='10 minutes') "
    "goes by an id, for a period of stream time"
)
_VALUES_OF_ROWS = (
    "group_by(lambda value: (value, value)).count().filter(lambda rows: rows > 0), which has a row for each value, "
    "with the number of its rows"
)
_NO_DUPLICATES = ("deduplicate", "deduplicate_by_key", "drop_duplicates", "drop_duplicates_within_watermark")
_STREAM = {
    **_PROCESSORS,
    **dict.fromkeys(_NO_DUPLICATES, _FIRST_OF_EACH),
    "agg": "group_by_key().agg(n=wm.count(), ...)",
    "aggregate": "group_by_key().aggregate(...)",
    "alias": "name= of the operator before",
    "apply": "map_values(mapper)",
    "assign": "map_values(lambda value: value.withField('name', ...))",
    "branch": "split({'name': predicate}, default='rest')",
    "build": "builder.build()",
    "cogroup": "group_by_key().cogroup(aggregator)",
    "collect": _TESTED,
    "columns": _TYPE,
    "count": "group_by_key().count()",
    **dict.fromkeys(("cross_join", "join_asof", "merge_asof"), "join(table, joiner): records join by their keys"),
    **dict.fromkeys(("key_by", "set_index", "with_key", "re_key", "rekey"), "select_key(selector)"),
    **dict.fromkeys(("dropna", "drop_na", "notnull", "notna"), "filter(lambda value: value['field'].isNotNull())"),
    **dict.fromkeys(("isnull", "isna"), "filter(lambda value: value['field'].isNull())"),
    **dict.fromkeys(
        ("fillna", "fill_na"),
        "map_values(lambda value: value.withField('field', F.coalesce(value['field'], F.lit(0))))",
    ),
    **dict.fromkeys(("iterrows", "itertuples", "first", "tail", "to_local_iterator", "display"), _TESTED),
    **dict.fromkeys(("loc", "iloc", "at", "query"), "filter(lambda value: value['field'] > 5)"),
    **dict.fromkeys(
        ("cache", "persist", "unpersist", "checkpoint"),
        "nothing: a stream that is used twice is computed once, and topology.start(..., checkpoint=...) keeps state",
    ),
    **dict.fromkeys(("print_schema", "info", "describe"), _TYPE),
    **dict.fromkeys(
        ("sample", "sample_by"), "filter(lambda key: F.abs(F.xxhash64(key)) % 10 == 0), a tenth of the keys"
    ),
    **dict.fromkeys(
        ("to_df", "rdd", "values", "create_or_replace_temp_view"), "to(wm.ForeachBatch(function), name=...)"
    ),
    **dict.fromkeys(("select_expr", "project", "melt", "unpivot"), _FIELDS),
    **dict.fromkeys(("map_partitions", "map_in_pandas", "apply_in_pandas"), _PYTHON),
    "coalesce": "repartition(), or shards= of topology.start(spark, checkpoint=..., shards=8)",
    "replace": _FIELDS,
    "drop": "map_values(lambda value: value.dropFields('name'))",
    "dtypes": _TYPE,
    "explode": "flat_map_values(lambda value: value['field'])",
    "for_each": "peek(function), or to(wm.ForeachBatch(function), name=...)",
    "foreach": "peek(function), or to(wm.ForeachBatch(function), name=...)",
    "foreach_batch": "to(wm.ForeachBatch(function), name=...)",
    "groupby": "group_by(selector)",
    "head": _TESTED,
    "limit": "group_by(selector).agg(top=wm.top_k(lambda value: ..., k=3)), which keeps the largest of each group",
    "order_by": _ORDER,
    "print": "peek(print)",
    "reduce": "group_by_key().reduce(...)",
    "rename": _FIELDS,
    "right_join": "other.left_join(this, ...)",
    "run": _BUILT,
    "schema": _TYPE,
    "select": _FIELDS,
    "show": _TESTED,
    "sink": "to('topic'), or to(wm.Writer('parquet', path=...), name=...)",
    "sort": _ORDER,
    "sort_values": _ORDER,
    "start": _BUILT,
    "sum": "group_by_key().agg(total=wm.sum(lambda value: ...))",
    "suppress": "a method of tables, as group_by_key().windowed_by(...).count().suppress(...)",
    "take": _TESTED,
    "to_pandas": _TESTED,
    "to_stream": "the stream itself: only a table needs to_stream()",
    "to_topic": "to('topic')",
    "union": "merge(other)",
    "union_all": "merge(other)",
    "union_by_name": "merge(other)",
    "update": "map_values(mapper)",
    "where": "filter(predicate)",
    "window": "group_by_key().windowed_by(wm.TimeWindows.of_size_and_grace(...))",
    "windowed_by": "group_by_key().windowed_by(...)",
    "with_column": "map_values(lambda value: value.withField('name', ...))",
    "with_watermark": "the grace of windows: wm.TimeWindows.of_size_and_grace('1 hour', '5 minutes')",
    "write": "to(wm.Writer('parquet', path=...), name=...)",
    "write_stream": "to(wm.Writer('parquet', path=...), name=...)",
    **dict.fromkeys(
        ("hopping_window", "session_window", "sliding_window", "tumbling_window"),
        "group_by_key().windowed_by(windows), with wm.TimeWindows, wm.SlidingWindows or wm.SessionWindows",
    ),
}
_TABLE = {
    name: f"to_stream().{name}(...)"
    for name in ("flat_map", "flat_map_values", "map", "merge", "peek", "repartition", "select_key", "split", "through")
}
_ELSEWHERE_READ = (
    "wm.read_state(spark, checkpoint, store) of a query, or get_store(...) of watersmeet.testing.TopologyTestDriver"
)
_AGGREGATES = {
    **{
        name: f"agg({field}=wm.{called}(lambda value: value['field']{more}))"
        for name, field, called, more in (
            *(("mean", "mean", "avg", ""), ("average", "mean", "avg", ""), ("std", "spread", "stddev", "")),
            *(("nunique", "n", "count_distinct", ""), ("median", "median", "percentile", ", p=0.5")),
            *(("quantile", "p90", "percentile", ", p=0.9"), ("any", "any", "bool_or", " > 0")),
            *(("all", "all", "bool_and", " > 0"), ("every", "all", "bool_and", " > 0")),
            *(("some", "any", "bool_or", " > 0"), ("nlargest", "top", "top_k", ", k=3")),
        )
    },
    "size": "count()",
    "apply": "aggregate(initializer, wm.python(function))",
    "fold": "aggregate(initializer, aggregator)",
    "pivot": "split({'name': predicate}) of the stream before it is grouped",
    "transform": "aggregate(initializer, wm.python(function))",
    **{
        name: f"{name} before the group: stream.{name}(...).group_by_key()"
        for name in ("filter", "filter_not", "map_values", "map", "flat_map_values", "join", "left_join", "peek")
    },
    **{name: f"count().{name}(...): an aggregate makes a table of the groups first" for name in ("to_stream", "to")},
    "to_table": "count(), reduce(...) or aggregate(...), which make a table",
}
_GROUPED = ("KGroupedStream", "KGroupedTable", "TimeWindowedKStream", "SessionWindowedKStream")
ELSEWHERE: dict[str, dict[str, str]] = {
    "KStream": _STREAM,
    "KTable": {
        # the table has these itself
        **{n: answer for n, answer in _STREAM.items() if n not in ("suppress", "to_stream", "transform_values")},
        **_TABLE,
        **dict.fromkeys(("process", "process_values"), "to_stream().process_values(Processor, value=...)"),
        **dict.fromkeys(("distinct", *_NO_DUPLICATES), _VALUES_OF_ROWS),
        "agg": "group_by(selector).agg(n=wm.count(), ...)",
        "aggregate": "group_by(selector).aggregate(...)",
        "count": "group_by(selector).count()",
        "group_by_key": "group_by(selector), or to_stream().group_by_key()",
        "reduce": "group_by(selector).reduce(...)",
        "foreign_key_join": "join(other, joiner, foreign_key=...)",
        "for_each": "to_stream().peek(function)",
        "foreach": "to_stream().peek(function)",
        "get": _ELSEWHERE_READ,
        "print": "to_stream().peek(print)",
        "queryable_store_name": "store=... where the table is made",
        "range": _ELSEWHERE_READ,
        "union": "to_stream().merge(other.to_stream())",
        "windowed_by": "to_stream().group_by_key().windowed_by(...)",
    },
    "GlobalKTable": dict.fromkeys(
        ("filter", "filter_not", "map_values", "outer_join", "to", "to_stream"),
        "builder.table(...): a global table is only looked up: its changes give no results",
    ),
    "WTable": {
        **{name: f"to_stream(key=...).{name}(...)" for name in ("flat_map", "merge", "peek", "select_key")},
        **{name: f"group_by(selector).{name}(...)" for name in ("aggregate", "agg", "reduce")},
        "count": "group_by(selector).count()",
        "group_by_key": 'group_by(lambda key, value: (key["key"], value)), which puts the windows of each key together',
        "to_table": "to_stream(key=...).to_table()",
        "foreign_key_join": "to_stream(key=...).to_table().join(other, joiner, foreign_key=...)",
        "queryable_store_name": "store=... of the aggregate",
    },
    "KGroupedStream": _AGGREGATES,
    "KGroupedTable": _AGGREGATES
    | {"windowed_by": "to_stream().group_by(...).windowed_by(...) of the table: windows are of streams"},
    "TimeWindowedKStream": _AGGREGATES,
    "SessionWindowedKStream": _AGGREGATES,
    "CogroupedKStream": {"count": "aggregate(initializer)", "reduce": "aggregate(initializer)"},
    "Topology": {
        "test": "watersmeet.testing.TopologyTestDriver(topology)",
        **dict.fromkeys(("run", "await_termination", "execute"), "start(spark, checkpoint=...)"),
    },
    "Query": {
        **dict.fromkeys(("close", "shutdown", "cancel", "terminate"), "stop(), or drain(), which finishes the batch"),
        **dict.fromkeys(("join", "wait", "run", "run_forever"), "awaitTermination()"),
        **dict.fromkeys(
            ("store", "get_store", "read_state"), "state('store'), or serve(tables=['store']) and table('store')"
        ),
        **dict.fromkeys(("lag", "throughput", "progress", "dropped"), "metrics(), which has it"),
        "latest": "wm.latest(frame), of files that were written",
        "tables": "serve(tables=['store']), then table('store')",
        "start": "topology.start(spark, checkpoint=...), which has started it",
    },
    "Aggregate": {
        "alias": "the keyword's name: agg(mean=wm.avg(lambda value: value['field']))",
        **dict.fromkeys(("cast", "round"), "agg(...).map_values(lambda value: value['field'].cast('long'))"),
        **dict.fromkeys(
            ("filter", "where"), "wm.sum(lambda value: F.when(condition, value['field'])): null is left out"
        ),
        "over": "group_by_key().windowed_by(...).agg(...)",
    },
    "Metrics": {**dict.fromkeys(("dropped", "drop"), "drops"), "offset_lag": "lag"},
    "Context": {
        "schedule": "set_timer(timestamp), with a method on_timer(self, key, timestamp, context)",
        "get_state_store": "get_store(name)",
        **dict.fromkeys(("current_system_time_ms", "system_time", "now"), "wall_clock"),
        "current_stream_time_ms": "stream_time",
        **dict.fromkeys(("send", "emit", "collect", "output"), "forward(record)"),
        **dict.fromkeys(("topic", "partition", "offset", "headers"), "the record's: record.topic, record.headers, ..."),
        "commit": "nothing: each batch is committed as a whole",
    },
    "Record": {
        "with_value": "context.forward(record, value=...)",
        "with_key": "context.forward(record, key=...)",
        "with_timestamp": "context.forward(record, timestamp=...)",
        **dict.fromkeys(("ts", "time"), "timestamp"),
    },
    "ValueState": {
        **dict.fromkeys(("append", "add", "extend"), "put(value); elements are appended to a wm.ListStore"),
        **dict.fromkeys(("range", "all", "items", "keys"), "get(); keys of its own has a wm.MapStore"),
        **dict.fromkeys(("value", "fetch"), "get()"),
        **dict.fromkeys(("update", "set"), "put(value)"),
        **dict.fromkeys(("clear", "remove"), "delete()"),
    },
    "ListState": {
        **dict.fromkeys(("add", "push"), "append(value)"),
        **dict.fromkeys(("range", "all", "items", "values"), "get()"),
        **dict.fromkeys(("clear", "remove"), "delete()"),
    },
    "MapState": {
        **dict.fromkeys(("items", "entries"), "all()"),
        **dict.fromkeys(("keys", "values"), "all(), which has both"),
        "remove": "delete(key)",
        "fetch": "get(key)",
        "append": "put(key, value); elements are appended to a wm.ListStore",
        "set": "put(key, value)",
    },
    "ServedTable": {
        **dict.fromkeys(("all", "rows", "scan", "keys", "items", "to_pandas", "collect"), "range(), or to_arrow()"),
        **dict.fromkeys(("fetch", "lookup", "query"), "get(key)"),
        "subscribe": "changes()",
    },
    "StreamsBuilder": {
        **dict.fromkeys(
            ("k_stream", "topic", "dataframe", "agent", "source", "from_topic", "kafka", "consume"),
            "stream('topic', key=..., value=...)",
        ),
        **dict.fromkeys(("global_k_table", "add_global_store"), "global_table('topic', key=..., value=...)"),
        "k_table": "table(...)",
        **dict.fromkeys(("read_stream", "read"), "stream(frame, name=..., key=..., timestamp=...)"),
        **dict.fromkeys(("start", "run", "main"), "build().start(spark, checkpoint=...)"),
        "describe": "build().describe()",
        "add_state_store": "store=... of a table, or stores=[wm.ValueStore('name', 'type')] of stream.process",
        "add_source": "stream('topic', key=..., value=...)",
        "add_sink": "to('topic') of a stream",
        "add_processor": "process(Processor, value=...) of a stream",
    },
    "TimeWindows": {
        **dict.fromkeys(
            ("of", "tumbling", "of_size"), "of_size_and_grace(size, grace), or of_size_with_no_grace(size)"
        ),
        "hopping": "of_size_and_grace(size, grace).advance_by(advance)",
        "advance": "advance_by(advance)",
        "grace": "of_size_and_grace(size, grace)",
    },
    "SlidingWindows": {
        "of": "of_time_difference_and_grace(time_difference, grace)",
        "with_time_difference_and_grace": "of_time_difference_and_grace(time_difference, grace)",
        "grace": "of_time_difference_and_grace(time_difference, grace)",
        "advance_by": "TimeWindows.of_size_and_grace(size, grace).advance_by(advance): sliding windows have no steps",
    },
    "SessionWindows": {
        **dict.fromkeys(
            ("of", "with", "with_gap", "grace"),
            "of_inactivity_gap_and_grace(inactivity_gap, grace), or of_inactivity_gap_with_no_grace(inactivity_gap)",
        ),
    },
    "TopologyTestDriver": {
        "pipe_input": "pipe(input, key, value, ts=...)",
        **dict.fromkeys(("read_output", "output", "read_record", "read_value"), "read(output)"),
        "produced_topic_names": "read(output), of an output that describe() of the topology names",
        **dict.fromkeys(
            (
                *("get_key_value_store", "get_window_store", "get_session_store", "get_versioned_key_value_store"),
                *("get_timestamped_key_value_store", "get_timestamped_window_store", "get_state_store"),
                *("get_all_state_stores", "store"),
            ),
            "get_store(name)",
        ),
        "metrics": "drops",
    },
    "TestInputTopic": {
        "advance_time": "auto_advance= of create_input_topic, or ts= of pipe_input",
        "pipe_record_list": "pipe_input(record) for each",
    },
    "TestOutputTopic": {"get_queue_size": "queue_size()", "read_records_to_list": "read_records()"},
    "CalendarWindows": dict.fromkeys(
        ("of", "of_day", "of_days", "of_month", "of_months", "of_size", "of_size_and_grace", "of_week", "of_weeks"),
        "CalendarWindows('1 day', zone='Europe/Berlin', offset='18 hours', grace='1 hour')",
    ),
    "watersmeet": {
        **dict.fromkeys(
            ("count_window", "count_windows"),
            "agg(n=wm.count(), values=wm.last_k(lambda value: ..., k=10)), then to_stream().filter(...) by n",
        ),
        **dict.fromkeys(("last_n", "latest_by_offset", "tail"), "last_k(lambda value: ..., k=10)"),
        **dict.fromkeys(("app", "application", "stream_builder"), "StreamsBuilder('orders')"),
        **dict.fromkeys(("mean", "average"), "avg(lambda value: ...)"),
        **dict.fromkeys(("std", "stdev"), "stddev(lambda value: ...)"),
        "nunique": "count_distinct(lambda value: ...)",
        "median": "percentile(lambda value: ..., p=0.5)",
        **dict.fromkeys(("quantile", "percentile_cont"), "percentile(lambda value: ..., p=0.9)"),
        **dict.fromkeys(("every", "all"), "bool_and(lambda value: ...)"),
        **dict.fromkeys(("some", "any"), "bool_or(lambda value: ...)"),
        **dict.fromkeys(
            ("user_defined_aggregate", "udaf", "aggregator"), "Aggregate, a class to derive one's own from"
        ),
        **dict.fromkeys(
            ("tumbling_windows", "tumbling_window"), "TimeWindows.of_size_and_grace('1 hour', '5 minutes')"
        ),
        **dict.fromkeys(
            ("hopping_windows", "hopping_window"),
            "TimeWindows.of_size_and_grace('1 hour', '5 minutes').advance_by('10 minutes')",
        ),
        "branched": "stream.split({'name': predicate}, default='rest')",
        "col": "value['field'] of a function's argument: stream.map_values(lambda value: value['field'])",
        "column": "PySpark's: from pyspark.sql import Column",
        "consumed": "builder.stream('topic', key='long', value='string')",
        **{
            each: f"PySpark's: from pyspark.sql import {name}"
            for each, name in (("data_frame", "DataFrame"), ("row", "Row"), ("spark_session", "SparkSession"))
        },
        **{
            each: f"F.{each}(...), with from pyspark.sql import functions as F"
            for each in ("coalesce", "concat", "expr", "lit", "struct", "to_timestamp", "when")
        },
        "duration": "a text such as '5 minutes', or datetime.timedelta(minutes=5)",
        "grouped": "name=... of group_by",
        "joined": "name=... of the join, and grace=... with a versioned table",
        "kafka_streams": "topology.start(spark, checkpoint=...)",
        "key_value": "a pair that a function returns: return key, value",
        "materialized": "store=... of the table, and history=... of a versioned one",
        "named": "name=... of the operator",
        "produced": "stream.to('topic', key='long', value='string')",
        "repartitioned": "stream.repartition(name=...)",
        "serdes": "the formats 'string', 'long', 'double', 'uuid', ..., wm.decimal(...) and wm.json(...)",
        "key_value_store": "store=... of the table",
        "stream_joined": "name=... of the join",
        "streams_config": "the options of topology.start(spark, checkpoint=..., ...)",
        "table_joined": "name=... of the join",
        "test_input_topic": "from watersmeet.testing import TestInputTopic",
        "topology_test_driver": "from watersmeet.testing import TopologyTestDriver",
        "udf": "wm.python(function, 'type'), or F.udf(function, 'type') of pyspark.sql.functions",
        "window": "wm.TimeWindows.of_size_and_grace(size, grace), for windowed_by",
        "windowed": "a struct of key, start and end: the key of a table by window",
    },
}
"""What stands for a name that a class does not have, by class and name in snake case."""


def beside(name: str, example: str) -> None:
    """Say of an aggregate's name, which what is grouped does not have as a method, how it is written."""
    for owner in _GROUPED:
        ELSEWHERE[owner].setdefault(name, f"agg({example})")


# Options that people bring along, what to write in their place, and how each method is called.

_KEY, _VALUE = "key=, a format such as 'long'", "value=, a format such as 'string' or wm.json('id long')"
_STORE = "store= names the table in state"
_OFFSETS = "starting_offsets='earliest' of a topic, or wm.Kafka('host:9092', starting_offsets='earliest') of all"
_JOIN_KEY = "Records are joined by their keys: give both sides the key before, with select_key or foreign_key="
_HOW = "The method says it: join, left_join or outer_join"
_OWN_TIME = "timestamp=lambda value: value['at'], a timestamp or a long of milliseconds since 1970"
_WINDOWS = "windows=wm.JoinWindows.of_time_difference_and_grace('5 minutes', '1 minute')"
_TTL = "Tables: builder.table(..., ttl='1 day'), or table.to_stream().to_table(ttl='1 day'); streams: windows="
_JOIN = {
    "on": _JOIN_KEY,
    **dict.fromkeys(("left_on", "right_on", "by"), _JOIN_KEY),
    "how": _HOW,
    "foreign_key_extractor": "foreign_key=, a function of (value) or (key, value)",
    **dict.fromkeys(("ttl", "since"), _TTL),
    "value_joiner": "The joiner is the second argument: join(other, lambda left, right: ...)",
    "window": _WINDOWS,
    "within": _WINDOWS,
    "join_windows": _WINDOWS,
    "key_selector": "key=, a function of (value) or (key, value) that returns the key to look up",
}
_STORES = {"store": "stores=[wm.ValueStore('name', 'long')], of which there may be several"}
_TABLES = "Leave it out: tables join without windows, the latest rows of both: join(other, lambda left, right: ...)"
_BY_OWN_KEY = {
    "foreign_key": "key=, with a global table; a record finds a table's row by its own key: select_key(selector) before"
}
_OPTIONS_READ = {
    **dict.fromkeys(("timestamp_extractor", "time"), _OWN_TIME),
    **dict.fromkeys(("key_serde", "key_deserializer", "key_format", "key_type"), _KEY),
    **dict.fromkeys(("value_serde", "value_deserializer", "value_format", "value_type", "format"), _VALUE),
    "schema": "value=wm.json('id long, name string'): a format has its schema",
    "columns": "value=wm.json('id long, name string'): a format has its schema",
    "group_id": "The application_id of StreamsBuilder('orders') is part of every group",
    **dict.fromkeys(("offset", "offset_reset", "auto_offset_reset", "starting_offsets"), _OFFSETS),
    "topic": "The source is the first argument: builder.stream('topic', key=..., value=...)",
    "topics": "The topics are the first argument: builder.stream(['one', 'other'], key=..., value=...)",
    "pattern": "Name the topics: builder.stream(['one', 'other'], key=..., value=...)",
    "retention": "history='1 day' is a versioned table; ttl='1 day' deletes rows that are not updated for so long",
    **dict.fromkeys(("expire", "expire_after", "time_to_live", "expiry"), "ttl='1 day', of table and to_table"),
    **dict.fromkeys(("partitions", "num_partitions"), "A topic has the partitions that it has"),
}
_WRITTEN = {
    **dict.fromkeys(("key_serde", "key_serializer", "key_format"), _KEY),
    **dict.fromkeys(("value_serde", "value_serializer", "value_format", "format", "schema"), _VALUE),
    **dict.fromkeys(("partitions", "num_partitions"), "The topic has to be there, with its partitions"),
    **dict.fromkeys(
        ("stream_partitioner", "with_stream_partitioner"), "partitioner=lambda key, value: ..., the number"
    ),
    "topic": "The target is the first argument: stream.to('topic')",
    "path": "stream.to(wm.Writer('parquet', path=...), name=...)",
    "mode": "A stream is appended to its output; a table is kept in wm.DatabaseTable or wm.CatalogTable",
}
_STARTED = {
    **dict.fromkeys(("bootstrap_servers", "brokers", "broker", "servers"), "kafka=wm.Kafka('host:9092')"),
    **dict.fromkeys(("checkpoint_location", "state_dir", "path"), "checkpoint=, the folder of the query"),
    "once": "available_now=True processes what is there, and stops",
    **dict.fromkeys(("processing_time", "interval", "commit_interval_ms"), "trigger='1 second'"),
    **dict.fromkeys(("num_stream_threads", "threads", "parallelism", "partitions"), "tasks=, and shards="),
    **dict.fromkeys(("caching", "cache", "statestore_cache_max_bytes"), "record_cache=True"),
    **dict.fromkeys(("query_name", "app_name"), "name="),
    "output_mode": "Leave it out: the output decides how to write changes",
    **dict.fromkeys(("config", "conf", "options"), "Settings are options by name, those of Spark are the session's"),
}
OPTIONS: dict[str, dict[str, str]] = {
    "": {
        **dict.fromkeys(("materialized", "store_name", "queryable_store_name"), _STORE),
        **dict.fromkeys(("as", "as_", "alias", "named"), "name= names the operator, store= the table in state"),
        "store": "A stream keeps no table: to_table(store=...), or builder.table(..., store=...)",
        "on_bad": "on_undecodable= and on_error=",
    },
    "join": _JOIN,
    "left_join": _JOIN,
    "KStream.join": _BY_OWN_KEY,
    "KStream.left_join": _BY_OWN_KEY,
    "outer_join": _JOIN,
    **{
        f"KTable.{name}": dict.fromkeys(("window", "windows", "within", "join_windows", "grace"), _TABLES)
        for name in ("join", "left_join", "outer_join")
    },
    "ForeachBatch": {"name": "to(wm.ForeachBatch(function), name='written')"},
    "stream": {**_OPTIONS_READ, "store": "builder.table(...) has a store; a stream keeps nothing"},
    "table": _OPTIONS_READ,
    "global_table": {
        **_OPTIONS_READ,
        "history": "builder.table(..., history=...): a global table has no past",
        **dict.fromkeys(
            ("ttl", "since", "expire", "expire_after", "time_to_live", "expiry"),
            "A global table has no stream time: builder.table('topic', ttl='1 day').to('live') in another topology, "
            "and builder.global_table('live'), which has its tombstones",
        ),
    },
    "to": _WRITTEN,
    "WTable.to": dict.fromkeys(
        ("key", "value", "delivery"), "Convert it first: wtable.to_stream(key='key').to('topic', key=..., value=...)"
    ),
    "through": _WRITTEN,
    "start": _STARTED,
    "session": {
        **dict.fromkeys(("name", "application", "app"), "app_name is the first argument: wm.session('orders')"),
        **dict.fromkeys(("conf", "options", "spark_conf", "settings"), "config={'spark.sql.shuffle.partitions': '4'}"),
        "packages": "jars=['...jar'], or kafka=True, which fetches Spark's connector",
    },
    "StreamsBuilder": {
        **dict.fromkeys(
            ("app_id", "name", "app_name", "id"), "application_id is the first argument: StreamsBuilder('orders')"
        ),
        **dict.fromkeys(("kafka", "bootstrap_servers"), "start(spark, checkpoint=..., kafka=wm.Kafka('host:9092'))"),
        "processing_guarantee": "An output has it: delivery='exactly_once', in stream.to('topic', delivery=...)",
    },
    "group_by": {"selector": "The selector is the first argument: group_by(lambda value: value['field'])"},
    "process": _STORES,
    "process_values": _STORES,
    "group_by_key": {"name": "Leave it out: name= is of what comes behind it, such as count(name=...)"},
    "repartition": dict.fromkeys(("partitions", "num_partitions", "n"), "shards= of topology.start sets their number"),
    "pipe": dict.fromkeys(("timestamp", "timestamp_ms", "time"), "ts=, in ms"),
    "pipe_input": dict.fromkeys(("timestamp", "timestamp_ms", "time"), "ts=, in ms"),
    "suppress": dict.fromkeys(
        ("until_time_limit", "until_window_closes", "until"),
        "suppress(wm.Suppressed.until_time_limit('1 hour', buffer))",
    ),
    "of_size_and_grace": dict.fromkeys(("hours", "minutes", "seconds", "days"), "A duration is a text: '1 hour'"),
}
"""By a function's name, as `Class.method` or `method`: what stands for an option that it does not take."""

_JOINED = "stream.join(table, lambda left, right: ...)"
_FOLD = "aggregate(lambda: 0, lambda value, aggregate: ...)"
_READS = "builder.{}('topic', key='long', value='string')"
_SPREAD = "A function of (value) or (key, value): {}(lambda value: ...)"
USES: dict[str, str] = {
    "join": f"For example {_JOINED}",
    "left_join": f"For example {_JOINED.replace('join', 'left_join')}",
    "KStream.outer_join": "For example one.outer_join(other, lambda left, right: ..., "
    "wm.JoinWindows.of_time_difference_and_grace('5 minutes', '1 minute')) of two streams; with a table "
    "left_join(table, joiner), or stream.to_table().outer_join(table, joiner)",
    "outer_join": "For example one.outer_join(other, lambda left, right: ...)",
    "ForeachBatch": "For example wm.ForeachBatch(write), with def write(frame, batch): ...",
    "DeadLetter": "For example wm.DeadLetter('orders-refused')",
    "Topology": "It is made by builder.build()",
    "KStream": "It is made by builder.stream('topic', key='long', value='string')",
    "KTable": "It is made by builder.table('topic', key='long', value='string')",
    "TopicSink": "For example wm.TopicSink('orders', key='long', value='string')",
    "TopicPattern": "For example wm.TopicPattern('orders-.*')",
    "Topic": "For example wm.Topic('orders', 'long', 'string')",
    "protobuf": "For example wm.protobuf(Order), a class that protoc made",
    "debezium": "For example wm.debezium('id long, name string')",
    "avro": "For example wm.avro(Path('order.avsc').read_text())",
    "json": "For example wm.json('id long, name string')",
    "Query.table": "For example query.table('open-orders')",
    "Query.state": "For example query.state('open-orders')",
    "Query.why": "For example query.why('open-orders', 42)",
    "Query.stop": "query.stop()",
    "ServedTable.get": "For example table.get(42)",
    "ServedTable.range": "For example table.range(1, 9, limit=100)",
    "serve": "For example query.serve('127.0.0.1:8815', tables=['open-orders'])",
    "one_to_many_join": "For example one.one_to_many_join(many, lambda one, many: ..., key=lambda value: value['one'])",
    "multi_join": "For example one.multi_join([other, another], lambda one, other, another: ..., how='left')",
    **{name: f"For example {_READS.format(name)}" for name in ("stream", "table", "global_table")},
    "to": "For example stream.to('topic'), or stream.to(wm.Writer('parquet', path=...), name='files')",
    "through": "For example stream.through('topic')",
    "WTable.to": "Convert it first: wtable.to_stream(key='key').to('topic'). A table of a database or a catalog keeps "
    "it as it is: wtable.to(wm.DatabaseTable(...))",
    **{
        name: _SPREAD.format(name)
        for name in (
            "map_values",
            "filter",
            "filter_not",
            "map",
            "flat_map",
            "flat_map_values",
            "select_key",
            "group_by",
        )
    },
    "peek": "For example peek(print): a Python function of (value) or (key, value)",
    "merge": "Merge two at a time: one.merge(other)",
    "split": "For example split({'large': lambda value: value['amount'] > 100}, default='rest')",
    "group_by_key": "By another key: group_by(lambda value: value['field'])",
    "suppress": "For example suppress(wm.Suppressed.until_time_limit('1 hour', wm.BufferConfig.unbounded()))",
    "KTable.to_stream": "With another key: to_stream(key=lambda key, value: ...)",
    "reduce": "For example reduce(lambda aggregate, value: ...)",
    "KGroupedTable.reduce": "For example reduce(lambda aggregate, value: ..., lambda aggregate, value: ...)",
    "aggregate": f"For example {_FOLD}",
    "KGroupedTable.aggregate": f"For example {_FOLD[:-1]}, lambda value, aggregate: ...)",
    "SessionWindowedKStream.aggregate": f"For example {_FOLD[:-1]}, lambda one, other: ...)",
    "CogroupedKStream.aggregate": "For example aggregate(lambda: 0)",
    "cogroup": "For example cogroup(lambda value, aggregate: ...)",
    "CogroupedKStream.cogroup": "For example cogroup(grouped, lambda value, aggregate: ...)",
    "agg": "Aggregates are given by name: agg(total=wm.sum(lambda value: value['field']), n=wm.count())",
    "repartition": "shards= of topology.start(spark, checkpoint=..., shards=8) sets their number",
    "windowed_by": "For example windowed_by(wm.TimeWindows.of_size_and_grace('1 hour', '5 minutes'))",
    "policies": "For example policies('counts', on_error='skip', on_drop=wm.DeadLetter('late'))",
    "build": "The session and the options go to the start: build().start(spark, checkpoint=...)",
    "start": "For example topology.start(spark, checkpoint='/data/orders', kafka=wm.Kafka('host:9092'))",
    "StreamsBuilder": "For example wm.StreamsBuilder('orders')",
    "Kafka": "For example wm.Kafka('host:9092,host:9092')",
    "TimeWindows": "They are made by TimeWindows.of_size_and_grace('1 hour', '5 minutes')",
    "SlidingWindows": "They are made by SlidingWindows.of_time_difference_and_grace('1 hour', '5 minutes')",
    "SessionWindows": "They are made by SessionWindows.of_inactivity_gap_and_grace('30 minutes', '5 minutes')",
    "JoinWindows": "They are made by JoinWindows.of_time_difference_and_grace('5 minutes', '1 minute')",
    "UnlimitedWindows": "They are made by UnlimitedWindows.of()",
    "CalendarWindows": "For example CalendarWindows('1 day', zone='Europe/Berlin', offset='18 hours')",
    "window_text": "For example to_stream(key=wm.window_text)",
    "of_size_and_grace": "For example of_size_and_grace('1 hour', '5 minutes'), or of_size_with_no_grace('1 hour')",
    "of_size_with_no_grace": "With a grace: of_size_and_grace('1 hour', '5 minutes')",
    "of_time_difference_and_grace": "For example of_time_difference_and_grace('5 minutes', '1 minute'), or "
    "of_time_difference_with_no_grace('5 minutes')",
    "of_time_difference_with_no_grace": "With a grace: of_time_difference_and_grace('5 minutes', '1 minute')",
    "of_inactivity_gap_and_grace": "For example of_inactivity_gap_and_grace('30 minutes', '5 minutes'), or "
    "of_inactivity_gap_with_no_grace('30 minutes')",
    "of_inactivity_gap_with_no_grace": "With a grace: of_inactivity_gap_and_grace('30 minutes', '5 minutes')",
    "Suppressed": "It is made by Suppressed.until_time_limit('1 hour', buffer) or "
    "Suppressed.until_window_closes(buffer)",
    "until_time_limit": "For example until_time_limit('1 hour', wm.BufferConfig.unbounded())",
    "until_window_closes": "For example until_window_closes(wm.BufferConfig.unbounded())",
    "EmitStrategy": "EmitStrategy.on_window_close() or EmitStrategy.on_window_update()",
    "max_records": "For example BufferConfig.max_records(1000)",
    "max_bytes": "For example BufferConfig.max_bytes(64 * 1024 * 1024)",
    "python": "For example wm.python(lambda value, aggregate: aggregate + value)",
    "Writer": "For example wm.Writer('parquet', path='/data/orders')",
    "DatabaseTable": "For example wm.DatabaseTable('sqlite:////data/shop.db', table='orders')",
    "SchemaRegistry": "For example wm.SchemaRegistry('http://host:8081')",
    "read_state": "For example wm.read_state(spark, '/data/orders', 'open-orders')",
    "stores": "For example wm.stores(spark, '/data/orders')",
    "plan_change": "For example wm.plan_change('/data/orders', topology)",
    "latest": "For example wm.latest(spark.read.parquet('/data/open-orders'))",
    "TopologyTestDriver": "For example TopologyTestDriver(builder.build())",
    "pipe": "For example driver.pipe('orders', key=1, value='new', ts=0)",
    "read": "For example driver.read('pages')",
}
"""How a function is called, by its name, as `Class.method` or `method`."""

MADE = frozenset(
    (
        *("TimeWindows", "SlidingWindows", "SessionWindows", "JoinWindows", "UnlimitedWindows", "Suppressed"),
        *("EmitStrategy", "Topology", "KStream", "KTable"),
    )
)
"""Classes whose methods make them, and not calls of their own."""

PLACES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("stream", "table", "global_table", "to", "through", "Topic"), ("key", "value")),
    "session": ("master",),
    "start": ("checkpoint",),
    "Kafka": ("max_records_per_batch",),
    "DatabaseTable": ("table",),
    "create_input_topic": ("start_ts",),
    "pipe": ("ts",),
    "policies": ("on_error",),
    "agg": (),
    "until_time_limit": ("buffer",),
}
"""What people give by place, in its order, and a function takes by name alone."""


# The error for a name that a class or the package does not have.


def missing(owner: str, has: Sequence[str], name: str) -> AttributeError:
    """The error for a name that is not there.

    Parameters
    ----------
    owner : the class that was asked, or "watersmeet".
    has : the names that it has.
    name : the one that was asked for.
    """
    if name.startswith("_"):
        return AttributeError(f"{owner} has no attribute {name!r}")
    message, expression, snake = f"{owner} has no {name!r}.", f"{owner}.{name}", snake_case(name)
    for candidate in (name, snake):
        if candidate in has:
            return MissingName(message, given=expression, hint=f"Here it is called {candidate}.")
        if candidate in ELSEWHERE.get(owner, {}):
            return MissingName(message, given=expression, hint=f"Here it is {ELSEWHERE[owner][candidate]}.")
    near = get_close_matches(snake, has, n=1)
    return MissingName(
        message, given=expression, hint=f"Did you mean {near[0]}?" if near else f"It has {', '.join(has)}."
    )


def public(kind: type) -> list[str]:
    """The public names of a class."""
    declared = getattr(kind, "__annotations__", ())
    return sorted(name for name in {*dir(kind), *declared} if not name.startswith("_"))


def snake_case(name: str) -> str:
    """A name of Java's in Python's spelling.

    >>> snake_case("ofTimeDifferenceAndGrace")
    'of_time_difference_and_grace'
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


# Calls that do not fit: an option that is not there, an argument that is left out, or that is given by its place.
#
# `answering` is put before a class: each of its public methods then answers such a call with a hint, and so does each
# name that it has not.

C = TypeVar("C", bound=type)
F = TypeVar("F", bound=Callable[..., Any])
_SHOWN = 60


def answering(kind: C) -> C:
    """The class, of which each wrong call and each missing name has a hint."""
    for name, member in list(vars(kind).items()):
        function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        if inspect.isfunction(function) and (name == "__init__" or not name.startswith("_")):
            wrapper: Any = _wrapped(function, kind.__name__, name, bound=not isinstance(member, staticmethod))
            setattr(kind, name, type(member)(wrapper) if wrapper is not None and function is not member else wrapper)
    if "__getattr__" not in vars(kind):
        _naming(kind, None)
    return kind


def answering_as(kind: type) -> Callable[[C], C]:
    """The class, of which each missing name has a hint: it shows itself to users as another one, by its public names.

    Calls are left as they are: those of a processor are made for each record.
    """
    return lambda cls: _naming(cls, kind)


def _naming(kind: C, alias: type | None) -> C:
    if not TYPE_CHECKING:  # for a type checker such a name is a mistake

        def absent(self: Any, name: str) -> Any:
            of = alias or type(self)
            raise missing(of.__name__, public(of), name)

        kind.__getattr__ = absent
    return kind


def answered(function: F) -> F:
    """A function of the package, with hints for its wrong calls."""
    return _wrapped(function, "wm", function.__name__, bound=False)


def answered_as(use: str) -> Callable[[F], F]:
    """The same of a function that says itself how it is called; `use`: a hint without its full stop."""
    return lambda function: _wrapped(function, "wm", function.__name__, bound=False, use=use)


def _wrapped(function: F, owner: str, name: str, *, bound: bool, use: str | None = None) -> F:
    signature = signature_of(function)

    def call_of(given: Sequence[Any], options: Mapping[str, Any]) -> _Call:
        whose = _owner(given[0], owner) if bound and given else owner
        return _Call(whose, name, list(signature.parameters.values())[bound:], given[bound:], options, use)

    def check_types(given: Sequence[Any], options: Mapping[str, Any]) -> None:
        # what the package calls itself is not what the user wrote
        if sys._getframe(2).f_globals.get("__name__", "").partition(".")[0] == "watersmeet":
            return
        misfit = _misfit(function, given, options)
        if misfit is not None:
            raise _of_type(call_of(given, options), *misfit)

    is_acting = owner in _ACTING

    @wraps(function)
    def wrapper(*arguments: Any, **options: Any) -> Any:
        if is_acting:
            check_types(arguments, options)
        try:
            signature.bind(*arguments, **options)
        except TypeError as error:
            raise _answer(call_of(arguments, options), error) from None
        try:
            result = function(*arguments, **options)
        except WatersmeetError:
            raise
        except Exception:
            if not is_acting:
                check_types(arguments, options)
            raise  # it comes from within
        if not is_acting:
            check_types(arguments, options)
        return StreamEnd() if result is None and name == "to" else result

    wrapper.__signature__ = signature  # type: ignore[attr-defined]
    return cast("F", wrapper)


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """The signature, with options by name in place of `**options`: those of its overloads, or of its `Unpack`.

    An option is required if each overload requires it.
    """
    signature = inspect.signature(function)
    overloads = get_overloads(function)
    forms = [_options(form) for form in (overloads if overloads and function not in overloads else [function])]
    names = dict.fromkeys(name for form in forms for name in form if name not in signature.parameters)
    if not names:
        return signature
    parameters = list(signature.parameters.values())[:-1]
    for name in names:
        options = [form[name] for form in forms if name in form]
        is_required = len(options) == len(forms) and all(option.default is option.empty for option in options)
        default = next((option.default for option in options if option.default is not option.empty), None)
        annotation = " | ".join(dict.fromkeys(str(option.annotation) for option in options))
        option = options[0].replace(annotation=annotation)
        parameters.append(option if is_required else option.replace(default=default))
    return signature.replace(parameters=parameters)


def _options(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The parameters that a function takes by name alone, with those of its `Unpack`."""
    parameters = inspect.signature(function).parameters.values()
    options = {option.name: option for option in parameters if option.kind is option.KEYWORD_ONLY}
    unpacked = _unpacked(function)
    for name, annotation in unpacked.__annotations__.items() if unpacked else ():
        default = inspect.Parameter.empty if name in unpacked.__required_keys__ else None
        text = annotation.__forward_arg__
        options[name] = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=text, default=default)
    return options


def _unpacked(function: Callable[..., Any]) -> Any:
    """The TypedDict that its `**options: Unpack[...]` is of, if it has one."""
    name = re.fullmatch(r"Unpack\[(\w+)\]", str(function.__annotations__.get("options")))
    return name and function.__globals__[name[1]]


def _owner(first: Any, owner: str) -> str:
    """The class that a method was called of, which may have inherited it."""
    kind = first if isinstance(first, type) else type(first)
    return kind.__name__ if any(base.__name__ == owner for base in kind.__mro__) else owner


class _Call:
    """A call that does not fit its function.

    Parameters
    ----------
    owner, name : of the function; the name of a class's own call is "__init__".
    parameters : that it takes.
    given, options : what it got.
    use : how it is called; None: as the table says.
    """

    def __init__(
        self,
        owner: str,
        name: str,
        parameters: Sequence[inspect.Parameter],
        given: Sequence[Any],
        options: Mapping[str, Any],
        use: str | None = None,
    ) -> None:
        self.example = use
        self.shown = owner if name == "__init__" else f"{owner}.{name}"
        self.name = owner if name == "__init__" else name
        self.takes = [parameter.name for parameter in parameters if not parameter.name.startswith("_")]
        self.placed = [parameter.name for parameter in parameters if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
        self.by_name = [
            parameter.name
            for parameter in parameters
            if parameter.kind is parameter.KEYWORD_ONLY and parameter.name in self.takes
        ]
        self.needed = [
            parameter.name
            for parameter in parameters
            if parameter.default is parameter.empty
            and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        ]
        self.given, self.options = given, options

    @property
    def unknown(self) -> str | None:
        """The first option that it does not take."""
        return next((name for name in self.options if name not in self.takes), None)

    @property
    def surplus(self) -> Sequence[Any]:
        """The arguments that have no parameter."""
        return self.given[len(self.placed) :]

    @property
    def lacking(self) -> list[str]:
        """The required arguments that are left out."""
        names = {*self.placed[: len(self.given)], *self.options}
        return [name for name in self.needed if name not in names]

    def looked_up(self, table: Mapping[str, Any]) -> Any:
        """The entry of a table for the function: by class and name, or by name alone."""
        return table.get(self.shown, table.get(self.name))

    @property
    def known_use(self) -> str | None:
        """How it is called, where that is said."""
        usage = self.example or self.looked_up(USES)
        return None if usage is None else str(usage)

    @property
    def use(self) -> str:
        """How it is called."""
        usage = self.known_use
        return str(usage) if usage is not None else f"It takes {_listed(self)}"


def _answer(call: _Call, error: TypeError) -> Exception:
    if call.unknown is not None:
        name = call.unknown
        message = f"{call.shown} has no option {name}={_text(call.options[name])}."
        return WrongCall(message, hint=_sentence(_cure(call, name)))
    if call.surplus:
        most = len(call.placed)
        places = f"{most} argument{'s' * (most != 1)} without a name" if most else "no argument without a name"
        message = f"{call.shown} takes {places}, not also {', '.join(map(_text, call.surplus))}."
        return WrongCall(message, hint=f"{_by_name(call)}.")
    twice = [name for name in call.placed[: len(call.given)] if name in call.options]
    if twice:
        return WrongCall(f"{call.shown} was given {twice[0]} twice.", hint=f"Give {twice[0]} once.")
    if call.lacking:
        got = [*map(_text, call.given), *(f"{name}={_text(value)}" for name, value in call.options.items())]
        and_got = f", and got {', '.join(got)}" if got else ""
        return WrongCall(f"{call.shown} needs {' and '.join(call.lacking)}{and_got}.", hint=f"{call.use}.")
    return error


def _cure(call: _Call, name: str) -> str:
    """The replacement for a wrong option."""
    use, snake = call.known_use, snake_case(name)
    if use is not None and call.shown in MADE:
        return str(use)
    lacks = f". {use}" if use is not None and call.lacking else ""
    if snake in call.takes:
        return f"Here it is called {snake}={lacks}"
    for cures in (OPTIONS.get(call.shown, {}), OPTIONS.get(call.name, {}), OPTIONS[""]):
        if snake in cures:
            cure = cures[snake] if _has(call, cures[snake]) else OPTIONS[""]["store"]
            return f"{cure}{lacks}"
    near = get_close_matches(snake, call.takes, n=1, cutoff=0.7)
    if near:
        return f"Did you mean {near[0]}=?{lacks}"
    return f"It takes {_listed(call)}" + ("" if use is None else f". {use}")


def _has(call: _Call, cure: str) -> bool:
    """Whether the call takes the store that a cure names, if it names one."""
    return not cure.startswith("store=") or "store" in call.takes


def _by_name(call: _Call) -> str:
    """How what has no place is given."""
    names = call.looked_up(PLACES)
    if names is None:
        names = ("name",) if isinstance(call.surplus[0], str) else ()
    examples = [
        f"{name}={_text(value)}" for name, value in zip(names, call.surplus, strict=False) if name in call.by_name
    ]
    fallback = call.by_name or call.placed
    use = call.known_use
    if examples:
        return f"By name: {', '.join(examples)}"
    if use is not None:
        options = ", ".join(f"{name}=" for name in call.by_name)
        return f"{use}. By name alone: {options}" if options and call.shown not in MADE else str(use)
    return f"By name: {', '.join(f'{name}=' for name in fallback)}" if fallback else "Leave it out"


def _listed(call: _Call) -> str:
    options = [f"{name}=" for name in call.by_name]
    return ", ".join([*call.placed, *options]) or "nothing"


def _text(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _sentence(text: str) -> str:
    return text if text.endswith("?") else f"{text}."


def option_refused(subject: str, name: str, value: Any, method: str, takes: Sequence[str]) -> WrongCall:
    """The error for an option of a method that what was given to it does not take.

    Parameters
    ----------
    subject : it, as the beginning of a sentence.
    name, value : of the option.
    method : of which it is an option.
    takes : the options that are taken.
    """
    cure = OPTIONS.get(method, {}).get(snake_case(name))
    listed = f"It takes {', '.join(f'{option}=' for option in takes)}"
    return WrongCall(f"{subject} has no option {name}={_text(value)}.", hint=f"{cure or listed}.")


# Arguments of another type than the signature says.
#
# What a function says itself of an argument goes first. This is for what it would accept, or fall over later: a number
# for a text, a text for a list, an empty name, a negative number. Functions that do something are asked before.

_ACTING = frozenset(("Query", "ServedTable", "TableClient"))
_MAY_BE_EMPTY = frozenset(("case",))
_ANYTHING = frozenset(("target",))
"""Outputs of one's own are no classes that a signature can name."""
_SECRET = frozenset(("password", "token", "url", "username"))
# times before 1970, and the ends of JoinWindows, of which one may lie on the other side
_MAY_BE_NEGATIVE = frozenset(
    "ts timestamp start_ts from_ts to_ts as_of start_ms end_ms start end before_ms after_ms".split()  # noqa: SIM905
)


def _misfit(
    function: Callable[..., Any], given: Sequence[Any], options: Mapping[str, Any]
) -> tuple[str, Any, Any] | None:
    """(name, value, its right type) of the first argument that is not of the type that the signature says."""
    kinds, placed = argument_types(function)
    named = (*zip(placed, given, strict=False), *options.items())
    each_of = ((name, value, kinds.get(name, Any)) for name, value in named if name not in _ANYTHING)
    return next((each for each in each_of if not _fits(each[1], each[2], each[0])), None)


def _of_type(call: _Call, name: str, value: Any, kind: Any) -> WrongCall:
    """The error for an argument of another type."""
    shown = "..." if name in _SECRET else "{...}" if isinstance(value, Mapping) and value else _text(value)
    use = f". {call.known_use}" if name in call.placed and call.known_use is not None else ""
    return WrongCall(f"{call.shown} takes no {name}={shown}.", hint=f"{name}= is {_kind_text(kind, value)}{use}.")


class _Namespace(dict[str, Any]):
    """The names of annotations; one that only a type checker imports is looked up where it may be, or is anything."""

    def __missing__(self, name: str) -> Any:
        modules = (sys.modules.get(each) for each in ("collections.abc", "pyspark.sql", "pyspark.sql.types"))
        places = (sys.modules, *(vars(each) for each in modules if each is not None))
        return next((place[name] for place in places if name in place), Any)


@cache
def argument_types(function: Callable[..., Any]) -> tuple[dict[str, Any], list[str]]:
    """(types of the parameters by name, the parameters that have a place)."""
    names = _Namespace({**vars(builtins), **function.__globals__})
    parameters = signature_of(function).parameters
    placed = [name for name, each in parameters.items() if each.kind is each.POSITIONAL_OR_KEYWORD]
    annotations = {name: kind.annotation for name, kind in parameters.items() if kind.annotation is not kind.empty}
    return get_type_hints(SimpleNamespace(__annotations__=annotations), localns=names), placed


def _fits(value: Any, kind: Any, option: str) -> bool:
    """Whether a value is of a type; of what no value says, it is."""
    origin, parts = get_origin(kind) or kind, get_args(kind)
    if origin in (Union, UnionType):
        return any(_fits(value, each, option) for each in parts)
    if origin is Literal:
        return any(type(value) is type(each) and value == each for each in parts)
    if origin is str:
        return isinstance(value, str) and (value != "" or option in _MAY_BE_EMPTY)
    if origin in (int, float):
        number = numbers.Integral if origin is int else numbers.Real
        fits = isinstance(value, number) and not isinstance(value, bool)
        return fits and (value >= 0 or option in _MAY_BE_NEGATIVE)
    if origin is Callable:
        # wm.python holds the function that it is of
        return callable(value) or callable(getattr(value, "function", None))
    if origin is Any or not isinstance(origin, type) or getattr(origin, "_is_protocol", False):
        return True
    is_text = isinstance(value, str | bytes) and origin is not bytes and issubclass(origin, Collection)
    if is_text or not isinstance(value, origin):
        return False
    of_each = isinstance(value, Sequence) and (len(parts) == 1 or parts[1:] == (...,))
    return not of_each or all(_fits(each, parts[0], option) for each in cast("Sequence[Any]", value))


def _kind_text(kind: Any, value: Any = None) -> str:
    """A type in words; `value`: what was given instead."""
    origin, parts = get_origin(kind) or kind, get_args(kind)
    if origin in (Union, UnionType):
        kinds = [each for each in parts if each is not NoneType]
        duration = {str, timedelta} <= {*kinds}
        said = [_kind_text(each, value) for each in kinds if not (duration and each in (str, timedelta))]
        said += ["a duration: '5 minutes', or timedelta(minutes=5)"] * duration
        return " or ".join(dict.fromkeys(said))
    if origin is Literal:
        return " or ".join(map(repr, parts))
    plain: dict[Any, str] = {str: "a text, such as 'orders'", bool: "True or False"}
    plain |= {int: "a whole number, not below 0", float: "a number, not below 0"}
    if origin is Callable:
        column = re.fullmatch(r"(?:Column<')?(\w+)(?:'>)?", str(value))
        return f"a function, such as lambda value: value[{column[1] if column else 'field'!r}]"
    if origin in plain:
        return plain[origin]
    name = getattr(origin, "__name__", str(origin))
    if issubclass(origin, Mapping):
        return "a dictionary"
    if issubclass(origin, Sequence):
        return "a list, such as ['orders']" if parts[:1] == (str,) else "a list"
    return "a path" if name == "PathLike" else f"a {name}"


# Hints for uses of streams and tables as Python values: they have no rows to count, iterate over or compare here.

_CURES = {
    "[...]": "map_values(lambda value: value['field']) takes a field of each; of a query's table wm.read_state(spark, "
    "checkpoint, store) gives the rows",
    "[...] =": "map_values(lambda value: value.withField('field', ...)) gives each a field",
    "for": "peek(function) shows each record to a function; TopologyTestDriver gives a test the results",
    "len": "group_by_key().count() counts the records of each key",
    "in": "filter(lambda value: ...) keeps the records that are wanted",
    "+": "one.merge(other) brings two streams together; join(...) what has one key",
    "|": "one.merge(other) merges two streams; in a predicate, | joins conditions of a Column",
    "&": "join(other, joiner) joins by key; in a predicate, & joins conditions of a Column",
    ">": "filter(lambda value: value['field'] > 5) compares in each record",
}


class StreamEnd:
    """The result of `to`, which ends a stream: each name that is asked of it is answered with how to go on."""

    def __repr__(self) -> str:
        return "StreamEnd()"

    def _ipython_display_(self) -> None:
        """A notebook shows nothing of it."""

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        raise MissingName(
            f"to(...) ends a stream, and gives none to call {name} of.",
            hint=f"Keep the stream, and call both of it: stream.to('topic'), then stream.{name}(...). "
            "stream.through('topic') writes it and continues.",
        )


class NoValue:
    """Answers what Python does with values: with what a stream or a table has in its place."""

    def __getitem__(self, key: Any) -> NoReturn:
        self._refuse("[...]", f"[{key!r:.60}]")

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        self._refuse("[...] =", f"[{key!r:.60}] = ...")

    def __iter__(self) -> NoReturn:
        self._refuse("for", "a loop (for, list, sorted, ...)")

    def __len__(self) -> int:
        self._refuse("len", "len")

    def __bool__(self) -> bool:
        return True

    def __contains__(self, value: Any) -> bool:
        self._refuse("in", "in")

    def __add__(self, other: Any) -> NoReturn:
        self._refuse("+", "+")

    def __or__(self, other: Any) -> NoReturn:
        self._refuse("|", "|")

    def __and__(self, other: Any) -> NoReturn:
        self._refuse("&", "&")

    def __gt__(self, other: Any) -> bool:
        self._refuse(">", ">")

    def __ge__(self, other: Any) -> bool:
        self._refuse(">", ">=")

    def __lt__(self, other: Any) -> bool:
        self._refuse(">", "<")

    def __le__(self, other: Any) -> bool:
        self._refuse(">", "<=")

    def _refuse(self, operator: str, syntax: str) -> NoReturn:
        kind = type(self).__name__
        raise WrongCall(f"A {kind} is no value of Python's, and has no {syntax}.", hint=f"{_CURES[operator]}.")
