"""Vectors as topologies of watersmeet's own handles: what the oracle's builders do, with handles.

Owns the vectors of tables and their joins. What a test observed as a whole change (new and old value) is
compared by the new value: old values cannot be seen from outside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from proof.conformance_compare import new_value
from proof.oracle.vectors.build_vector import known_vector
from proof.oracle.vectors.joins import FOREIGN_KEYS, KEY_MAPPERS, window_of
from proof.oracle.vectors.tables import fold_of, grouping
from proof.oracle.vectors.untold import (
    IncompleteVectorError,
    NotBuildableError,
    described,
    described_value,
    mapper,
    predicate,
)
from proof.oracle.vectors.vectors import history_ms, joiner, sink_names, store
from proof.oracle.vectors.windows import aggregator_of, operators_of, retention_of
from proof.oracle.windows.aggregation import AGGREGATORS
from proof.recordings import History
from proof.runners.library import Library, as_written
from proof.runners.windowed_vectors import aggregated, is_windowed, unsupported_windows
from watersmeet.aggregates.user_defined import python
from watersmeet.api.builder import StreamsBuilder
from watersmeet.api.streams import KStream
from watersmeet.api.tables import GlobalKTable, KTable, WTable
from watersmeet.windows import JoinWindows

Vector = Mapping[str, Any]
OUTPUT = "out"


class VectorTopology:
    """Builds one vector's topology."""

    def __init__(self, builder: StreamsBuilder, library: Library, history: History) -> None:
        assert history.vector is not None, "a vector"
        self._builder = builder
        self._library = library
        self._history = history
        self.vector = described(history.vector)
        self.outputs: dict[str, str | None] = {}

    def build(self) -> None:
        """Add the topology to the builder."""
        BUILDERS[self.vector["operator"]](self)

    # -- inputs and outputs ----------------------------------------------------------------------------------

    def _formats(self, side: str) -> dict[str, Any]:
        keys = [s.key for s in self._history.steps]
        values = [s.value for s in self._history.steps if s.topic == side]
        return {"key": _kind(keys), "value": _kind(values)}

    def _table(self, side: str, number: int, *, stored: bool = True) -> KTable:
        name = f"{side}-store" if stored and store(self.vector, number) else None
        kept = history(history_ms(self.vector, number)) if name else None
        return self._builder.table(side, **self._formats(side), store=name, history=kept)

    def _stream(self, side: str) -> KStream:
        stream = self._builder.stream(side, **self._formats(side))
        return stream.repartition() if "repartition()ed" in self.vector.get("topology_note", "") else stream

    def _observe(self, handle: Any, name: str | None = None) -> None:
        output = name or OUTPUT
        as_written(handle).to(output)
        self.outputs[output] = name

    def _force_old(self, table: KTable) -> None:
        """A consumer that needs old values, as the test's processor did: a left join that nobody reads."""
        other = self._builder.table("nothing", **self._formats("nothing") | {"key": str(_name(table.key_type))})
        table.left_join(other, lambda left, right: left)

    # -- operators -------------------------------------------------------------------------------------------

    def _join(self, left: Any, right: KTable | WTable, operator: Mapping[str, Any], place: int) -> Any:
        said = self.vector.get("joiner") or ""
        kind = "long" if "integers" in said else "string"
        method = {"inner": "join", "left": "left_join", "outer": "outer_join"}[operator["type"]]
        kept: dict[str, Any] = {"store": f"result-{place}"} if operator.get("materialized") else {}
        if operator.get("grace_ms") is not None:
            kept["grace"] = timedelta(milliseconds=operator["grace_ms"])
        return getattr(left, method)(right, self._library.lift(joiner(self.vector), kind), **kept)

    def table_table(self) -> None:
        """Chains of table joins and filters."""
        operators = self.vector["params"].get("operators") or [{"type": self.vector["join_type"]}]
        if operators[0].get("op") == "window-aggregate":
            self._windowed_join(operators)
            return
        both = "both" in self.vector["inputs"]
        node = self._table("both" if both else "left", 0)
        right = node if both else self._table("right", 1)
        for place, operator in enumerate(operators):
            if operator.get("op") == "table-filter":
                holds = self._library.lift(predicate(self.vector), "boolean")
                node = node.filter(holds, store=f"filter-{place}" if operator.get("materialized") else None)
            else:
                node = self._join(node, right, operator, place)
        if self.vector.get("observes_old"):
            self._force_old(node)
        self._observe(node)

    def stream_table(self) -> None:
        """A stream joined with a table, perhaps derived."""
        left = self._stream("left")
        repartitioned = "repartition()ed" in self.vector.get("topology_note", "")
        right = self._stream("right").to_table() if repartitioned else self._table("right", 0)
        if self.vector.get("right") == "filter":
            right = right.filter(self._library.lift(predicate(self.vector), "boolean"))
        operators = self.vector["params"].get("operators") or [{"type": self.vector["join_type"]}]
        self._observe(self._join(left, right, {**operators[0], "materialized": False}, 0))

    def foreign_key(self) -> None:
        """A foreign-key join, perhaps joined with its own left side."""
        left, right = (self._own_table(side, number) for number, side in enumerate(("left", "right")))
        operators = self.vector["params"].get("operators") or [{"type": self.vector["join_type"]}]
        kind = str(_name(right.key_type))
        extractor = self._library.lift(FOREIGN_KEYS[self.vector["fk_extractor"]], kind)
        joins = self._library.lift(joiner(self.vector), "string")
        method = {"inner": left.join, "left": left.left_join}[operators[0]["type"]]
        result = method(right, joins, foreign_key=extractor)
        if len(operators) > 1 and described_value(self.vector, "rejoined") == "left with result":
            result = left.join(result, joins)
        self._observe(result)

    def one_to_many(self) -> None:
        """A one-to-many join under the key "prefix/suffix"."""
        one, many = self._own_table("one", 0), self._own_table("many", 1)
        result = one.one_to_many_join(
            many,
            self._library.lift(joiner(self.vector), "string"),
            key=self._library.lift(FOREIGN_KEYS[self.vector["fk_extractor"]], "string"),
            result_key=self._library.lift(lambda prefix, suffix: f"{prefix}/{suffix}", "string"),
        )
        self._observe(result)

    def many_to_many(self) -> None:
        """A join by equal values, under the key "left/right"."""
        left, right = self._own_table("left", 0), self._own_table("right", 1)
        compared = self._library.lift(FOREIGN_KEYS[self.vector["compared"]], "string")
        method = {"inner": "join", "left": "left_join", "outer": "outer_join"}[self.vector["join_type"]]
        result = getattr(left, method)(
            right,
            self._library.lift(joiner(self.vector), "string"),
            on=(compared, compared),
            result_key=self._library.lift(lambda left, right: f"{left or 'null'}/{right or 'null'}", "string"),
        )
        self._observe(result)

    def table_set(self) -> None:
        """Rows of a table that meet those of another one, or do not; sets of two, and the values of one."""
        left, method = self._own_table("left", 0), self.vector["join_type"]
        others = () if method == "distinct" else (self._own_table("right", 1),)
        options = {"on": "compared", "foreign_key": "fk_extractor"}
        functions = {
            option: self._library.lift(FOREIGN_KEYS[self.vector[fact]], "string")
            for option, fact in options.items()
            if fact in self.vector
        }
        self._observe(getattr(left, method)(*others, **functions))

    def global_lookup(self) -> None:
        """A stream joined with a global table."""
        self._look_up(self._builder.global_table("right", **self._own_formats("right")))

    def global_view(self) -> None:
        """A stream joined with a view of two global tables."""
        one, two = (self._builder.global_table(side, **self._own_formats(side)) for side in ("one", "two"))
        mapper = self._library.lift(FOREIGN_KEYS[self.vector["fk_extractor"]], str(_name(two.key_type)))
        method = {"inner": one.join, "left": one.left_join}[self.vector["view_type"]]
        self._look_up(method(two, self._library.lift(joiner(self.vector), "string"), key=lambda value: mapper(value)))

    def _look_up(self, right: GlobalKTable) -> None:
        left = self._builder.stream("left", **self._own_formats("left"))
        mapper = KEY_MAPPERS[self.vector["key_mapper"]]
        mapped = self._library.lift(lambda value: mapper(None, value), str(_name(right.key_type)))
        method = {"inner": left.join, "left": left.left_join}[self.vector["join_type"]]
        self._observe(method(right, self._library.lift(joiner(self.vector), "string"), key=mapped))

    def _own_formats(self, side: str) -> dict[str, Any]:
        """Formats where the two sides need not have one type of key."""
        keys = [s.key for s in self._history.steps if s.topic == side]
        return self._formats(side) | {"key": _kind(keys)}

    def _own_table(self, side: str, number: int) -> KTable:
        name = f"{side}-store" if store(self.vector, number) else None
        kept = history(history_ms(self.vector, number))
        return self._builder.table(side, **self._own_formats(side), store=name, history=kept)

    def source(self) -> None:
        """A table alone."""
        table = self._table("input", 0)
        if self.vector.get("observes_old"):
            self._force_old(table)
        self._observe(table)

    def map_values(self) -> None:
        """Mapped tables, each observed."""
        function, kind = mapper(self.vector)
        operators = described_value(self.vector["params"], "operators")
        own = sum(bool(operator.get("materialized")) for operator in operators)
        source = self._table("input", 0, stored=len(self.vector["params"].get("stores", ())) > own)
        for place, operator in enumerate(operators):
            kept = f"mapped-{place}" if operator.get("materialized") else None
            self._observe(source.map_values(self._library.lift(function, kind), store=kept))

    def map_then_filter(self) -> None:
        """A table, its mapped values, those filtered, and the table through a topic into another one: each observed."""
        names, source = sink_names(self.vector), self._table("input", 0, stored=False)
        self._observe(source, names[0])
        function, kind = mapper(self.vector)
        mapped = source.map_values(self._library.lift(function, kind))
        self._observe(mapped, names[1])
        self._observe(mapped.filter(self._library.lift(predicate(self.vector), "boolean")), names[2])
        self._observe(source.to_stream().repartition().to_table(), names[3])

    def twice_repartitioned(self) -> None:
        """A stream that is repartitioned twice."""
        self._observe(self._stream("left").repartition().repartition())

    def filters(self) -> None:
        """Filtered tables, each observed."""
        everything = described_value(self.vector["params"], "operators")
        operators = [operator for operator in everything if operator["op"] == "table-filter"]
        stores = self.vector["params"].get("stores", ())
        stored = len(stores) - sum(bool(o.get("materialized")) for o in operators) - len(everything) + len(operators)
        source = self._table("input", 0, stored=stored > 0)
        holds = self._library.lift(predicate(self.vector), "boolean")
        tables = []
        for place, operator in enumerate(operators):
            kept = f"filtered-{place}" if operator.get("materialized") else None
            filtered = source.filter_not if operator["type"] == "filterNot" else source.filter
            tables.append(filtered(holds, store=kept))
        if len(everything) > len(operators):
            appended, removed = python(lambda one, other: one + other), python(lambda one, other: one)
            tables[0].group_by(lambda key, value: (key, value)).reduce(appended, removed)
        elif any(kept["send_old_values"] for kept in stores):
            self._force_old(tables[0])
        if self.vector["observes_changes"]:
            self._observe(tables[0], "proc2")
            self._observe(source, "proc1")
        else:
            for table, name in zip(tables, sink_names(self.vector) * len(tables), strict=False):
                self._observe(table, name)

    def table_aggregate(self) -> None:
        """A grouped table's aggregate."""
        selector, fold = grouping(self.vector)
        table = self._table("input", 0)
        pairs: list[Any] = [selector(step.key, step.value) for step in self._history.steps if step.value is not None]
        parts = [
            self._library.lift(_part(selector, place), _kind([pair[place] for pair in pairs if pair is not None]))
            for place in (0, 1)
        ]
        grouped = table.group_by(lambda key, value: tuple(part(key, value) for part in parts))
        add, subtract = fold.add, fold.subtract
        assert subtract is not None, "of a table"
        if fold is AGGREGATORS["count"]:
            self._observe(self._as_text(grouped.count()))
        elif fold.initial is None:
            self._observe(grouped.reduce(python(add), python(subtract)))
        else:
            steps = (lambda value, total: add(total, value)), (lambda value, total: subtract(total, value))
            self._observe(grouped.aggregate(fold.initial, *map(python, steps)))

    def stream_aggregate(self) -> None:
        """A grouped stream's aggregate."""
        fold, grouped = fold_of(self.vector, "count"), self._stream("input").group_by_key()
        if fold is AGGREGATORS["count"]:
            self._observe(self._as_text(grouped.count()))
        elif fold.initial is None:
            self._observe(grouped.reduce(python(fold.add)))
        else:
            self._observe(grouped.aggregate(fold.initial, python(lambda value, total: fold.add(total, value))))

    def window_aggregate(self) -> None:
        """A windowed aggregate alone."""
        self._observe(self._by_window("input", operators_of(self.vector["params"])[0]))

    def _windowed_join(self, operators: list[Mapping[str, Any]]) -> None:
        names = sink_names(self.vector)
        left, right = (self._by_window(side, operators[place]) for place, side in enumerate(("left", "right")))
        self._observe(left, names[0])
        self._observe(right, names[1])
        self._observe(self._join(left, right, operators[2], 2), names[2])

    def _by_window(self, side: str, operator: Mapping[str, Any]) -> WTable:
        table = aggregated(self._stream(side), aggregator_of(self.vector), operator)
        return self._as_text(table) if aggregator_of(self.vector) is AGGREGATORS["count"] else table

    def _as_text(self, counted: Any) -> Any:
        """Counts, which some tests wrote as text."""
        return counted.map_values(self._library.lift(str, "string")) if self.vector["emits_text"] else counted

    def stream_stream(self) -> None:
        """Chains of windowed joins of two streams, or of one with itself."""
        if "both" in self.vector["inputs"]:
            left = right = self._stream("both")
        else:
            left, right = self._stream("left"), self._stream("right")
        operators = self.vector["params"].get("operators") or [
            {"type": self.vector["join_type"], **self.vector["params"]}
        ]
        kind = "long" if "integers" in (self.vector.get("joiner") or "") else "string"
        plus = self._library.lift(joiner(self.vector), kind)
        for operator in operators:
            method = {"inner": "join", "left": "left_join", "outer": "outer_join"}[operator["type"]]
            left = getattr(left, method)(right, plus, _windows(window_of(self.vector, operator)))
        self._observe(left)


