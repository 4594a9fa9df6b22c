"""Orders with line items in a chain of foreign-key joins, as Arrow's nested columns and as one binary column each.

Run by its path, no JVM needed: `python bench/studies/inputs/nested_column.py [orders]`. The data and joins of the
workload `nested`; the engine's own operators, blobs and state over one core, both contenders by turns, file by file.
One has values as they are. In the other all that no join reads has been put into one binary column before, of as many
random bytes, and putting it there is not counted: that is the most which such a column could win. It is opened behind
the last exchange, by one gather of the rows that went into it, which any reader of bytes takes as well. Both give the
same results.
"""

from __future__ import annotations

import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from bench.workloads.nested import VALUES, Size, prepared
from proof.arrow import arrow_builder
from proof.layout import PlanLayout
from proof.stages import run_root, with_extra
from watersmeet._engine import row_sizes
from watersmeet._engine.exchange import DropCounts, Outlet, ShardCounts, route_rows
from watersmeet._engine.operators import run_operator
from watersmeet._engine.row_sizes import row_bytes
from watersmeet._engine.rows import PARTITION_BITS, array, position_columns
from watersmeet._engine.state.runs import MemoryChunkStore, State
from watersmeet._plan.physical import Operator

SHARDS = 4
NAMES = (("order", "customer"), ("order", "customer", "country"), ("order", "customer", "country", "first_product"))
"""Fields of what each join makes."""
OPERATORS, BLOBS, PACKING, OPENING = "operators and state", "blobs", "functions and packing", "opening"
NESTED, BINARY = "nested", "one binary column"
Batch = Mapping[str, pa.Table]
"""Rows by table: key, value, ts."""


@dataclass(frozen=True)
class References:
    """How each join finds the key that a row refers to, in values as they are or with a binary column."""

    customer: Callable[[Any], Any]
    country: Callable[[Any], Any]
    product: Callable[[Any], Any]


def _field(*path: str) -> Callable[[Any], Any]:
    return lambda value: pc.struct_field(value, list(path))


def _first_product(value: Any) -> Any:
    return pc.struct_field(pc.list_element(pc.struct_field(value, ["order", "items"]), 0), "product")


AS_THEY_ARE = References(_field("customer"), _field("customer", "country"), _first_product)
WITH_BINARY = References(_field("customer"), _field("customer", "country"), _field("order", "product"))


