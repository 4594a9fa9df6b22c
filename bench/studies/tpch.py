"""TPC-H q3, q5 and q10 as views kept up to date, beside Spark's batch query over the latest rows: CPU a change.

`python bench/studies/tpch.py [--orders 15000] [--json FILE]`; `--of FILE --picture FILE` draws an earlier run. With
`--times 10 100` the batch query alone reads so many times as many rows: what it costs grows with the tables.
Tables lie in Parquet files: rows of our own making in TPC-H's proportions. After a fill come rounds of a thousand
changes: new orders with their lines, lines and orders that change, customers whose balance changes. The view reads
the changes, the batch query the latest rows of each table, which are written for it beforehand. Both run in one
process tree, one behind the other; the CPU is all of the tree's. In the end both have the same rows.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

import watersmeet as wm
from bench.measuring.measure import Sampler
from bench.reports.picture import FASTER, SLOWER, text_at
from bench.reports.results import Run, Section, load, save
from proof.sql.tpch import KEYS, QUERIES, TABLES

READS = {
    3: ("customer", "orders", "lineitem"),
    5: ("customer", "orders", "lineitem", "supplier", "nation", "region"),
    10: ("customer", "orders", "lineitem", "nation"),
}
"""The tables of each query."""
CHANGES, WARM, ROUNDS = 1_000, 2, 4
"""Changes of a round; rounds that are not measured, in which the JVM compiles; those that are."""
VIEW, BATCH = "kept up to date", "recomputed by Spark"
CPU, SECONDS = "CPU ms a change", "seconds a round"
NATIONS, REGIONS = 25, ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")
_MONEY = pa.decimal128(15, 2)
_FIRST, _DAYS = datetime.date(1992, 1, 1), 2_400
_SETTLED = 0.8
"""Seconds in which the sampler has looked once more."""
Columns = dict[str, Any]


class Rows:
    """The latest rows of each table, as columns, and their changes.

    Parameters
    ----------
    orders : how many orders there are at first.
    """

    def __init__(self, orders: int) -> None:
        self._rng = np.random.default_rng(1)
        self.orders, self.customers, self.suppliers = orders, max(10, orders // 10), max(10, orders // 150)
        self.latest: dict[str, dict[Any, tuple[Any, ...]]] = {table: {} for table in READS[5]}
        self._clock = 0

    def fill(self) -> dict[str, pa.Table]:
        """The rows of the beginning."""
        return {
            "region": self._put("region", [(n, name) for n, name in enumerate(REGIONS)]),
            "nation": self._put("nation", [(n, f"NATION {n}", n % len(REGIONS)) for n in range(NATIONS)]),
            "supplier": self._put("supplier", [self._supplier(n) for n in range(self.suppliers)]),
            "customer": self._put("customer", [self._customer(n) for n in range(self.customers)]),
            "orders": self._put("orders", [self._order(n) for n in range(self.orders)]),
            "lineitem": self._put("lineitem", [self._line(n, m) for n in range(self.orders) for m in range(4)]),
        }

    def changed(self) -> dict[str, pa.Table]:
        """A round of changes: 100 new orders with 400 lines, 250 lines, 150 orders and 100 customers that change."""
        rng, new = self._rng, range(self.orders, self.orders + CHANGES // 10)
        self.orders += len(new)
        old = [int(n) for n in rng.integers(0, self.orders, CHANGES * 4 // 10)]
        lines = [(n, m) for n in new for m in range(4)] + [(n, int(rng.integers(0, 4))) for n in old[: CHANGES // 4]]
        customers = [int(n) for n in rng.integers(0, self.customers, CHANGES // 10)]
        return {
            "customer": self._put("customer", [self._customer(n) for n in customers]),
            "orders": self._put("orders", [self._order(n) for n in (*new, *old[CHANGES // 4 :])]),
            "lineitem": self._put("lineitem", [self._line(*key) for key in lines]),
        }

    def table(self, name: str) -> pa.Table:
        """The latest rows of a table."""
        return _table(name, list(self.latest[name].values()))

    def _put(self, name: str, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
        count = len(KEYS[name])
        places = [column.split()[0] for column in _columns(name)]
        at = [places.index(key) for key in KEYS[name]]
        assert len(at) == count
        timed = []
        for row in rows:
            self._clock += 1
            timed.append((*row, self._clock))
            self.latest[name][tuple(row[place] for place in at)] = timed[-1]
        return _table(name, timed)

    def _money(self, low: int, high: int) -> Decimal:
        return Decimal(int(self._rng.integers(low * 100, high * 100))) / 100

    def _day(self) -> datetime.date:
        return _FIRST + datetime.timedelta(days=int(self._rng.integers(0, _DAYS)))

    def _supplier(self, key: int) -> tuple[Any, ...]:
        return key, f"Supplier {key}", f"street {key}", key % NATIONS, f"{key}", self._money(-999, 9999), "none"

    def _customer(self, key: int) -> tuple[Any, ...]:
        segment = ("BUILDING", "MACHINERY", "AUTOMOBILE", "FURNITURE", "HOUSEHOLD")[key % 5]
        balance = self._money(-999, 9999)
        return key, f"Customer {key}", f"road {key}", key % NATIONS, f"{key}", balance, segment, "none"

    def _order(self, key: int) -> tuple[Any, ...]:
        rng = self._rng
        status, priority = "FOP"[int(rng.integers(0, 3))], f"{int(rng.integers(1, 6))}-LEVEL"
        customer = int(rng.integers(0, self.customers))
        return key, customer, status, self._money(900, 90000), self._day(), priority, 0, "none"

    def _line(self, order: int, number: int) -> tuple[Any, ...]:
        rng, days = self._rng, [self._day() for _ in range(3)]
        supplier, quantity = int(rng.integers(0, self.suppliers)), Decimal(int(rng.integers(1, 51)))
        numbers = quantity, self._money(900, 90000), Decimal(int(rng.integers(0, 11))) / 100, Decimal(0)
        flags = "RAN"[int(rng.integers(0, 3))], "OF"[int(rng.integers(0, 2))]
        return order, int(rng.integers(0, 2000)), supplier, number, *numbers, *flags, *days, "NONE", "MAIL"


def _columns(table: str) -> list[str]:
    """The declarations of a table's columns."""
    text = TABLES[table].partition(", PRIMARY KEY (")[0].replace("DECIMAL(15,2)", "DECIMAL(15;2)")
    return [column.strip().replace(";", ",") for column in text.split(",")]


