"""Kinds of processors: drawn programs of a few instructions, with stores, timers, and perhaps keys of their own.

Owns their two constructions. Law: as in `kinds`; the program is a user's class, which both sides are given.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any

from proof.histories.kinds.choices import Choices
from proof.histories.kinds.kind import BuildSite, OperatorKind, OracleSite, Params
from proof.histories.kinds.shapes import NamedKey, TypeShape
from proof.oracle.graph import MapRecord
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
from watersmeet.processors import ListStore, MapStore, StoreDeclaration, ValueStore

_SENDS = ("forward", "later", "null", "time", "counted", "listed", "first", "between")
_OF_RECORDS = tuple(word for word in WORDS if word != "again")
_OF_TIMERS = tuple(word for word in WORDS if word not in ("set", "set_soon"))


def _draw(choices: Choices, _generation: str) -> Params:
    timers = choices.chance(65)
    words = _OF_RECORDS if timers else tuple(word for word in _OF_RECORDS if word not in SETS)
    record = [_instruction(choices, words) for _ in range(choices.number(0, 4))]
    record += [_instruction(choices, ("set", "set_soon"))] if timers else []
    record += [_instruction(choices, _SENDS)] if choices.chance(80) else []
    timer = [_instruction(choices, _OF_TIMERS) for _ in range(choices.number(0, 3))] if timers else []
    timer += [_instruction(choices, _SENDS)] if timers else []
    wall = _by_wall(choices, record, timer) if choices.chance(35) else []
    if any(word.startswith("again") for word, *_ in (*timer, *wall)):
        # else it would set further ones for ever
        parts = ([each for each in part if each[0] not in ("reset", "count")] for part in (record, timer, wall))
        record, timer, wall = parts
    waits = timers or bool(wall)
    lasts = {name: choices.pick((1, 5, 20)) for name in STORES if choices.chance(30) and not (waits and name == "v")}
    rekeys = {"rekeys": True} if choices.chance(35) else {}
    by_wall = {"wall": wall} if wall else {}
    return {"record": record, "timer": timer, "lasts": lasts, **rekeys, **by_wall}


def _by_wall(choices: Choices, record: list[Any], timer: list[Any]) -> list[Any]:
    """What is done by the wall clock; records, and perhaps timers, set timers of it."""
    record += [_instruction(choices, WALL_SETS[:2])]
    record += [_instruction(choices, (*WALL_SETS, "wall"))] if choices.chance(50) else []
    chained = choices.pick(("timer", "wall", ""))
    if timer and chained == "timer":
        timer += [_instruction(choices, WALL_SETS)]
    words = [
        word for word in (*_OF_TIMERS, "delete_wall", "again_wall", "wall") if timer or word not in (*SETS, "again")
    ]
    wall = [_instruction(choices, tuple(words)) for _ in range(choices.number(0, 3))]
    wall += [_instruction(choices, SETS[:1])] if timer and chained == "wall" else []
    # not both ways: for ever
    return [*wall, _instruction(choices, (*_SENDS, "wall"))]


def _instruction(choices: Choices, words: tuple[str, ...]) -> list[Any]:
    word = choices.pick(words)
    numbered = word in (*SETS, *WALL_SETS, "again", "again_wall")
    return [word, choices.pick((0, 1, 5, 20, -2))] if numbered else [word]


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


def _stores(params: Params) -> list[str]:
    words = {word for word, *_ in (*params["record"], *params["timer"], *params.get("wall", ()))}
    return sorted({STORE_OF[word] for word in words if word in STORE_OF})


def _process(site: BuildSite, inputs: list[Any], params: Params) -> list[Any]:
    stores: list[StoreDeclaration] = []
    for name in _stores(params):
        ttl = timedelta(milliseconds=params["lasts"][name]) if name in params["lasts"] else None
        called = f"{site.name}-{name}"
        kind, entry, value = STORES[name]
        if kind == "value":
            stores.append(ValueStore(called, value, ttl=ttl))
        elif kind == "list":
            stores.append(ListStore(called, value, ttl=ttl))
        else:
            stores.append(MapStore(called, entry, value, ttl=ttl))
    made = partial(_TimedInShape if params["timer"] else _InShape, _program(params), site.name, site.shape)
    key, value = site.sent()
    if params.get("rekeys"):
        return [inputs[0].process(made, key=key, value=value, stores=stores, name=site.name)]
    return [inputs[0].process_values(made, value=value, stores=stores, name=site.name)]


class _InShape:
    """The program in a topology: its stores have names of their own there, and its texts are coded."""

    def __init__(self, make: Callable[[], Any], prefix: str, shape: TypeShape) -> None:
        self._program, self._prefix, self._shape = make(), prefix, shape

    def init(self, context: Any) -> None:
        """See `Program`."""
        self._program.init(_Coded(context, self._shape, self._prefix))

    def process(self, record: Any, context: Any) -> None:
        """See `Program`."""
        key, value = self._shape.read_key(record.key), self._shape.read_value(record.value)
        read = SimpleNamespace(key=key, value=value, timestamp=record.timestamp)
        self._program.process(read, _Coded(context, self._shape, self._prefix))


class _TimedInShape(_InShape):
    """The same with timers."""

    def on_timer(self, key: Any, timestamp: int, context: Any) -> None:
        self._program.on_timer(self._shape.read_key(key), timestamp, _Coded(context, self._shape, self._prefix))


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

    def _key_of(self, options: dict[str, Any]) -> dict[str, Any]:
        return {"key": self._shape.coded(options["key"])} if "key" in options else {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


def _node(site: OracleSite, inputs: list[Any], params: Params) -> list[Any]:
    stores = {name: (STORES[name][0], params["lasts"].get(name)) for name in _stores(params)}
    timers, by_wall = bool(params["timer"]), bool(params.get("wall"))
    process = Process(site.topology, inputs[0], _program(params), stores, timers=timers, wall_timers=by_wall)
    return [MapRecord(process, lambda record: record).moves() if params.get("rekeys") else process]


KINDS: dict[str, OperatorKind] = {
    "process": OperatorKind(
        ("stream",),
        ("stream",),
        _process,
        _node,
        _draw,
        weight=5,
        timed=True,
        holds=lambda params: bool(params["timer"] or params["lasts"] or params.get("wall")),
        generations=("current",),
    ),
}
