"""What the fields of a vector say: the reading of its joiner, grouping and store descriptions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from proof.oracle.functions import text
from proof.oracle.graph import MapRecord, Node, Repartition, Topology
from proof.oracle.records import Joiner, Key, Record, Value
from proof.oracle.tables.table import Table, TableSource
from proof.oracle.vectors.untold import IncompleteVectorError, described_value

Vector = Mapping[str, Any]
Builder = Callable[[Topology, Vector], None]

HISTORY_MS = 300_000


def stream_source(topology: Topology, side: str) -> Node:
    """A stream source for one side."""
    source = Node()
    topology.source(side, source)
    return source


def repartitioned(topology: Topology, parent: Node, vector: Vector) -> Node:
    """The parent, behind a repartition topic where the vector says so."""
    if "repartition()ed" not in vector.get("topology_note", ""):
        return parent
    return Repartition(topology, parent, null_keys=vector["join_type"] != "inner")


def store(vector: Vector, number: int) -> Mapping[str, Any]:
    """The description of a store by its place; empty when there is none."""
    stores = vector.get("params", {}).get("stores", ())
    return stores[number] if number < len(stores) else {}


def history_ms(vector: Vector, number: int) -> int | None:
    """The history of the store of this place; None where it is not versioned."""
    history = re.search(r"history (\d+)", vector.get("note", ""))
    return (int(history[1]) if history else HISTORY_MS) if store(vector, number).get("versioned") else None


def table_source(topology: Topology, vector: Vector, side: str, number: int) -> TableSource:
    """A table source for one side, with the store of this place."""
    kept = store(vector, number)
    source = TableSource(
        topology,
        materialized=bool(kept),
        history_ms=history_ms(vector, number),
        cached=bool(kept.get("caching")),
    )
    topology.source(side, source)
    return source


def sink_names(vector: Vector) -> list[str | None]:
    """The sinks of the topology's text in order of construction: processors without children."""
    ends = re.findall(r"Processor: (\S+) \(stores: [^)]*\)\s+--> none", vector.get("topology") or "")
    numbered = sorted(ends, key=lambda name: int(name.rsplit("-", 1)[-1]) if "-" in name else 0)
    return list(numbered) or [None]


def observe(topology: Topology, parent: Node, vector: Vector, name: str | None = None) -> None:
    """Attach what the vector observed: new values, or whole changes."""
    if vector["observes_changes"]:
        parent = MapRecord(parent, _as_change)
    elif vector["emits_text"]:
        parent = MapRecord(parent, _as_text)
    topology.sink(parent, name)


def _as_change(record: Record) -> Record:
    return Record(record.key, (("new", record.value), ("old", record.old)), record.ts)


def _as_text(record: Record) -> Record:
    """Counts that the test wrote as text; text stays as it is."""
    value = str(record.value) if isinstance(record.value, int) else record.value
    return Record(record.key, value, record.ts)


def cache(topology: Topology, table: Table, kept: Mapping[str, Any]) -> None:
    """Cache a materialised table where its store was cached."""
    if kept.get("caching"):
        table.enable_cache(topology)


def joiner(vector: Vector) -> Joiner:
    """The joiner from its text: a separator, brackets, or a sum."""
    said = str(described_value(vector, "joiner")).split(";")[0]
    if said == "L + R as integers":
        return lambda left, right: left + right
    if said == "L + R":
        return lambda left, right: text(left) + text(right)
    if said == "'(' + L + ',' + R + ')'":
        return lambda left, right: f"({text(left)},{text(right)})"
    separator = re.fullmatch(r"L \+ ['\"](.+)['\"] \+ R", said)
    if separator is None:
        raise IncompleteVectorError(f"unknown joiner {said!r}")
    glue = separator[1]
    return lambda left, right: f"{text(left)}{glue}{text(right)}"


def after_bar(*, nulls: tuple[str, ...]) -> Callable[[Value], Key]:
    """The text after the first bar, null when it is one of these."""

    def extract(value: Value) -> Key:
        parts = str(value).split("|")
        found = parts[1] if len(parts) > 1 else None
        return None if found in nulls else found

    return extract
