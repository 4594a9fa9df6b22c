"""Views of two stored tables and of two that are not, each under one name with many definitions, and what they come to.

A definition is a kind and a number; `views` builds the topology, and `contents` evaluates a definition over tables as
dictionaries. Neither knows of the other.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from tests.spark.inputs_and_outputs.test_streaming import put, reader

Table = dict[int, str]
Definition = tuple[str, int]
KINDS = ("keyed", "mapped", "filtered", "foreign", "grouped")
NAMES = ("left", "right", "loose left", "loose right")
OPTIONS: dict[str, Any] = {"key": "k", "value": "v", "timestamp": "ts"}
HOW = ("join", "left_join", "outer_join")


def random_definition(rng: random.Random, kind: str | None = None) -> Definition:
    """A definition."""
    return kind or rng.choice(KINDS), rng.randrange(12)


def _built(left: Any, right: Any, definition: Definition, name: str) -> Any:
    """The table of this definition."""
    kind, number = definition
    told: dict[str, Any] = {"name": name, "store": name}
    text = F.lit(str(number % 2))
    if kind in ("keyed", "loose"):

        def joiner(one: Any, other: Any) -> Any:
            return F.concat(F.coalesce(one, F.lit("-")), F.coalesce(other, F.lit("-")), text)

        return getattr(left, HOW[number % 3])(right, joiner, **told)
    if kind == "mapped":
        return left.map_values(lambda v: F.concat(v.substr(1, 1 + number % 2), text), **told)
    if kind == "filtered":
        passing = left.filter(lambda k, v: k % (2 + number % 3) != 0, name=f"{name} passing")
        return getattr(passing, HOW[number % 3])(right, lambda a, b: F.concat_ws("+", a, b), **told)
    if kind == "foreign":
        join = left.left_join if number % 2 else left.join
        return join(
            right,
            lambda a, b: F.concat(a, F.lit("/"), F.coalesce(b, F.lit("-")), text),
            foreign_key=lambda v: F.ascii(v).cast("bigint") % (3 + number % 4),
            **told,
        )
    groups = left.group_by(lambda k, v: (k % (2 + number % 3), v), name=f"{name} groups")
    counted = groups.agg(n=wm.count(), name=f"{name} sizes")
    return counted.map_values(lambda v: F.concat(v["n"].cast("string"), text), **told)


def views(spark: SparkSession, folder: Path, definitions: Mapping[str, Definition], sink: Callable[[str], Any]) -> Any:
    """A topology with these views, and beside each one how often each of its values is there."""
    b = wm.StreamsBuilder("views")
    stored = {name: {} if name.startswith("loose") else {"store": f"stored {name}"} for name in NAMES}
    tables = {name: b.table(reader(spark, folder / name), name=name, **stored[name], **OPTIONS) for name in NAMES}
    for name, definition in definitions.items():
        sides = NAMES[2:] if definition[0] == "loose" else NAMES[:2]
        view = _built(tables[sides[0]], tables[sides[1]], definition, name)
        view.to_stream(name=f"{name} rows").to(sink(name), name=f"{name} out")
        counts = view.group_by(lambda k, v: (v, v), name=f"{name} by value").agg(n=wm.count(), name=f"{name} n")
        told = counts.map_values(lambda v: v["n"].cast("string"), name=f"{name} told")
        told.to_stream(name=f"{name} counts").to(sink(f"{name} n"), name=f"{name} n out")
    return b.build()


def contents(tables: Mapping[str, Table], definition: Definition) -> Table:
    """What a definition comes to."""
    kind, number = definition
    loose = kind == "loose"
    left, right = (tables[name] for name in (NAMES[2:] if loose else NAMES[:2]))
    text = str(number % 2)
    if kind in ("keyed", "loose"):
        return {k: left.get(k, "-") + right.get(k, "-") + text for k in _joined(left, right, number)}
    if kind == "mapped":
        return {k: v[: 1 + number % 2] + text for k, v in left.items()}
    if kind == "filtered":
        passing = {k: v for k, v in left.items() if k % (2 + number % 3) != 0}
        keys = _joined(passing, right, number)
        return {k: "+".join(side[k] for side in (passing, right) if k in side) for k in keys}
    if kind == "foreign":
        found = {k: right.get(ord(v[0]) % (3 + number % 4)) for k, v in left.items()}
        return {k: f"{left[k]}/{r or '-'}{text}" for k, r in found.items() if r is not None or number % 2}
    sizes: dict[int, int] = {}
    for k in left:
        sizes[k % (2 + number % 3)] = sizes.get(k % (2 + number % 3), 0) + 1
    return {k: f"{n}{text}" for k, n in sizes.items()}


def _joined(left: Table, right: Table, number: int) -> set[int]:
    return {0: left.keys() & right.keys(), 1: set(left), 2: left.keys() | right.keys()}[number % 3]


def counts_of(view: Table) -> dict[str, str]:
    """How often each value is there."""
    values = list(view.values())
    return {value: str(values.count(value)) for value in values}


def random_rows(rng: random.Random, spark: SparkSession, folder: Path, tables: dict[str, Table], count: int) -> None:
    """Put rows into the inputs, a file each, and the tables."""
    for name in NAMES:
        rows = []
        for _ in range(count):
            key, value = rng.randrange(12), rng.choice(["ab", "ba", "cd", "dd", None])
            rows.append((key, value, rng.randrange(100)))
        put(spark, folder / name, *rows)
        for key, value, _ in rows:
            if value is None:
                tables[name].pop(key, None)
            else:
                tables[name][key] = value
