"""Runs random queries: after each part of a history the view is what a batch query gives over the latest rows.

Every query goes through the engine, without a JVM (`proof.sql.arrow`), and is compared with DuckDB. With `--spark 20`
each twentieth also goes through Spark: its analysis and functions, the test driver, and Spark's batch SQL. With
`--batch 1` each one is compared with Spark's batch SQL at its end.

python -m proof.sql.run --queries 1000 --seed 7 --spark 20 --batch 1
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import duckdb
import sqlglot
from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, StructField, StructType
from sqlglot import exp

import watersmeet as wm
from proof.histories.driver import RoughDriver
from proof.sql.arrow import without_spark
from proof.sql.generate import Change, Queries, Row, Table, changes, tables
from watersmeet.testing import TopologyTestDriver

Rows = Counter[str]
"""Rows as texts, with how often each is there."""


@dataclass
class Case:
    """Tables, a query and a history.

    Parameters
    ----------
    cuts : after how many changes rows are compared, the last after all.
    batches : after how many the engine ends a batch.
    """

    seed: int
    tables: list[Table]
    query: str
    history: list[Change]
    cuts: list[int]
    batches: frozenset[int]
    shards: int

    @property
    def script(self) -> str:
        """The statements: tables, and the query."""
        return ";\n".join([*(table.ddl for table in self.tables), self.query])

    @property
    def is_single(self) -> bool:
        """Whether the query is an aggregate of all rows: it has no row before the first."""
        tree: Any = sqlglot.parse_one(self.query, read="spark")
        aggregates = (node for item in tree.selects for node in item.find_all(exp.AggFunc))
        return tree.args.get("group") is None and any(node.find_ancestor(exp.Select) is tree for node in aggregates)


def case_of(seed: int, stem: str = "t") -> Case:
    """The case of a seed, with tables whose names begin so."""
    rng = random.Random(seed)
    some = tables(rng, stem)
    query, _ = Queries(rng, some).statement(rng.choice((1, 2, 2)))
    history = changes(rng, some, rng.choice((8, 16, 30)))
    cuts = sorted({*rng.sample(range(1, len(history) + 1), min(7, len(history))), len(history)})
    batches = frozenset({*rng.sample(range(1, len(history) + 1), rng.choice((0, 0, 1, 2))), len(history)})
    return Case(seed, some, query, history, cuts, batches, rng.choice((1, 1, 2)))


def piped_key(table: Table, key: tuple[Any, ...]) -> Any:
    """A key as it is piped."""
    return key[0] if len(key) == 1 else dict(zip(table.key, key, strict=True))


@cache
def _base() -> duckdb.DuckDBPyConnection:
    base = duckdb.connect(":memory:")
    base.execute("SET threads = 1")  # the tables have ten rows
    return base


def batch_states(case: Case) -> Iterator[Rows]:
    """The rows of the query at each cut, from DuckDB over the latest rows."""
    base = _base()
    for table in case.tables:
        base.execute(
            sqlglot.transpile(table.ddl, read="spark", write="duckdb")[0].replace(" TABLE ", " OR REPLACE TABLE ")
        )
    query = sqlglot.transpile(case.query, read="spark", write="duckdb")[0]
    for latest in _latest(case):
        for table, rows in latest:
            base.execute(f"DELETE FROM {table.name}")
            if rows:
                mark = f"({', '.join('?' * len(table.columns))})"
                values = [row[name] for row in rows for name in table.columns]
                base.execute(f"INSERT INTO {table.name} VALUES {', '.join([mark] * len(rows))}", values)
        yield counted(base.execute(query).fetchall())


def _latest(case: Case) -> Iterator[list[tuple[Table, list[Row]]]]:
    """The latest rows of each table at each cut."""
    rows: dict[str, dict[tuple[Any, ...], Row]] = {table.name: {} for table in case.tables}
    start = 0
    for cut in case.cuts:
        for table, key, row in case.history[start:cut]:
            rows[table.name].pop(key, None)
            if row is not None:
                rows[table.name][key] = {**dict(zip(table.key, key, strict=True)), **row}
        start = cut
        yield [(table, list(rows[table.name].values())) for table in case.tables]


def counted(rows: Sequence[Sequence[Any]]) -> Rows:
    """Rows as texts, with how often each is there."""
    return Counter(repr(tuple(row)) for row in rows)


def view_states(case: Case) -> list[Rows]:
    """The rows of the view at each cut, from the engine: each result tells the change that caused it.

    Raises
    ------
    SqlError : the query is not taken.
    """
    with without_spark() as builder:
        builder.sql(case.script).to("out", key="json", value="json")
        driver = RoughDriver(builder.build(), shards=case.shards, replay=False, shuffle=case.seed)
        for number, (table, key, row) in enumerate(case.history, start=1):
            driver.pipe(table.name, piped_key(table, key), row, ts=number)
            if number in case.batches:
                driver.run_batch()
    state: dict[str, tuple[Any, ...]] = {}
    states, results = [], driver.read("out")
    for cut in case.cuts:
        while results and results[0].step < cut:
            _put(state, results.pop(0))
        states.append(counted(list(state.values())))
    return states


def _put(state: dict[str, tuple[Any, ...]], record: Any) -> None:
    if record.value is None:
        state.pop(repr(record.key), None)
    else:
        value = record.value
        state[repr(record.key)] = tuple(value.values() if isinstance(value, dict) else value)


def driver_states(case: Case) -> Iterator[Rows]:
    """The rows of the view at each cut, from the test driver."""
    builder = wm.StreamsBuilder("proof")
    builder.sql(case.script).to("out", key="json", value="json")
    driver = TopologyTestDriver(builder.build())
    state: dict[str, tuple[Any, ...]] = {}
    start = 0
    for cut in case.cuts:
        for number, (table, key, row) in enumerate(case.history[start:cut], start=start + 1):
            driver.pipe(table.name, key=piped_key(table, key), value=row, ts=number)
        start = cut
        for record in driver.read("out"):
            _put(state, record)
        yield counted(list(state.values()))


def spark_states(case: Case, spark: SparkSession) -> Iterator[Rows]:
    """The rows of the query at each cut, from Spark over the latest rows."""
    for latest in _latest(case):
        for table, rows in latest:
            fields = [StructField(name, DataType.fromDDL(kind), True) for name, kind in table.columns.items()]
            values = [tuple(row[name] for name in table.columns) for row in rows]
            spark.createDataFrame(values, StructType(fields)).createOrReplaceTempView(table.name)
        yield counted(spark.sql(case.query).collect())


@dataclass
class Outcome:
    """What came of cases."""

    same: int = 0
    compared: int = 0
    through_spark: int = 0
    in_batch: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    different: list[str] = field(default_factory=list)


def check(case: Case, outcome: Outcome, spark: SparkSession | None = None, *, piped: bool = True) -> None:
    """Compare a case at each of its cuts; with a session, what Spark gives, too: at its end alone, unless piped.

    Parameters
    ----------
    piped : with a session, whether the case goes through Spark's analysis and the test driver.
    """
    try:
        expected = list(batch_states(case))
    except duckdb.Error as error:
        outcome.refused[f"DuckDB: {str(error)[:60]}"] += 1
        return
    try:
        states = {"view": view_states(case)}
    except wm.SqlError as error:
        outcome.refused[error.message[:60]] += 1
        return
    if spark is not None:
        compared = case if piped else replace(case, cuts=case.cuts[-1:])
        states["Spark's batch"] = list(spark_states(compared, spark))
        outcome.in_batch += 1
    if spark is not None and piped:
        states["test driver"] = list(driver_states(case))
        outcome.through_spark += 1
    for name, found in states.items():
        count = len(found)
        for cut, rows, wanted in zip(case.cuts[-count:], found, expected[-count:], strict=True):
            outcome.compared += 1
            if rows == wanted or (case.is_single and not rows and sum(wanted.values()) == 1):
                continue
            outcome.different.append(
                f"seed {case.seed} after {cut}, {name}: missing {dict(wanted - rows)}, extra {dict(rows - wanted)}\n"
                f"  {case.query}"
            )
            return
    outcome.same += 1


def run(
    first: int, count: int, *, spark: SparkSession | None, part: int, batch: int = 0, seconds: float
) -> tuple[Outcome, int]:
    """(what came of the cases of these seeds, the seed after the last one).

    Parameters
    ----------
    part, batch : each so manieth goes through Spark, or is compared with its batch SQL; 0: none.
    seconds : no case begins after so long.
    """
    outcome, begun, seed = Outcome(), time.monotonic(), first
    for seed in range(first, first + count):
        if time.monotonic() - begun > seconds:
            return outcome, seed
        before = len(outcome.different)
        case = case_of(seed)
        try:
            piped, compared = (n > 0 and seed % n == 0 for n in (part, batch))
            check(case, outcome, spark if piped or compared else None, piped=piped)
        except Exception as error:
            told = " ".join(str(error).splitlines()[:3])[:400]
            outcome.different.append(f"seed {seed}: {type(error).__name__}: {told}\n  {case.query}")
        for text in outcome.different[before:]:
            print(text, flush=True)
    return outcome, seed + 1


def main(arguments: list[str] | None = None) -> int:
    """Run so many queries, and print what differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--spark", type=int, default=0, metavar="N", help="each Nth through Spark, too; 0: none")
    parser.add_argument("--batch", type=int, default=0, metavar="N", help="each Nth beside Spark's batch SQL; 0: none")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no query after so long")
    given = parser.parse_args(arguments)
    # the tables have ten rows: code for them takes longer than they do
    quick = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    config = {**quick, "spark.sql.shuffle.partitions": "1"}
    spark = wm.session("proof-sql", master="local[1]", config=config) if given.spark or given.batch else None
    options = {"part": given.spark, "batch": given.batch, "seconds": given.seconds}
    outcome, end = run(given.seed, given.queries, spark=spark, **options)
    counts = f"{end - given.seed} queries, {outcome.same} the same at each of {outcome.compared} comparisons"
    through = f"{outcome.through_spark} through Spark, {outcome.in_batch} beside its batch SQL"
    print(f"seeds {given.seed} to {end - 1}: {counts}, {through}, {len(outcome.different)} different,")
    print(f"{sum(outcome.refused.values())} refused:")
    for text, count in outcome.refused.most_common():
        print(f"  {count:5d} {text}")
    return 1 if outcome.different else 0


if __name__ == "__main__":
    raise SystemExit(main())
