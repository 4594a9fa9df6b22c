"""Names that people bring along from Kafka Streams and PySpark, and what they are called here.

Vocabulary. Whoever writes `table.leftJoin` or `stream.groupByKey` is told what to write, or that it is not
there yet, in place of Python's bare "has no attribute".
"""

from __future__ import annotations

import re
from difflib import get_close_matches

from millpond.errors import MissingName

NOT_YET = {
    "the operators": "add_global_store add_processor add_sink add_source add_state_store "
    "flat_transform flat_transform_values process process_values transform transform_values",
}
_NOT_YET = frozenset(" ".join(NOT_YET.values()).split())
_FIRST_OF_EACH = (
    "group_by_key().agg(first=mp.first(lambda value: value), n=mp.count()).to_stream()"
    ".filter(lambda row: row['n'] == 1).map_values(lambda row: row['first']), which passes the first record of each key"
)
_VALUES_OF_ROWS = (
    "group_by(lambda value: (value, value)).count().filter(lambda rows: rows > 0), which has a row for each value and "
    "says how many rows have it"
)
_NO_DUPLICATES = ("distinct", "drop_duplicates", "drop_duplicates_within_watermark")
_STREAM = {
    **dict.fromkeys(_NO_DUPLICATES, _FIRST_OF_EACH),
    "aggregate": "group_by_key().aggregate(...)",
    "alias": "name= of the operator before",
    "branch": "split({'name': predicate}, default='rest')",
    "cogroup": "group_by_key().cogroup(aggregator)",
    "count": "group_by_key().count()",
    "for_each": "peek(function), or to(mp.ForeachBatch(function), name=...)",
    "foreach": "peek(function), or to(mp.ForeachBatch(function), name=...)",
    "foreach_batch": "to(mp.ForeachBatch(function), name=...)",
    "print": "peek(print)",
    "reduce": "group_by_key().reduce(...)",
    "windowed_by": "group_by_key().windowed_by(...)",
    "right_join": "other.left_join(this, ...)",
    "select": "map_values(lambda value: F.struct(...))",
    "show": "peek(print), or millpond.testing.TopologyTestDriver",
    "union": "merge(other)",
    "union_all": "merge(other)",
    "union_by_name": "merge(other)",
    "where": "filter(predicate)",
    "with_column": "map_values(lambda value: F.struct(...))",
    "write": "to(mp.Writer('parquet', path=...), name=...)",
    "write_stream": "to(mp.Writer('parquet', path=...), name=...)",
}
_TABLE = {
    name: f"to_stream().{name}(...)"
    for name in ("flat_map", "flat_map_values", "map", "merge", "peek", "repartition", "select_key", "split", "through")
}
ELSEWHERE: dict[str, dict[str, str]] = {
    "KStream": _STREAM,
    "KTable": {
        **_STREAM,
        **_TABLE,
        **dict.fromkeys(_NO_DUPLICATES, _VALUES_OF_ROWS),
        "aggregate": "group_by(selector).aggregate(...)",
        "count": "group_by(selector).count()",
        "group_by_key": "group_by(selector), or to_stream().group_by_key()",
        "reduce": "group_by(selector).reduce(...)",
        "foreign_key_join": "join(other, joiner, foreign_key=...)",
        "for_each": "to_stream().peek(function)",
        "foreach": "to_stream().peek(function)",
        "print": "to_stream().peek(print)",
        "queryable_store_name": "store=... where the table is made",
        "union": "to_stream().merge(other.to_stream())",
    },
    "GlobalKTable": dict.fromkeys(
        ("filter", "filter_not", "map_values", "outer_join", "to", "to_stream"),
        "builder.table(...): a global table is there to be looked up, and gives no results of its own accord",
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
    "Topology": {"test": "millpond.testing.TopologyTestDriver(topology)", "run": "start(spark, checkpoint=...)"},
    "StreamsBuilder": {
        "k_stream": "stream(...)",
        "k_table": "table(...)",
        "read_stream": "stream(frame, name=..., key=..., timestamp=...)",
        "start": "build().start(spark, checkpoint=...)",
        "describe": "build().describe()",
    },
    "millpond": {
        "Consumed": "builder.stream('topic', key='long', value='string')",
        "Grouped": "name=... of group_by",
        "Joined": "name=... of the join, and grace=... with a versioned table",
        "KafkaStreams": "topology.start(spark, checkpoint=...)",
        "Materialized": "store=... of the table, and history=... of a versioned one",
        "Named": "name=... of the operator",
        "Produced": "stream.to('topic', key='long', value='string')",
        "Repartitioned": "stream.repartition(name=...)",
        "Serdes": "the formats 'string', 'long', 'double', 'uuid', ..., mp.decimal(...) and mp.json(...)",
        "StreamJoined": "name=... of the join",
        "TopologyTestDriver": "from millpond.testing import TopologyTestDriver",
    },
}
"""What stands for a name that a class does not have, by class and name in snake case."""


def missing(owner: str, has: list[str], name: str) -> AttributeError:
    """The error for a name that is not there.

    Parameters
    ----------
    owner : the class that was asked, or "millpond".
    has : the names that it has.
    name : the one that was asked for.
    """
    if name.startswith("_"):
        return AttributeError(f"{owner} has no attribute {name!r}")
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    what, given = f"{owner} has no {name!r}.", f"{owner}.{name}"
    for wanted in (name, snake):
        if wanted in has:
            return MissingName(what, given=given, hint=f"Here it is called {wanted}.")
        if wanted in _NOT_YET:
            return MissingName(f"{name!r} is not there yet.", given=given, hint=f"{owner} has {', '.join(has)}.")
        if wanted in ELSEWHERE.get(owner, {}):
            return MissingName(what, given=given, hint=f"Here it is {ELSEWHERE[owner][wanted]}.")
    near = get_close_matches(snake, has, n=1)
    return MissingName(what, given=given, hint=f"Did you mean {near[0]}?" if near else f"It has {', '.join(has)}.")


def public(kind: type) -> list[str]:
    """The public names of a class."""
    return [name for name in dir(kind) if not name.startswith("_")]