class Chain:
    """The three joins batch by batch, from rows of tables to what leaves the last exchange.

    Attributes
    ----------
    seconds : CPU-seconds by part and by the operator that they are spent in, or on the way to; the output comes last.
    sent, rows : bytes of the blobs, and their rows, by the port on which they arrive.
    """

    def __init__(self, kinds: Mapping[str, pa.DataType], references: References) -> None:
        builder = arrow_builder("chain")
        tables = {name: _read(builder.table(name, key="long", value="bytes"), kind) for name, kind in kinds.items()}
        found = tables["orders"].join(tables["customers"], _joiner(NAMES[0]), foreign_key=references.customer)
        found = found.join(tables["countries"], _joiner(NAMES[1]), foreign_key=references.country)
        found.join(tables["products"], _joiner(NAMES[2]), foreign_key=references.product).to("out")
        self.physical = builder.build().physical
        self.layout = PlanLayout(self.physical)
        self.stores: dict[tuple[int, int], MemoryChunkStore] = defaultdict(MemoryChunkStore)
        self.seconds: dict[tuple[str, int], float] = defaultdict(float)
        self.sent: Counter[int] = Counter()
        self.rows: Counter[int] = Counter()
        self._offset = 0

    def run(self, batch: Batch) -> pa.Table:
        """The results of a batch, keys and values, in order of position."""
        mail: dict[int, dict[int, dict[int, list[pa.Table]]]] = defaultdict(_by_shard)
        roots = {root.id: root.node for root in self.layout.roots}
        for flow in self.layout.flows[0]:
            if flow.parent is not None:
                self._send(self._frame(flow.parent, batch[roots[flow.parent]]), flow.id, 0, mail)
        for operator in sorted(self.physical.operators, key=lambda each: each.level):
            for shard, sides in mail.pop(operator.id, {}).items():
                for rows in self._results(operator, shard, sides):
                    for outlet in self.layout.direct[operator.id]:
                        self._packed(rows, outlet, mail)
                    if not self.layout.direct[operator.id]:
                        with self.part(PACKING, operator.id + 1):
                            made = run_root(self.physical, self.physical.roots[operator.id], rows)
                        self._send(made, self.physical.roots[operator.id].id, operator.level, mail)
        (left,) = mail.values()
        rows = [part for shard in sorted(left) for parts in left[shard].values() for part in parts]
        # how rows are cut follows from their bytes, and the order in which they leave from that
        order = [(name, "ascending") for name in position_columns(self.physical.slots)]
        return pa.concat_tables(rows).sort_by(order).select(["key", "value"])

    @contextmanager
    def part(self, name: str, operator: int) -> Iterator[None]:
        """What is done here counts as this part, for this operator."""
        begin = time.process_time()
        yield
        self.seconds[(name, operator)] += time.process_time() - begin

    def by_part(self) -> dict[str, float]:
        """CPU-seconds of each part, of all operators."""
        found: dict[str, float] = defaultdict(float)
        for (name, _), seconds in self.seconds.items():
            found[name] += seconds
        return found

    def _frame(self, source: int, rows: pa.Table) -> pa.Table:
        """Rows as a source gives them."""
        numbers = np.arange(self._offset, self._offset + len(rows))
        self._offset += len(rows)
        columns = {name: np.zeros(len(rows), dtype=np.int64) for name in position_columns(self.physical.slots)}
        columns |= {"offset": numbers, "srcpart": np.full(len(rows), source << PARTITION_BITS)}
        frame = {name: pa.array(column) for name, column in columns.items()}
        return pa.table(frame | {"order_ts": rows["ts"], **{name: rows[name] for name in ("ts", "key", "value")}})

    def _send(self, rows: pa.Table, flow: int, stage: int, mail: Any) -> None:
        """Rows of a flow to the operators and outputs that read it."""
        for edge, outlet in self.layout.edges[stage]:
            if edge.flow == flow:
                with self.part(PACKING, edge.target):
                    told = with_extra(self.physical, edge, rows)
                self._packed(told, outlet, mail)
        for end, _, exit in self.layout.exits[stage]:
            if exit is not None and self.physical.flows[end].root == flow:
                self._packed(rows, exit, mail)

    def _packed(self, rows: pa.Table, outlet: Outlet, mail: Any) -> None:
        """Rows by target, shard and side, through blobs."""
        assert outlet.target is not None
        with self.part(PACKING, outlet.target):
            routed = list(route_rows(rows, [outlet], ShardCounts(SHARDS), self.physical.slots, DropCounts()))
        for batch in routed:
            with self.part(BLOBS, outlet.target):
                contents = [row_sizes.encode(piece) for piece in row_sizes.pieces(batch.rows)]
                read = [row_sizes.decode(content) for content in contents]
            self.sent[batch.port] += sum(map(len, contents))
            self.rows[batch.port] += len(batch.rows)
            mail[batch.target][batch.shard][self.physical.ports.get(batch.port, (0, 0))[1]] += read

    def _results(self, operator: Operator, shard: int, sides: Mapping[int, list[pa.Table]]) -> list[pa.Table]:
        with self.part(OPERATORS, operator.id):
            inputs = {side: pa.concat_tables(parts) for side, parts in sides.items()}
            state = State(self.stores[(operator.id, shard)], None)
            return list(run_operator(self.layout.settings[operator.id], inputs, state))


def _read(table: Any, kind: pa.DataType) -> Any:
    """A table as if its bytes were read as this type; `Chain.run` gives it values that are."""
    return table.map_values(lambda content: pa.nulls(len(content), kind))


def _by_shard() -> dict[int, dict[int, list[pa.Table]]]:
    return defaultdict(lambda: defaultdict(list))


def _joiner(names: Sequence[str]) -> Callable[[Any, Any], Any]:
    """Makes a struct of these fields: all of the first value but for the last, which is the second one."""

    def joined(one: Any, other: Any) -> Any:
        before = [one] if len(names) == 2 else [pc.struct_field(one, name) for name in names[:-1]]
        return pa.StructArray.from_arrays([*before, other], list(names))

    return joined


class Binaries:
    """Values with a binary column, and what was put into it.

    Attributes
    ----------
    kept : the rows of each table, in the order in which they were put there.
    """

    def __init__(self) -> None:
        self.kept: dict[str, pa.Array] = {}

    def put(self, table: str, values: pa.StructArray, rng: np.random.Generator) -> pa.Array:
        """The values, with one binary column for all that is read by no join."""
        before = self.kept.get(table)
        body = _bodies(values, 0 if before is None else len(before), rng)
        self.kept[table] = values if before is None else pa.concat_arrays([before, values])
        if table == "orders":
            product = pc.struct_field(pc.list_element(values.field("items"), 0), "product")
            columns = {"customer": values.field("customer"), "product": product, "body": body}
            return pa.StructArray.from_arrays(list(columns.values()), list(columns))
        if table == "customers":
            return pa.StructArray.from_arrays([values.field("country"), body], ["country", "body"])
        return body

    def opened(self, values: pa.Array) -> pa.Array:
        """The values of results as they were."""
        paths = (["order", "body"], ["customer", "body"], ["country"], ["first_product"])
        tables = ("orders", "customers", "countries", "products")
        columns = [
            self.kept[table].take(_numbers(pc.struct_field(values, path)))
            for table, path in zip(tables, paths, strict=True)
        ]
        return pa.StructArray.from_arrays(columns, list(NAMES[-1]))


