"""Names that people bring along from Kafka Streams, PySpark, pandas, Faust and Quix, and what they are called here."""

from __future__ import annotations

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
_READ = "wm.read_state(spark, checkpoint, store) of a query, or get_store(...) of watersmeet.testing.TopologyTestDriver"
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
        "get": _READ,
        "print": "to_stream().peek(print)",
        "queryable_store_name": "store=... where the table is made",
        "range": _READ,
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
    "StreamsBuilder": {
        **dict.fromkeys(("k_stream", "topic", "dataframe", "agent", "source"), "stream('topic', key=..., value=...)"),
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