BUILDERS: dict[str, Callable[[VectorTopology], None]] = {
    "stream-stream": VectorTopology.stream_stream,
    "table-table": VectorTopology.table_table,
    "stream-table": VectorTopology.stream_table,
    "fk-table-table": VectorTopology.foreign_key,
    "fk-table-table+table-table": VectorTopology.foreign_key,
    "one-to-many": VectorTopology.one_to_many,
    "many-to-many": VectorTopology.many_to_many,
    "table-set": VectorTopology.table_set,
    "stream-globaltable": VectorTopology.global_lookup,
    "stream-globalview": VectorTopology.global_view,
    "table-source": VectorTopology.source,
    "table-mapValues": VectorTopology.map_values,
    "table-filter": VectorTopology.filters,
    "table-mapValues+table-filter": VectorTopology.map_then_filter,
    "other": VectorTopology.twice_repartitioned,
    "table-filter+table-aggregate": VectorTopology.filters,
    "table-aggregate": VectorTopology.table_aggregate,
    "stream-aggregate": VectorTopology.stream_aggregate,
    "window-aggregate": VectorTopology.window_aggregate,
    "window-aggregate(session)": VectorTopology.window_aggregate,
}


def history(ms: int | None) -> timedelta | None:
    """A table's history, as it is told."""
    return None if ms is None else timedelta(milliseconds=ms)