def _bodies(values: pa.StructArray, first: int, rng: np.random.Generator) -> pa.Array:
    """Random bytes, as many as each value has, that begin with the value's number."""
    sizes = np.maximum(row_bytes(pa.table({"value": values})), 8)
    offsets = np.append(0, np.cumsum(sizes)).astype(np.int32)
    data = rng.integers(32, 127, int(offsets[-1]), dtype=np.uint8)
    numbers = np.arange(first, first + len(values), dtype=np.int64)
    data[offsets[:-1, None] + np.arange(8)] = numbers.view(np.uint8).reshape(-1, 8)
    return pa.Array.from_buffers(pa.binary(), len(values), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _numbers(bodies: pa.Array) -> pa.Array:
    heads = pc.binary_slice(bodies, 0, 8)
    _, offsets, data = heads.buffers()
    begin = np.frombuffer(offsets, dtype=np.int32)[heads.offset]
    return pa.array(np.frombuffer(data, dtype=np.int64, count=len(heads), offset=int(begin)))


def batches(data: Path, files: int) -> Iterator[dict[str, pa.Table]]:
    """A file of each table at a time."""
    for number in range(files):
        yield {name: pq.read_table(data / name / f"{number:05d}.parquet") for name in VALUES}


@dataclass(frozen=True)
class Spent:
    """CPU-seconds by part, and bytes of the blobs that were sent."""

    seconds: Mapping[str, float]
    sent: int

    @property
    def total(self) -> float:
        """Of all parts."""
        return sum(self.seconds.values())


def compared(data: Path, size: Size) -> dict[str, list[Spent]]:
    """What each contender spends on the files that fill the tables, and on those that update them.

    Raises
    ------
    RuntimeError : the contenders have other results.
    """
    rng, binaries, chains = np.random.default_rng(1), Binaries(), dict[str, Chain]()
    found: dict[str, list[Spent]] = {NESTED: [], BINARY: []}
    for number, batch in enumerate(batches(data, size.files)):
        given: dict[str, dict[str, pa.Table]] = {NESTED: {}, BINARY: {}}
        for table, rows in batch.items():
            values = array(rows, "value")
            given[NESTED][table] = rows.set_column(1, "value", values)
            given[BINARY][table] = rows.set_column(1, "value", binaries.put(table, values, rng))
        for name, references in ((NESTED, AS_THEY_ARE), (BINARY, WITH_BINARY)):
            kinds = {table: rows.schema.field("value").type for table, rows in given[name].items()}
            chains[name] = chains.get(name) or Chain(kinds, references)
        results = {name: chain.run(given[name]) for name, chain in chains.items()}
        _check(results, chains[BINARY], binaries)
        if number + 1 in (size.files // 2, size.files):
            for name, chain in chains.items():
                found[name].append(Spent(chain.by_part(), sum(chain.sent.values())))
                chain.seconds.clear()
                chain.sent.clear()
    return found


def _check(results: Mapping[str, pa.Table], chain: Chain, binaries: Binaries) -> None:
    """Open the results with a binary column, which counts, and see that they are those without it."""
    plain, binary = (results[name].filter(pc.is_valid(results[name]["value"])) for name in (NESTED, BINARY))
    with chain.part(OPENING, len(chain.physical.operators)):
        opened = binaries.opened(array(binary, "value"))
    if not (plain["key"].equals(binary["key"]) and array(plain, "value").equals(opened)):
        raise RuntimeError("the contenders have other results")


def main(orders: int) -> None:
    """Print both, by part."""
    size = Size(orders)
    found = compared(prepared(ROOT / ".bench", size), size)
    for at, title in enumerate(("files that fill the tables", "files that update them")):
        print(f"{title}, CPU-seconds")
        for name, each in found.items():
            parts = ", ".join(f"{part} {seconds:.2f}" for part, seconds in sorted(each[at].seconds.items()))
            print(f"  {name:18}{each[at].total:6.2f} ({parts}), sent {each[at].sent / 1e6:.0f} MB")
        plain, binary = found[NESTED][at], found[BINARY][at]
        unopened = 1 - (binary.total - binary.seconds[OPENING]) / plain.total
        print(f"  saved {1 - binary.total / plain.total:.1%}, before opening {unopened:.1%}")


if __name__ == "__main__":
    pa.set_cpu_count(1)
    main(int(sys.argv[1]) if len(sys.argv) > 1 else Size.orders)
