"""Kinds of processors: drawn programs of a few instructions, with stores, timers, and perhaps keys of their own.

Owns their two constructions. Law: as in `kinds`; the program is a user's class, which both sides are given.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

from proof.histories.kinds.choices import Choices
from proof.histories.kinds.kind import Kind, OracleSite, Params, Site
from proof.oracle.graph import MapRecord
from proof.oracle.streams.process import Process
from proof.oracle.streams.programs import SETS, STORE_OF, STORES, WORDS, Program, Timed
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
    if any(word == "again" for word, *_ in timer):
        # else it would set further ones for ever
        record, timer = ([each for each in part if each[0] not in ("reset", "count")] for part in (record, timer))
    lasts = {name: choices.pick((1, 5, 20)) for name in STORES if choices.chance(30) and not (timers and name == "v")}
    rekeys = {"rekeys": True} if choices.chance(35) else {}
    return {"record": record, "timer": timer, "lasts": lasts, **rekeys}


def _instruction(choices: Choices, words: tuple[str, ...]) -> list[Any]:
    word = choices.pick(words)
    return [word, choices.pick((0, 1, 5, 20, -2))] if word in (*SETS, "again") else [word]


def _program(params: Params, keys: str) -> Callable[[], Program]:
    kind = Timed if params["timer"] else Program
    return partial(kind, params["record"], params["timer"], _rekeyed[keys] if params.get("rekeys") else None)


_rekeyed: dict[str, Callable[[Any, int], Any]] = {
    "string": lambda key, length: None if length % 5 == 4 else f"{key}{'x' * (length % 2)}",
    "long": lambda key, length: None if length % 5 == 4 else key - length % 2,
}
"""Keys of what is sent: its own, another, or none."""


def _stores(params: Params) -> list[str]:
    words = {word for word, *_ in (*params["record"], *params["timer"])}
    return sorted({STORE_OF[word] for word in words if word in STORE_OF})


def _process(site: Site, inputs: list[Any], params: Params) -> list[Any]:
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
    made = partial(_renamed, _program(params, site.keys), site.name) if stores else _program(params, site.keys)
    if params.get("rekeys"):
        return [inputs[0].process(made, key=site.keys, value="string", stores=stores, name=site.name)]
    return [inputs[0].process_values(made, value="string", stores=stores, name=site.name)]


def _renamed(make: Callable[[], Program], prefix: str) -> Program:
    """The program, whose stores have names of their own in the topology."""
    program = make()
    found = program.init

    def init(context: Any) -> None:
        found(_Prefixed(context, prefix))

    program.init = init  # type: ignore[method-assign]
    return program


class _Prefixed:
    def __init__(self, context: Any, prefix: str) -> None:
        self._context, self._prefix = context, prefix

    def get_store(self, name: str) -> Any:
        return self._context.get_store(f"{self._prefix}-{name}")


def _node(site: OracleSite, inputs: list[Any], params: Params) -> list[Any]:
    stores = {name: (STORES[name][0], params["lasts"].get(name)) for name in _stores(params)}
    process = Process(site.topology, inputs[0], _program(params, site.keys), stores, timers=bool(params["timer"]))
    return [MapRecord(process, lambda record: record).moves() if params.get("rekeys") else process]


KINDS: dict[str, Kind] = {
    "process": Kind(
        ("stream",),
        ("stream",),
        _process,
        _node,
        _draw,
        weight=5,
        timed=True,
        holds=lambda params: bool(params["timer"] or params["lasts"]),
        generations=("current",),
    ),
}
