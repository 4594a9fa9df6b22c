"""Growth and cold start: the join of two tables over files, a turn for each number of keys a side.

`python bench/studies/scale.py [keys ...]` (default 1,000,000 and 10,000,000). A size's tables are filled, then get
batches of 50,000 random updates a side, of which the last eight count. Then the query is started anew twice, each time
for two more batches: with the machine's cache of runs as it was, and without it, as on a machine that has lost its
disk. Printed: a batch's seconds and CPU-seconds, what RocksDB writes for an updated row, what the first batch of a
start takes and reads from the state store, and the peak of memory."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
if not __package__:  # run by its path: the repository's root is then not on the module path
    sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from bench.measuring.measure import Sampler, Usage, folder_bytes
from bench.workloads.datasets import SIDES, Shape, prepared

WORK = ROOT / ".bench"
FILL, ROWS, UPDATES, MORE, COUNTED = 500_000, 50_000, 10, 2, 8
"""Rows of a file that fills a side, and of one of updates; files of updates before the starts and for each, counted."""
READ, WRITTEN = "rocksdbTotalBytesRead", "rocksdbTotalBytesWritten"


@dataclass(frozen=True)
class Ran:
    """One start of the query, until it has read all files that there are."""

    report: dict[str, Any]
    usage: Usage

    @property
    def batches(self) -> list[tuple[float, float, int, dict[str, float]]]:
        """Begin, end, records and state of each batch with records."""
        both = zip(self.report["batches"], self.report["state of each"], strict=True)
        return [(begin, end, records, state) for (begin, end, records), state in both if records]


def measured(keys: int) -> str:
    """All of a size, as a line."""
    shape = Shape(keys, min(keys, FILL), UPDATES + 2 * MORE, ROWS)
    data, work, given = prepared(WORK, shape), WORK / "work" / "scale", WORK / "work" / "scale-data"
    for folder in (work, given):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    files = len(list((data / SIDES[0]).iterdir()))
    _give(data, given, files - 2 * MORE)
    filled = _run(given, work)
    stored = folder_bytes(work / "checkpoint") / 1e6
    _give(data, given, files - MORE)
    kept = _run(given, work)
    shutil.rmtree(work / "checkpoint-cache")
    _give(data, given, files)
    lost = _run(given, work)
    late = filled.batches[-COUNTED:]
    seconds = median(end - begin for begin, end, _, _ in late)
    cpu = filled.usage.cpu_between(late[0][0], late[-1][1]) / len(late)
    written = sum(state[WRITTEN] for *_, state in late) / sum(records for _, _, records, _ in late)
    line = f"{keys:12,}{seconds:10.2f}{cpu:8.2f}{written:10.0f}{stored:16,.0f}"
    for ran in (kept, lost):
        begin, end, _, state = ran.batches[0]
        line += f"{end - begin:9.1f}{state[READ] / 1e6:10,.0f}"
    return line + f"{filled.usage.peak_bytes / 1e6:9,.0f}"


def _give(data: Path, given: Path, files: int) -> None:
    """The first files of each side, with the times by which they are read in order."""
    for side in SIDES:
        (given / side).mkdir(exist_ok=True)
        for path in sorted((data / side).iterdir())[:files]:
            if not (given / side / path.name).exists():
                os.link(path, given / side / path.name)


def _run(data: Path, work: Path) -> Ran:
    paths = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    command = [sys.executable, str(ROOT / "bench" / "turn.py"), "watersmeet", str(data), str(work)]
    log = work / "log.txt"
    with log.open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment)
        with Sampler(process.pid) as sampler:
            output = process.communicate()[0]
    if process.returncode:
        raise RuntimeError("a turn failed:\n" + log.read_text()[-3000:])
    return Ran(json.loads(output.strip().splitlines()[-1]), sampler.usage)


def main(sizes: list[int]) -> None:
    """Print a line for each size."""
    heads = f"{'keys a side':>12}{'batch, s':>10}{'CPU-s':>8}{'B/row':>10}{'checkpoint, MB':>16}"
    print(f"{heads}{'start, s':>9}{'MB read':>10}{'cold, s':>9}{'MB read':>10}{'peak, MB':>9}", flush=True)
    for size in sizes:
        print(measured(size), flush=True)


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]] or [1_000_000, 10_000_000])
