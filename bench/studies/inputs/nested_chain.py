"""Where the CPU of a chain of foreign-key joins over nested rows goes, and the workers' by what is done to columns.

Run by its path: `python bench/studies/inputs/nested_chain.py [orders]`. One profiled turn of the workload `nested` on
Spark; printed are the CPU-seconds of its second half. The parts of `make bench ARGS="nested --profile"` say on whose
behalf a worker runs. Here its samples are also told apart by the innermost work: gathering rows (Arrow's `take`), blobs
written and read, sizes of rows, arrays put together. That is what another form of the values could change.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from bench.measuring import profiles
from bench.measuring.turns import Turn, spark_turn
from bench.workloads import nested

WORKERS = "Python workers"
KERNELS: profiles.Rules = (
    (r"importlib|zipimport", "imports"),
    (r"pyarrow/compute\.py:(take|filter)|_engine/rows\.py:gather", "take"),
    (r"_engine/row_sizes\.py:encode", "blobs written"),
    (r"_engine/row_sizes\.py:decode", "blobs read"),
    (r"_engine/row_sizes\.py", "sizes of rows"),
    (r"_engine/rows\.py:(stacked|array|joined)|state/merge\.py", "arrays put together, merges"),
    (r"_engine/expressions/", "functions"),
    (r"_engine/keys\.py|_engine/exchange\.py", "keys, hashes, exchange: the rest"),
    (r"_engine/operators/|_engine/matching\.py|_engine/operator\.py|_engine/rows\.py", "operators: the rest"),
    (r"_engine/state/|_worker/spark_worker|streaming/.*client", "state: the rest"),
    (r"pyspark|pack\.py|level\.py", "rows from and to Spark"),
)
"""As in `profiles`: the innermost frame that any pattern fits decides."""


def by_kernel(turn: Turn, samples: Mapping[str, float]) -> dict[str, float]:
    """The workers' CPU-seconds of the second half, shared out as their samples are; from the most on."""
    whole = sum(seconds for part, seconds in turn.parts.items() if part.startswith(WORKERS))
    total = sum(samples.values())
    return dict(sorted(((name, whole * each / total) for name, each in samples.items()), key=lambda item: -item[1]))


def main(orders: int) -> None:
    """Run the turn, and print both."""
    size, work = nested.Size(orders), ROOT / ".bench" / "work" / "nested-chain"
    turn = spark_turn("nested", nested.prepared(ROOT / ".bench", size), work, profile=True, keeps=True)
    half, end = turn.rates.half_time, turn.rates.end_time
    samples = profiles.sampled(work, half, end, KERNELS)
    shutil.rmtree(work)
    late = turn.usage.cpu_between(half, end)
    print(f"{orders:,} orders, {turn.usage.cpu_seconds:.1f} CPU-seconds; in the second half, with")
    print(f"{turn.rates.half_records:,} of {turn.rates.records:,} records, {late:.1f}")
    for title, parts in (("all", turn.parts), (WORKERS, by_kernel(turn, samples))):
        print(f"{title}: {sum(parts.values()):.1f}")
        for name, seconds in parts.items():
            if seconds >= 0.05:
                print(f"  {seconds:6.1f}  {name}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else nested.Size.orders)