def _part(selector: Any, place: int) -> Any:
    def part(key: Any, value: Any) -> Any:
        pair = None if key is None or value is None else selector(key, value)
        return None if pair is None else pair[place]

    return part


def _windows(operator: Mapping[str, Any]) -> JoinWindows:
    before = operator["before_ms"]
    window = JoinWindows(before, operator.get("after_ms", before), operator.get("grace_ms", 0))
    return replace(window, eager=not operator.get("spurious_fix", True))


def unsupported_vector(vector: Vector) -> str | None:
    """Why a vector cannot be built yet; None when it can."""
    if vector["operator"] not in BUILDERS:
        if not known_vector(vector["operator"]):
            raise IncompleteVectorError(f"no topology for vectors of {vector['operator']!r}")
        return f"no operator yet for {vector['operator']}"
    try:
        whole = described(vector)
    except IncompleteVectorError:
        raise
    except NotBuildableError as reason:
        return str(reason)
    params = whole.get("params", {})
    if vector["operator"] in ("stream-stream", "stream-aggregate"):
        return None
    if vector["operator"] == "table-aggregate":
        before = vector["semantics"] == "pre-3.5"
        return "two messages where a group stays are of releases before 3.5" if before else None
    if is_windowed(vector):
        retention_of(whole, operators_of(params)[0])
        return unsupported_windows(params)
    return None


def new_values(history: History) -> History:
    """The history with whole changes reduced to their new values."""
    steps = tuple(
        replace(step, expect=None if step.expect is None else tuple(map(new_value, step.expect)))
        for step in history.steps
    )
    return replace(history, steps=steps)


def _kind(values: list[Any]) -> str:
    return "long" if any(isinstance(value, int) for value in values) else "string"


def _name(kind: Any) -> str:
    return "long" if str(kind) in ("int64", "LongType()") else "string"
