"""The rows that must stand: each table computed from the latest rows of the inputs, behind every record.

Owns a second opinion on rows: it knows neither messages, nor old values, nor any order, so it shares no mistake with
the engine or the oracle. Law: a table is a function of its inputs' latest rows; what is more than that (windows,
histories, folds of streams, processors) is not computed, nor is what reads it. A table that waits (suppress, expiry) is
read from the output that shows it: what is computed from it follows from those rows, and they are held against the
latest rows of the table before it (`WaitingRows`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import repeat
from typing import Any

from proof.histories.blueprint import Blueprint, Op, Ref, name_of
from proof.histories.case import Case, Input
from proof.histories.kinds import functions as text
from proof.histories.kinds.lookups import nested
from proof.histories.kinds.registry import SINKS, shape_of
from proof.histories.last_results import all_above, forks
from proof.histories.subjects.times import with_extracted_times
from proof.oracle.records import Result

Rows = Mapping[Any, str]
Place = tuple[str, Any]
Times = tuple[int, int]
"""The least and the most that an operator's stream time may be."""
WAITING = ("suppress", "expiring")
_LETS_PASS = ("table_map_values", "to_stream", "to_table", "peek")
_TAKES = ("table_table", "multi_join", "foreign_key", "one_to_many", "many_to_many", *WAITING, "to", "table_to")
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
        shows = {op.inputs[0].op: name_of(n) for n, op in enumerate(blueprint.ops) if op.kind == "table_to"}
        self.waiting = {n: shows[n] for n, op in enumerate(blueprint.ops) if op.kind in WAITING and n in shows}
        """The tables that wait, and the outputs that show them."""
        self.tables: list[Rows | None] = []
        """The rows of each operator, as far as they are known."""

    def sinks(self, inputs: Mapping[str, Rows], shown: Mapping[Place, str]) -> dict[Place, str]:
        """What stands in the outputs that can be computed, by output and key; `shown`: what stands in outputs."""
        made: list[Rows | None] = []
        for number, op in enumerate(self._blueprint.ops):
            sides = [made[ref.op] if ref.port == 0 else None for ref in op.inputs]
            rows = self._rows(number, op, sides, inputs)
            if rows is not None and number in self.waiting:
                rows = {key: value for (sink, key), value in shown.items() if sink == self.waiting[number]}
            made.append(rows)
        self.tables = made
        outputs = ((name_of(n), made[n]) for n, op in enumerate(self._blueprint.ops) if op.kind in SINKS)
        return {(name, key): value for name, rows in outputs for key, value in (rows or {}).items()}

    def computed(self) -> set[str]:
        """The outputs that can be computed."""
        made: list[bool] = []
        for number, op in enumerate(self._blueprint.ops):
            sides: list[Rows | None] = [{} if ref.port == 0 and made[ref.op] else None for ref in op.inputs]
            made.append(self._rows(number, op, sides, {}) is not None)
        sinks = [n for n, op in enumerate(self._blueprint.ops) if op.kind in SINKS and made[n]]
        return {name_of(n) for n in sinks if not self.sends_late(self._blueprint.ops[n].inputs[0])}

    def sends_late(self, ref: Ref) -> bool:
        """Whether it is a versioned table, or mapped values of one: its changes leave in order of arrival."""
        op = self._blueprint.ops[ref.op]
        mapped = op.kind in ("table_filter", "table_map_values") and not op.params.get("stored")
        return "history" in op.params or (mapped and self.sends_late(op.inputs[0]))

    def _rows(self, number: int, op: Op, sides: list[Rows | None], inputs: Mapping[str, Rows]) -> Rows | None:
        rows = [side for side in sides if side is not None]
        if len(rows) < len(sides) or "sees" in op.params or ("history" in op.params and op.kind != "table"):
            return None
        if self._blueprint.generation != "current" and "foreign_key" in (op.kind, op.params.get("way")):
            return None  # an update with a null foreign key is ignored there
        forgets = op.kind == "to_stream" or (op.kind in ("table_filter", "table_map_values") and "stored" in op.params)
        if forgets and self.sends_late(op.inputs[0]):
            return None  # what has no past takes what arrives (KIP-914)
        if op.kind in ("stream", "table", "global"):
            return inputs.get(name_of(number), {})
        if op.kind in _PASSES or number in self.waiting:
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


