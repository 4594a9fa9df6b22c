"""Operators and tables of two topologies, as `described` gives them: which belong together, and whether rows go on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from watersmeet._plan.change.described import Described
from watersmeet._plan.change.types import hinders, written
from watersmeet._plan.operators.spec import HEADERS

Place = tuple[str, str]
"""Of an operator: its node, and its kind."""


def by_place(plan: Described) -> dict[Place, Mapping[str, Any]]:
    """The operators of a topology, by where they stand."""
    return {(each["node"], each["operator"]): each for each in plan["operators"]}


def pairs_of_tables(before: Sequence[Any], now: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """Each table with its former one: of its name, else in order of those with names that are gone; or None."""
    named, kept = {table["name"]: table for table in before}, {table["name"] for table in now}
    others = iter([table for table in before if table["name"] not in kept]) if len(before) == len(now) else iter(())
    yield from ((named.get(table["name"]) or next(others, None), table) for table in now)


def difference(before: Mapping[str, Any], operator: Mapping[str, Any]) -> str:
    """Why an operator cannot continue: its first difference; empty if it can."""
    if len(before["tables"]) != len(operator["tables"]) and not operator.get("grows"):
        return f"it kept {len(before['tables'])} tables, and now keeps {len(operator['tables'])}"
    for name in dict.fromkeys((*before["params"], *operator["params"])):
        was, now = before["params"].get(name, "not there"), operator["params"].get(name, "not there")
        if was != now:
            return f"{name} was {was}, is {now}"
    was, now = before["time"], operator["time"]
    if was != now:
        said = [f"{name}: was {was[name]}, is {now[name]}" for name in now or () if was and was[name] != now[name]]
        return "its time goes otherwise" + (f": {', '.join(said)}" if said and now else "")
    return ""


def rows_against(was: Mapping[str, Any], table: Mapping[str, Any], *, widens: bool) -> tuple[str, list[str]]:
    """Why stored rows cannot be read as those of another table, and which columns are wider."""
    before, now = dict(was["columns"]), dict(table["columns"])
    carried = HEADERS in before.values(), HEADERS in now.values()
    # where records begin to carry headers, those of before have none
    before, now = ({name: kind for name, kind in each.items() if kind != HEADERS} for each in (before, now))
    if list(before) != list(now) or was["identity"] != table["identity"] or was["lies"] != table["lies"]:
        return "its rows lie otherwise", []
    wider = [] if carried[0] == carried[1] else [f"with{'' if carried[1] else 'out'} headers from now on"]
    for name, kind in now.items():
        if kind == before[name]:
            continue
        said = f"{name}: was {written(before[name])}, is {written(kind)}"
        if name == "key" or name in table["identity"]:
            return f"{said}; rows lie by the hash of it", []
        if not widens:
            return f"{said}; what an aggregate is made of stays of one type", []
        why = hinders(before[name], kind)
        if why:
            return f"{name}: {why}", []
        wider.append(said)
    return "", wider
