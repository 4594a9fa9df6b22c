"""The rows that must stand: each table computed from the latest rows of the inputs, behind every record.

Owns a second opinion on rows: it knows neither messages, nor old values, nor any order, so it shares no mistake with
the engine or the oracle. Law: a table is a function of its inputs' latest rows; what is more than that (windows,
histories, folds of streams, processors) is not computed, nor is what reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from proof.histories.blueprint import Blueprint, Op, Ref, name_of
from proof.histories.case import Case
from proof.histories.kinds import functions as text
from proof.histories.kinds.lookups import nested
from proof.histories.kinds.registry import SINKS, shape_of
from proof.histories.last_results import all_above, forks
from proof.histories.subjects.times import with_extracted_times
from proof.oracle.records import Result

Rows = Mapping[Any, str]
Place = tuple[str, Any]
_PASSES = ("to_stream", "to_table", "through", "repartition", "peek", "to", "table_to")


class Recomputation:
    """The tables of a blueprint, and of each group that it has been seen.

    Parameters
    ----------
    blueprint : the topology.
    """

    def __init__(self, blueprint: Blueprint) -> None:
        self._blueprint = blueprint
        self._refer = text.referrer(blueprint.keys)
        self._groups: dict[int, set[Any]] = {}

    def sinks(self, inputs: Mapping[str, Rows]) -> dict[Place, str]:
        """What stands in the outputs that can be computed, by output and key."""
        made: list[Rows | None] = []
        for number, op in enumerate(self._blueprint.ops):
            sides = [made[ref.op] if ref.port == 0 else None for ref in op.inputs]
            made.append(self._rows(number, op, sides, inputs))
        outputs = ((name_of(n), made[n]) for n, op in enumerate(self._blueprint.ops) if op.kind in SINKS)
        return {(name, key): value for name, rows in outputs for key, value in (rows or {}).items()}

    def computed(self) -> set[str]:
        """The outputs that can be computed."""
        made: list[bool] = []
        for number, op in enumerate(self._blueprint.ops):
            sides: list[Rows | None] = [{} if ref.port == 0 and made[ref.op] else None for ref in op.inputs]
            made.append(self._rows(number, op, sides, {}) is not None)
        sinks = [n for n, op in enumerate(self._blueprint.ops) if op.kind in SINKS and made[n]]
        return {name_of(n) for n in sinks if not self._sends_late(self._blueprint.ops[n].inputs[0])}

    def _sends_late(self, ref: Ref) -> bool:
        """Whether it is a versioned table, or mapped values of one: its changes leave in order of arrival."""
        op = self._blueprint.ops[ref.op]
        mapped = op.kind in ("table_filter", "table_map_values") and not op.params.get("stored")
        return "history" in op.params or (mapped and self._sends_late(op.inputs[0]))

    def _rows(self, number: int, op: Op, sides: list[Rows | None], inputs: Mapping[str, Rows]) -> Rows | None:
        rows = [side for side in sides if side is not None]
        if len(rows) < len(sides) or "sees" in op.params or ("history" in op.params and op.kind != "table"):
            return None
        if self._blueprint.generation != "current" and "foreign_key" in (op.kind, op.params.get("way")):
            return None  # an update with a null foreign key is ignored there
        if (
            op.kind in ("table_filter", "table_map_values")
            and op.params.get("stored")
            and self._sends_late(op.inputs[0])
        ):
            return None  # a store without a past takes what arrives (KIP-914)
        if op.kind in ("stream", "table", "global"):
            return inputs.get(name_of(number), {})
        if op.kind in _PASSES:
            return rows[0]
        if op.kind == "table_aggregate":
            return self._counts(number, rows[0]) if op.params["fold"] == "count" else None
        compute = _TABLES.get(op.kind)
        return None if compute is None else compute(self, op, rows)

    def _counts(self, number: int, rows: Rows) -> Rows:
        """The rows of each group; zero of one that had some."""
        of_rows = [self._refer(value) for value in rows.values()]
        seen = self._groups.setdefault(number, set())
        seen |= set(of_rows) - {None}
        return {group: str(of_rows.count(group)) for group in seen}

    def _filtered(self, op: Op, rows: list[Rows]) -> Rows:
        return {key: value for key, value in rows[0].items() if bool(text.even(value)) != op.params["negate"]}

    def _mapped(self, _: Op, rows: list[Rows]) -> Rows:
        mapped = ((key, text.mapped(value)) for key, value in rows[0].items())
        return {key: value for key, value in mapped if value is not None}

    def _joined(self, op: Op, rows: list[Rows]) -> Rows:
        hows = op.params.get("hows") or [op.params["how"]]
        inner = (side for side, how in zip(rows[1:], hows, strict=True) if how == "inner")
        needed = [] if "outer" in hows else [rows[0], *inner]
        keys = {key for side in rows for key in side if all(key in each for each in needed)}
        return {key: text.all_plus(*(side.get(key) for side in rows)) for key in keys}

    def _referred(self, op: Op, rows: list[Rows]) -> Rows:
        left, right = rows
        found = {key: right.get(self._refer(value)) for key, value in left.items()}
        kept = (key for key, row in found.items() if row is not None or op.params["how"] == "left")
        return {key: text.plus(left[key], found[key]) for key in kept}

    def _view(self, op: Op, rows: list[Rows]) -> Rows:
        def join(left: Rows, right: Rows, how: str) -> Rows:
            return self._referred(Op("foreign_key", (), {"how": how}), [left, right])

        joined: Rows = nested(rows, op.params, join)
        return joined

    def _pairs(self, _: Op, rows: list[Rows]) -> Rows:
        (one, many), combined = rows, text.both_keys(self._blueprint.keys)
        pairs = ((self._refer(value), key, value) for key, value in many.items())
        return {combined(to, key): text.plus(one[to], value) for to, key, value in pairs if to in one}

    def _set(self, op: Op, rows: list[Rows]) -> Rows:
        (left, right), method, way = rows, op.params["method"], op.params["way"]
        if method == "union":
            return {**right, **left}
        there = {self._refer(value) for value in right.values()} if way == "on" else {*right}
        asked = {key: key if way == "key" else self._refer(value) for key, value in left.items()}
        exists = method in ("semi_join", "intersect")
        return {key: left[key] for key, to in asked.items() if (to is not None and to in there) == exists}

    def _equal(self, op: Op, rows: list[Rows]) -> Rows:
        (left, right), how, key = rows, op.params["how"], text.pair_key(self._blueprint.keys)
        compared = [{key: self._refer(value) for key, value in side.items()} for side in rows]
        pairs = [
            (a, b) for a, to in compared[0].items() for b, at in compared[1].items() if to is not None and to == at
        ]
        alone = [(a, None) for a in left if how != "inner" and a not in {pair[0] for pair in pairs}]
        alone += [(None, b) for b in right if how == "outer" and b not in {pair[1] for pair in pairs}]
        return {key(a, b): text.plus(left.get(a), right.get(b)) for a, b in [*pairs, *alone]}


_TABLES: Mapping[str, Callable[[Recomputation, Op, list[Rows]], Rows]] = {
    "table_filter": Recomputation._filtered,
    "table_map_values": Recomputation._mapped,
    "table_table": Recomputation._joined,
    "multi_join": Recomputation._joined,
    "foreign_key": Recomputation._referred,
    "stored_view": Recomputation._view,
    "one_to_many": Recomputation._pairs,
    "many_to_many": Recomputation._equal,
    "table_set": Recomputation._set,
    "value_set": Recomputation._set,
}


class Versions:
    """The times of the latest versions of a versioned table's keys.

    Parameters
    ----------
    history : how far back a record may lie, in ms.
    """

    def __init__(self, history: int) -> None:
        self._history, self._now = history, -1
        self._times: dict[Any, int] = {}

    def is_latest(self, key: Any, ts: int) -> bool:
        """Whether a record is its key's row from now on: it has not expired, and none of the key is younger."""
        self._now = max(self._now, ts)
        if ts < self._now - self._history or ts < self._times.get(key, ts):
            return False
        self._times[key] = ts
        return True