_TYPES = {"BIGINT": pa.int64(), "INT": pa.int32(), "STRING": pa.string(), "DATE": pa.date32(), "DECIMAL(15,2)": _MONEY}


def _table(name: str, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    fields = [(column.split()[0], _TYPES[column.split()[1]]) for column in _columns(name)]
    schema = pa.schema([*fields, ("at", pa.int64())])
    columns = [[row[n] for row in rows] for n in range(len(schema))]
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema)


def declared(folder: Path, number: int) -> str:
    """The statements of a view over files."""
    texts = []
    for table in READS[number]:
        place = f"WITH (path = '{folder}/{table}', timestamp = 'at', order = 'at')"
        key = f", PRIMARY KEY ({', '.join(KEYS[table])})"
        columns = ", ".join(_columns(table)).replace(" PRIMARY KEY", "")
        texts.append(f"CREATE TABLE {table} ({columns}, at BIGINT{key}) {place}")
    return ";\n".join([*texts, f"CREATE TABLE view WITH (path = '{folder}/out') AS {QUERIES[number]}"])


class Measured:
    """Rounds with their CPU and their time."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler
        self.rounds: list[tuple[float, float]] = []

    def round(self, work: Callable[[], None]) -> None:
        """Do it, and keep what it took."""
        time.sleep(_SETTLED)
        begin = time.time()
        work()
        end = time.time()
        time.sleep(_SETTLED)
        self.rounds.append((self._sampler.usage.cpu_between(begin, time.time()), end - begin))

    def run(self) -> Run:
        """The medians of the rounds that count."""
        cpu, seconds = (median(column) for column in zip(*self.rounds[WARM:], strict=True))
        return Run(CHANGES, {CPU: cpu / CHANGES * 1e3, SECONDS: seconds})


def compared(spark: Any, number: int, orders: int, folder: Path, sampler: Sampler) -> Section:
    """Both over the same changes.

    Raises
    ------
    AssertionError : they end with other rows.
    """
    rows, view, batch = Rows(orders), Measured(sampler), Measured(sampler)
    _lay_down(folder, rows.fill(), READS[number], "fill")
    begun = time.time()
    query = wm.sql(spark, declared(folder, number)).start(
        checkpoint=folder / "checkpoint", tasks=2, shards=4, record_cache=True
    )
    query.processAllAvailable()
    filled = time.time() - begun
    for turn in range(WARM + ROUNDS):
        changes = rows.changed()
        view.round(lambda: _keep(query, folder, changes, READS[number], str(turn)))  # noqa: B023  it is called at once
    query.stop()
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", 2)
    for table in READS[number]:
        (folder / "latest" / table).mkdir(parents=True)
        pq.write_table(rows.table(table), folder / "latest" / table / "rows.parquet")
    for _ in range(WARM + ROUNDS):
        batch.round(lambda: _recompute(session, folder, number))
    _same(spark, folder)
    title = f"q{number}, {orders:,} orders, {4 * orders:,} lines: {CHANGES:,} changes a round"
    note = f"The fill took {filled:.0f} s."
    return Section(f"tpch q{number} {orders}", title, {VIEW: [view.run()], BATCH: [batch.run()]}, [note])


def recomputed(spark: Any, number: int, orders: int, times: int, folder: Path, sampler: Sampler) -> Section:
    """The batch query over so many copies of the rows, each with keys of its own."""
    rows, batch, session = Rows(orders), Measured(sampler), spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", 2)
    filled = rows.fill()
    for table in READS[number]:
        (folder / "latest" / table).mkdir(parents=True)
        copies = 1 if table in ("nation", "region") else times
        for copy in range(copies):
            moved = filled[table]
            for name in set(_KEYS_OF_COPIES) & set(moved.column_names):
                column = moved.schema.get_field_index(name)
                keys = pc.add(moved.column(name), copy * _KEYS_OF_COPIES[name](rows))
                moved = moved.set_column(column, name, keys)
            pq.write_table(moved, folder / "latest" / table / f"{copy}.parquet")
    for _ in range(WARM + 2):
        batch.round(lambda: _recompute(session, folder, number))
    title = f"q{number}, {orders * times:,} orders, {4 * orders * times:,} lines: {CHANGES:,} changes a round"
    return Section(f"tpch q{number} {orders * times}", title, {BATCH: [batch.run()]})


_KEYS_OF_COPIES: Mapping[str, Callable[[Rows], int]] = {
    **dict.fromkeys(("o_orderkey", "l_orderkey"), lambda rows: rows.orders),
    **dict.fromkeys(("c_custkey", "o_custkey"), lambda rows: rows.customers),
    **dict.fromkeys(("s_suppkey", "l_suppkey"), lambda rows: rows.suppliers),
}
"""The keys that differ from copy to copy, with how many there are in one."""


def _lay_down(folder: Path, tables: Mapping[str, pa.Table], names: Sequence[str], name: str) -> None:
    for table in names:
        (folder / table).mkdir(parents=True, exist_ok=True)
        if table in tables:
            new = folder / f"{table}.new"
            pq.write_table(tables[table], new)
            new.rename(folder / table / f"{name}.parquet")


def _keep(query: Any, folder: Path, changes: Mapping[str, pa.Table], names: Sequence[str], name: str) -> None:
    _lay_down(folder, changes, names, name)
    query.processAllAvailable()


def _recompute(session: Any, folder: Path, number: int) -> None:
    for table in READS[number]:
        session.read.parquet(f"{folder}/latest/{table}").createOrReplaceTempView(table)
    session.sql(QUERIES[number]).write.mode("overwrite").parquet(f"{folder}/recomputed")


def _same(spark: Any, folder: Path) -> None:
    """Raise unless both have the same rows."""
    last = wm.latest(spark.read.parquet(f"{folder}/out")).collect()
    recomputed = spark.read.parquet(f"{folder}/recomputed")
    names = recomputed.columns

    def whole(row: Any) -> str:
        fields = {**(row["key"].asDict() if hasattr(row["key"], "asDict") else {}), **row["value"].asDict()}
        return repr([str(fields.get(name, row["key"])) for name in names])  # a key of one column is the key itself

    found, wanted = Counter(map(whole, last)), Counter(repr([str(v) for v in row]) for row in recomputed.collect())
    assert found == wanted, f"missing {list(wanted - found)[:3]}, extra {list(found - wanted)[:3]}"
    assert wanted, "no row"


# -- the picture -------------------------------------------------------------------------------------------

WIDTH, LEFT, BAR, GAP, TOP = 720, 200, 16, 20, 84


def drawn(sections: Sequence[Section]) -> str:
    """An SVG picture: of each query and size two bars, the CPU of a change."""
    values = [run.figures[CPU] for section in sections for runs in section.runs.values() for run in runs]
    scale = (WIDTH - LEFT - 70) / max(values)
    height = TOP + sum(len(section.runs) * BAR + GAP for section in sections)
    said = "TPC-H: CPU milliseconds a change, in rounds of 1,000 changes"
    pieces = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" font-family="Helvetica,Arial,sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        text_at(12, 22, said, "start", size=15, weight="bold"),
        f'<rect x="12" y="38" width="12" height="12" fill="{FASTER}"/>',
        text_at(30, 49, "a view of watersmeet, kept up to date", "start"),
        f'<rect x="300" y="38" width="12" height="12" fill="{SLOWER}"/>',
        text_at(318, 49, "Spark's batch query over the latest rows, once a round", "start"),
    ]
    top = TOP
    for section in sections:
        query, _, lines = section.title.partition(":")[0].split(", ")
        pieces.append(text_at(LEFT - 10, top + BAR - 4, f"{query}, {lines}", "end"))
        both = [(name, fill) for name, fill in ((VIEW, FASTER), (BATCH, SLOWER)) if name in section.runs]
        for place, (name, fill) in enumerate(both):
            value, y = section.runs[name][0].figures[CPU], top + place * BAR
            pieces.append(f'<rect x="{LEFT}" y="{y}" width="{value * scale:.1f}" height="{BAR - 2}" fill="{fill}"/>')
            pieces.append(text_at(LEFT + value * scale + 5, y + BAR - 4, f"{value:.2f}", "start"))
        top += len(both) * BAR + GAP
    return "\n".join([*pieces, "</svg>"]) + "\n"


def main() -> None:
    """Measure, print and keep; or draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--orders", type=int, nargs="+", default=[15_000])
    parser.add_argument("--times", type=int, nargs="*", default=[], help="copies of the rows for the batch query alone")
    parser.add_argument("--no-view", action="store_true", help="measure the batch query alone")
    parser.add_argument("--queries", type=int, nargs="+", choices=[*READS], default=[*READS])
    parser.add_argument("--json", type=Path, help="keep the figures")
    parser.add_argument("--of", type=Path, nargs="+", help="figures of earlier runs, in place of a run")
    parser.add_argument("--picture", type=Path, help="draw them")
    given = parser.parse_args()
    sections = load(given.of)[1] if given.of else _measured(given)
    for section in sections:
        told = ", ".join(f"{who} {json.dumps(runs[0].figures)}" for who, runs in section.runs.items())
        print(f"{section.title}: {told}. {' '.join(section.notes)}")
    if given.picture:
        given.picture.write_text(drawn(sections))


def _measured(given: argparse.Namespace) -> list[Section]:
    sections: list[Section] = []
    spark = wm.session("tpch", master="local[2]", config={"spark.ui.enabled": "false"})
    spark.sparkContext.setLogLevel("ERROR")
    work = Path(tempfile.mkdtemp(prefix="watersmeet-tpch-"))
    try:
        with Sampler(os.getpid()) as sampler:
            for orders, number in product(given.orders, given.queries):
                parts = [] if given.no_view else [partial(compared, spark, number, orders)]
                parts += [partial(recomputed, spark, number, orders, times) for times in given.times]
                for part in parts:
                    sections.append(part(work / f"{len(sections)}", sampler))
                    print(sections[-1], flush=True)
                    if given.json:
                        machine = f"{os.cpu_count()} cores, shared with other work; Python {platform.python_version()}"
                        save(given.json, machine, sections)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return sections


if __name__ == "__main__":
    main()