class WaitingRows:
    """What may stand in a table that waits, by the rows of the table before it.

    Law: suppress shows a row that its table has had since the limit ago, or directly before. A row with a ttl stands
    until so long behind its last change, and no longer. Where it is not known what moves the operator's time, both what
    stood before and what stands behind may stand.

    Parameters
    ----------
    number : the operator that waits.
    """

    def __init__(self, blueprint: Blueprint, number: int) -> None:
        ops, above = blueprint.ops, all_above(blueprint, Ref(number))
        self._op = ops[number]
        self._wait: int = self._op.params["ms" if self._op.kind == "suppress" else "ttl"]
        waits = (ops[n] for n in above - {number} if ops[n].kind in WAITING)
        self._lag = sum(op.params["ms"] if op.kind == "suppress" else 1 for op in waits)
        self._moving = {name_of(n) for n in above if ops[n].kind in ("stream", "table") and _moves_time(blueprint, n)}
        before = self._op.inputs[0].op
        before = ops[before].inputs[0].op if ops[before].kind == "to_stream" else before
        self._source = name_of(before) if ops[before].kind in ("stream", "table") else None
        self._past: list[tuple[int, Rows]] = [(-1, {})]
        self._changes: dict[Any, Times] = {}
        self._time: Times = (-1, -1)

    def hear(self, record: Input, key: Any, rows: Rows) -> None:
        """A record, and the rows of the table before this one behind it."""
        (least, most), before = self._time, self._past[-1][1]
        is_taken = record.ts >= 0 and key is not None
        least = max(least, record.ts) if is_taken and record.source in self._moving else least
        self._time = now = (least, max(most, record.ts))
        self._past.append((now[1], dict(rows)))
        changed = {each for each in before.keys() | rows.keys() if before.get(each) != rows.get(each)}
        if self._source is not None:
            changed = {key} if is_taken and record.source == self._source else set()
        began = (least - self._lag, now[1])
        if self._op.params.get("record"):
            # not known of a computed row: its time may be that of any record
            began = (-self._wait, now[1]) if self._source is None else (record.ts, record.ts)
        self._changes |= dict.fromkeys(changed, began)

    def wrong(self, shown: Rows) -> str | None:
        """A row that may not stand."""
        for key in {*shown, *(key for _, rows in self._past for key in rows)}:
            allowed = self._delayed(key) if self._op.kind == "suppress" else self._lasting(key)
            if shown.get(key) not in allowed:
                return f"{key!r} is {shown.get(key)!r}, not one of {allowed!r}"
        return None

    def _delayed(self, key: Any) -> list[str | None]:
        """The rows since the limit ago: a change that waits is younger, and shows what stood directly before it."""
        ago = self._time[0] - self._lag - self._wait
        first = next((place for place, (most, _) in enumerate(self._past) if most > ago), len(self._past))
        return [rows.get(key) for _, rows in self._past[max(0, first - 1) :]]

    def _lasting(self, key: Any) -> list[str | None]:
        row = self._past[-1][1].get(key)
        least, most = self._changes.get(key, self._time)
        if row is None or (self._source is not None and self._time[0] - self._lag >= most + self._wait):
            return [None]
        return [row] if self._time[1] < least + self._wait else [row, None]


def _moves_time(blueprint: Blueprint, number: int) -> bool:
    """Whether each record of an input is taken by an operator that goes by time, or an output, for certain."""
    readers = [n for n, op in enumerate(blueprint.ops) if any(ref.op == number for ref in op.inputs)]
    return any(
        _moves_time(blueprint, n) if blueprint.ops[n].kind in _LETS_PASS else blueprint.ops[n].kind in _TAKES
        for n in readers
    )


def recomputed(
    case: Case, shown: Iterable[Mapping[Place, str]] = repeat({}), tables: Recomputation | None = None
) -> Iterator[dict[Place, str]]:
    """What must stand in the outputs behind each record.

    Parameters
    ----------
    shown : what stands in them, for tables that wait.
    """
    tables, shape = tables or Recomputation(case.blueprint), shape_of(case.blueprint)
    inputs: dict[str, dict[Any, str]] = {}
    versions = {name: Versions(history) for name, history in histories_of(case.blueprint).items()}
    for record, here in zip(with_extracted_times(case.blueprint, case.records), shown, strict=False):
        rows, key = inputs.setdefault(record.source, {}), shape.key(record.key)
        past = versions.get(record.source)
        if record.ts >= 0 and key is not None and (past is None or past.is_latest(key, record.ts)):
            rows.pop(key, None)
            if record.value is not None:
                rows[key] = record.value
        yield tables.sinks(inputs, here)


def wrong_row(case: Case, steps: list[list[Result]]) -> tuple[int, str] | None:
    """Where another row stands than must: the step, and what is wrong.

    In the generations of earlier releases a join may lose tombstones where one record reaches both of its sides
    (KAFKA-6443), so outputs behind such a join are not looked at.

    Parameters
    ----------
    steps : results per step.
    """
    blueprint, tables = case.blueprint, Recomputation(case.blueprint)
    computed = tables.computed()
    if blueprint.generation != "current":
        above = {sink: all_above(blueprint, Ref(int(sink[1:]))) for sink in computed}
        computed -= {sink for sink, numbers in above.items() if any(forks(blueprint, number) for number in numbers)}
    if case.partitioned:
        # each partition has its own time, and so versions of its own that have expired
        versioned = {int(name[1:]) for name in histories_of(blueprint)}
        computed = {sink for sink in computed if versioned.isdisjoint(all_above(blueprint, Ref(int(sink[1:]))))}
    standing = list(_standing(steps, computed))
    waiting = _waiting(case, tables, computed)
    records = with_extracted_times(blueprint, case.records)
    for step, right in enumerate(recomputed(case, standing, tables)):
        here = standing[step]
        for place in sorted(right.keys() | here.keys(), key=str):
            row = here.get(place)
            if place[0] in computed and row != right.get(place):
                return step, f"{place} is {row!r}, not {right.get(place)!r}"
        for number, rows in waiting.items():
            op = blueprint.ops[number]
            rows.hear(records[step], shape_of(blueprint).key(records[step].key), tables.tables[op.inputs[0].op] or {})
            if wrong := rows.wrong(tables.tables[number] or {}):
                return step, f"{name_of(number)}, which waits: {wrong}"
    return None


def _waiting(case: Case, tables: Recomputation, computed: set[str]) -> dict[int, WaitingRows]:
    """The tables that wait, where there is one time and it is that of the records.

    A suppress behind another table that waits is not looked at: rows change below it between records, too.
    """
    if case.idle_after or any(record.partition for record in case.records):
        return {}
    ops, judged = case.blueprint.ops, list[int]()
    for number, sink in tables.waiting.items():
        behind = any(ops[n].kind in WAITING for n in all_above(case.blueprint, Ref(number)) - {number})
        late = tables.sends_late(ops[number].inputs[0])
        if sink in computed and not late and not (behind and ops[number].kind == "suppress"):
            judged.append(number)
    return {number: WaitingRows(case.blueprint, number) for number in judged}


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
