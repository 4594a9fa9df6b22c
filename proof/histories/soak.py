"""A soak: any number of cases over several processes, with progress, and resumable.

Owns the loop, the file in which it remembers how far it is, and what it prints. Law: what is counted as done
was checked; the same seed and numbers give the same cases on any number of workers.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proof.histories.case import Case
from proof.histories.check import check
from proof.histories.draw import CASES_PER_BLUEPRINT, case_of
from proof.histories.report import page, seed_line
from proof.histories.shrink import shrink
from proof.histories.subjects.self_joins import self_joined_case_of

CHUNK = 25 * CASES_PER_BLUEPRINT
SHRUNK_PER_CHUNK = 1


@dataclass
class Progress:
    """How far a soak is.

    Parameters
    ----------
    seed : its seed.
    done : cases checked; always the first ones.
    failed : numbers of the cases that failed.
    seconds : time spent, over all runs.
    tables : whether its cases are of tables that are joined with what is computed from them.
    """

    seed: int
    done: int = 0
    failed: list[int] = field(default_factory=list)
    seconds: float = 0.0
    tables: bool = False


def drawn_case(seed: int, number: int, *, tables: bool) -> Case:
    """The case of a seed and a number, perhaps of tables that are joined with what is computed from them."""
    return self_joined_case_of(seed, number) if tables else case_of(seed, number)


def load(path: Path | None, seed: int, *, tables: bool = False) -> Progress:
    """What a file remembers; the beginning where there is none.

    Raises
    ------
    ValueError : the file belongs to a soak of another seed, or cannot be read.
    """
    if path is None or not path.exists():
        return Progress(seed, tables=tables)
    try:
        progress = Progress(**json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} remembers no soak: {error}. Hint: name another file") from error
    if (progress.seed, progress.tables) != (seed, tables):
        subject = " of tables" * progress.tables
        raise ValueError(f"{path} is of seed {progress.seed}{subject}, not {seed}. Hint: name another file")
    return progress


def save(path: Path | None, progress: Progress) -> None:
    """Remember how far it is; a crash in between leaves the file as it was."""
    if path is not None:
        beside = path.with_name(path.name + ".new")
        beside.write_text(json.dumps(vars(progress)), encoding="utf-8")
        beside.replace(path)


def run_chunk(seed: int, start: int, end: int, tables: bool) -> list[tuple[int, str]]:
    """The failures among some cases: (number, text); the first is shrunk."""
    failures: list[tuple[int, str]] = []
    for number in range(start, end):
        found = check(drawn_case(seed, number, tables=tables))
        if found is None:
            continue
        line = seed_line(seed, number, found, tables=tables)
        shown = f"\n{page(shrink(found))}" if len(failures) < SHRUNK_PER_CHUNK else ""
        failures.append((number, line + shown))
    return failures


def soak(
    count: int,
    seed: int,
    *,
    workers: int = 2,
    path: Path | None = None,
    say: Callable[[str], Any] = print,
    tables: bool = False,
) -> Progress:
    """Check the first `count` cases of a seed, beginning where the file stopped."""
    progress = load(path, seed, tables=tables)
    chunks = [(seed, start, min(start + CHUNK, count), tables) for start in range(progress.done, count, CHUNK)]
    began, before = time.monotonic(), progress.seconds
    for (_, _, end, _), failures in zip(chunks, _results(chunks, workers), strict=True):
        for number, text in failures:
            progress.failed.append(number)
            say(text)
        progress.done, progress.seconds = end, before + time.monotonic() - began
        save(path, progress)
        if end == count or (end // CHUNK) % 10 == 0:
            say(line_of(progress, count))
    return progress


def line_of(progress: Progress, count: int) -> str:
    """One line of progress."""
    rate = progress.done / progress.seconds if progress.seconds else 0.0
    return f"{progress.done} of {count} histories, {len(progress.failed)} failed, {rate:.0f} a second"


def _results(chunks: list[tuple[int, int, int, bool]], workers: int) -> Iterator[list[tuple[int, str]]]:
    if workers < 2:
        yield from (run_chunk(*chunk) for chunk in chunks)
        return
    with ProcessPoolExecutor(workers) as pool:
        try:
            yield from pool.map(run_chunk, *zip(*chunks, strict=True))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def print_now(text: str) -> None:
    """Print a line at once, also into a file."""
    print(text)
    sys.stdout.flush()
