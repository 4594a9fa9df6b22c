"""Kinds of processors: drawn programs of a few instructions, with stores, timers, and perhaps keys of their own.

Owns their two constructions. Law: as in `kinds`; the program is a user's class, which both sides are given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from inspect import signature
from types import SimpleNamespace
from typing import Any

from proof.histories.kinds.choices import Choices
from proof.histories.kinds.functions import LONG_KEYS, TEXT_KEYS
from proof.histories.kinds.kind import BuildSite, Handles, Nodes, OperatorKind, OracleSite, Params
from proof.histories.kinds.shapes import NamedKey, TypeShape
from proof.oracle.graph import MapRecord
from proof.oracle.records import Stored
from proof.oracle.streams.process import Process
from proof.oracle.streams.programs import (
    SETS,
    STORE_OF,
    STORES,
    WALL_SETS,
    WORDS,
    Program,
    Timed,
    TimedAndWalled,
    Walled,
)
from proof.oracle.tables.global_lookup import Lookup
from proof.oracle.tables.table import TableSource
from watersmeet.processors import ListStore, MapStore, StoreDeclaration, ValueStore

_SENDS = ("forward", "later", "null", "time", "counted", "listed", "first", "between", "lowest", "numbered")
_OF_RECORDS = tuple(word for word in WORDS if word != "again")
_OF_TIMERS = tuple(word for word in WORDS if word not in ("set", "set_soon"))


def draw_program(choices: Choices, _generation: str = "current") -> Params:
    """The instructions of a processor."""
    timers = choices.chance(65)
    words = _OF_RECORDS if timers else tuple(word for word in _OF_RECORDS if word not in SETS)
    record = [draw_instruction(choices, words) for _ in range(choices.number(0, 4))]
    record += [draw_instruction(choices, ("set", "set_soon"))] if timers else []
    record += [draw_instruction(choices, _SENDS)] if choices.chance(80) else []
    timer = [draw_instruction(choices, _OF_TIMERS) for _ in range(choices.number(0, 3))] if timers else []
    timer += [draw_instruction(choices, _SENDS)] if timers else []
    wall = _by_wall(choices, record, timer) if choices.chance(35) else []
    again = any(word.startswith("again") for word, *_ in (*timer, *wall))
    if again:
        # else it would set further ones for ever
        parts = ([each for each in part if each[0] not in ("reset", "count")] for part in (record, timer, wall))
        record, timer, wall = parts
    lasts = {name: choices.pick((1, 5, 20)) for name in STORES if choices.chance(30) and not (again and name == "v")}
    rekeys = {"rekeys": True} if choices.chance(35) else {}
    by_wall = {"wall": wall} if wall else {}
    return {"record": record, "timer": timer, "lasts": lasts, **rekeys, **by_wall}


def _by_wall(choices: Choices, record: list[Any], timer: list[Any]) -> list[Any]:
    """What is done by the wall clock; records, and perhaps timers, set timers of it."""
    record += [draw_instruction(choices, WALL_SETS[:2])]
    record += [draw_instruction(choices, (*WALL_SETS, "wall"))] if choices.chance(50) else []
    chained = choices.pick(("timer", "wall", ""))
    if timer and chained == "timer":
        timer += [draw_instruction(choices, WALL_SETS)]
    words = [
        word for word in (*_OF_TIMERS, "delete_wall", "again_wall", "wall") if timer or word not in (*SETS, "again")
    ]
    wall = [draw_instruction(choices, tuple(words)) for _ in range(choices.number(0, 3))]
    wall += [draw_instruction(choices, SETS[:1])] if timer and chained == "wall" else []
    # not both ways: for ever
    return [*wall, draw_instruction(choices, (*_SENDS, "wall"))]


def draw_instruction(choices: Choices, words: tuple[str, ...]) -> list[Any]:
    """One of these words, and its number."""
    word = choices.pick(words)
    numbered = word in (*SETS, *WALL_SETS, "again", "again_wall")
    return [word, choices.pick((0, 1, 5, 20, -2, -20))] if numbered else [word]


def _program(params: Params) -> Callable[[], Program]:
    wall = params.get("wall", [])
    kind = _PROGRAMS[bool(params["timer"]), bool(wall)]
    return partial(kind, params["record"], params["timer"], _rekeyed if params.get("rekeys") else None, wall)


_PROGRAMS: dict[tuple[bool, bool], type[Program]] = {
    (False, False): Program,
    (True, False): Timed,
    (False, True): Walled,
    (True, True): TimedAndWalled,
}
"""By whether there are timers of stream time, and of the wall clock."""


def _rekeyed(key: Any, length: int) -> Any:
    """The key of what is sent: its own, another, or none."""
    if length % 5 == 4:
        return None
    if isinstance(key, int):
        return key - length % 2
    other = "x" * (length % 2)
    return NamedKey(key.kind, f"{key.name}{other}") if isinstance(key, NamedKey) else f"{key}{other}"


def _stores(*parts: Params) -> list[str]:
    words = {word for each in parts for word, *_ in (*each["record"], *each["timer"], *each.get("wall", ()))}
    return sorted({STORE_OF[word] for word in words if word in STORE_OF})


def _declared(name: str, lasts: Params, names: list[str]) -> list[StoreDeclaration]:
    stores: list[StoreDeclaration] = []
    for each in names:
        ttl = timedelta(milliseconds=lasts[each]) if each in lasts else None
        called = f"{name}-{each}"
        kind, entry, value = STORES[each]
        if kind == "value":
            stores.append(ValueStore(called, value, ttl=ttl))
        elif kind == "list":
            stores.append(ListStore(called, value, ttl=ttl))
        else:
            stores.append(MapStore(called, str(entry), value, ttl=ttl))
    return stores


def _process(site: BuildSite, inputs: list[Any], params: Params, **tables: Any) -> list[Any]:
    return [_processed(site, inputs[0], params, _declared(site.name, params["lasts"], _stores(params)), **tables)]


def _processed(
    site: BuildSite, stream: Any, params: Params, stores: list[StoreDeclaration], name: str = "", **tables: Any
) -> Any:
    in_shape = _IN_SHAPE[bool(params["timer"]), bool(params.get("wall"))]
    made = partial(in_shape, _program(params), site.name, site.shape)
    key, value = site.sent()
    options = {"value": value, "stores": stores, "name": name or site.name, "tables": tables}
    if params.get("rekeys"):
        return stream.process(made, key=key, **options)
    return stream.process_values(made, **options)


def _process_table(site: BuildSite, inputs: list[Any], params: Params) -> list[Any]:
    return _process(site, inputs, params, t=inputs[1])


def _process_global(site: BuildSite, inputs: list[Any], params: Params) -> list[Any]:
    return _process(site, inputs, params, g=inputs[1])


def _process_shared(site: BuildSite, inputs: list[Any], params: Params) -> list[Any]:
    parts = params, params["other"]
    stores = _declared(site.name, params["lasts"], _stores(*parts))
    # of each only the stores that it names, and one that both have
    kept = [[each for each in stores if each.name in _named(site.name, part, parts)] for part in parts]
    names = site.name, f"{site.name}-other"
    given = zip(inputs, parts, kept, names, strict=True)
    return [_processed(site, stream, part, own, name) for stream, part, own, name in given]


def _named(name: str, part: Params, parts: tuple[Params, ...]) -> set[str]:
    return {f"{name}-{each}" for each in {*_stores(part), *_stores(*parts)[:1]}}


def _transform(site: BuildSite, inputs: list[Any], params: Params) -> list[Any]:
    in_shape = _IN_SHAPE[bool(params["timer"]), bool(params.get("wall"))]
    made = partial(in_shape, _program(params), site.name, site.shape)
    stores = _declared(site.name, params["lasts"], _stores(params))
    options = {"value": site.sent()[1], "stores": stores, "name": site.name, "store": site.store(params)}
    return [inputs[0].transform_values(made, **options)]


class _InShape:
    """The program in a topology: its stores have names of their own there, and its texts are coded."""

    def __init__(self, make: Callable[[], Any], prefix: str, shape: TypeShape) -> None:
        self._program, self._prefix, self._shape = make(), prefix, shape

    def init(self, context: Any) -> None:
        """See `Program`."""
        self._program.init(_Coded(context, self._shape, self._prefix))

    def process(self, record: Any, context: Any) -> None:
        """See `Program`."""
        self._program.process(self._read(record), _Coded(context, self._shape, self._prefix))

    def transform(self, record: Any, context: Any) -> Any:
        """See `Program`."""
        given = self._program.transform(self._read(record), _Coded(context, self._shape, self._prefix))
        return self._shape.coded(given)

    def _read(self, record: Any) -> Any:
        key, value = self._shape.read_key(record.key), self._shape.read_value(record.value)
        return SimpleNamespace(key=key, value=value, timestamp=record.timestamp)


class _TimedInShape(_InShape):
    """The same with timers."""

    def on_timer(self, key: Any, timestamp: int, context: Any) -> None:
        self._program.on_timer(self._shape.read_key(key), timestamp, _Coded(context, self._shape, self._prefix))


class _WalledInShape(_InShape):
    """The same with timers by the wall clock."""

    def on_wall_timer(self, key: Any, timestamp: int, context: Any) -> None:
        self._program.on_wall_timer(self._shape.read_key(key), timestamp, _Coded(context, self._shape, self._prefix))


class _TimedAndWalledInShape(_TimedInShape, _WalledInShape):
    """The same with both."""


_IN_SHAPE: dict[tuple[bool, bool], type[_InShape]] = {
    (False, False): _InShape,
    (True, False): _TimedInShape,
    (False, True): _WalledInShape,
    (True, True): _TimedAndWalledInShape,
}
"""By whether there are timers of stream time, and of the wall clock."""


class _Coded:
    """What the program is given as its context."""

    def __init__(self, context: Any, shape: TypeShape, prefix: str) -> None:
        self._context, self._shape, self._prefix = context, shape, prefix

    @property
    def key(self) -> Any:
        return self._shape.read_key(self._context.key)

    def get_store(self, name: str) -> Any:
        return self._context.get_store(f"{self._prefix}-{name}")

    def forward(self, value: str | None, **options: Any) -> None:
        self._context.forward(value=self._shape.coded(value), **{**options, **self._key_of(options)})

    def row(self, name: str, as_of: int | None = None) -> Any:
        table = self._context.table(name)
        # of a table without a history there is the present row alone
        past = as_of is not None and "as_of" in signature(table.get).parameters
        return self._shape.read_value(table.get(as_of=as_of) if past else table.get())

    def global_row(self, name: str, number: int) -> Any:
        key = self._shape.coded(numbered_key(self._shape, number))
        return self._shape.read_value(self._context.global_table(name).get(key))

    def _key_of(self, options: dict[str, Any]) -> dict[str, Any]:
        return {"key": self._shape.coded(options["key"])} if "key" in options else {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


def known_keys(keys: str) -> tuple[Any, ...]:
    """The keys that records may have, as they are named."""
    return LONG_KEYS if keys == "long" else TEXT_KEYS


def numbered_key(shape: TypeShape, number: int) -> Any:
    """One of the known keys; their type is drawn behind the number, and of some types there are fewer."""
    known = known_keys(shape.keys)
    return shape.key(known[number % len(known)])


@dataclass(frozen=True)
class _ByNumber:
    """A global table that is asked for keys by their numbers."""

    table: Lookup
    shape: TypeShape

    def get(self, number: Any) -> Stored | None:
        """The row of one of the known keys."""
        return self.table.get(numbered_key(self.shape, number))


def _node(site: OracleSite, inputs: list[Any], params: Params, **options: Any) -> list[Any]:
    parts = (params, params["other"]) if "other" in params else (params,)
    stores = {name: (STORES[name][0], params["lasts"].get(name)) for name in _stores(*parts)}
    timers, by_wall = (any(each.get(name) for each in parts) for name in ("timer", "wall"))
    options |= {"timers": timers, "wall_timers": by_wall}
    if len(parts) > 1:
        options["others"] = [(inputs[1], _program(params["other"]))]
    process = Process(site.topology, inputs[0], _program(params), stores, **options)
    return [
        MapRecord(made, lambda record: record).moves() if part.get("rekeys") else made
        for made, part in zip(process.parts, parts, strict=True)
    ]


def _table_node(site: OracleSite, inputs: list[Any], params: Params) -> list[Any]:
    return _node(site, inputs, params, tables={"t": inputs[1]})


def _global_node(site: OracleSite, inputs: list[Any], params: Params) -> list[Any]:
    return _node(site, inputs, params, everywhere={"g": _ByNumber(inputs[1], site.shape)})


class _Transforms:
    """The program as it is called for the changes of a table."""

    def __init__(self, make: Callable[[], Program]) -> None:
        self._program = make()
        self.init = self._program.init

    def process(self, record: Any, context: Any) -> None:
        """One change."""
        context.forward(value=self._program.transform(record, context))

    def __getattr__(self, name: str) -> Any:
        if name == "_program":
            # while it is copied
            raise AttributeError(name)
        return getattr(self._program, name)


def _transform_node(site: OracleSite, inputs: list[Any], params: Params) -> list[Any]:
    stores = {name: (STORES[name][0], params["lasts"].get(name)) for name in _stores(params)}
    make = partial(_Transforms, _program(params))
    timers, by_wall = bool(params["timer"]), bool(params.get("wall"))
    process = Process(site.topology, inputs[0], make, stores, timers=timers, wall_timers=by_wall)
    table = TableSource(site.topology, materialized=bool(params.get("stored")))
    process.feed(table)
    return [table]


def _holds(params: Params) -> bool:
    """Whether it holds results back until time lets them go."""
    return bool(params["timer"] or params["lasts"] or params.get("wall") or params.get("other", {}).get("timer"))


def _kind(takes: tuple[str, ...], gives: tuple[str, ...], handles: Handles, nodes: Nodes, weight: int) -> OperatorKind:
    return OperatorKind(
        takes, gives, handles, nodes, draw_program, weight=weight, timed=True, holds=_holds, generations=("current",)
    )


STREAM, TABLE = ("stream",), ("table",)
KINDS: dict[str, OperatorKind] = {
    "process": _kind(STREAM, STREAM, _process, _node, 5),
    # these are put in the place of others (`subjects.processors`)
    "process_table": _kind(STREAM + TABLE, STREAM, _process_table, _table_node, 0),
    "process_global": _kind(("stream", "global"), STREAM, _process_global, _global_node, 0),
    "process_shared": _kind(STREAM * 2, STREAM * 2, _process_shared, _node, 0),
    "transform_values": _kind(TABLE, TABLE, _transform, _transform_node, 0),
}