def histories_of(blueprint: Blueprint) -> dict[str, int]:
    """The inputs that are versioned, and how far back they go."""
    return {name_of(n): op.params["history"] for n, op in enumerate(blueprint.ops) if "history" in op.params}


def recomputed(case: Case) -> Iterator[dict[Place, str]]:
    """What must stand in the outputs behind each record."""
    tables, shape = Recomputation(case.blueprint), shape_of(case.blueprint)
    inputs: dict[str, dict[Any, str]] = {}
    versions = {name: Versions(history) for name, history in histories_of(case.blueprint).items()}
    for record in with_extracted_times(case.blueprint, case.records):
        rows, key = inputs.setdefault(record.source, {}), shape.key(record.key)
        past = versions.get(record.source)
        if record.ts >= 0 and key is not None and (past is None or past.is_latest(key, record.ts)):
            rows.pop(key, None)
            if record.value is not None:
                rows[key] = record.value
        yield tables.sinks(inputs)


def wrong_row(case: Case, steps: list[list[Result]]) -> tuple[int, str] | None:
    """Where another row stands than must: the step, and what is wrong.

    In the generations of earlier releases a join may lose tombstones where one record reaches both of its sides
    (KAFKA-6443), so outputs behind such a join are not looked at.

    Parameters
    ----------
    steps : results per step.
    """
    blueprint = case.blueprint
    computed = Recomputation(blueprint).computed()
    if blueprint.generation != "current":
        above = {sink: all_above(blueprint, Ref(int(sink[1:]))) for sink in computed}
        computed -= {sink for sink, numbers in above.items() if any(forks(blueprint, number) for number in numbers)}
    if case.partitioned:
        # each partition has its own time, and so versions of its own that have expired
        versioned = {int(name[1:]) for name in histories_of(blueprint)}
        computed = {sink for sink in computed if versioned.isdisjoint(all_above(blueprint, Ref(int(sink[1:]))))}
    for step, (right, here) in enumerate(zip(recomputed(case), _standing(steps, computed), strict=True)):
        for place in sorted(right.keys() | here.keys(), key=str):
            row = here.get(place)
            if place[0] in computed and row != right.get(place):
                return step, f"{place} is {row!r}, not {right.get(place)!r}"
    return None


def _standing(steps: list[list[Result]], sinks: set[str]) -> Iterator[dict[Place, Any]]:
    now: dict[Place, Any] = {}
    for results in steps:
        for result in results:
            if result.sink not in sinks:
                continue
            now.pop((result.sink, result.key), None)
            if result.key is not None and result.value is not None:
                now[(result.sink, result.key)] = result.value
        yield dict(now)
