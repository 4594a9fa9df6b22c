"""Options that people bring along, what to write in their place, and how each method is called."""

from __future__ import annotations

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
_BY_OWN_KEY = {
    "foreign_key": "key=, with a global table; a record finds a table's row by its own key: select_key(selector) before"
}
_READ = {
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
    "stream": {**_READ, "store": "builder.table(...) has a store; a stream keeps nothing"},
    "table": _READ,
    "global_table": {
        **_READ,
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
    "wm.JoinWindows.of_time_difference_and_grace('5 minutes', '1 minute'))",
    "outer_join": "For example one.outer_join(other, lambda left, right: ...)",
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
    ("TimeWindows", "SlidingWindows", "SessionWindows", "JoinWindows", "UnlimitedWindows", "Suppressed", "EmitStrategy")
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
