"""What rows cost that only pass through levels on the way to their own, and what the senders of later joins cost.

Run by its path: `python bench/studies/inputs/passing.py [orders] [MB]`. First the chain of joins of `nested_column.py`,
the engine alone: of each table, the bytes of its blobs times the levels that they pass; and of each operator its
CPU-seconds, since the senders of the second and the third join are the levels that one would leave out. Then Spark: a
batch of as many MB of blobs through one and through four levels that have no operators, beside a batch of nearly
nothing, by turns, CPU-seconds of all processes without those of the JVM's compiler. The difference is for passing.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from pyspark.sql import SparkSession

from bench.measuring.measure import Sampler
from bench.studies.inputs.nested_column import AS_THEY_ARE, Chain, batches
from bench.turn import session
from bench.workloads.nested import Size, prepared
from watersmeet._spark.dataflow.level import LevelOperators, LevelProcessor, pickled_small
from watersmeet._worker.counts import Measures
from watersmeet._worker.wire import WIRE, WireSettings, spread_labels

FEW, SHORT, LONG = 1, 1, 4
"""MB of nearly nothing, and levels."""
BLOB = 256 << 10
TURNS = 3


def ran(data: Path, size: Size) -> Chain:
    """The chain after all files."""
    chain = None
    for batch in batches(data, size.files):
        if chain is None:
            kinds = {name: rows.schema.field("value").type for name, rows in batch.items()}
            chain = Chain(kinds, AS_THEY_ARE)
        chain.run({name: rows.combine_chunks() for name, rows in batch.items()})
    assert chain is not None
    return chain


def passed(chain: Chain) -> dict[str, tuple[int, int, int]]:
    """Of each table: the levels that its rows pass, the bytes of its blobs, and its rows."""
    found = {}
    for edge in chain.physical.edges:
        flow = chain.physical.flows[edge.flow]
        if flow.stage == 0:
            source = chain.physical.flows[flow.root].node
            levels = chain.physical.operators[edge.target].level - 1
            found[source] = levels, chain.sent[edge.id], chain.rows[edge.id]
    return found


def seconds_of(chain: Chain) -> dict[str, float]:
    """CPU-seconds of each operator, with the way to it, in their order; the last is the way to the output."""
    found: dict[int, float] = defaultdict(float)
    for (_, operator), seconds in chain.seconds.items():
        found[operator] += seconds
    names = [f"level {each.level}: {each.stem}" for each in chain.physical.operators]
    return dict(zip([*names, "to the output"], (found[at] for at in range(len(names) + 1)), strict=True))


def wire_rows(chain: Chain, megabytes: int, path: Path) -> None:
    """Write rows of the wire with random blobs, in turn for each shard of the operator of the last level."""
    labels = spread_labels(chain.physical, 4, 2).of_target(len(chain.physical.operators) - 1)
    count = max(len(labels), (megabytes << 20) // BLOB)
    rng = np.random.default_rng(1)
    schema = pa.schema([("label", pa.int32()), ("port", pa.int32()), ("blob", pa.binary())])
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for begin in range(0, count, 64):
            numbers = range(begin, min(count, begin + 64))
            blobs = [rng.bytes(BLOB if megabytes > FEW else 64) for _ in numbers]
            columns = [[labels[number % len(labels)] for number in numbers], [0] * len(blobs), blobs]
            arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


def through(spark: SparkSession, chain: Chain, path: Path, levels: int) -> None:
    """The rows through so many levels without operators."""
    wire = spark.read.schema(WIRE).parquet(str(path))
    common = WireSettings(spread_labels(chain.physical, 4, 2), Measures.of(chain.physical))
    for _ in range(levels):
        level = LevelProcessor(LevelOperators({}, {}, {}), common)
        wire = wire.groupBy("label").transformWithStateInPandas(
            statefulProcessor=pickled_small(level), outputStructType=WIRE, outputMode="append", timeMode="None"
        )
    wire.write.format("noop").mode("overwrite").save()


def cpu_of(work: Callable[[], None]) -> float:
    """CPU-seconds of this process and all below it, without those of the JVM's compiler."""
    with Sampler(os.getpid(), interval=0.1, parts=True) as sampler:
        before = _next_look(sampler)
        work()
        # the look that is under way may have begun before the end
        _next_look(sampler)
        after = _next_look(sampler)
    return sum(after[name] - before.get(name, 0.0) for name in after if "Compiler" not in name)


def _next_look(sampler: Sampler) -> dict[str, float]:
    seen = len(sampler.usage.parts)
    while len(sampler.usage.parts) == seen:
        time.sleep(0.02)
    return sampler.usage.parts[-1][1]


def cost_of_passing(spark: SparkSession, chain: Chain, megabytes: int) -> tuple[float, float]:
    """CPU-seconds of a MB through a level, and of a level through which nearly nothing goes: medians of the turns."""
    of_bytes, of_levels = [], []
    with tempfile.TemporaryDirectory() as folder:
        paths = {each: Path(folder) / f"{each}.parquet" for each in (FEW, megabytes)}
        for each, path in paths.items():
            wire_rows(chain, each, path)
        for turn in range(TURNS + 1):
            spent = {
                (each, levels): cpu_of(partial(through, spark, chain, path, levels))
                for each, path in paths.items()
                for levels in (SHORT, LONG)
            }
            shown = ", ".join(f"{each} MB through {levels}: {cpu:.2f}" for (each, levels), cpu in spent.items())
            print(f"turn {turn}: {shown} CPU-s", flush=True)
            few, many = (spent[(each, LONG)] - spent[(each, SHORT)] for each in paths)
            # the first turn compiles
            if turn:
                of_bytes.append((many - few) / (LONG - SHORT) / (megabytes - FEW))
                of_levels.append(few / (LONG - SHORT))
    return median(of_bytes), median(of_levels)


def main(orders: int, megabytes: int) -> None:
    """Print both."""
    size = Size(orders)
    chain = ran(prepared(ROOT / ".bench", size), size)
    total = 0.0
    for name, (levels, sent, rows) in passed(chain).items():
        total += levels * sent / 1e6
        print(f"{name}: {rows:,} rows, {sent / 1e6:.2f} MB, through {levels} levels before their own")
    print(f"all that passes, times the levels: {total:.1f} MB of {sum(chain.sent.values()) / 1e6:.0f} MB that are sent")
    for name, seconds in seconds_of(chain).items():
        print(f"  {seconds:6.2f} CPU-s, {name}")
    spark = session(kafka=False)
    # as a topology has it
    spark.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", str(4 << 20))
    cost, level = cost_of_passing(spark, chain, megabytes)
    spark.stop()
    print(f"a MB through a level: {1e3 * cost:.1f} CPU-ms, a level of a batch: {level:.2f} CPU-s")
    print(f"all that passes: {cost * total:.2f} CPU-s")


if __name__ == "__main__":
    pa.set_cpu_count(1)
    given = [int(each) for each in sys.argv[1:]]
    main(*given, *[Size.orders, 64][len(given) :])
