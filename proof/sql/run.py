"""Runs random queries: after each part of a history the view is what DuckDB gives over the latest rows.

python -m proof.sql.run --queries 1000 --seed 7
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import duckdb
import sqlglot

import watersmeet as wm
from proof.sql.generate import Change, Queries, Row, Table, changes, tables
from watersmeet.testing import TopologyTestDriver

KEYS = {"bigint": "long", "int": "int", "string": "string"}


@dataclass
class Case:
    """Tables, a query and a history."""

    seed: int
    tables: list[Table]
    query: str
    history: list[Change]
    cuts: list[int]


def case_of(seed: int) -> Case:
    """The case of a seed."""
    rng = random.Random(seed)
    found = tables(rng)
    query, _ = Queries(rng, found).select(rng.choice((1, 2, 2)))
    history = changes(rng, found, rng.choice((8, 20, 40)))
    cuts = sorted({*rng.sample(range(1, len(history) + 1), min(6, len(history))), len(history)})
    return Case(seed, found, query, history, cuts)


class Batch:
    """The latest rows in DuckDB.

    Parameters
    ----------
    case : what is evaluated.
    """

    def __init__(self, case: Case) -> None:
        self.base = duckdb.connect(":memory:")
        for table in case.tables:
            self.base.execute(sqlglot.transpile(table.ddl, read="spark", write="duckdb")[0])
        self.query = sqlglot.transpile(case.query, read="spark", write="duckdb")[0]

    def change(self, table: Table, key: tuple[Any, ...], row: Row | None) -> None:
        """Take over a change."""
        where = " AND ".join(f"{name} = ?" for name in table.key)
        self.base.execute(f"DELETE FROM {table.name} WHERE {where}", list(key))
        if row is not None:
            values = {**dict(zip(table.key, key, strict=True)), **row}
            marks = ", ".join("?" * len(values))
            self.base.execute(f"INSERT INTO {table.name} ({', '.join(values)}) VALUES ({marks})", list(values.values()))

    def rows(self) -> Counter[str]:
        """The rows of the query."""
        return Counter(repr(tuple(row)) for row in self.base.execute(self.query).fetchall())


class View:
    """The view, kept by the test driver.

    Parameters
    ----------
    case : what is evaluated.
    """

    def __init__(self, case: Case) -> None:
        builder = wm.StreamsBuilder("proof")
        handle = builder.sql(";\n".join([*(table.ddl for table in case.tables), case.query]))
        key = KEYS.get(handle.key_type.simpleString(), "json")
        handle.to("out", key=key, value="json")
        self.driver = TopologyTestDriver(builder.build())
        self.state: dict[str, Any] = {}
        self.ts = 0

    def change(self, table: Table, key: tuple[Any, ...], row: Row | None) -> None:
        """Pipe a change."""
        self.ts += 1
        single = len(key) == 1
        self.driver.pipe(
            table.name, key=key[0] if single else dict(zip(table.key, key, strict=True)), value=row, ts=self.ts
        )

    def rows(self) -> Counter[str]:
        """The rows of the view."""
        for record in self.driver.read("out"):
            if record.value is None:
                self.state.pop(repr(record.key), None)
            else:
                self.state[repr(record.key)] = tuple(record.value)
        return Counter(map(repr, self.state.values()))


@dataclass
class Outcome:
    """What came of cases."""

    same: int = 0
    compared: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    different: list[str] = field(default_factory=list)


def check(case: Case, outcome: Outcome) -> None:
    """Compare a case after each of its cuts."""
    try:
        batch = Batch(case)
        batch.rows()
    except duckdb.Error as error:
        outcome.refused[f"DuckDB: {str(error)[:60]}"] += 1
        return
    try:
        view = View(case)
    except wm.SqlError as error:
        outcome.refused[error.message[:60]] += 1
        return
    parsed = sqlglot.parse_one(case.query, read="spark")
    is_single = parsed.args.get("group") is None
    start = 0
    for cut in case.cuts:
        for table, key, row in case.history[start:cut]:
            batch.change(table, key, row)
            view.change(table, key, row)
        start = cut
        expected, found = batch.rows(), view.rows()
        outcome.compared += 1
        if expected != found and not (is_single and not found and sum(expected.values()) == 1):
            missing, extra = expected - found, found - expected
            outcome.different.append(
                f"seed {case.seed} after {cut}: missing {dict(missing)}, extra {dict(extra)}\n  {case.query}"
            )
            return
    outcome.same += 1


def seeds(first: int, count: int) -> Iterator[int]:
    """The seeds of a run."""
    return iter(range(first, first + count))


def main(arguments: list[str] | None = None) -> int:
    """Run so many queries, and print what differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    wm.session("proof-sql", master="local[1]")
    outcome, begun = Outcome(), time.monotonic()
    for number, seed in enumerate(seeds(given.seed, given.queries), start=1):
        before = len(outcome.different)
        try:
            check(case_of(seed), outcome)
        except Exception as error:
            first = str(error).splitlines()[:3]
            outcome.different.append(
                f"seed {seed}: {type(error).__name__}: {' '.join(first)[:400]}\n  {case_of(seed).query}"
            )
        for text in outcome.different[before:]:
            print(text, flush=True)
        if number % 200 == 0:
            print(f"{number} queries, {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    print(f"{given.queries} queries from seed {given.seed}: {outcome.same} the same, {outcome.compared} cuts,")
    print(f"{len(outcome.different)} different, {sum(outcome.refused.values())} refused:")
    for text, count in outcome.refused.most_common():
        print(f"  {count:5d} {text}")
    return 1 if outcome.different else 0


if __name__ == "__main__":
    raise SystemExit(main())
