"""What the tests of joins share: drivers of small topologies, and the oracle beside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from proof.arrow import arrow_builder
from proof.engine import EngineDriver
from proof.oracle import Semantics, Topology
from proof.oracle import functions as text
from proof.oracle.semantics import AS_BY_TOPICS
from proof.oracle.tables.table import TableSource
from proof.runners.library import ArrowLibrary, as_written

Step = tuple[str, Any, Any, int]
Said = list[tuple[Any, Any, int]]
LIBRARY = ArrowLibrary()
PLUS = LIBRARY.lift(text.plus, "string")
REF = LIBRARY.lift(text.ref, "string")


def driver_of(build: Callable[[Any], Any], *, shards: int = 2) -> EngineDriver:
    """A driver of the topology that `build` writes down; what it returns is written to "out"."""
    builder = arrow_builder("test")
    result = build(builder)
    if result is not None:
        as_written(result).to("out")
    return EngineDriver(builder.build(), shards=shards)


def tables(builder: Any, *names: str, key: str = "string", value: str = "string") -> list[Any]:
    """Tables of these names."""
    return [builder.table(name, key=key, value=value) for name in names]


def run(driver: EngineDriver, *steps: Step, output: str = "out") -> Said:
    """The results of the steps in one batch."""
    for topic, key, value, ts in steps:
        driver.pipe(topic, key, value, ts=ts)
    driver.run_batch()
    return [(r.key, r.value, r.ts) for r in driver.read(output)]


def by_step(driver: EngineDriver, steps: Sequence[Step], cuts: set[int] | frozenset[int] = frozenset()) -> list[Said]:
    """The results of each step of a fresh driver, a batch ending before each step of `cuts`."""
    said: list[Said] = [[] for _ in steps]
    for number, (topic, key, value, ts) in enumerate(steps):
        if number in cuts:
            driver.run_batch()
        driver.pipe(topic, key, value, ts=ts)
    driver.run_batch()
    for result in driver.read("out"):
        said[result.step].append((result.key, result.value, result.ts))
    return said


def oracle_tables(*names: str) -> tuple[Topology, list[TableSource]]:
    """The oracle's topology with every row of section A but 39 repaired, and tables of it."""
    topology = Topology(Semantics(faithful=False, rows=AS_BY_TOPICS))
    sources = [TableSource(topology) for _ in names]
    for name, source in zip(names, sources, strict=True):
        topology.source(name, source)
    return topology, sources


def oracle_says(topology: Topology, steps: Sequence[Step]) -> list[Said]:
    """What the oracle emits at each step."""
    return [[(r.key, r.value, r.ts) for r in topology.pipe(*step)] for step in steps]


def per_key(said: Sequence[Said]) -> list[Said]:
    """The results of each step, those of one key in their order: between keys there is no order to keep."""
    return [sorted(results, key=lambda result: str(result[0])) for results in said]


def joined(left: Any, right: Any, how: str = "inner") -> Any:
    """The foreign-key join by the text before the bar."""
    return (left.join if how == "inner" else left.left_join)(right, PLUS, foreign_key=REF)


def foreign(how: str = "inner", shards: int = 4) -> EngineDriver:
    """A foreign-key join of two tables of text."""

    def build(builder: Any) -> Any:
        left, right = tables(builder, "left", "right")
        return joined(left, right, how)

    return driver_of(build, shards=shards)
